"""Expiry: what is kept stays whole, the rest is deleted, wherever an expiry is cut off."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.expire.expiry import Retention, first_kept
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.metadata.manifests.manifest import COLUMNS_CACHE, ENTRY_CACHE, LIST_CACHE
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from tests.support.examples import examples
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.small_tables import UNSYNCED, content_after, in_new_process, make_table, rows_of

HOUR = 3_600_000
EVERYTHING = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Twelve commits, compactions among them, a tag of the third snapshot, and changelog nowhere."""
    return filled(tmp_path)


def filled(folder: Path, *, commits: int = 12) -> FileStoreTable:
    table = make_table(folder, options={"num-sorted-run.compaction-trigger": "3", "manifest.merge-min-count": "3"})
    for batch in range(commits):
        table.write(rows_of(batch))
    tag = Path(table.paths.tag("third"))
    tag.parent.mkdir()
    shutil.copy(table.paths.snapshot(3), tag)
    return table


def content(table: FileStoreTable, **which: object) -> dict[int, int]:
    rows = table.to_arrow(**which).to_pydict()  # type: ignore[arg-type]  # an id or a tag
    return dict(zip(rows["id"], rows["batch"], strict=True))


def all_contents(table: FileStoreTable) -> dict[object, dict[int, int]]:
    return {number: content(table, snapshot_id=number) for number in table.snapshots.ids()} | {
        "third": content(table, tag="third")
    }


def referenced(table: FileStoreTable) -> set[str]:
    """The names of all data and manifest files that a snapshot or the tag shows."""
    COLUMNS_CACHE.clear()
    ENTRY_CACHE.clear()
    LIST_CACHE.clear()
    names: set[str] = set()
    for snapshot in [*map(table.snapshots.get, table.snapshots.ids()), table.snapshots.tagged("third")]:
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            names |= {name, *(manifest.file_name for manifest in table.manifests.read_list(name))}
        names |= {entry.file.file_name for entry in table.live_files.of(snapshot).entries()}
    return names


def on_disk(table: FileStoreTable) -> set[str]:
    return {path.name for pattern in ("data-*", "manifest-*") for path in Path(table.path).rglob(pattern)}


def test_what_is_kept_is_whole_and_nothing_else_is_left(table: FileStoreTable) -> None:
    before = all_contents(table)
    expired = expire_snapshots(table, retention=Retention(count_min=1, count_max=4, age_millis=HOUR, limit=100))
    ids = table.snapshots.ids()
    assert len(ids) == 4
    assert expired.snapshot_ids == tuple(number for number in before if isinstance(number, int) and number < ids[0])
    assert expired.data_files > 5
    assert all_contents(in_new_process(table.path)) == {key: before[key] for key in (*ids, "third")}
    assert on_disk(table) == referenced(table)
    assert table.snapshots.earliest_id() == ids[0]
    with pytest.raises(NotFoundError, match=f"snapshots {ids[0]} to {ids[-1]} exist"):
        content(table, snapshot_id=1)
    table.write(rows_of(12))
    assert content(in_new_process(table.path))[41] == 12


def test_options_keep_ten_snapshots_and_an_hour(table: FileStoreTable) -> None:
    count = len(table.snapshots.ids())
    newest = table.snapshots.latest()
    assert newest is not None
    assert expire_snapshots(table).snapshot_ids == ()
    late = newest.time_millis + 2 * HOUR
    assert len(expire_snapshots(table, now_millis=late).snapshot_ids) == count - 10
    assert expire_snapshots(table, now_millis=late).snapshot_ids == ()


def test_a_consumer_keeps_what_it_has_not_read(table: FileStoreTable) -> None:
    consumer = Path(table.paths.consumer("reader"))
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 5}))
    expire_snapshots(table, retention=EVERYTHING)
    assert table.snapshots.ids()[0] == 5
    consumer.write_text("{")
    with pytest.raises(CorruptDataError, match=r"consumer-reader is not readable.*nothing expires"):
        expire_snapshots(table, retention=EVERYTHING)


