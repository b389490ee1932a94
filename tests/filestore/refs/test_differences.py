"""The difference of two states, against a model; with a small memory budget; only what is not shared is read."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.alter.schema_changes import AddColumn, RenameColumn
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.states import changed_keys
from lakelog.filestore.refs.states.differences import Difference, compared_fields, differences
from lakelog.filestore.refs.states.state_parts import unshared
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.examples import rest_in_full
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("x", pa.float64()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
OPTIONS = {
    "key": {"bucket": "2"},
    "key, dynamic buckets": {"bucket": "-1"},
    "no key": {"bucket": "-1"},
    "value count": {"bucket": "1", "write-mode": "change-log"},
}
VALUES = (0.0, -0.0, 1.5, float("nan"), None)
TAGS: tuple[list[str] | None, ...] = (["a"], ["a", "b"], [], None)


def new_table(folder: Path, kind: str) -> FileStoreTable:
    columns = SCHEMA.remove(2) if kind == "value count" else SCHEMA
    schema = build_schema(columns, primary_keys=["id"] if kind.startswith("key") else [], options=OPTIONS[kind])
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def write_some(table: FileStoreTable, chance: random.Random) -> None:
    count = chance.randrange(1, 30)
    ids = chance.sample(range(40), count)
    given = {"id": ids, "x": [chance.choice(VALUES) for _ in ids], "tags": [chance.choice(TAGS) for _ in ids]}
    names = table.schema.field_names
    table.write(pa.table({name: given[name] for name in names}, schema=table.schema.arrow_schema))


def shown(rows: pa.Table) -> list[tuple[object, ...]]:
    """Rows as tuples that are equal where the values are: NaN equals itself, and 0.0 is not -0.0."""
    return [tuple(repr(value) for value in row.values()) for row in rows.to_pylist()]


def compared(before: TableState, after: TableState, budget_bytes: int | None = None) -> list[Difference]:
    fields = compared_fields(before.table.schema, after.table.schema, None)
    return list(differences(before, after, fields, budget_bytes=budget_bytes))


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("seed", rest_in_full(range(3), 1))
@pytest.mark.parametrize("way", ["whole", "spilled", "by keys"])
def test_the_difference_of_any_two_states_is_the_models(
    tmp_path: Path, kind: str, seed: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "RATIO_MIN", 0 if way == "by keys" else 1 << 40)
    budget_bytes = 2_000 if way == "spilled" else None
    table, chance = new_table(tmp_path, kind), random.Random(f"{kind}{seed}")
    for _ in range(6):
        write_some(table, chance)
        if chance.random() < 0.3:
            table.compact(full=True)
        if chance.random() < 0.2:
            table.write(table.schema.arrow_schema.empty_table(), mode="overwrite")
    numbers = table.snapshots.ids()
    for _ in range(3):
        first, last = (table.snapshots.get(number) for number in chance.choices(numbers, k=2))
        old, new = (shown(table.to_arrow(snapshot_id=one.id)) for one in (first, last))
        found = compared(TableState(table=table, snapshot=first), TableState(table=table, snapshot=last), budget_bytes)
        added, removed = (Counter(row for one in found for row in shown(part(one))) for part in (_added, _removed))
        changed = Counter(pair for one in found for pair in zip(shown(one.old), shown(one.new), strict=True))
        if kind.startswith("key"):
            before, after = ({row[0]: row for row in state} for state in (old, new))
            assert added == Counter(after[key] for key in after.keys() - before.keys())
            assert removed == Counter(before[key] for key in before.keys() - after.keys())
            both = before.keys() & after.keys()
            assert changed == Counter((before[key], after[key]) for key in both if before[key] != after[key])
            by_column = sum((Counter(one.changed_columns) for one in found), Counter())
            assert by_column["x"] == sum(before[key][1] != after[key][1] for key in both)
        else:
            assert (added, removed) == (Counter(new) - Counter(old), Counter(old) - Counter(new))
            assert not changed


def _added(one: Difference) -> pa.Table:
    return one.added


def _removed(one: Difference) -> pa.Table:
    return one.removed


def test_a_state_differs_from_itself_in_nothing_and_no_file_is_read(tmp_path: Path) -> None:
    table = new_table(tmp_path, "key")
    write_some(table, random.Random(1))
    state = TableState(table=table, snapshot=table.snapshots.latest())
    assert not list(unshared(state, state))


def test_only_the_bucket_that_changed_is_read(tmp_path: Path) -> None:
    table = new_table(tmp_path, "key")
    rows = pa.table({"id": range(40), "x": [1.0] * 40, "tags": [["a"]] * 40}, schema=SCHEMA)
    first = table.write(rows)
    second = table.write(rows.slice(7, 1))
    (unit,) = unshared(TableState(table=table, snapshot=first), TableState(table=table, snapshot=second))
    buckets = {split.bucket_id for split in (*unit.before, *unit.after)}
    assert len(buckets) == 1


def bytes_of_diff(folder: Path, options: dict[str, str], keys: list[str], count: int) -> tuple[int, int]:
    """Bytes that a difference reads after one row was added to as many rows in a compacted file; bytes of that file."""
    schema = build_schema(SCHEMA, primary_keys=keys, options=options)
    table = FileStoreTable.create(folder / "t", schema, UNSYNCED)
    rows = {"id": range(count), "x": np.random.default_rng(1).random(count), "tags": [None] * count}
    table.write(pa.table(rows, schema=SCHEMA))
    first = table.compact(full=True) or table.snapshots.latest()
    table.write(pa.table({"id": [7], "x": [1.0], "tags": [["a"]]}, schema=SCHEMA))
    counting = CountingFileIO()
    read = FileStoreTable.open(table.path, counting)
    old, new = (TableState(table=read, snapshot=one) for one in (first, table.snapshots.latest()))
    list(unshared(old, new))  # manifests
    before = counting.bytes_read
    found = compared(old, new)
    assert sum(one.row_count for one in found) == 1
    return counting.bytes_read - before, max(path.stat().st_size for path in Path(table.path).rglob("data-*"))


def test_a_file_that_both_states_have_is_not_read(tmp_path: Path) -> None:
    read, shared = bytes_of_diff(tmp_path, {"bucket": "-1"}, [], 100_000)
    assert read < 10_000 < shared


def test_of_a_file_that_both_states_have_only_row_groups_with_changed_keys_are_read(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true", "file.block-size": "64 kb"}
    read, shared = bytes_of_diff(tmp_path, options, ["id"], 400_000)
    assert read < shared // 3


@pytest.mark.parametrize("of_branch", [[AddColumn("more", "INT")], []], ids=["other schema", "no such schema"])
def test_each_line_reads_its_files_with_its_own_schemas(tmp_path: Path, of_branch: list[AddColumn]) -> None:
    """Schema 1 of the table has other names than that of its branch, if that has one; both have most rows in common."""
    options = {"bucket": "1", "write-only": "true"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA, primary_keys=["id"], options=options), UNSYNCED)
    table.write(pa.table({"id": range(100), "x": [1.0] * 100, "tags": [None] * 100}, schema=SCHEMA))
    create_branch(table, "b")
    table = altered(table, RenameColumn("x", "y"))
    row = {"id": [7], "y": [2.0], "tags": [["a"]]}
    written = table.write(pa.table(row, schema=table.schema.arrow_schema))
    table = altered(table, RenameColumn("y", "x"))
    branch = table.on_branch("b")
    if of_branch:
        branch = altered(branch, *of_branch)
    line = TableState(table=branch, snapshot=branch.snapshots.latest())
    state = TableState(table=table, snapshot=written)
    for before, after, old, new in ((line, state, 1.0, 2.0), (state, line, 2.0, 1.0)):
        fields = [field for field in table.schema.fields if field.name in SCHEMA.names]
        (found,) = differences(before, after, fields)
        assert (found.old["x"].to_pylist(), found.new["x"].to_pylist()) == ([old], [new])


def test_maps_are_equal_in_any_order_and_nested_numbers_as_others_are(tmp_path: Path) -> None:
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field("f", pa.list_(pa.float64())),
        ]
    )
    schema = build_schema(columns, primary_keys=["id"], options={"bucket": "1"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    nan = float("nan")
    old = [(1, [("a", 1), ("b", 2)], [nan]), (2, [("a", 1)], [0.0])]
    new = [(1, [("b", 2), ("a", 1)], [nan]), (2, [("a", 1)], [-0.0])]
    first, last = (
        table.write(pa.table([list(column) for column in zip(*rows, strict=True)], schema=columns))
        for rows in (old, new)
    )
    found = compared(TableState(table=table, snapshot=first), TableState(table=table, snapshot=last))
    assert [row for one in found for row in one.new["id"].to_pylist()] == [2]
    assert sum((Counter(one.changed_columns) for one in found), Counter()) == {"f": 1}


def test_a_change_reads_as_old_and_new_row(tmp_path: Path) -> None:
    table = new_table(tmp_path, "key")
    first = table.write(pa.table({"id": [1, 2], "x": [1.0, 2.0], "tags": [["a"], None]}, schema=SCHEMA))
    second = table.write(pa.table({"id": [2, 3], "x": [2.0, 3.0], "tags": [["b"], None]}, schema=SCHEMA))
    found = compared(TableState(table=table, snapshot=first), TableState(table=table, snapshot=second))
    changes = [(row["id"], row["_row_kind"]) for one in found for row in one.changes().to_pylist()]
    assert sorted(changes, key=lambda row: row[0]) == [(2, "-U"), (2, "+U"), (3, "+I")]
    assert sum((Counter(one.changed_columns) for one in found), Counter()) == {"tags": 1}


def test_rows_that_a_deletion_vector_removes_from_a_shared_file_differ(tmp_path: Path) -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1", "deletion-vectors.enabled": "true"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    table.write(pa.table({"id": range(3_000), "x": [1.0] * 3_000, "tags": [["a"]] * 3_000}, schema=SCHEMA))
    first = table.compact(full=True) or table.snapshots.latest()
    table.write(pa.table({"id": [7, 8], "x": [2.0, 1.0], "tags": [["a"]] * 2}, schema=SCHEMA))
    last = table.compact() or table.snapshots.latest()
    assert first is not None
    assert last is not None
    assert sum(len(files) for files in deletion_files(table, last).values()) == 1
    found = compared(TableState(table=table, snapshot=first), TableState(table=table, snapshot=last))
    assert [row for one in found for row in one.new["id"].to_pylist()] == [7]
    assert not any(one.added.num_rows or one.removed.num_rows for one in found)


def test_states_with_other_keys_are_not_compared(tmp_path: Path) -> None:
    keyed, plain = new_table(tmp_path / "a", "key"), new_table(tmp_path / "b", "no key")
    with pytest.raises(InvalidRequestError, match="primary keys id and none"):
        compared_fields(keyed.schema, plain.schema, None)
