"""Tables with merge engines, written, compacted and read."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.examples import examples

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("b", pa.string())])


def make(folder: Path, **options: str) -> FileStoreTable:
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "2", **options})
    return FileStoreTable.create(folder / "t", schema, LocalFileIO(sync_data=False))


def rows(*given: tuple[int, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def content(table: FileStoreTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def write_all(table: FileStoreTable, *batches: pa.Table) -> list[tuple[object, ...]]:
    """Write the batches, check that a full compaction changes no row, and give the rows."""
    for batch in batches:
        table.write(batch)
    before = content(table)
    table.compact(full=True)
    assert content(table) == before
    return before


def test_partial_updates_join_columns(tmp_path: Path) -> None:
    table = make(tmp_path, **{"merge-engine": "partial-update"})
    found = write_all(table, rows((1, 1, None), (1, None, "x"), (2, 5, None)), rows((1, None, "y"), (2, None, None)))
    assert found == [(1, 1, "y"), (2, 5, None)]


def test_aggregates_add_up_within_and_over_batches(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    table = make(tmp_path, **options, **{"num-sorted-run.compaction-trigger": "2"})
    batches = [rows((1, 1, f"b{batch}"), (1, 10, None), (2, None, None)) for batch in range(7)]
    assert write_all(table, *batches) == [(1, 77, "b6"), (2, None, None)]
    table.write(rows((1, 7, None)), kinds=pa.array([3], pa.int8()))
    assert content(table) == [(1, 70, "b6"), (2, None, None)]


@pytest.mark.parametrize(
    ("values", "total"), [((3, 3, 3), 9), ((10**38 // 3 + 1,) * 3, None), ((10**38 - 3, 1, 1), 10**38 - 1)]
)
def test_sums_are_exact_up_to_the_last_number_of_38_digits(
    tmp_path: Path, values: tuple[int, ...], total: int | None
) -> None:
    wide = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.decimal128(38, 0))])
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    built = build_schema(wide, primary_keys=["id"], options={"bucket": "1", **options})
    table = FileStoreTable.create(tmp_path / "t", built, LocalFileIO(sync_data=False))
    given = [Decimal(value) for value in values]
    table.write(pa.table([[1] * len(given), pa.array(given, wide.field("v").type)], schema=wide))
    assert table.to_arrow()["v"].to_pylist() == [None if total is None else Decimal(total)]


@pytest.mark.parametrize("is_distinct", ["false", "true"])
def test_a_list_of_blank_strings_is_null_as_in_paimon_2(tmp_path: Path, is_distinct: str) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.b.aggregate-function": "listagg",
        "fields.b.distinct": is_distinct,
    }
    table = make(tmp_path, **options)
    texts = [("", ""), (" ", "\t"), ("", "x"), ("x", " "), (None, ""), ("x", "\u00a0"), ("", None)]
    given = [(key, None, text) for key, pair in enumerate(texts) for text in pair]
    expected = [None, None, "x", "x", None, "x,\u00a0", None]
    assert write_all(table, rows(*given)) == [(key, None, text) for key, text in enumerate(expected)]
    assert write_all(table, rows((0, None, ""), (2, None, "y"), (9, None, "")))[-1] == (9, None, "")  # a row alone
    assert content(table)[2] == (2, None, "x,y")


def test_late_rows_do_not_win_where_a_sequence_field_decides(tmp_path: Path) -> None:
    table = make(tmp_path, **{"sequence.field": "a"})
    assert write_all(table, rows((1, 5, "new"), (1, 4, "late")), rows((1, 3, "later"), (2, 1, "x"))) == [
        (1, 5, "new"),
        (2, 1, "x"),
    ]


def test_a_newer_delete_of_a_sequence_group_removes_the_row(tmp_path: Path) -> None:
    options = {"fields.a.sequence-group": "b", "partial-update.remove-record-on-sequence-group": "a"}
    table = make(tmp_path, **{"merge-engine": "partial-update", "num-sorted-run.compaction-trigger": "2"}, **options)
    table.write(rows((1, 5, "x"), (2, 5, "y"), (3, 5, "z")))
    deletes = pa.array([3, 3, 1], pa.int8())
    table.write(rows((1, 5, None), (2, 4, None), (3, 6, None)), kinds=deletes)
    assert content(table) == [(2, 5, "y"), (3, 6, None)]
    table.compact(full=True)
    assert content(table) == [(2, 5, "y"), (3, 6, None)]


PARTIAL = {"merge-engine": "partial-update"}
GROUP = {"fields.a.sequence-group": "b"}
ON_DELETE = {"partial-update.remove-record-on-delete": "true"}
ON_GROUP = {"partial-update.remove-record-on-sequence-group": "a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**ON_DELETE, "ignore-delete": "true"}, "remove-record-on-delete and ignore-delete contradict"),
        ({**ON_GROUP, **GROUP, "ignore-delete": "true"}, "on-sequence-group and ignore-delete contradict"),
        ({**ON_DELETE, **GROUP}, "remove-record-on-delete and sequence groups contradict"),
        (ON_GROUP, "names 'a', which orders no sequence group; found no sequence groups"),
        (
            {**GROUP, "partial-update.remove-record-on-sequence-group": "b"},
            "names 'b', which orders no sequence group; found a",
        ),
    ],
    ids=str,
)
def test_rules_for_deletes_that_contradict_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        make(tmp_path, **PARTIAL, **options)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {
                "merge-engine": "aggregation",
                "aggregation.remove-record-on-delete": "true",
                "fields.a.aggregate-function": "sum",
                "fields.b.ignore-retract": "true",
            },
            (1, 6, "x"),
        ),
        ({**PARTIAL, **ON_DELETE}, (1, 10, "x")),
        ({**PARTIAL, **GROUP, **ON_GROUP}, (1, 10, "x")),
    ],
    ids=str,
)
def test_what_is_taken_back_does_not_become_a_delete_by_a_compaction(
    tmp_path: Path, options: dict[str, str], wanted: tuple[object, ...]
) -> None:
    """-U and -D differ for these engines: a compaction that leaves out the oldest run keeps what they are."""
    table = make(tmp_path, **options, **{"num-sorted-run.compaction-trigger": "3", "bucket": "1"})
    table.write(rows((1, 10, "x"), *((key, key, f"{key * key}") for key in range(2, 5000))))
    table.compact(full=True)
    for key in (1, 2):
        table.write(rows((key, 4, None)), kinds=pa.array([1], pa.int8()))
    levels = {entry.file.level for entry in table.live_files.of(table.snapshots.latest()).entries()}
    assert len(levels) == 2
    assert 0 not in levels
    assert table.to_arrow(where="id = 1").to_pylist() == [dict(zip(SCHEMA.names, wanted, strict=True))]


WAYS: list[dict[str, str]] = [
    {"num-sorted-run.compaction-trigger": "1"},
    {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "3"},
    {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
]
changes = st.tuples(st.integers(0, 4), st.none() | st.integers(0, 5), st.sampled_from("xyz"))


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=examples(8), deadline=None)
@given(history=st.lists(st.lists(changes, min_size=1, max_size=5), min_size=1, max_size=6), data=st.data())
def test_the_row_that_is_last_by_the_sequence_field_stays_whenever_runs_are_merged(
    order: str, way: dict[str, str], history: list[list[tuple[int, int | None, str]]], data: st.DataObject
) -> None:
    """In a batch, by reads, by lookups and in compactions."""
    sign = -1 if order == "descending" else 1
    model: dict[int, tuple[int, int | None, str]] = {}
    with TemporaryDirectory() as folder:
        table = make(Path(folder), **{"sequence.field": "a", "sequence.field.sort-order": order}, **way)
        for batch in history:
            table.write(rows(*batch))
            if data.draw(st.booleans()):
                table.compact(full=True)
            for key, a, b in batch:
                last = model.get(key)
                is_late = last is not None and last[1] is not None and (a is None or sign * a < sign * last[1])
                if not is_late:
                    model[key] = (key, a, b)
            assert content(table) == sorted(model.values())


def test_deletes_may_be_ignored(tmp_path: Path) -> None:
    table = make(tmp_path, **{"ignore-delete": "true"})
    table.write(rows((1, 1, "x"), (2, 2, "y")))
    table.write(rows((1, 1, "x")), kinds=pa.array([3], pa.int8()))
    assert content(table) == [(1, 1, "x"), (2, 2, "y")]


def test_options_that_do_not_fit_the_columns_are_refused_when_the_table_is_made(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"'sequence\.field' = 'nope' names the column 'nope', which does not exist"
    ):
        make(tmp_path, **{"sequence.field": "nope"})
    with pytest.raises(UnsupportedError, match="column 'a' has the aggregate function 'summ'; known are bool_and"):
        make(tmp_path, **{"merge-engine": "aggregation", "fields.a.aggregate-function": "summ"})
    with pytest.raises(InvalidRequestError, match=r"merge-engine=first-row takes no sequence\.field"):
        make(tmp_path, **{"merge-engine": "first-row", "sequence.field": "a"})
    schema = build_schema(SCHEMA, options={"merge-engine": "aggregation", "bucket": "-1"})
    with pytest.raises(InvalidRequestError, match="need a primary key"):
        FileStoreTable.create(tmp_path / "t", schema)
    assert not (tmp_path / "t").exists()