def test_deletion_vectors_expire_with_their_snapshots(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"deletion-vectors.enabled": "true", "bucket": "1"})
    for batch in range(6):
        table.write(rows_of(batch))
    names = [path.name for path in (Path(table.path) / "index").iterdir()]
    assert len(names) > 1
    expire_snapshots(table, retention=EVERYTHING)
    vectors = deletion_files(table, table.snapshots.latest())
    shown = {Path(one.path).name for bucket in vectors.values() for one in bucket.values()}
    assert {path.name for path in (Path(table.path) / "index").iterdir()} == shown
    assert shown < set(names)
    assert content(in_new_process(table.path)) == content_after(6)


def test_a_branch_keeps_the_files_that_it_shares(table: FileStoreTable) -> None:
    branch = Path(table.path) / "branch" / "branch-dev"
    for name in ("schema/schema-0", "snapshot/snapshot-4"):
        (branch / name).parent.mkdir(parents=True)
        shutil.copy(Path(table.path) / name, branch / name)
    before = content(FileStoreTable.open(table.path, UNSYNCED, branch="dev"))
    expire_snapshots(table, retention=EVERYTHING)
    COLUMNS_CACHE.clear()
    ENTRY_CACHE.clear()
    LIST_CACHE.clear()
    assert content(FileStoreTable.open(table.path, UNSYNCED, branch="dev")) == before


@settings(deadline=None, max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 250), st.booleans(), st.integers(1, 5))
def test_an_expiry_that_is_cut_off_is_taken_up_by_the_next(
    tmp_path_factory: pytest.TempPathFactory, fails_at: int, after_effect: bool, kept: int
) -> None:
    table = filled(tmp_path_factory.mktemp("t"), commits=7)
    before = all_contents(table)
    retention = Retention(count_min=1, count_max=kept, age_millis=HOUR, limit=100)
    faulty = FaultyFileIO(UNSYNCED)
    dying = in_new_process(table.path, faulty)
    faulty.fails_at, faulty.after_effect = len(faulty.calls) + fails_at, after_effect
    try:
        expire_snapshots(dying, retention=retention)
    except InjectedCrash:
        left = in_new_process(table.path)
        newer = left.snapshots.ids()[1:]  # the oldest may be half deleted
        assert {number: content(left, snapshot_id=number) for number in newer} == {n: before[n] for n in newer}
    again = in_new_process(table.path)
    expire_snapshots(again, retention=retention)
    ids = again.snapshots.ids()
    assert len(ids) == kept
    assert all_contents(in_new_process(table.path)) == {key: before[key] for key in (*ids, "third")}
    assert on_disk(again) == referenced(again)


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=12).map(sorted),
    st.builds(
        Retention,
        count_min=st.integers(1, 6),
        count_max=st.integers(1, 12),
        age_millis=st.integers(0, 100),
        limit=st.integers(1, 12),
    ),
    st.integers(0, 200),
    st.none() | st.integers(1, 12),
)
def test_the_first_kept_snapshot_follows_the_rules(
    times: list[int], retention: Retention, now: int, consumed_up_to: int | None
) -> None:
    ids = range(1, len(times) + 1)
    first = first_kept(
        ids, retention, time_of=lambda number: times[number - 1], now_millis=now, consumed_up_to=consumed_up_to
    )
    expired = first - 1
    assert expired <= min(retention.limit, len(times) - 1)
    assert consumed_up_to is None or expired < consumed_up_to
    for number in range(1, first):
        left = len(times) - number + 1
        is_old = times[number] < now - retention.age_millis
        assert left > retention.count_max or (is_old and left > retention.count_min)
    if first < len(times) and expired < retention.limit and (consumed_up_to is None or first < consumed_up_to):
        left = len(times) - expired
        assert left <= retention.count_max
        assert left <= retention.count_min or times[first] >= now - retention.age_millis
