"""Tables merged at write: fold(log) = fold(files) = a model of the merge, for random histories and crash points."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: positions are asked for their offset alone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import AddColumn, Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS, RowKind
from tests.support.kills.crashing_writer import CrashingWriter, table_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.promises import log_changes, snapshot_states

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[int, int | None, int | None]
Change = tuple[str, Row]
Rows = dict[int, Row]
Deleted = dict[int, Row]


def keep_adds(rows: Rows, _deleted: Deleted, kind: str, row: Row) -> None:
    if kind == "+I":
        rows[row[0]] = row


def keep_first(rows: Rows, _deleted: Deleted, _kind: str, row: Row) -> None:
    rows.setdefault(row[0], row)


def keep_values(rows: Rows, _deleted: Deleted, _kind: str, row: Row) -> None:
    old = rows.get(row[0], (row[0], None, None))
    rows[row[0]] = (row[0], old[1] if row[1] is None else row[1], old[2] if row[2] is None else row[2])


def add_up(rows: Rows, _deleted: Deleted, _kind: str, row: Row) -> None:
    key, sequence, value = row
    old = rows.get(key, (key, None, None))
    total = value if old[2] is None else old[2] if value is None else old[2] + value
    rows[key] = (key, old[1] if sequence is None else sequence, total)


def keep_last_by_sequence(rows: Rows, deleted: Deleted, kind: str, row: Row) -> None:
    """A delete has a place in the order too, and holds it until a compaction drops it."""
    key = row[0]
    old = rows.get(key) or deleted.get(key)
    if old is not None and _order(old[1]) > _order(row[1]):
        return
    taken, left = (rows, deleted) if kind == "+I" else (deleted, rows)
    left.pop(key, None)
    taken[key] = row


def _order(sequence: int | None) -> int:
    return -1 if sequence is None else sequence


@dataclass(frozen=True, slots=True)
class Merge:
    """Options of a table, and what a change does to the rows by them. `has_deletes`: whether it takes -D."""

    options: Mapping[str, str]
    apply: Callable[[Rows, Deleted, str, Row], None]
    has_deletes: bool = False


MERGES = {
    "ignore-delete": Merge({"ignore-delete": "true"}, keep_adds, has_deletes=True),
    "first-row": Merge({"merge-engine": "first-row"}, keep_first),
    "partial-update": Merge({"merge-engine": "partial-update"}, keep_values),
    "sum": Merge({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, add_up),
    "sequence": Merge({"sequence.field": "s"}, keep_last_by_sequence, has_deletes=True),
}


@dataclass(frozen=True, slots=True)
class History:
    """Batches of changes, the step counts after which the writer dies, when files are merged, and the log's mode."""

    batches: Sequence[Sequence[Change]]
    crashes: Sequence[int]
    compacted_after: frozenset[int]
    mode: str


@st.composite
def histories(draw: st.DrawFn, merge: Merge) -> History:
    small = st.sampled_from((None, 0, 1, 2, 3))
    kinds = st.sampled_from(("+I", "+I", "+I", "-D") if merge.has_deletes else ("+I",))
    change = st.tuples(kinds, st.tuples(st.integers(0, 3), small, small))
    return History(
        draw(st.lists(st.lists(change, max_size=6), min_size=1, max_size=5)),
        draw(st.lists(st.integers(1, 20), max_size=3)),
        draw(st.frozensets(st.integers(0, 4), max_size=2)) if merge.apply is not keep_last_by_sequence else frozenset(),
        draw(st.sampled_from(("all", "upsert"))),
    )


