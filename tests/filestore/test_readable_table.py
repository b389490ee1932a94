"""What a read takes: columns by name, a condition, and which state of which branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: wrong arguments

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, to_duckdb, to_polars
from tests.support.tables.paimon_branches import take_as_branch
from tests.support.tables.paimon_tables import expected, unpack

SCHEMA = pa.schema([pa.field("Id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    made = FileStoreTable.create(tmp_path / "db.db" / "t", build_schema(SCHEMA, primary_keys="ID"))
    made.write(pa.table({"Id": [1, 2], "name": ["a", "b"]}, SCHEMA))
    return made


def rows_of(table: FileStoreTable) -> list[Callable[..., pa.Table]]:
    return [
        table.to_arrow,
        lambda **what: pa.Table.from_batches(table.planned(**what).batches()),
        lambda **what: to_polars(table, **what).collect().to_arrow(),
        lambda **what: to_duckdb(table, **what).to_arrow_table(),
    ]


def test_a_key_is_one_name_in_any_case(table: FileStoreTable) -> None:
    assert table.schema.primary_keys == ("Id",)


def test_columns_are_one_name_or_several_in_any_case(table: FileStoreTable) -> None:
    for read in rows_of(table):
        assert read(columns="ID").to_pydict() == {"Id": [1, 2]}
        assert read(columns=["NAME", "id"], where="ID = 2").to_pydict() == {"name": ["b"], "Id": [2]}
    assert [batch.schema.names for batch in changes(table, columns="ID")] == [["_row_kind", "Id"]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"columns": 5}, "columns takes a column name or a list of them, found 5"),
        ({"columns": ["id", "ID"]}, "columns names the column 'Id' twice"),
        ({"where": 5}, "where takes a condition in SQL, such as .*, found builtins.int"),
        ({"colums": "id"}, "a read takes no 'colums'; did you mean 'columns'"),
        (
            {"as_of": 1},
            "a read takes no 'as_of'; it takes snapshot_id, timestamp, watermark, tag, version, branch, columns, where",
        ),
        ({"branch": "dove"}, "table db.t has no branch 'dove'; its branches are main"),
        ({"branch": "a/b"}, "'a/b'"),
        ({"snapshot_id": 1, "tag": "t1"}, "snapshot_id=1 and tag=t1 each name a state of the table"),
    ],
)
def test_a_wrong_argument_names_itself(table: FileStoreTable, wrong: dict[str, Any], message: str) -> None:
    for read in rows_of(table):
        with pytest.raises((InvalidRequestError, NotFoundError), match=message):
            read(**wrong)


def test_a_snapshot_is_of_the_branch_that_is_named(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "forwarded")

    def shown(**which: Any) -> list[dict[str, Any]]:
        return sorted(table.to_arrow(**which).to_pylist(), key=str)

    assert table.branch_names() == ["main", "dev"]
    for read in rows_of(table):
        found = read(branch="dev").to_pylist()
        assert sorted(found, key=str) == sorted(expected("tags_branches", "forwarded", "branch-dev"), key=str)
    first = expected("tags_branches", "forwarded", "branch-dev.snapshots")[0]["snapshot_id"]
    wanted = expected("tags_branches", "forwarded", f"branch-dev.snapshot-{first}")
    assert shown(branch="dev", snapshot_id=first) == sorted(wanted, key=str)
    snapshot = table.snapshot(branch="dev", snapshot_id=first)
    assert snapshot is not None
    assert snapshot.id == first
    assert shown(branch="main") == shown()


def test_a_branch_is_read_in_its_own_columns(table: FileStoreTable, tmp_path: Path) -> None:
    wider = SCHEMA.append(pa.field("more", pa.int32()))
    other = FileStoreTable.create(tmp_path / "db.db" / "other", build_schema(wider, primary_keys="Id"))
    other.write(pa.table({"Id": [7], "name": ["z"], "more": [3]}, wider))
    take_as_branch(table, other, "wide")
    assert table.to_arrow(branch="wide").to_pylist() == [{"Id": 7, "name": "z", "more": 3}]
    assert to_polars(table, branch="wide", columns="more").collect().to_dicts() == [{"more": 3}]
    assert [batch.num_rows for batch in changes(table, branch="wide")] == [1]
    assert table.to_arrow().num_rows == 2
