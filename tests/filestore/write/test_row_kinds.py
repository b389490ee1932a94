"""A column of the table that tells the kinds of what is written: `rowkind.field`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS, RowKind
from lakelog.filestore.alter.schema_changes import RenameColumn
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import rescale
from lakelog.filestore.write.row_kinds import RowKinds, rows_and_kinds, split_kinds
from tests.support.examples import examples
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("op", pa.string()), ("v", pa.int64())])
CALM = settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
OPTION = {"rowkind.field": "op"}
Change = tuple[int, str | None, int | None]


def make(folder: Path | str, options: dict[str, str], *, keys: tuple[str, ...] = ("id",)) -> FileStoreTable:
    schema = build_schema(SCHEMA, primary_keys=keys, options={"bucket": "2", **options})
    return FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)


def rows_of(*changes: Change) -> pa.Table:
    return pa.table([list(column) for column in zip(*changes, strict=True)], schema=SCHEMA)


def kinds_of(*changes: Change) -> pa.Array:
    return pa.array([ROW_KIND_TEXTS.index(op.upper()) for _, op, _ in changes if op is not None], pa.int8())


def content(table: FileStoreTable) -> dict[int, tuple[str, int]]:
    return {row["id"]: (row["op"], row["v"]) for row in table.to_arrow().to_pylist()}


changes = st.tuples(st.integers(0, 4), st.sampled_from([*ROW_KIND_TEXTS, "-d", "+u"]), st.integers(0, 9))
batches = st.lists(st.lists(changes, min_size=1, max_size=6), min_size=1, max_size=4)


@pytest.mark.parametrize(
    "options", [{}, {"num-sorted-run.compaction-trigger": "2"}, {"ignore-delete": "true"}], ids=str
)
@CALM
@given(given_batches=batches)
def test_a_column_holds_the_row_kinds(options: dict[str, str], given_batches: list[list[Change]]) -> None:
    is_ignored = "ignore-delete" in options
    model: dict[int, tuple[str, int]] = {}
    with TemporaryDirectory() as folder:
        table = make(folder, {**OPTION, **options})
        for batch in given_batches:
            table.write(rows_of(*batch))
            for key, op, value in batch:
                assert op is not None
                assert value is not None
                if op[0] == "+":
                    model[key] = (op, value)
                elif not is_ignored:
                    model.pop(key, None)
        assert content(table) == model


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.op.ignore-retract": "true"},
        {"changelog-producer": "input"},
        {"changelog-producer": "lookup"},
        {"deletion-vectors.enabled": "true"},
    ],
    ids=str,
)
def test_it_is_as_if_the_kinds_were_given(tmp_path: Path, options: dict[str, str]) -> None:
    """Rows, and their changes."""
    told, given_apart = make(tmp_path / "told", {**OPTION, **options}), make(tmp_path / "given", options)
    history: list[list[Change]] = [
        [(1, "+I", 1), (2, "+I", 2), (3, "+i", 3)],
        [(1, "-D", 1), (2, "-U", 2), (2, "+U", 5)],
    ]
    for batch in history:
        told.write(rows_of(*batch))
        given_apart.write(rows_of(*batch), kinds=kinds_of(*batch))
    assert content(told) == content(given_apart) != {}
    both = [[row for batch in changes_of(table) for row in batch.to_pylist()] for table in (told, given_apart)]
    assert both[0] == both[1] != []


def test_other_strings_and_kinds_given_twice_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path, OPTION)
    with pytest.raises(InvalidRequestError, match=r"column 'op' must be one of \+I, -U, \+U, -D, found 'I' in row 1"):
        table.write(rows_of((1, "+I", 1), (2, "I", 2)))
    with pytest.raises(InvalidRequestError, match="found a null in row 0"):
        table.write(rows_of((1, None, 1)))
    with pytest.raises(InvalidRequestError, match=r"has rowkind\.field=op: column 'op' holds the row kinds"):
        table.write(rows_of((1, "+I", 1)), kinds=pa.array([0], pa.int8()))
    assert table.snapshots.latest() is None


def test_tables_without_a_key_take_inserts_alone(tmp_path: Path) -> None:
    table = make(tmp_path, {**OPTION, "bucket-key": "id"}, keys=())
    table.write(rows_of((1, "+I", 1), (1, "+U", 2)))
    with pytest.raises(InvalidRequestError, match="takes inserts only, found a -D"):
        table.write(rows_of((1, "-D", 1)))
    assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "column 'gone', which does not exist; the columns are id, op, v"),
        ("v", "column 'v', which has the type BIGINT"),
    ],
)
def test_the_column_must_be_a_text(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        make(tmp_path, {"rowkind.field": name})


def test_the_column_may_get_another_name(tmp_path: Path) -> None:
    table = make(tmp_path, OPTION)
    table.write(rows_of((1, "+I", 1), (2, "+I", 2)))
    table = altered(table, RenameColumn("op", "kind"))
    table.write(rows_of((1, "-D", 1)).rename_columns(["id", "kind", "v"]))
    assert table.to_arrow()["id"].to_pylist() == [2]


def test_deletes_that_are_ignored_are_in_no_changelog(tmp_path: Path) -> None:
    """They are left out at the door, as Paimon does it."""
    table = make(tmp_path, {**OPTION, "ignore-delete": "true", "changelog-producer": "input"})
    table.write(rows_of((1, "+I", 1), (1, "-D", 1), (2, "-U", 1)))
    assert [row["_row_kind"] for batch in changes_of(table) for row in batch.to_pylist()] == ["+I"]


def test_rows_that_move_to_other_buckets_are_there_whatever_the_column_says(tmp_path: Path) -> None:
    """A column that is taken back is null: it tells nothing of a row that is there."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = make(tmp_path, {**OPTION, **options})
    table.write(rows_of((1, "+I", 5)))
    table.write(rows_of((1, "-U", 2)))
    before = table.to_arrow().to_pylist()
    assert before == [{"id": 1, "op": None, "v": 3}]
    assert rescale(table, 3).to_arrow().to_pylist() == before


