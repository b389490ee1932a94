"""Merge engines against a model that folds the rows of a key one by one, as the format's specification tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any  # Any: rows of a model

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import RowKind
from lakelog.filestore.merge.deduplicate import Slice
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.options.merging import MergeEngine
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.int32()),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
        pa.field("c", pa.int64()),
    ]
)
SYSTEM = [pa.field("_SEQUENCE_NUMBER", pa.int64()), pa.field("_VALUE_KIND", pa.int8())]
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
Row = dict[str, Any]
Fold = Callable[[Row | None, Row], Row | None]
ADDS = (int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))
values = st.none() | st.integers(-5, 5)
texts = st.none() | st.sampled_from(["x", "y", "z"])


def schema_with(options: Mapping[str, str]) -> TableSchema:
    """A table as another engine makes it: lakelog makes none of these yet."""
    return replace(build_schema(COLUMNS, primary_keys=["id"], options={"bucket": "1"}), options=options)


def histories(kinds: Sequence[int]) -> st.SearchStrategy[list[list[Row]]]:
    """Runs, oldest first: each key at most once a run."""
    row = st.fixed_dictionaries(
        {"id": st.integers(0, 3), "s": values, "a": values, "b": texts, "c": values, "kind": st.sampled_from(kinds)}
    )
    return st.lists(st.lists(row, max_size=4, unique_by=lambda row: row["id"]), min_size=1, max_size=5)


def slices_of(schema: TableSchema, runs: Sequence[Sequence[Row]], *, first: int = 0) -> list[Slice]:
    """The runs as a reader holds them, oldest first, with sequence numbers from `first` on."""
    slices = []
    sequence = first
    for run in runs:
        rows = sorted(run, key=lambda row: row["id"])
        columns = {name: [row[name] for row in rows] for name in COLUMNS.names}
        columns["_SEQUENCE_NUMBER"] = list(range(sequence, sequence + len(rows)))
        columns["_VALUE_KIND"] = [row["kind"] for row in rows]
        sequence += len(rows)
        if rows:
            table = pa.table(columns, schema=pa.schema([*COLUMNS, *SYSTEM]))
            slices.append(Slice(keys=key_frame(table, schema.key_fields), rows=table))
    return slices


def merged(schema: TableSchema, runs: Sequence[Sequence[Row]]) -> dict[int, Row]:
    """What the engine gives: key to row, deletes left out."""
    return shown(schema, slices_of(schema, runs))


def shown(schema: TableSchema, slices: Sequence[Slice]) -> dict[int, Row]:
    merge = row_merge(schema)
    assert merge is not None
    if not slices:
        return {}
    result = merge.merge(list(reversed(slices)), keeps_deletes=False)
    return {row["id"]: {name: row[name] for name in COLUMNS.names} for row in result.to_pylist()}


def modelled(runs: Sequence[Sequence[Row]], fold: Callable[[list[Row]], Row | None]) -> dict[int, Row]:
    """What the specification gives: a key with one row keeps it, others are folded oldest first."""
    by_key: dict[int, list[Row]] = {}
    for run in runs:
        for row in run:
            by_key.setdefault(row["id"], []).append(row)
    found = {}
    for key, rows in by_key.items():
        result = (rows[0] if rows[0]["kind"] in ADDS else None) if len(rows) == 1 else fold(rows)
        if result is not None:
            found[key] = {name: result[name] for name in COLUMNS.names}
    return found


@CALM
@given(histories([0, 2]))
def test_partial_update_keeps_the_last_value_that_is_not_null(runs: list[list[Row]]) -> None:
    def fold(rows: list[Row]) -> Row:
        result = dict(rows[0])
        for row in rows[1:]:
            result |= {name: value for name, value in row.items() if value is not None}
        return result

    assert merged(schema_with({"merge-engine": "partial-update"}), runs) == modelled(runs, fold)


def removed_on_delete(rows: list[Row]) -> Row | None:
    """A -D starts anew, from its own values; -U says nothing."""
    result: Row = {}
    for row in rows:
        if row["kind"] == RowKind.DELETE:
            result = {**row, "is there": False}
        elif row["kind"] in ADDS:
            result = {**dict.fromkeys(COLUMNS.names), **result, "is there": True}
            result |= {name: value for name, value in row.items() if value is not None}
    return result if result.get("is there") else None


def place(row: Row, names: Sequence[str]) -> list[tuple[bool, int]]:
    return [(row[name] is not None, row[name] or 0) for name in names]


def fold_groups(groups: Groups, removal: set[str], sums_of: set[str], rows: list[Row]) -> Row | None:
    """Row after row, as `PartialUpdateMergeFunction` does it, but that a removal holds until an add."""
    members = {name for by, others in groups for name in (*by, *others)}
    result: Row = dict.fromkeys(COLUMNS.names)
    is_there = False
    for row in rows:
        is_add = row["kind"] in ADDS
        counting = [(by, others) for by, others in groups if any(row[name] is not None for name in by)]
        newer = [by for by, _ in counting if place(row, by) >= place(result, by)]
        if row["kind"] == RowKind.DELETE and any(removal & {*by} for by in newer):
            result, is_there = dict(row), False
            continue
        if is_add:
            is_there = True
            result |= {name: row[name] for name in COLUMNS.names if name not in members and row[name] is not None}
        for by, others in counting:
            for name in others:
                if name in sums_of:
                    result[name] = sums(is_add, result[name], row[name])
                elif by in newer:
                    result[name] = row[name] if is_add else None
            if by in newer:
                result |= {name: row[name] for name in by}
    return result if is_there else None


Groups = Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
REMOVALS: dict[str, tuple[dict[str, str], Callable[[list[Row]], Row | None]]] = {
    "delete": ({"partial-update.remove-record-on-delete": "true"}, removed_on_delete),
    "none": (
        {"fields.s.sequence-group": "a,c", "fields.c.aggregate-function": "sum"},
        partial(fold_groups, [(("s",), ("a", "c"))], set(), {"c"}),
    ),
    "one group": (
        {
            "fields.s.sequence-group": "a,c",
            "fields.c.aggregate-function": "sum",
            "partial-update.remove-record-on-sequence-group": "s",
        },
        partial(fold_groups, [(("s",), ("a", "c"))], {"s"}, {"c"}),
    ),
    "one of two": (
        {
            "fields.s.sequence-group": "a",
            "fields.c.sequence-group": "b",
            "partial-update.remove-record-on-sequence-group": "c",
        },
        partial(fold_groups, [(("s",), ("a",)), (("c",), ("b",))], {"c"}, set()),
    ),
    "both": (
        {
            "fields.s.sequence-group": "a",
            "fields.c.sequence-group": "b",
            "partial-update.remove-record-on-sequence-group": "s,c",
        },
        partial(fold_groups, [(("s",), ("a",)), (("c",), ("b",))], {"s", "c"}, set()),
    ),
    "two columns": (
        {"fields.c,s.sequence-group": "a,b", "partial-update.remove-record-on-sequence-group": "s"},
        partial(fold_groups, [(("c", "s"), ("a", "b"))], {"s"}, set()),
    ),
}


@pytest.mark.parametrize("name", REMOVALS)
@CALM
@given(runs=histories([0, 1, 2, 3, 3]))
def test_partial_update_may_remove_rows(name: str, runs: list[list[Row]]) -> None:
    options, fold = REMOVALS[name]
    assert merged(schema_with({"merge-engine": "partial-update", **options}), runs) == modelled(runs, fold)


numbers = st.none() | st.integers(0, 3)
one_key = st.fixed_dictionaries(
    {"id": st.just(0), "s": numbers, "a": values, "b": texts, "c": numbers, "kind": st.sampled_from([0, 3, 3])}
)


@pytest.mark.parametrize("name", REMOVALS)
@CALM
@given(rows=st.lists(one_key, min_size=4, max_size=9))
def test_a_removal_lets_later_deletes_remove(name: str, rows: list[Row]) -> None:
    """Many changes of one key: what a removal leaves may be older than what another group had before."""
    options, fold = REMOVALS[name]
    runs = [[row] for row in rows]
    assert merged(schema_with({"merge-engine": "partial-update", **options}), runs) == modelled(runs, fold)


def change(kind: RowKind, **values: int) -> Row:
    """A change of key 1: nulls but for the given values."""
    return {"id": 1, **dict.fromkeys(COLUMNS.names[1:]), **values, "kind": int(kind)}


LEFT_WITHOUT_A_NUMBER = [[change(RowKind.DELETE, a=0, c=0)], [change(RowKind.INSERT)]]
SAYS_NOTHING = [[change(RowKind.UPDATE_BEFORE)]]


@pytest.mark.parametrize("name", REMOVALS)
@CALM
@given(older=histories([0, 1, 2, 3]), runs=histories([1]))
@example(older=LEFT_WITHOUT_A_NUMBER, runs=SAYS_NOTHING)
def test_what_was_removed_is_known_when_it_is_merged_again(
    name: str, older: list[list[Row]], runs: list[list[Row]]
) -> None:
    """The oldest runs may be merged first, and runs that only take back: what they leave is no removal.

    Where other runs are merged first, the format keeps no trace of what was removed before an add. Nor does it keep
    what the test below shows, so here no -D has values in a group that it has no number for.
    """
    schema = schema_with({"merge-engine": "partial-update", **REMOVALS[name][0]})
    first = slices_of(schema, without_uncounted_values(schema, older))
    slices = slices_of(schema, runs, first=100)
    wanted = shown(schema, [*first, *slices])
    assert shown(schema, [*at_once(schema, first), *slices]) == wanted
    assert shown(schema, [*first, *at_once(schema, slices)]) == wanted


def without_uncounted_values(schema: TableSchema, runs: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """The runs, where a -D has null in the columns of groups whose sequence fields are all null in it."""
    merge = row_merge(schema)
    assert merge is not None

    def changed(row: Row) -> Row:
        uncounted = [group for group in merge.groups if all(row[field.name] is None for field in group.by)]
        return row | {field.name: None for group in uncounted for field in group.members}

    return [[changed(row) if row["kind"] == RowKind.DELETE else row for row in run] for run in runs]


@pytest.mark.parametrize("name", ["one of two", "both"])
def test_what_a_removal_leaves_without_a_number_lasts_until_it_is_merged_again(name: str) -> None:
    """The delete removes by `c` and has an `a`, but no `s`, which is the number of `a`.

    What follows a removal starts from all values of the delete, so `a` is there with what else is merged at once. Once
    it is stored, it is a value without a number, which a merge skips as in any add, and nothing tells the two apart.
    Paimon shows the same rows in all three cases: `PartialUpdateMergeFunction`, `initRow` and `isEmptySequenceGroup`.
    """
    schema = schema_with({"merge-engine": "partial-update", **REMOVALS[name][0]})
    older = slices_of(schema, LEFT_WITHOUT_A_NUMBER)
    slices = slices_of(schema, SAYS_NOTHING, first=100)
    assert shown(schema, [*older, *slices])[1]["a"] == 0
    stored = at_once(schema, older)
    assert shown(schema, stored)[1]["a"] == 0
    assert shown(schema, [*stored, *slices])[1]["a"] is None
    added = slices_of(schema, [[change(RowKind.INSERT, a=0, c=0)]])
    assert shown(schema, [*added, *slices]) == shown(schema, [*stored, *slices])


def at_once(schema: TableSchema, slices: Sequence[Slice]) -> list[Slice]:
    """One run of several, with the deletes that it needs."""
    merge = row_merge(schema)
    assert merge is not None
    rows = merge.merge(list(reversed(slices)), keeps_deletes=True) if slices else None
    return [] if rows is None or not rows.num_rows else [Slice(keys=key_frame(rows, schema.key_fields), rows=rows)]


@CALM
@given(histories([0, 3]))
def test_a_sequence_group_takes_the_values_of_its_largest_number(runs: list[list[Row]]) -> None:
    """`a` is overwritten, `c` is summed, `b` is in no group."""

    def fold(rows: list[Row]) -> Row | None:
        result: Row = {**dict.fromkeys(COLUMNS.names), "id": rows[0]["id"]}
        for row in rows:
            is_add = row["kind"] in ADDS
            if is_add and row["b"] is not None:
                result["b"] = row["b"]
            if row["s"] is None:
                continue
            if result["s"] is None or row["s"] >= result["s"]:
                result |= {"s": row["s"], "a": row["a"] if is_add else None}
            if row["c"] is not None:
                result["c"] = (result["c"] or 0) + (row["c"] if is_add else -row["c"])
        return result if any(row["kind"] in ADDS for row in rows) else None

    options = {"fields.s.sequence-group": "a,c", "fields.c.aggregate-function": "sum"}
    assert merged(schema_with({"merge-engine": "partial-update", **options}), runs) == modelled(runs, fold)


def sums(is_add: bool, total: int | None, value: int | None) -> int | None:
    return total if value is None else (total or 0) + (value if is_add else -value)


@CALM
@given(histories([0, 1, 2, 3]))
def test_aggregation_sums_and_takes_back(runs: list[list[Row]]) -> None:
    """`a` is summed; of `b` the last value that is not null counts, of `c` the first, which ignores retractions."""

    def fold(rows: list[Row]) -> Row:
        result: Row = {**dict.fromkeys(COLUMNS.names), "id": rows[0]["id"]}
        for row in rows:
            is_add = row["kind"] in ADDS
            result["a"] = sums(is_add, result["a"], row["a"])
            if row["b"] is not None:
                result["b"] = row["b"] if is_add else None
            if row["s"] is not None:
                result["s"] = row["s"] if is_add else None
            if is_add and result["c"] is None:
                result["c"] = row["c"]
        return result

    options = {
        "fields.a.aggregate-function": "sum",
        "fields.c.aggregate-function": "first_non_null_value",
        "fields.c.ignore-retract": "true",
    }
    assert merged(schema_with({"merge-engine": "aggregation", **options}), runs) == modelled(runs, fold)


@CALM
@given(histories([0, 2]))
def test_aggregation_finds_extremes_and_lists(runs: list[list[Row]]) -> None:
    def fold(rows: list[Row]) -> Row:
        present = {name: [row[name] for row in rows if row[name] is not None] for name in COLUMNS.names}
        return {
            "id": rows[0]["id"],
            "s": max(present["s"], default=None),
            "a": min(present["a"], default=None),
            "b": "+".join(present["b"]) if present["b"] else None,
            "c": rows[-1]["c"],
        }

    options = {
        "fields.s.aggregate-function": "max",
        "fields.a.aggregate-function": "min",
        "fields.b.aggregate-function": "listagg",
        "fields.b.list-agg-delimiter": "+",
        "fields.c.aggregate-function": "last_value",
    }
    assert merged(schema_with({"merge-engine": "aggregation", **options}), runs) == modelled(runs, fold)


@CALM
@given(histories([0, 1, 2, 3]))
def test_aggregation_may_remove_rows(runs: list[list[Row]]) -> None:
    """A -D starts anew, from its own values; -U is taken back."""

    def fold(rows: list[Row]) -> Row | None:
        result: Row = {**dict.fromkeys(COLUMNS.names), "id": rows[0]["id"]}
        for row in rows:
            if row["kind"] == RowKind.DELETE:
                result = dict(row)
                continue
            for name in ("s", "a", "c"):
                result[name] = sums(row["kind"] in ADDS, result[name], row[name])
            if row["b"] is not None:
                result["b"] = row["b"] if row["kind"] in ADDS else None
        return None if rows[-1]["kind"] == RowKind.DELETE else result

    options = {f"fields.{name}.aggregate-function": "sum" for name in ("s", "a", "c")}
    options["aggregation.remove-record-on-delete"] = "true"
    assert merged(schema_with({"merge-engine": "aggregation", **options}), runs) == modelled(runs, fold)


def newest_last(rows: Sequence[Row], names: Sequence[str], order: str) -> list[Row]:
    """Rows of a key that came one after another, by sequence columns: nulls are the oldest, of equal rows the first."""
    sign = -1 if order == "descending" else 1
    return sorted(rows, key=lambda row: [(row[name] is not None, sign * (row[name] or 0)) for name in names])


def last_row(rows: list[Row]) -> Row | None:
    return rows[-1] if rows[-1]["kind"] in ADDS else None


def last_not_null(rows: list[Row]) -> Row:
    result = dict(rows[0])
    for row in rows[1:]:
        result |= {name: value for name, value in row.items() if value is not None}
    return result


def first_and_last(names: Sequence[str], rows: list[Row]) -> Row:
    """`b` is the first value, other columns are the last not null, but for the sequence columns."""
    return {**last_not_null(rows), "b": rows[0]["b"], **{name: rows[-1][name] for name in names}}


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("names", [("s",), ("s", "c")], ids=str)
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@CALM
@given(data=st.data())
def test_sequence_fields_decide_which_row_is_the_last(
    order: str, names: tuple[str, ...], engine: str, data: st.DataObject
) -> None:
    runs = data.draw(histories([0, 2, 3] if engine == "deduplicate" else [0, 2]))
    folds: dict[str, Callable[[list[Row]], Row | None]] = {
        "deduplicate": last_row,
        "partial-update": last_not_null,
        "aggregation": partial(first_and_last, names),
    }
    options = {"merge-engine": engine, "sequence.field": ",".join(names), "sequence.field.sort-order": order}
    if engine == "aggregation":
        options["fields.b.aggregate-function"] = "first_value"
    wanted = modelled(runs, lambda rows: folds[engine](newest_last(rows, names, order)))
    assert merged(schema_with(options), runs) == wanted


@CALM
@given(histories([0, 1, 2, 3]))
def test_deletes_may_be_ignored(runs: list[list[Row]]) -> None:
    def fold(rows: list[Row]) -> Row | None:
        return next((row for row in reversed(rows) if row["kind"] in ADDS), None)

    assert merged(schema_with({"ignore-delete": "true"}), runs) == modelled(runs, fold)


ANY_PARTS = {
    "partial": ([0, 2], {"merge-engine": "partial-update"}),
    "ignored": ([0, 3], {"merge-engine": "partial-update", "ignore-delete": "true"}),
    "group": (
        [0, 3],
        {"merge-engine": "partial-update", "fields.s.sequence-group": "a,c", "fields.c.aggregate-function": "sum"},
    ),
    "sums": ([0, 1, 2, 3], {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}),
    "extremes": (
        [0, 2],
        {
            "merge-engine": "aggregation",
            "fields.s.aggregate-function": "max",
            "fields.a.aggregate-function": "first_value",
            "fields.b.aggregate-function": "listagg",
            "fields.c.aggregate-function": "min",
        },
    ),
    "sequence": ([0, 3], {"sequence.field": "s"}),
    "descending": ([0, 3], {"sequence.field": "s,c", "sequence.field.sort-order": "descending"}),
    "descending sums": (
        [0, 1, 2, 3],
        {
            "merge-engine": "aggregation",
            "sequence.field": "s",
            "sequence.field.sort-order": "descending",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "last_value",
            "fields.c.aggregate-function": "sum",
        },
    ),
}


@pytest.mark.parametrize("name", ANY_PARTS)
@CALM
@given(st.data())
def test_runs_may_be_merged_in_any_parts(name: str, data: st.DataObject) -> None:
    """A compaction merges neighbouring runs first, and keeps what is deleted: the table stays the same.

    A retraction of an aggregation has values to subtract alone: what others leave is the limit below.
    """
    kinds, options = ANY_PARTS[name]
    schema = schema_with(options)
    merge = row_merge(schema)
    assert merge is not None
    runs = data.draw(histories(kinds))
    if merge.engine is MergeEngine.AGGREGATION:
        last = {
            name: None for name in ("s", "a", "b", "c") if options.get(f"fields.{name}.aggregate-function") != "sum"
        }
        runs = [[row if row["kind"] in ADDS else row | last for row in run] for run in runs]
    slices = slices_of(schema, runs)
    start = data.draw(st.integers(0, len(slices)))
    end = data.draw(st.integers(start, len(slices)))
    compacted = []
    if start < end:
        rows = merge.merge(list(reversed(slices[start:end])), keeps_deletes=True)
        compacted = [Slice(keys=key_frame(rows, schema.key_fields), rows=rows)] if rows.num_rows else []
    parts = [*slices[:start], *compacted, *slices[end:]]
    assert shown(schema, parts) == shown(schema, slices)


@pytest.mark.parametrize(
    ("name", "rows", "first", "at_once_is", "in_parts_is"),
    [
        # The newest by the sequence field retracts: the null that it leaves is the oldest, and the late row counts.
        ("descending sums", [(0, 3, "w"), (1, 0, "w"), (0, 2, "x")], slice(0, 2), (None, None), (2, "x")),
        # The null of the last two rows together says nothing about the first.
        ("sums", [(0, 7, "w"), (0, None, None), (1, 7, "w")], slice(1, 3), (None, None), (7, "w")),
    ],
)
def test_what_a_retraction_leaves_of_a_last_value_is_unknown_once_it_is_stored(
    name: str, rows: list[tuple[int, Any, Any]], first: slice, at_once_is: tuple[Any, ...], in_parts_is: tuple[Any, ...]
) -> None:
    """It leaves a null, in the sequence field too, and nothing tells a stored one from a value that was not given.

    Paimon 1.4.2 gives the same rows in all cases: `AggregateMergeFunction` and `retract` of both last values.
    """
    schema = schema_with(ANY_PARTS[name][1])
    slices = slices_of(schema, [[{"id": 1, "s": s, "a": 1, "b": b, "c": None, "kind": kind}] for kind, s, b in rows])
    parts = [*slices[: first.start], *at_once(schema, slices[first]), *slices[first.stop :]]

    def seen(parts: Sequence[Slice]) -> tuple[Any, ...]:
        row = shown(schema, parts)[1]
        assert row["a"] == 1  # sums are the same in any parts
        return row["s"], row["b"]

    assert seen(slices) == at_once_is
    assert seen(parts) == in_parts_is


def test_what_an_engine_cannot_take_back_is_an_error() -> None:
    add: Row = {"id": 1, "s": 1, "a": 1, "b": "x", "c": 1, "kind": 0}
    runs = [[add], [{**add, "kind": 3}]]
    with pytest.raises(InvalidRequestError, match=r"'a' is aggregated by max, which cannot take back.*ignore-retract"):
        merged(schema_with({"merge-engine": "aggregation", "fields.a.aggregate-function": "max"}), runs)
    with pytest.raises(InvalidRequestError, match="partial-update takes no -U and -D unless ignore-delete"):
        merged(schema_with({"merge-engine": "partial-update"}), runs)
    with pytest.raises(UnsupportedError, match="function 'theta_sketch'; known are bool_and"):
        merged(schema_with({"merge-engine": "aggregation", "fields.a.aggregate-function": "theta_sketch"}), runs)


def test_a_table_that_forces_lookups_has_whole_rows_above_level_0() -> None:
    schema = schema_with({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "force-lookup": "true"})
    row: Row = {"id": 1, "s": 1, "a": 1, "b": "x", "c": 1, "kind": 0}
    oldest, older = slices_of(schema, [[row], [{**row, "a": 3}]])
    runs = [replace(part, level=level) for part, level in ((oldest, 5), (older, 4))]
    assert shown(schema, runs)[1]["a"] == 3  # which holds the 1 already
