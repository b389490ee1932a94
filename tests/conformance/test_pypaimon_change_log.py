"""pypaimon reads tables without primary key that take deletes: each distinct row once, with its count."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.schema.counted_schema import COUNT_COLUMN
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.conformance.test_pypaimon import run_job
from tests.support.examples import rest_in_full
from tests.support.jobs import pypaimon_job

OPTIONS = {"write-mode": "change-log", "bucket": "2", "write-only": "true"}
SCALARS = pa.schema([field.with_nullable(True) for field in pypaimon_job.FIELDS if not pa.types.is_nested(field.type)])
PAIRS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
TAKE = 3


def make(folder: Path, schema: pa.Schema, partition_keys: list[str]) -> FileStoreTable:
    return FileStoreTable.create(
        folder / "db.db" / "t", build_schema(schema, partition_keys=partition_keys, options=OPTIONS)
    )


def taken(count: int) -> pa.Array:
    return pa.array([TAKE] * count, pa.int8())


def counts_read(python: Path, folder: Path) -> list[tuple[dict[str, object], int]]:
    """The rows that pypaimon reads, and their counts."""
    found = run_job(python, "rows", str(folder), "db.t")
    assert isinstance(found, list)
    rows = [json.loads(text) for text in found]
    return [(row, row.pop(COUNT_COLUMN)) for row in rows]


@pytest.mark.parametrize("partition_keys", rest_in_full([["day"], []], 1), ids=str)
def test_it_reads_each_row_of_every_type_once_with_its_count(
    tmp_path: Path, pypaimon_python: Path, partition_keys: list[str]
) -> None:
    table = make(tmp_path, SCALARS, partition_keys)
    for given in pypaimon_job.commits():
        rows = given.select(SCALARS.names)
        table.write(pa.concat_tables([rows, rows, rows.slice(5, 7)]))
        table.write(rows.slice(0, 10), kinds=taken(10))
    for _ in range(2):
        found = counts_read(pypaimon_python, tmp_path)
        assert {count for _, count in found} == {1, 2, 3}
        repeated = [json.dumps(row, sort_keys=True) for row, count in found for _ in range(count)]
        assert sorted(repeated) == pypaimon_job.rows_shown(table.to_arrow())
        table.compact(full=True)


def test_it_merges_rows_with_nulls(tmp_path: Path, pypaimon_python: Path) -> None:
    table = make(tmp_path, PAIRS, [])
    rows = pa.table([[None, None, None, 1, 1, 2], [None, "a", None, None, "b", "b"]], PAIRS)
    table.write(rows)
    table.write(rows)
    table.write(rows.slice(2), kinds=taken(4))
    table.write(rows.slice(5), kinds=taken(1))
    wanted = [((None, None), 3), ((None, "a"), 2), ((1, None), 1), ((1, "b"), 1), ((2, "b"), 0)]
    for left in (wanted, wanted[:-1]):  # our compaction leaves out what counts nothing
        found = [((row["id"], row["name"]), count) for row, count in counts_read(pypaimon_python, tmp_path)]
        assert sorted(found, key=str) == sorted(left, key=str)
        table.compact(full=True)
