"""The law of a merge's changes: folded over the rows before they give the rows after, and each changes a row.

But for a row that the branch alone has written again: it is written, as by every writer.
"""

from __future__ import annotations

import tempfile
from typing import Any  # Any: values of rows

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.filestore.refs import create_branch
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, merge_changes
from tests.support.examples import examples, rest_in_full
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32()), ("s", pa.string())])
INSERT, DELETE = 0, 3
Row = tuple[int, int | None, str | None]
Rules = str | dict[str, str]

values = st.tuples(
    st.integers(0, 4),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from("ab"),
    st.sampled_from((INSERT, INSERT, DELETE)),
)
batches = st.lists(values, min_size=1, max_size=4, unique_by=lambda row: row[0])
steps = st.lists(batches | st.just("compact"), max_size=3)
rules = st.sampled_from(["branch", "main"]) | st.fixed_dictionaries(
    {
        "n": st.sampled_from(["sum", "max", "min", "branch", "main"]),
        "s": st.sampled_from(["max", "min", "branch", "main"]),
        "*": st.sampled_from(["branch", "main"]),
    }
)


def put(table: FileStoreTable, rows: list[tuple[Any, ...]]) -> None:
    columns = zip(*(row[:3] for row in rows), strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    table.write(pa.table(arrays, SCHEMA), kinds=pa.array([row[3] for row in rows], pa.int8()))


def work(table: FileStoreTable, todo: list[Any]) -> None:
    for step in todo:
        if step == "compact":
            table.compact(full=True)
        else:
            put(table, step)


def state(table: FileStoreTable) -> dict[int, Row]:
    return {row["id"]: tuple(row.values()) for row in table.to_arrow().to_pylist()}


def check_law(producer: str, begin: list[Any], ours: list[Any], theirs: list[Any], on_conflict: Rules) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = {"bucket": "1", "write-only": "true", "changelog-producer": producer}
        schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
        table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
        put(table, [(9, 9, "always", INSERT)])
        work(table, begin)
        create_branch(table, "b")
        work(table, ours)
        work(table.on_branch("b"), theirs)
        before, number = state(table), table.snapshots.latest_id()
        merged = merge_changes(table, "b", on_conflict=on_conflict)
        folded, count = dict(before), 0
        touched = {row[0] for step in ours if step != "compact" for row in step}
        for batch in changes(table, after=number):
            for row in batch.to_pylist():
                kind, *values = row.values()
                count += 1
                key = values[0]
                if kind == "-D":
                    assert key in folded, f"a delete of {values}, which is not there"
                    del folded[key]
                else:
                    is_new = folded.get(key) != tuple(values)
                    assert is_new or key not in touched, f"{kind} of {values}, which is there"
                    folded[key] = tuple(values)
        assert folded == state(table)
        assert merged.upserted + merged.deleted == count


@pytest.mark.parametrize("producer", rest_in_full(["input", "none"], 1))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(begin=steps, ours=steps, theirs=steps, on_conflict=rules)
def test_each_change_of_a_merge_changes_a_row_and_all_of_them_give_the_rows(
    producer: str, begin: list[Any], ours: list[Any], theirs: list[Any], on_conflict: Rules
) -> None:
    check_law(producer, begin, ours, theirs, on_conflict)


@pytest.mark.parametrize(
    ("ours", "theirs", "on_conflict"),
    [
        ([], [[(1, None, None, DELETE)]], "branch"),  # a key that never was
        ([], [[(1, 1, "a", INSERT)], [(1, None, None, DELETE)]], "branch"),
        ([[(2, 5, "a", INSERT)]], [[(2, 3, "a", INSERT)]], {"n": "max"}),  # the table's value wins
    ],
)
def test_a_merge_without_an_effect_has_no_changes(ours: list[Any], theirs: list[Any], on_conflict: Rules) -> None:
    check_law("input", [], ours, theirs, on_conflict)


def test_nulls_without_a_base_are_decided_as_the_guide_says() -> None:
    """Both sides insert the keys 1 to 4: a set value wins over a null, whatever the rule."""
    ours = [[(1, 1, None, INSERT), (2, None, "a", INSERT), (3, 2, "a", INSERT), (4, None, None, INSERT)]]
    theirs = [[(1, None, "b", INSERT), (2, 7, None, INSERT), (3, 5, "b", INSERT), (4, None, None, INSERT)]]
    wanted = {
        "sum": {1: (1, 1, "b"), 2: (2, 7, "a"), 3: (3, 7, "b"), 4: (4, None, None)},
        "max": {1: (1, 1, "b"), 2: (2, 7, "a"), 3: (3, 5, "b"), 4: (4, None, None)},
        "min": {1: (1, 1, "b"), 2: (2, 7, "a"), 3: (3, 2, "b"), 4: (4, None, None)},
        "main": {1: (1, 1, "b"), 2: (2, 7, "a"), 3: (3, 2, "b"), 4: (4, None, None)},
    }
    for rule, rows in wanted.items():
        with tempfile.TemporaryDirectory() as folder:
            schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"})
            table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
            create_branch(table, "b")
            work(table, ours)
            work(table.on_branch("b"), theirs)
            merge_changes(table, "b", on_conflict={"n": rule, "s": "branch"})
            assert state(table) == rows, rule
