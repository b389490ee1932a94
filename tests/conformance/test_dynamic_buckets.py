"""Tables with dynamic buckets: Flink's tables go on as Flink would, and pypaimon reads and goes on with ours."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any  # Any: rows of both tables

import pyarrow as pa
import pytest

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.table import FileStoreTable
from tests.conformance.test_pypaimon import make_table, row_kinds, run_job
from tests.support.examples import rest_in_full
from tests.support.jobs import pypaimon_job
from tests.support.tables.dynamic_buckets import assignments, check_index
from tests.support.tables.paimon_tables import CASES, expected, unpack
from tests.support.tables.strategies import Model, Write, shown

CASE = "dynamic_bucket"
IO = LocalFileIO(sync_data=False)
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}
STATEMENTS = {  # what a row of an INSERT is, as the table's columns
    "dyn": re.compile(r"\((?P<id>\d+), '(?P<v>\w+)'\)"),
    "dyn_part": re.compile(r"\((?P<p>\d+), '(?P<k>\w+)', (?P<v>\d+)\)"),
}


def inserts(table: FileStoreTable, name: str) -> list[pa.Table]:
    """The rows of each INSERT into a table of Flink's, in the order in which Flink was given them."""
    text = (CASES / CASE / "case.sql").read_text()
    statements = re.findall(rf"INSERT INTO db\.{name} VALUES([^;]*);", text)
    schema = table.schema.arrow_schema
    found = [[match.groupdict() for match in STATEMENTS[name].finditer(one)] for one in statements]
    return [pa.table({field.name: _column(rows, field) for field in schema}, schema=schema) for rows in found]


def _column(rows: list[dict[str, Any]], field: pa.Field) -> pa.Array:
    return pa.array([row[field.name] for row in rows], pa.string()).cast(field.type)


def rolled_back(folder: Path, name: str, snapshot_id: int) -> FileStoreTable:
    """Flink's table as it was after some of its commits."""
    root = unpack(CASE, folder) / "db.db" / name
    for path in (root / "snapshot").iterdir():
        if path.name in ("LATEST", "EARLIEST") or int(path.name.removeprefix("snapshot-")) > snapshot_id:
            path.unlink()
    return FileStoreTable.open(root, IO)


def rows_of(table: FileStoreTable) -> Counter[str]:
    rows = to_json_lines(table.to_arrow(), table.schema.fields)
    return Counter(json.dumps(json.loads(row), sort_keys=True) for row in rows)


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("name", ["dyn", "dyn_part"])
def test_a_table_of_flink_goes_on_as_flink_itself_went_on(tmp_path: Path, name: str, done: int) -> None:
    flink = FileStoreTable.open(unpack(CASE, tmp_path / "flink") / "db.db" / name, IO)
    table = rolled_back(tmp_path / "ours", name, done)
    statements = inserts(table, name)
    assert [rows.num_rows for rows in statements] == ([30, 41, 15])
    for number, rows in enumerate(statements[done:], done + 1):
        assert table.write(rows).id == number
        found = assignments(table, table.snapshots.latest())
        assert found == assignments(flink, flink.snapshots.get(number))
        assert len(found) > number
        flink_reads = Counter(json.dumps(row, sort_keys=True) for row in expected(CASE, name, f"snapshot-{number}"))
        assert rows_of(table) == flink_reads


def test_tables_whose_keys_move_between_partitions_are_read_only(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack(CASE, tmp_path) / "db.db" / "cross_part", IO)
    with pytest.raises(UnsupportedError, match=r"primary key \(id\) lacks the partition columns p is not written yet"):
        table.write(table.to_arrow())


@pytest.mark.parametrize(
    "options",
    rest_in_full(
        [
            {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"},
            {},
            {"dynamic-bucket.initial-buckets": "3", "write-only": "true"},
        ],
        1,
    ),
    ids=str,
)
@pytest.mark.parametrize("kind", [pytest.param("plain", marks=pytest.mark.full), "partitioned"])
def test_pypaimon_reads_what_we_write(
    tmp_path: Path, pypaimon_python: Path, kind: str, options: dict[str, str]
) -> None:
    table = make_table(tmp_path, kind, {**DYNAMIC, **options})
    model = Model.of(table.schema)
    for rows in pypaimon_job.commits():
        table.write(rows, kinds=row_kinds(rows, kind))
        model.apply(Write(rows=rows, kinds=row_kinds(rows, kind)))
    table.compact(full=True)
    assert len(assignments(table, table.snapshots.latest())) > 5
    assert shown(table.to_arrow()) == model.shown()
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.ours") == pypaimon_job.shown(table.to_arrow())


@pytest.mark.full
@pytest.mark.parametrize("kind", ["plain", "partitioned"])
def test_pypaimon_and_we_write_one_table_in_turns(tmp_path: Path, pypaimon_python: Path, kind: str) -> None:
    table = make_table(tmp_path, kind, DYNAMIC)
    model = Model.of(table.schema)
    for number, rows in enumerate(pypaimon_job.commits()):
        if number % 2:
            table.write(rows)
        else:
            run_job(pypaimon_python, "append", str(tmp_path), "db.ours", str(number), str(number + 1))
        model.apply(Write(rows=rows, kinds=pa.array([0] * rows.num_rows, pa.int8())))
        assert shown(table.to_arrow()) == model.shown()
        check_index(table)
    sizes = Counter(len(held) for held in assignments(table, table.snapshots.latest()).values())
    assert max(sizes) == 7
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.ours") == pypaimon_job.shown(table.to_arrow())
