"""A stream that reads a table as Spark does, without Spark: a planner a run, and the offsets that Spark would keep."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any  # Any: values of rows

import pyarrow as pa

from lakelog.catalog import Table, open_table
from lakelog.spark.options import open_for_read, parse_read_options
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.source.reading.read_schema import read_schema
from lakelog.spark.tables import find_older_topic, log_target
from lakelog.streams.planner import StreamPlanner
from lakelog.streams.reading.admission import NO_LIMITS, Limits
from lakelog.streams.reading.offsets import Offset, offset_from_json, offset_to_json
from lakelog.streams.reading.parts import Part
from tests.support.logs.local_writer import LocalWriter
from tests.support.tables.small_tables import SCHEMA

Change = Counter[tuple[int, int]]


class Reader:
    """A query on a table of `id` and `batch`."""

    def __init__(self, table: Table, **options: str) -> None:
        self._path = table.path
        self.branch = table.store.branch
        self._options = {"row-kind": "true"} | options
        self.offset: Offset | None = None
        self.rows: Change = Counter()
        self.changes: Counter[tuple[object, ...]] = Counter()  # each with its kind
        self.ends: list[Offset] = []
        self.start()

    def start(self) -> None:
        """Start, or start again, with what was kept."""
        table = open_for_read({"path": self._path, "branch": self.branch, **self._options})
        options = parse_read_options(self._options, table)
        target = log_target(table)
        schema = read_schema(table.schema, options, table_name=table.name)
        find_topic = partial(find_older_topic, table)
        self._planner = StreamPlanner(table.store, target, options, find_topic=find_topic)
        self._rows = TableRows.of(table.store, target, schema, options)
        if self.offset is None:
            self.offset = self._planner.initial()
        self.offset = offset_from_json(offset_to_json(self.offset, self._planner._mark), self._planner._mark)

    def plan(self) -> tuple[Offset, list[Part]]:
        """The next batch, planned and not read."""
        assert self.offset is not None
        self._look_anew()
        end = self._planner.end_of_batch(self.offset, NO_LIMITS)
        return end, self._planner.parts(self.offset, end)

    def _look_anew(self) -> None:
        """The head of a table is kept for 0.1 s, and a write takes less."""
        self._planner.rest(time.monotonic())

    def rows_of(self, parts: Iterable[Part]) -> list[dict[str, Any]]:
        """What tasks read of parts."""
        return [row for part in parts for batch in self._rows.rows(part) for row in batch.to_pylist()]

    def read(self, limits: Limits = NO_LIMITS, *, batches: int = 20) -> Change:
        """Read up to the end of the table, each batch planned twice as after a crash; all rows so far, signed."""
        self._look_anew()
        for _ in range(batches):
            assert self.offset is not None
            end = self._planner.end_of_batch(self.offset, limits)
            if end == self.offset:
                break
            self._planner.parts(self.offset, end)
            self.read_batch(end)
        return self.rows

    def read_batch(self, end: Offset | None) -> Change:
        """Read one batch up to `end`."""
        assert self.offset is not None
        assert end is not None
        for row in self.rows_of(self._planner.parts(self.offset, end)):
            self.changes[tuple(row.values())] += 1
            self.rows[row["id"], row["batch"]] += 1 if row["_row_kind"] in ("+I", "+U") else -1
        self._planner.let_go(end)
        self.offset = end
        self.ends.append(end)
        return self.rows


class KeyedReader(Reader):
    """A reader of upserts: it has the last row of each key."""

    def read_batch(self, end: Offset | None) -> Change:
        """Read one batch up to `end`."""
        assert self.offset is not None
        assert end is not None
        held = dict(self.rows.keys())
        for row in self.rows_of(self._planner.parts(self.offset, end)):
            held.pop(row["id"], None)
            if row["_row_kind"] in ("+I", "+U"):
                held[row["id"]] = row["batch"]
        self._planner.let_go(end)
        self.offset = end
        self.rows = Counter(dict.fromkeys(held.items(), 1))
        return self.rows


def reader_of(table: Table, **options: str) -> Reader:
    """A reader that knows what the changes of the table's log say of rows."""
    is_keyed = bool(table.schema.primary_keys) and table.schema.options.get("log.changelog-mode") != "all"
    return KeyedReader(table, **options) if is_keyed else Reader(table, **options)


def rows_of(batch: int) -> pa.Table:
    """Four rows of a batch."""
    return pa.table([pa.array(range(10 * batch, 10 * batch + 4)), pa.array([batch] * 4, pa.int32())], schema=SCHEMA)


def write_changes(table: Table, batch: int, ids: Iterable[int], deletes: Iterable[int] = ()) -> None:
    """Write rows of a batch, then deletes of the same."""
    added, removed = list(ids), list(deletes)
    rows = pa.table([pa.array(added + removed), pa.array([batch] * len(added + removed), pa.int32())], schema=SCHEMA)
    kinds = pa.array([0] * len(added) + [3] * len(removed), pa.int8())
    LocalWriter(open_table(table.path).branch(table.store.branch), "job").write(batch, rows, kinds)


def write(table: Table, batch: int) -> None:
    """Write the rows of a batch through the log."""
    LocalWriter(open_table(table.path), "job").write(batch, rows_of(batch), None)


def expected(*batches: int) -> Change:
    """What a reader has after these batches."""
    return Counter({(10 * batch + at, batch): 1 for batch in batches for at in range(4)})
