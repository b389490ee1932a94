"""Reads take the partitions that a table lacks from another branch, and never mix one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack  # Any: values of the columns

import pyarrow as pa
import pytest

from lakelog.common.errors import NotFoundError, OptionError, UnsupportedError
from lakelog.filestore.alter.schema_changes import AddColumn, RenameColumn
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, rescale, to_polars
from lakelog.filestore.verbs.read_verbs import Selection
from tests.support.tables.altered import altered
from tests.support.tables.paimon_branches import take_as_branch

IO = LocalFileIO(sync_data=False)
FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.float64())])


def rows(*given: tuple[str, int, float]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def shown(table: FileStoreTable, **what: Unpack[Selection]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**what).to_pylist())


def set_options(table: FileStoreTable, options: dict[str, str]) -> FileStoreTable:
    changed = replace(table.schema, id=table.schema.id + 1, options=options)
    SchemaManager(IO, table.paths).create(changed)
    return FileStoreTable.open(table.path, IO)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """A table of a key, with the branch `old`: an append table with a day of its own and one that both have."""
    made = FileStoreTable.create(
        tmp_path / "db.db" / "t", build_schema(SCHEMA, primary_keys=["day", "id"], partition_keys=["day"]), IO
    )
    made.write(rows(("b", 1, 1.0), ("c", 1, 1.0)))
    made.write(rows(("b", 1, 2.0)))
    old = FileStoreTable.create(
        tmp_path / "db.db" / "old",
        build_schema(SCHEMA, partition_keys=["day"], options={"bucket": "-1"}),
        IO,
    )
    old.write(rows(("a", 1, 10.0), ("a", 2, 11.0), ("b", 9, 12.0)))
    take_as_branch(made, old, "old")
    return made


def test_partitions_that_a_table_lacks_come_from_its_fallback_branch(table: FileStoreTable) -> None:
    assert shown(table) == [("b", 1, 2.0), ("c", 1, 1.0)]
    both = set_options(table, {**table.schema.options, FALLBACK: "old"})
    assert shown(both) == [("a", 1, 10.0), ("a", 2, 11.0), ("b", 1, 2.0), ("c", 1, 1.0)]
    assert shown(both, columns=["id", "day"]) == [(1, "a"), (1, "b"), (1, "c"), (2, "a")]
    assert to_polars(both).collect().height == 4


def test_partitions_of_a_primary_branch_come_first(table: FileStoreTable) -> None:
    both = set_options(table, {**table.schema.options, PRIMARY: "old"})
    assert shown(both) == [("a", 1, 10.0), ("a", 2, 11.0), ("b", 9, 12.0), ("c", 1, 1.0)]


@pytest.mark.parametrize("where", ["day = 'b' and id = 9", "id = 9", "v > 11"])
def test_a_filter_never_lets_a_partition_of_the_other_branch_in(table: FileStoreTable, where: str) -> None:
    """A partition is the table's own also where none of its rows pass."""
    both = set_options(table, {**table.schema.options, FALLBACK: "old"})
    assert shown(both, where=where) == []
    assert shown(both, where="v > 10") == [("a", 2, 11.0)]
    assert shown(both, where="day = 'a' and id = 1") == [("a", 1, 10.0)]


def test_an_older_snapshot_goes_with_what_the_branch_had_then(table: FileStoreTable) -> None:
    both = set_options(table, {**table.schema.options, FALLBACK: "old"})
    assert shown(both, snapshot_id=2) == shown(both)
    assert shown(both, snapshot_id=1) == [("b", 1, 1.0), ("c", 1, 1.0)]  # the branch has been made since


def test_an_older_snapshot_has_its_own_columns_in_both_branches(table: FileStoreTable) -> None:
    both = set_options(table, {**table.schema.options, FALLBACK: "old"})
    both.write(rows(("c", 1, 3.0)))
    expected = both.to_arrow()
    both = altered(both, RenameColumn("v", "w"))
    altered(both.on_branch("old"), RenameColumn("v", "w"))
    both.write(pa.table({"day": ["c"], "id": [1], "w": [4.0]}))
    then = both.to_arrow(snapshot_id=3)
    assert then.column_names == SCHEMA.names
    assert sorted(map(repr, then.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert {row["w"] for row in both.to_arrow().to_pylist()} == {2.0, 4.0, 10.0, 11.0}
    later = altered(both, AddColumn("more", "INT"))
    with pytest.raises(UnsupportedError, match="cannot fill in for partitions"):
        later.to_arrow()


def test_changes_and_writes_are_the_tables_own(table: FileStoreTable) -> None:
    both = set_options(table, {**table.schema.options, FALLBACK: "old"})
    changed = pa.Table.from_batches(list(changes(both)))
    assert set(changed["day"].to_pylist()) == {"b", "c"}
    both.write(rows(("a", 3, 1.0)))
    assert shown(both) == [("a", 3, 1.0), ("b", 1, 2.0), ("c", 1, 1.0)]


def test_rescaling_takes_no_row_of_the_branch(table: FileStoreTable) -> None:
    both = set_options(table, {**table.schema.options, FALLBACK: "old"})
    rescaled = rescale(both, 3)
    own = {key: value for key, value in rescaled.schema.options.items() if key != FALLBACK}
    assert shown(set_options(rescaled, own)) == [("b", 1, 2.0), ("c", 1, 1.0)]


def test_a_branch_that_is_not_there_is_named(table: FileStoreTable) -> None:
    both = set_options(table, {**table.schema.options, FALLBACK: "lost"})
    with pytest.raises(NotFoundError, match=r"names the branch 'lost' in scan\.fallback-branch"):
        both.to_arrow()


def test_a_branch_of_other_columns_is_refused(table: FileStoreTable, tmp_path: Path) -> None:
    other = FileStoreTable.create(
        tmp_path / "db.db" / "other",
        build_schema(SCHEMA.remove(2), partition_keys=["day"], options={"bucket": "-1"}),
        IO,
    )
    take_as_branch(table, other, "other")
    both = set_options(table, {**table.schema.options, FALLBACK: "other"})
    with pytest.raises(UnsupportedError, match=r"branch 'other' of table db\.t cannot fill in for partitions"):
        both.to_arrow()


@pytest.mark.parametrize("name", ["../../other", "", "a/b"])
def test_a_name_that_leads_elsewhere_is_no_branch(table: FileStoreTable, name: str) -> None:
    both = set_options(table, {**table.schema.options, FALLBACK: name})
    with pytest.raises(OptionError, match=r"option 'scan\.fallback-branch' has the value"):
        both.to_arrow()
