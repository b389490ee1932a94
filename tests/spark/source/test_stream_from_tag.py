"""A stream that starts from a tag, planned and read without Spark's processes: its rows, then the changes behind it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Any: offsets are JSON

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.streams.source import LakelogStreamReader

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
Offset = dict[str, Any]
Row = tuple[int, str, str]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four snapshots and a tag of the second: the third changes and deletes, the fourth adds."""
    options = {"bucket": "2", "write-only": "true"}
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    put(made, {1: "a", 2: "a", 3: "a"})
    put(made, {1: "b"})
    made.tags.create("t")
    put(made, {2: "c"})
    put(made, {3: "a"}, "-D")
    put(made, {4: "d"})
    return made


TAGGED = {1: "b", 2: "a", 3: "a"}
NEWEST = {1: "b", 2: "c", 4: "d"}


def put(table: Table, rows: Mapping[int, str], kind: str = "+I") -> None:
    table.write(pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA), row_kinds=kind)


class Query:
    """A query with its checkpoint: each batch is planned and read twice, the second time by a new process."""

    def __init__(self, table: Table, **options: str) -> None:
        self._options = {"path": table.path, "row-kind": "true"} | {
            key.replace("_", "-"): text for key, text in options.items()
        }
        self.offset: Offset = self._reader().initialOffset()
        self.batches: list[list[Row]] = []

    def _reader(self) -> LakelogStreamReader:
        source = LakelogDataSource(self._options)
        reader = source.streamReader(source.schema())
        assert isinstance(reader, LakelogStreamReader)
        return reader

    def run(self, *, rows_max: int | None = None, batches_max: int = 100) -> None:
        """Read until there is nothing more."""
        for _ in range(batches_max):
            reader = self._reader()
            limit = reader.getDefaultReadLimit() if rows_max is None else ReadMaxRows(rows_max)
            end = reader.latestOffset(self.offset, limit)
            if end == self.offset:
                return
            found = self._rows(reader, end)
            assert self._rows(self._reader(), json.loads(json.dumps(end))) == found, "a batch that is run again"
            reader.commit(end)
            self.batches.append(found)
            self.offset = json.loads(json.dumps(end))

    def _rows(self, reader: LakelogStreamReader, end: Offset) -> list[Row]:
        worker = pickle.loads(pickle.dumps(reader))
        batches = [batch for part in reader.partitions(self.offset, end) for batch in worker.read(part)]
        found = [row for batch in batches for row in batch.to_pylist()]
        return sorted((row["id"], row["_row_kind"], row["v"]) for row in found)

    @property
    def state(self) -> dict[int, str]:
        """The rows after all batches."""
        rows: dict[int, str] = {}
        for batch in self.batches:
            for key, kind, value in sorted(batch, key=lambda row: row[1] in ("+I", "+U")):
                if kind in ("+I", "+U"):
                    rows[key] = value
                else:
                    rows.pop(key, None)
        return rows

    @property
    def rows(self) -> list[list[Row]]:
        """The batches that have rows."""
        return [batch for batch in self.batches if batch]


TAG_ROWS = [(key, "+I", value) for key, value in TAGGED.items()]


@pytest.mark.parametrize("rows_max", [None, 1])
def test_a_stream_reads_the_rows_of_its_tag_then_the_changes_behind_it(table: Table, rows_max: int | None) -> None:
    query = Query(table, tag="t")
    query.run(rows_max=rows_max)

    read = [row for batch in query.rows for row in batch]
    assert sorted(read[:3]) == TAG_ROWS
    assert sorted(read[3:]) == [(2, "+I", "c"), (3, "-D", "a"), (4, "+I", "d")]


@pytest.mark.parametrize("named", [{"version": "t"}, {"scan.tag-name": "t"}, {"scan.version": "t"}])
def test_a_tag_is_named_as_in_batches(table: Table, named: dict[str, str]) -> None:
    query = Query(table, **named)
    query.run()

    assert query.rows[0] == TAG_ROWS
    assert query.state == NEWEST


def test_a_snapshot_may_expire_behind_the_rows_of_its_tag(table: Table) -> None:
    query = Query(table, tag="t")
    query.run(batches_max=1)
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)  # the query holds what it has still to read
    query.run()

    assert query.state == NEWEST
    assert [row for batch in query.rows[1:] for row in batch] == [(2, "+I", "c"), (3, "-D", "a"), (4, "+I", "d")]


def test_without_the_changes_behind_it_a_stream_names_the_choices(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    table.tags.create("later")

    with pytest.raises(NotFoundError, match=r"'t' .* keeps snapshot 2.*after snapshot 5.*tags later.*OnDataLoss=f"):
        Query(table, tag="t").run()


def test_without_the_changes_behind_it_a_stream_reads_the_difference_when_it_may(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    query = Query(table, tag="t", failOnDataLoss="false")
    query.run()
    put(table, {1: "e"})
    query.run()

    assert query.rows == [
        TAG_ROWS,
        [(2, "+U", "c"), (2, "-U", "a"), (3, "-D", "a"), (4, "+I", "d")],
        [(1, "+I", "e")],
    ]


def test_a_tag_that_was_deleted_or_replaced_before_its_rows_were_read_is_found_out(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    query = Query(table, tag="t", failOnDataLoss="false")
    query.run(rows_max=1, batches_max=1)

    table.tags.replace("t")
    with pytest.raises(InvalidRequestError, match=r"tag 't' .* was replaced before they were read"):
        query.run()
    table.tags.delete("t")
    with pytest.raises(NotFoundError, match=r"tag 't' .* was deleted before they were read"):
        query.run()


def test_a_version_that_is_no_tag_starts_at_its_snapshot(table: Table) -> None:
    query = Query(table, version="4")
    query.run()

    assert query.rows == [[(1, "+I", "b"), (2, "+I", "c")], [(4, "+I", "d")]]


def test_a_timestamp_whose_snapshot_has_expired_starts_at_a_tag(table: Table) -> None:
    tagged = table.tags.get("t").snapshot
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    query = Query(table, timestamp=str(tagged.time_millis), failOnDataLoss="false")
    query.run()

    assert query.rows[0] == TAG_ROWS
    assert query.state == NEWEST


def test_an_empty_tag_is_a_start(tmp_path: Path) -> None:
    options = {"bucket": "2", "write-only": "true"}
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    made.write(SCHEMA.empty_table())
    made.tags.create("t")
    put(made, {1: "a"})
    query = Query(made, tag="t")
    query.run()

    assert query.rows == [[(1, "+I", "a")]]


def test_a_tag_goes_with_no_other_start(table: Table) -> None:
    options = {"path": table.path, "tag": "t", "log.scan": "latest"}
    source = LakelogDataSource(options)

    with pytest.raises(InvalidRequestError, match=r"leave out log.scan=latest"):
        source.streamReader(source.schema())