def check(merge: Merge, history: History, bootstrap_servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": history.mode, **merge.options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    truths = _write(table, merge, history)
    changes = [change for bucket in range(2) for change in log_changes(table, bucket)]
    seen = set()
    for snapshot, state in snapshot_states(table):
        (entry,) = state.users.values()
        truth = truths[entry.identifier]
        rows = table.to_arrow(snapshot_id=snapshot.id)
        assert {row["k"]: tuple(row.values()) for row in rows.to_pylist()} == truth, "files"
        assert rows.num_rows == len(truth)
        assert _fold(changes, state.logged.positions, mode=history.mode) == truth, "log"
        seen.add(entry.identifier)
    assert seen == set(range(len(history.batches)))
    catalog.drop_table("db.t")


def _write(table: Table, merge: Merge, history: History) -> list[Rows]:
    """Write all batches with the crashes; the rows by key that must be there after each batch."""
    writer = CrashingWriter(table, history.crashes)
    rows: Rows = {}
    deleted: Deleted = {}
    truths = []
    for identifier, batch in enumerate(history.batches):
        kinds = pa.array([ROW_KIND_TEXTS.index(kind) for kind, _ in batch], pa.int8())
        writer.write(identifier, table_of([row for _, row in batch], SCHEMA), kinds)
        for kind, row in batch:
            merge.apply(rows, deleted, kind, row)
        truths.append(dict(rows))
        if identifier in history.compacted_after:
            table.store.compact(full=True)
    return truths


def _fold(changes: Sequence[tuple[int, int, int, pa.Table]], positions: Mapping[int, Any], *, mode: str) -> Rows:
    """The last record of each key; with old values each takes away exactly what was there."""
    rows: Rows = {}
    for bucket, offset, kind, row in changes:
        if bucket not in positions or offset >= positions[bucket].offset:
            continue
        (values,) = (tuple(one.values()) for one in row.to_pylist())
        if not RowKind(kind).is_add:
            assert rows.pop(values[0]) == values
        else:
            assert mode == "upsert" or values[0] not in rows
            rows[values[0]] = values
    return rows


@pytest.mark.parametrize("name", list(MERGES))
def test_log_and_files_fold_to_what_the_merge_says(bootstrap_servers: str, name: str) -> None:
    run(MERGES[name], bootstrap_servers, examples=4)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", list(MERGES))
def test_log_and_files_fold_to_what_the_merge_says_in_many_histories(bootstrap_servers: str, name: str) -> None:
    run(MERGES[name], bootstrap_servers, examples=200)


def run(merge: Merge, bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories(merge))
    def law(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(merge, history, bootstrap_servers, Path(folder))

    law()


def test_a_second_writer_goes_by_what_the_first_one_logged_and_left(tmp_path: Path, bootstrap_servers: str) -> None:
    """The results are looked up behind the fence: on the tail too, which no snapshot has."""
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": "all", **MERGES["sum"].options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    adds = pa.array([0], pa.int8())
    LocalWriter(table, "a").write(0, table_of([(1, 1, 5)], SCHEMA), adds)
    died = LocalWriter(table, "a", observe=die_before_the_snapshot)
    with pytest.raises(InjectedDeath):
        died.write(1, table_of([(1, 2, 7)], SCHEMA), adds)
    LocalWriter(table, "b").write(0, table_of([(1, 3, 100)], SCHEMA), adds)
    LocalWriter(table, "a").write(1, table_of([(1, 2, 7)], SCHEMA), adds)
    assert table.to_arrow().to_pylist() == [{"k": 1, "s": 3, "v": 112}]
    followed = [row["v"] for batch in table.changes() for row in batch.to_pylist()]
    assert followed == [5, 12, 112]  # files hold whole rows, which can be followed
    values = [row["v"][0].as_py() for _, _, kind, row in log_changes(table, 0) if RowKind(kind).is_add]
    assert values == [5, 12, 112]
    assert list(_fold(log_changes(table, 0), {0: list(snapshot_states(table))[-1][1].logged.position(0)}, mode="all"))


class InjectedDeath(Exception):
    """The process dies after it has logged."""


def die_before_the_snapshot(step: object, user: str, identifier: int, bucket: int | None) -> None:
    if bucket is None:
        raise InjectedDeath(step)


def test_a_part_that_changes_nothing_is_not_logged_and_the_batch_counts(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", **MERGES["first-row"].options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    adds = pa.array([0], pa.int8())
    writer = LocalWriter(table, "a")
    writer.write(0, table_of([(1, 1, 5)], SCHEMA), adds)
    writer.write(1, table_of([(1, 2, 6)], SCHEMA), adds)
    states = [state for _, state in snapshot_states(table)]
    assert [state.logged.position(0).records for state in states] == [1, 1]
    assert [state.users["a"].identifier for state in states] == [0, 1]


def test_a_delete_that_only_later_rows_need_is_logged_as_a_header(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", **MERGES["sequence"].options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    writer = LocalWriter(table, "a")
    writer.write(0, table_of([(1, 5, None)], SCHEMA), pa.array([3], pa.int8()))
    assert log_changes(table, 0) == []
    assert list(snapshot_states(table))[-1][1].logged.position(0).records == 1
    writer.write(1, table_of([(1, 4, 1)], SCHEMA), pa.array([0], pa.int8()))
    assert log_changes(table, 0) == []
    writer.write(2, table_of([(1, 6, 1)], SCHEMA), pa.array([0], pa.int8()))
    assert [row.to_pylist() for _, _, _, row in log_changes(table, 0)] == [[{"k": 1, "s": 6, "v": 1}]]
    assert table.to_arrow().to_pylist() == [{"k": 1, "s": 6, "v": 1}]


def test_a_writer_that_does_not_know_a_column_drops_no_value_of_it(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", **MERGES["partial-update"].options}
    older = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    newer = older.alter(AddColumn("w", "BIGINT"))
    wide = SCHEMA.append(pa.field("w", pa.int64()))
    adds = pa.array([0], pa.int8())
    LocalWriter(newer, "a").write(0, table_of([(1, None, None, 9)], wide), adds)
    with pytest.raises(InvalidRequestError, match="the table's schema has changed since it was opened"):
        LocalWriter(older, "b").write(0, table_of([(1, 1, 1)], SCHEMA), adds)
    LocalWriter(catalog.load_table("db.t"), "b").write(0, table_of([(1, 1, 1)], SCHEMA), adds)
    assert newer.to_arrow().to_pylist() == [{"k": 1, "s": 1, "v": 1, "w": 9}]


def test_row_kinds_of_a_column_are_those_of_the_log(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("op", pa.string())])
    for number, mode in enumerate(("all", "upsert")):
        options = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": mode, "rowkind.field": "op"}
        table = catalog.create_table(f"db.t{number}", schema=schema, primary_keys=["k"], options=options)
        writer = LocalWriter(table, "a")
        writer.write(0, table_of([(1, "+I"), (2, "+I")], schema), None)
        writer.write(1, table_of([(1, "-D")], schema), None)
        assert [RowKind(kind).short for _, _, kind, _ in log_changes(table, 0)] == ["+I", "+I", "-D"]
        assert table.to_arrow()["k"].to_pylist() == [2]