PLAIN = pa.table({"id": [1, 2, 3], "v": [10, 20, 30]})


@pytest.mark.parametrize(
    "kinds",
    [
        ["+U", "-D", "-U"],
        [2, 3, 1],
        [RowKind.UPDATE_AFTER, RowKind.DELETE, RowKind.UPDATE_BEFORE],
        pa.array([2, 3, 1], pa.int8()),
        pa.chunked_array([["+U"], ["-D", "-U"]]),
        pa.array(["+U", "-D", "-U"]).dictionary_encode(),
        np.array([2, 3, 1]),
        pl.Series(["+U", "-D", "-U"]),
    ],
    ids=lambda kinds: type(kinds).__name__,
)
def test_kinds_are_strings_or_numbers_beside_the_rows_or_in_a_column(tmp_path: Path, kinds: RowKinds) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.write(PLAIN)
    table.write(PLAIN, kinds=kinds)
    assert table.to_arrow()["id"].to_pylist() == [1]
    table.write(PLAIN)
    column = kinds if isinstance(kinds, pa.Array | pa.ChunkedArray) else pa.array(kinds)
    table.write(PLAIN.append_column("_row_kind", column))
    assert table.to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["-D", 3, RowKind.DELETE])
def test_one_kind_is_that_of_all_rows(tmp_path: Path, kind: str | int) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.write(PLAIN)
    table.write(PLAIN.slice(1), kinds=kind)
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_changes_of_a_table_are_written_to_another(tmp_path: Path) -> None:
    table, copy = make(tmp_path / "a", {"bucket": "1"}), make(tmp_path / "b", {"bucket": "1"})
    table.write(PLAIN)
    table.write(PLAIN.slice(1), kinds="-D")
    for batch in changes_of(table):
        copy.write(batch)
    assert copy.to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("x", "row_kinds takes '\\+I', .*; found 'x'"),
        (4, "row_kinds takes .*; found 4"),
        (True, "row_kinds takes .*; found True"),
        (["+I", "x", "+I"], "row_kinds must be one of .*found 'x' in row 1"),
        (["+I", None, "+I"], "found a null in row 1"),
        ([0, 7, 0], "row_kinds must be .*found 7 in row 1"),
        ([0.5, 1, 1], "found values of the Arrow type double"),
        (["+I", 1, "+I"], "row_kinds takes "),
        (["+I"], "row_kinds has 1 values for 3 rows"),
        (object(), "row_kinds takes "),
    ],
)
def test_what_is_no_kind_is_named(tmp_path: Path, kinds: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        make(tmp_path, {}).write(PLAIN, kinds=kinds)


@pytest.mark.parametrize(("count", "message"), [(2, "has 2 values, and the rows are more"), (4, "4 values for 3")])
def test_kinds_beside_a_stream_are_counted(tmp_path: Path, count: int, message: str) -> None:
    reader = pa.RecordBatchReader.from_batches(PLAIN.schema, PLAIN.to_batches(max_chunksize=2))
    with pytest.raises(InvalidRequestError, match=message):
        make(tmp_path, {}).write(reader, kinds=["+I"] * count)


def test_kinds_come_once(tmp_path: Path) -> None:
    rows = PLAIN.append_column("_row_kind", pa.array(["+I"] * 3))
    with pytest.raises(InvalidRequestError, match="column '_row_kind', and row_kinds are given too"):
        make(tmp_path, {}).write(rows, kinds="+I")
    with pytest.raises(InvalidRequestError, match=r"rowkind\.field=op.*without a column _row_kind"):
        make(tmp_path / "b", OPTION).write(rows.append_column("op", pa.array(["+I"] * 3)))


def test_the_column_of_kinds_is_split_from_rows_unchecked() -> None:
    rows = pa.table({"id": [1, 2], "_row_kind": pa.chunked_array([[0], [9]], pa.int8())})
    own, kinds = split_kinds(rows)
    assert own.column_names == ["id"]
    assert kinds is not None
    assert (kinds.to_pylist(), kinds.type) == ([0, 9], pa.int8())
    assert split_kinds(own) == (own, None)


def test_kinds_that_users_hand_over_are_checked_as_they_are_split() -> None:
    rows = pa.table({"id": [1, 2], "_row_kind": ["+I", "-D"]})
    own, kinds = rows_and_kinds(rows, None)
    assert (own.column_names, kinds.to_pylist() if kinds is not None else None) == (["id"], [0, 3])
    with pytest.raises(InvalidRequestError, match="found 9 in row 1"):
        rows_and_kinds(pa.table({"id": [1, 2], "_row_kind": [0, 9]}), None)
    with pytest.raises(InvalidRequestError, match="give one"):
        rows_and_kinds(rows, 0)
