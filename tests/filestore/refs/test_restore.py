"""Restore: an older state is the newest one again, in a new snapshot, and stays whole whatever expires."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.alter.schema_changes import AddColumn, DropColumn
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import read_users
from lakelog.filestore.refs.restore import restored_state
from lakelog.filestore.refs.restore.restore_plan import restore_plan
from lakelog.filestore.refs.states.differences import Difference, unit_differences
from lakelog.filestore.refs.tags.tags import drop_tag, write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import expire_snapshots, remove_orphan_files, rescale, restore
from tests.support.tables.altered import altered
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, commit_batch, in_new_process, make_table, rows_of

KEEP_ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
KINDS = {
    "primary key": (["id"], {"bucket": "2"}),
    "input changelog": (["id"], {"bucket": "2", "changelog-producer": "input"}),
    "lookup changelog": (["id"], {"bucket": "2", "changelog-producer": "lookup"}),
    "full-compaction changelog": (["id"], {"bucket": "2", "changelog-producer": "full-compaction"}),
    "deletion vectors": (["id"], {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "dynamic buckets": (["id"], {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "aggregation": (["id"], {"bucket": "1", "merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"}),
    "append": ([], {"bucket": "-1"}),
    "value count": ([], {"bucket": "1", "write-mode": "change-log", "bucket-key": "id"}),
}
KINDS |= {
    f"{kind}, {file_format}": (KINDS[kind][0], KINDS[kind][1] | {"file.format": file_format})
    for kind, file_format in (
        ("value count", "avro"),
        ("value count", "orc"),
        ("input changelog", "avro"),
        ("append", "avro"),
    )
}


def make(folder: Path, kind: str) -> FileStoreTable:
    keys, options = KINDS[kind]
    schema = build_schema(
        SCHEMA,
        primary_keys=keys,
        options={"num-sorted-run.compaction-trigger": "3", "compaction.min.file-num": "3"} | options,
    )
    return FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)


def counted(rows: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_an_older_snapshot_are_the_newest_again(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    for batch in range(7):
        table.write(rows_of(batch))
    expected = {number: counted(table.to_arrow(snapshot_id=number)) for number in table.snapshots.ids()}
    newest = max(expected)
    for target in (2, newest, 4, 1):
        restore(table, snapshot_id=target)
        assert counted(in_new_process(table.path).to_arrow()) == expected[target]
    assert {number: counted(table.to_arrow(snapshot_id=number)) for number in expected} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_table_takes_writes_and_compactions(tmp_path: Path, kind: str) -> None:
    table, other = make(tmp_path / "one", kind), make(tmp_path / "two", kind)
    for batch in (0, 1):
        table.write(rows_of(batch))
        other.write(rows_of(batch))
    kept = max(table.snapshots.ids())
    for batch in (2, 3, 4):
        table.write(rows_of(batch))
    restore(table, snapshot_id=kept)
    for batch in (5, 6, 7):
        table.write(rows_of(batch))
        other.write(rows_of(batch))
    table.compact(full=True)
    assert counted(in_new_process(table.path).to_arrow()) == counted(other.to_arrow())


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_removed_and_come_back_survive_expiry_and_orphan_removal(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    for batch in range(3):
        table.write(rows_of(batch))
    expected = counted(table.to_arrow(snapshot_id=2))
    table.compact(full=True)
    restore(table, snapshot_id=2)
    for _ in range(2):
        expire_snapshots(table, retention=KEEP_ONE)
        remove_orphan_files(table, older_than_millis=0, allow_young=True, dry_run=False, now_millis=_later())
        assert counted(in_new_process(table.path).to_arrow()) == expected
    assert table.snapshots.tags() == []
    table.write(rows_of(9))
    table.compact(full=True)
    expire_snapshots(table, retention=KEEP_ONE)
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_an_older_tag_keeps_files_that_a_restore_brought_back_and_a_compaction_removed(tmp_path: Path) -> None:
    table = make(tmp_path, "primary key")
    table.write(rows_of(0))
    write_tag(table, "before", _snapshot(table, 1))
    expected = counted(table.to_arrow(tag="before"))
    table.compact(full=True)
    write_tag(table, "between", _snapshot(table))
    restore(table, snapshot_id=1)
    table.compact(full=True)
    expire_snapshots(table, retention=KEEP_ONE)
    assert counted(in_new_process(table.path).to_arrow(tag="before")) == expected
    drop_tag(table, "before")
    drop_tag(table, "between")
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_a_tag_whose_snapshot_has_expired_is_restored(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    write_tag(table, "first", _snapshot(table))
    expected = counted(table.to_arrow())
    table.write(rows_of(1))
    expire_snapshots(table, retention=KEEP_ONE)
    restored = restore(table, tag="first")
    assert counted(in_new_process(table.path).to_arrow()) == expected
    assert restored.snapshot is not None
    assert restored.snapshot.commit_kind is CommitKind.OVERWRITE
    drop_tag(table, "first")
    assert counted(in_new_process(table.path).to_arrow()) == expected


def test_a_dry_run_says_what_changes_and_changes_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)  # ids 0 to 5
    commit_batch(table, 1)  # ids 3 to 8
    before = sorted(path for path in Path(table.path).rglob("*"))
    found = restore(table, snapshot_id=1, dry_run=True)
    assert (found.rows_added, found.rows_removed, found.rows_changed) == (0, 3, 3)
    assert [(one.user, one.identifier, one.at_target) for one in found.writers] == [("job", 1, 0)]
    assert found.snapshot is None
    assert sorted(path for path in Path(table.path).rglob("*")) == before


def test_a_running_stream_goes_on_and_rolled_back_batches_never_come_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for batch in range(3):
        commit_batch(table, batch)
    expected = counted(table.to_arrow(snapshot_id=1))
    restore(table, snapshot_id=1)
    assert commit_batch(table, 2) is None  # a replay
    assert counted(table.to_arrow()) == expected
    assert commit_batch(table, 3) is not None


def test_rewound_writers_write_their_batches_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for batch in range(3):
        commit_batch(table, batch)
    expected = counted(table.to_arrow())
    restore(table, snapshot_id=1, rewind_writers=True)
    assert read_users(table.snapshots.latest(), table.snapshots)["job"].identifier == 0
    for batch in (1, 2):
        assert commit_batch(table, batch) is not None
    assert counted(table.to_arrow()) == expected


def test_a_restore_keeps_the_newest_schema(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    table = altered(table, AddColumn("more", "INT"), DropColumn("batch"))
    table.write(pa.table({"id": [0], "more": [1]}))
    found = restore(table, snapshot_id=1)
    assert found.columns_missing == ("batch",)
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [0, 1, 2, 3, 4, 5], "more": [None] * 6}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "aggregation"])
def test_who_follows_the_changes_ends_with_the_restored_rows(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    for batch in range(4):
        table.write(rows_of(batch))
    restore(table, snapshot_id=2)
    table.write(rows_of(7))
    table.compact(full=True)
    held: Counter[tuple[object, ...]] = Counter()
    has_key = bool(table.schema.primary_keys)
    for batch in changes_of(in_new_process(table.path)):
        rows = zip(*(batch.column(name).to_pylist() for name in (ROW_KIND_COLUMN, "id", "batch")), strict=True)
        for row_kind, *row in rows:
            if has_key and row_kind in ("+I", "+U", "-D"):
                held = Counter({one: 1 for one in held if one[0] != row[0]})
            if row_kind in ("+I", "+U"):
                held[tuple(row)] += 1
            elif not has_key:
                held[tuple(row)] -= 1
    assert +held == counted(table.to_arrow())


def test_keys_that_come_back_to_another_bucket_are_changed_and_not_lost(tmp_path: Path) -> None:
    """Key 2 was in the first of two dynamic buckets, and is in the second since an overwrite."""
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "write-only": "true"}
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    table = FileStoreTable.create(f"{tmp_path}/t", schema, UNSYNCED)
    orders = ([1, 2, 3, 4], [4, 3, 2, 1])
    for batch, ids in enumerate(orders):
        table.write(pa.table([ids, [batch] * len(ids)], schema=SCHEMA), mode="overwrite")
    assert len({entry.bucket for entry in table.live_files.of(table.snapshots.get(1)).entries()}) == 2

    found = restore(table, snapshot_id=1)
    assert (found.rows_added, found.rows_removed, found.rows_changed) == (0, 0, 4)
    held = dict.fromkeys(orders[0], 1)
    for change in (row for batch in changes_of(table, after=2) for row in batch.to_pylist()):
        if change[ROW_KIND_COLUMN] in ("-D", "-U"):
            assert held.pop(change["id"]) == change["batch"], change
        else:
            held[change["id"]] = change["batch"]
    assert held == dict.fromkeys(orders[0], 0)


def test_changes_of_a_restore_are_kept_longer_than_its_snapshot(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"changelog.num-retained.min": "50", "changelog.num-retained.max": "50"})
    for batch in range(3):
        table.write(rows_of(batch))
    table.compact(full=True)
    restore(table, snapshot_id=1)
    table.write(rows_of(5))
    expected = [batch.to_pydict() for batch in changes_of(table)]
    expire_snapshots(table, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=1_000))
    remove_orphan_files(table, older_than_millis=0, allow_young=True, dry_run=False, now_millis=_later())
    assert [batch.to_pydict() for batch in changes_of(in_new_process(table.path))] == expected
    assert table.to_arrow().num_rows


def test_a_state_that_is_there_already_makes_no_snapshot(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    assert restore(table, snapshot_id=1).snapshot is None
    assert table.snapshots.tags() == []


def test_a_state_with_another_number_of_buckets_is_refused(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    table = rescale(table, 3)
    with pytest.raises(InvalidRequestError, match="have 2 buckets, the table has 3: rescale"):
        restore(table, snapshot_id=1)


def test_a_restore_names_one_state(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    with pytest.raises(InvalidRequestError, match="none of them"):
        restore(table)
    with pytest.raises(InvalidRequestError, match="found snapshot_id, tag"):
        restore(table, snapshot_id=1, tag="a")
    with pytest.raises(NotFoundError, match="snapshot 7"):
        restore(table, snapshot_id=7)


def _snapshot(table: FileStoreTable, number: int | None = None) -> Snapshot:
    found = table.snapshots.latest() if number is None else table.snapshots.get(number)
    assert found is not None
    return found


def _later() -> int:
    return int(time.time() * 1000) + 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_changes_of_a_logged_restore_lead_to_the_target(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    for batch in range(4):
        table.write(rows_of(batch))
    target = table.snapshots.get(2)
    changes = restore_plan(table, target)(table.snapshots.latest())
    assert changes.row_count


@pytest.mark.parametrize("kind", ["primary key", "append", "value count", "deletion vectors"])
def test_changes_that_do_not_lead_to_the_target_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = make(tmp_path, kind)
    for batch in range(4):
        table.write(rows_of(batch))
        table.compact(full=True)

    def without_removed(*given: object, **how: object) -> list[Difference]:
        found = unit_differences(*given, **how)  # type: ignore[arg-type]  # as it was called
        return [replace(one, removed=one.removed.slice(1)) for one in found]

    monkeypatch.setattr(restored_state, "unit_differences", without_removed)
    with pytest.raises(CorruptDataError, match=r"the way to another state of table .* would change its rows \([0-9]+"):
        restore_plan(table, table.snapshots.get(1))(table.snapshots.latest())
