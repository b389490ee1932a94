"""Ranges of an upsert log as full changelogs: old rows are looked up in the state of the table before the range.

The state before a range consists of the files of a snapshot that is not ahead of it, and the log from there to the
range. Every such snapshot gives the same state, so the result for a range depends only on its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakelog.common.patience import Patience
from lakelog.common.types import ROW_KIND_COLUMN, DataField
from lakelog.filestore.compact import BucketLookup
from lakelog.filestore.data import CacheShare
from lakelog.filestore.merge import are_absent, are_adds, key_frame, to_series, without_deletes
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta, runs_of
from lakelog.filestore.metadata.tables import KIND_FIELD, TableStore
from lakelog.filestore.options import LOOKUP_CACHE_MAX_MEMORY_SIZE, READ_MEMORY_BUDGET
from lakelog.filestore.predicate import Predicate, RowTest, resolved_columns
from lakelog.filestore.write import KeyParts, partitions_of
from lakelog.logstore.kafka.records.reader import OFFSET_COLUMN, read_range
from lakelog.protocol.reading.full_changes import Flags, History, full_changes
from lakelog.protocol.reading.operation_stops import OperationStops
from lakelog.protocol.stores.log_gaps import gap_test
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.resolving import CACHE

_COPIES = 3  # copies of a part's rows in memory: as read, with old rows, as given


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBase:
    """A bucket in a snapshot: its files by partition, and the log offset that they reach."""

    offset: int
    files: Mapping[bytes, Sequence[DataFileMeta]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedRange:
    """The range [start, end) of a bucket's log, and a base that is at or before its start."""

    bucket: int
    start: int
    end: int
    base: BucketBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalizer:
    """Reads ranges of a table's log as full changelogs, in the columns `shown` and others that it needs."""

    table: TableStore
    target: LogTarget
    shown: Sequence[DataField]
    stops: OperationStops
    where: Predicate | None = None
    batch_rows: int = 65_536

    def changes(self, given: NormalizedRange) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The changes of a range in batches, with their row kinds (int8): in key order, those of one key in log order.

        Raises like `read_range` and `stops`, and NotFoundError for files of the base that have expired.
        """
        passes = None if self.where is None else _test(RowTest(self.where, self.table.schema.fields))
        budget = READ_MEMORY_BUDGET.understood(self.table.schema.options) // _COPIES
        with KeyParts(self._key_fields, budget_bytes=budget) as parts:
            for batch in self._records(given):
                parts.add(pa.Table.from_batches([batch]))
            for records in parts.parts():
                history = self._history(given, records)
                if history is not None:
                    found = full_changes(history, key_fields=self._key_fields, shown=self.shown, passes=passes)
                    yield from found.pieces(self.batch_rows)

    @property
    def _key_fields(self) -> tuple[DataField, ...]:
        """The primary key with the partition columns, which the bucket number does not determine."""
        schema = self.table.schema
        return (*schema.partition_fields, *schema.key_fields)

    @property
    def _fields(self) -> list[DataField]:
        """The columns to read: those that are shown, those of the filter and those of the key."""
        filtered = () if self.where is None else resolved_columns(self.where, self.table.schema.fields)
        names = dict.fromkeys(field.name for field in (*self.shown, *filtered, *self._key_fields))
        return list(self.table.schema.select(names))

    def _records(self, given: NormalizedRange) -> Iterator[pa.RecordBatch]:
        source = self.target.topic.partition(given.bucket)
        return read_range(
            source,
            self._fields,
            start=given.base.offset,
            end=given.end,
            batch_rows=self.batch_rows,
            with_offset=True,
            on_header=self.stops.on_header(str(source), start=given.start),
            holds_nothing=gap_test(self.table, self.target.topic_id, given.bucket),
            patience=Patience(self.target.unavailable_seconds),
        )

    def _history(self, given: NormalizedRange, records: pa.Table) -> History | None:
        """What is known about the keys with records in the range; None if there are no records."""
        is_new = records.column(OFFSET_COLUMN).to_numpy() >= given.start
        if not is_new.any():
            return None
        if not is_new.all():
            keys = key_frame(records, self._key_fields)
            is_needed = ~are_absent(keys, keys.filter(pl.Series(is_new)).unique()).to_numpy()
            records, is_new = records.filter(pa.array(is_needed)), is_new[is_needed]
        kinds = to_series(records.column(ROW_KIND_COLUMN))
        rows = records.drop_columns([ROW_KIND_COLUMN, OFFSET_COLUMN])
        history = History(rows=rows, exists=are_adds(kinds).to_numpy(), is_new=is_new)
        old = self._rows_in(given, self._unknown(history))
        return history if old is None else History.of(old, is_new=False).then(history)

    def _unknown(self, history: History) -> pa.Table:
        """One row of each key whose first record is in the range: its earlier state is in the base."""
        if not history.rows.num_rows:
            return history.rows
        keys = key_frame(history.rows, self._key_fields).with_row_index("row")
        firsts = keys.unique(keys.columns[1:], keep="first", maintain_order=True)["row"].to_numpy()
        return history.rows.take(pa.array(firsts[history.is_new[firsts]]))

    def _rows_in(self, given: NormalizedRange, wanted: pa.Table) -> pa.Table | None:
        """The rows that keys have in the base; None when none exists. `wanted` has each key once."""
        if not wanted.num_rows or not given.base.files:
            return None
        schema = self.table.schema
        partitions, codes = partitions_of(self.table, wanted)
        found: list[pa.Table] = []
        for code, partition in enumerate(partitions):
            files = given.base.files.get(partition)
            if not files:
                continue
            keys = key_frame(wanted.filter((codes == code).to_arrow()), schema.key_fields)
            lookup = BucketLookup(
                table=self.table.stored,
                bucket=BucketId(partition, given.bucket),
                runs=runs_of(files, self.table.key_types),
                fields=[*self._fields, KIND_FIELD],
                deletions={},
                cache=CacheShare(cache=CACHE, bytes_max=LOOKUP_CACHE_MAX_MEMORY_SIZE.understood(schema.options)),
            )
            rows = lookup.find(keys.sort(keys.columns))
            if rows is not None:
                found.append(without_deletes(rows).drop_columns([KIND_FIELD.name]))
        return pa.concat_tables(found) if found else None


def _test(test: RowTest) -> Callable[[pa.Table], Flags]:
    return lambda rows: to_series(test.passing(rows)).to_numpy()
