"""Rows of append-only tables are deleted and replaced where they are: by file and position, equal rows one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.filestore.data.placed_rows import file_without
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.predicate import parse_where
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.row_places import FILE, POSITION
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import change as change_of
from lakelog.filestore.verbs import count_rows, delete, expire_snapshots
from lakelog.filestore.write import deleting
from lakelog.filestore.write.changing import StatementChanges, rows_of, update_plan
from lakelog.filestore.write.deleting import TableChange

UNSYNCED = LocalFileIO(sync_data=False)
SCHEMA = pa.schema([pa.field("day", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int32())])
Row = tuple[str | None, int | None, int | None]
OPTIONS = [{"bucket": "-1"}, {"bucket": "3", "bucket-key": "k"}, {"bucket": "-1", "file.format": "avro"}]


def table_of(folder: Path, partitions: tuple[str, ...] = (), **options: str) -> FileStoreTable:
    given_options = {"bucket": "-1", "write-only": "true", **options}
    schema = build_schema(SCHEMA, partition_keys=partitions, options=given_options)
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def arrow(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def content(table: FileStoreTable) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.to_arrow().to_pylist())


def update(table: FileStoreTable, values: dict[str, object], where: str) -> Snapshot | None:
    return change_of(table, "UPDATE", update_plan(table, values, parse_where(where)))


def names(table: FileStoreTable) -> set[str]:
    return {one.file.file_name for one in table.live_files.of(table.snapshots.latest()).entries()}


def stored(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.path).rglob("data-*")}


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 5))), max_size=8
)


@given(
    batches=st.lists(ROWS, min_size=1, max_size=4),
    keys=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    number=st.integers(0, len(OPTIONS) - 1),
    is_partitioned=st.booleans(),
    is_compacted=st.booleans(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_statements_change_the_rows_that_a_list_of_rows_would_change(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[Row]],
    keys: list[int],
    number: int,
    is_partitioned: bool,
    is_compacted: bool,
) -> None:
    table = table_of(tmp_path_factory.mktemp("t"), ("day",) if is_partitioned else (), **OPTIONS[number])
    model: list[Row] = []
    for batch in batches:
        table.write(arrow(*batch))
        model += batch
    if is_compacted:
        table.compact(full=True)
    for at, key in enumerate(keys):
        if at % 2:
            delete(table, f"k = {key} AND v IS NOT NULL")
            model = [row for row in model if not (row[1] == key and row[2] is not None)]
        else:
            update(table, {"k": pl.col("k") + 1, "day": "z"}, f"k = {key}")
            model = [("z", key + 1, row[2]) if row[1] == key else row for row in model]
        assert content(table) == Counter(model)
    assert names(table) <= stored(table)


def test_places_tell_equal_rows_apart(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(arrow(*[("a", 1, 1)] * 3, ("a", 2, 2)))

    def first(base: Snapshot | None) -> StatementChanges:
        return StatementChanges.deletion(table, rows_of(table, base).sort_by(POSITION).slice(1, 1))

    assert change_of(table, "DELETE", first) is not None
    assert content(table) == Counter({("a", 1, 1): 2, ("a", 2, 2): 1})


def test_files_without_changed_rows_stay(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    for number in range(3):
        table.write(arrow(("a", number, 0), ("a", number, 1)))
    before = names(table)
    snapshot = delete(table, "k = 1 AND v = 1")
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert len(before & names(table)) == 2
    assert delete(table, "k = 2") is not None  # all rows of a file: nothing takes its place
    assert len(names(table)) == 2


def test_a_position_is_that_in_the_file_also_where_row_groups_are_left_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, (), **{"file.block-size": "64 kb"})
    count = 60_000
    rows = pa.table([["a"] * count, [*range(count)], pa.array([*range(count)], pa.int32())], schema=SCHEMA)
    table.write(rows)
    found = rows_of(table, table.snapshots.latest(), parse_where("k >= 55000 AND k < 55003"))
    assert found[POSITION].to_pylist() == [55_000, 55_001, 55_002]
    assert set(found[FILE].to_pylist()) == names(table)
    delete(table, "k >= 55000 AND k < 55003")
    assert count_rows(table) == count - 3
    assert count_rows(table, where="k IN (54999, 55003)") == 2


def test_a_statement_that_another_commit_overtakes_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that commit is a compaction, which moves the rows into another file."""
    table = table_of(tmp_path)
    table.write(arrow(("a", 1, 1), ("a", 2, 2)))
    table.write(arrow(("a", 1, 1)))
    resolve = TableChange.resolve
    other = FileStoreTable.open(table.path)
    overtaking: list[Callable[[], Snapshot | None]] = [
        lambda: other.compact(full=True),
        lambda: other.write(arrow(("a", 1, 7))),
    ]

    def overtaken(change: TableChange, latest: Snapshot | None) -> object:
        request = resolve(change, latest)
        if overtaking:
            assert overtaking.pop(0)() is not None
        return request

    monkeypatch.setattr(TableChange, "resolve", overtaken)
    update(table, {"v": 9}, "k = 1")

    assert content(table) == Counter({("a", 1, 9): 3, ("a", 2, 2): 1})
    kept = {path.name for path in Path(table.path).rglob("data-*")}
    expire_snapshots(table)
    assert names(table) <= kept


def test_a_statement_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path)
    for number in range(3):
        table.write(arrow(("a", 1, number), ("a", 2, number)))
    before = stored(table)
    calls: list[int] = []

    def failing(*given: object, **more: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise UnavailableError("no answer")
        return file_without(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(deleting, "file_without", failing)
    with pytest.raises(UnavailableError, match="no answer"):
        update(table, {"v": 9}, "k = 1")
    assert stored(table) == before
    with pytest.raises(InvalidRequestError, match="does not fit INT"):
        update(table, {"v": "text"}, "k = 1")
    assert stored(table) == before
