"""`Table.diff` and `Table.history`: states by any name, counts by column, lines of branches and tags."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string()), pa.field("n", pa.int64())])


def rows(*values: tuple[int, str, int]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*values, strict=True), strict=True)), schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshots 1 (tag first) and 2 in main; branch dev began at 1 and has a 2 of its own."""
    options = {"bucket": "1", "write-only": "true"}
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    made.write(rows((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    made.tags.create("first")
    made.branches.create("dev", tag="first")
    made.write(rows((2, "B", 2), (4, "d", 4)))
    made.branch("dev").write(rows((3, "dev", 30)))
    return made


def counts(table: Table, *states: object) -> tuple[int, int, int]:
    found = table.diff(*states)  # type: ignore[arg-type]  # of any kind, as users have them
    return found.added, found.changed, found.removed


def test_changes_are_those_of_commits_of_two_states_or_new_rows(table: Table) -> None:
    table.write(rows((2, "b", 2), (1, "z", 1)))
    table.delete("id = 4")

    def found(compare: str) -> list[tuple[object, ...]]:
        batches = table.changes(after="first", up_to=4, compare=compare)
        return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)

    assert [(row[0], row[1]) for row in found("auto")] == [("+I", 1), ("+I", 2), ("+I", 2), ("+I", 4), ("-D", 4)]
    assert found("states") == [("+U", 1, "z", 1), ("-U", 1, "a", 1)]
    assert found("rows") == [(1, "z", 1)]
    with pytest.raises(InvalidRequestError, match="compare='all' is nothing to compare; expected one of auto, states"):
        found("all")


def test_a_diff_counts_rows_by_what_happened_to_them(table: Table) -> None:
    found = table.diff("first")
    assert (found.added, found.changed, found.removed) == (1, 1, 0)
    assert found.changed_columns == {"v": 1}
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [
        ("-U", 2, "b", 2),
        ("+U", 2, "B", 2),
        ("+I", 4, "d", 4),
    ]
    assert found.sample == found.to_arrow()


def test_a_state_has_many_names(table: Table) -> None:
    newest = table.snapshot()
    assert newest is not None
    at = datetime.fromtimestamp(newest.time_millis / 1_000, UTC)
    same: list[object] = [2, "2", newest, at, at.isoformat(), {"snapshot_id": 2}, "main"]
    assert {counts(table, "first", state) for state in same} == {(1, 1, 0)}
    assert counts(table, 0, 1) == (3, 0, 0)
    assert counts(table, "first", "dev") == (0, 1, 0)
    assert counts(table, "dev", 2) == (1, 2, 0)
    assert counts(table, "dev.2", "dev.first") == (0, 1, 0)


def test_a_diff_compares_the_chosen_columns_alone(table: Table) -> None:
    found = table.diff("first", "dev", columns="v")
    assert found.changed_columns == {"v": 1}
    assert found.to_arrow().column_names == ["_row_kind", "id", "v"]


def test_the_sample_is_cut_and_the_counts_are_not(table: Table) -> None:
    table.write(rows(*((number, "x", 0) for number in range(10, 60))))
    found = table.diff("first", sample=3)
    assert (found.added, found.sample.num_rows) == (51, 3 + 2)
    assert sum(batch.num_rows for batch in found.to_batches()) == 51 + 2


def test_rows_without_key_are_compared_by_how_often_they_are_there(tmp_path: Path) -> None:
    made = Catalog(tmp_path).create_table("db.plain", schema=SCHEMA)
    made.write(rows((1, "a", 1), (1, "a", 1), (2, "b", 2)))
    made.write(rows((1, "a", 1), (3, "c", 3)), mode="overwrite")
    found = made.diff(1)
    assert (found.added, found.changed, found.removed) == (1, 0, 2)
    assert found.to_polars().select("_row_kind", "id").collect().rows() == [("-D", 1), ("-D", 2), ("+I", 3)]


def test_an_unknown_state_names_those_that_exist(table: Table) -> None:
    with pytest.raises(NotFoundError, match="no version 'nosuch': it has the tags first"):
        table.diff("nosuch")
    with pytest.raises(InvalidRequestError, match="names no state of a table"):
        table.diff(1.5)  # type: ignore[arg-type]  # the mistake that is tested


def test_the_history_has_a_line_for_each_branch(table: Table) -> None:
    main, dev = table.history()
    assert (main.name, dev.name, dev.began_at) == ("main", "dev", 1)
    assert [(one.snapshot.id, one.tags, one.branches, one.is_living) for one in main.entries] == [
        (2, (), (), True),
        (1, ("first",), ("dev",), True),
    ]
    assert [one.snapshot.id for one in dev.entries] == [2]


def test_an_expired_snapshot_stays_in_the_history_by_its_tag(table: Table) -> None:
    table.write(rows((9, "i", 9)))
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    (main, _) = table.history()
    assert [(one.snapshot.id, one.is_living) for one in main.entries] == [(3, True), (1, False)]


def test_a_limit_leaves_out_what_no_tag_names(table: Table) -> None:
    for number in range(5):
        table.write(rows((number, "x", number)))
    main = table.history(limit=2).lines[0]
    assert [one.snapshot.id for one in main.entries] == [7, 6, 1]
    assert main.left_out == 4
