"""Snapshots: the file, and finding the newest without listing."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.schema.paths import TablePaths
from tests.support.tables.paimon_tables import expected, unpack


def snapshot_of(snapshot_id: int, **changes: object) -> Snapshot:
    values: dict[str, object] = {
        "id": snapshot_id,
        "schema_id": 0,
        "base_manifest_list": "base",
        "delta_manifest_list": "delta",
        "commit_user": "user",
        "commit_identifier": snapshot_id,
        "commit_kind": CommitKind.APPEND,
        "time_millis": snapshot_id * 1_000,
        "total_record_count": 0,
        "delta_record_count": 0,
    }
    return Snapshot(**values | changes)  # type: ignore[arg-type]  # attributes by name


@dataclass(frozen=True, slots=True)
class CountingFileIO(LocalFileIO):
    """Counts listings and looks."""

    calls: dict[str, int] = field(default_factory=dict)

    def list_names(self, directory: str) -> list[str]:
        self.calls["list"] = self.calls.get("list", 0) + 1
        return LocalFileIO.list_names(self, directory)

    def exists(self, path: str) -> bool:
        self.calls["exists"] = self.calls.get("exists", 0) + 1
        return LocalFileIO.exists(self, path)

    def read_bytes(self, path: str) -> bytes:
        self.calls["read"] = self.calls.get("read", 0) + 1
        return LocalFileIO.read_bytes(self, path)


def manager_of(folder: Path, *, counting: CountingFileIO | None = None) -> SnapshotManager:
    return SnapshotManager(counting or LocalFileIO(), TablePaths(str(folder)))


def commit(manager: SnapshotManager, *ids: int, hint: int | None = None) -> None:
    for snapshot_id in ids:
        assert manager.create_new(snapshot_of(snapshot_id))
    if hint is not None:
        manager.write_latest_hint(hint)


def test_the_snapshots_that_flink_wrote_are_read(tmp_path: Path) -> None:
    folder = unpack("pk_basic", tmp_path) / "db.db" / "pk_basic"
    manager = manager_of(folder)
    newest = manager.latest()
    assert newest is not None
    rows = expected("pk_basic", "pk_basic", "snapshots")
    assert [snapshot.id for snapshot in manager.walk_back(newest)] == [4, 3, 2, 1]
    for row in rows:
        snapshot = manager.get(row["snapshot_id"])
        assert row["commit_kind"] == snapshot.commit_kind
        assert row["total_record_count"] == snapshot.total_record_count
        assert row["delta_record_count"] == snapshot.delta_record_count
        text = (folder / "snapshot" / f"snapshot-{snapshot.id}").read_text()
        written = json.loads(snapshot.to_json())
        assert list(written.pop("properties")) == ["lakelog.digest"]
        assert written == json.loads(text)


optional_text, optional_number = st.none() | st.text(), st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
optional_name = st.none() | st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)


TEXTS = ("uuid", "writer_version", "operation")
NAMES = ("changelog_manifest_list", "index_manifest", "statistics")  # of files: others are refused
NUMBERS = ("watermark", "next_row_id", "changelog_record_count")


@given(
    texts=st.fixed_dictionaries(dict.fromkeys(TEXTS, optional_text) | dict.fromkeys(NAMES, optional_name)),
    numbers=st.fixed_dictionaries(dict.fromkeys(NUMBERS, optional_number)),
    kind=st.sampled_from(CommitKind),
    properties=st.dictionaries(st.text(), st.text(), max_size=3),
)
def test_every_snapshot_is_read_back_as_it_was(
    texts: dict[str, str | None], numbers: dict[str, int | None], kind: CommitKind, properties: dict[str, str]
) -> None:
    snapshot = snapshot_of(7, commit_kind=kind, properties=properties, **texts, **numbers)
    assert Snapshot.from_json(snapshot.to_json(), path="snapshot-7") == snapshot


def test_keys_of_newer_writers_are_ignored() -> None:
    text = json.dumps(json.loads(snapshot_of(1).to_json()) | {"logOffsets": {"0": 5}, "future": [1], "watermark": None})
    assert Snapshot.from_json(text, path="snapshot-1") == snapshot_of(1)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": 1', "null", '{"commitKind": "MERGE"}'])
def test_a_damaged_snapshot_file_is_named(text: str) -> None:
    with pytest.raises(CorruptDataError, match="/t/snapshot-1 is damaged: it is not a readable snapshot"):
        Snapshot.from_json(text, path="/t/snapshot-1")


def test_a_table_without_commits_has_no_newest_snapshot(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    assert manager.latest() is None
    assert manager.latest_id() is None
    assert manager.earliest_id() is None
    assert manager.at_or_before(1) is None
    with pytest.raises(NotFoundError, match=r"snapshot 1 of .* does not exist; the table has no snapshot yet"):
        manager.get(1)


def test_one_of_two_racing_snapshots_wins(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    assert manager.create_new(snapshot_of(1, commit_user="a"))
    assert not manager.create_new(snapshot_of(1, commit_user="b"))
    assert manager.get(1).commit_user == "a"


def test_the_newest_is_found_beyond_a_stale_hint_without_listing(tmp_path: Path) -> None:
    commit(manager_of(tmp_path), 1, 2, 3, 4, hint=2)
    counting = CountingFileIO()
    assert manager_of(tmp_path, counting=counting).latest_id() == 4
    assert counting.calls == {"read": 1, "exists": 4}


def test_a_manager_that_saw_a_snapshot_looks_only_for_the_next(tmp_path: Path) -> None:
    commit(manager_of(tmp_path), 1, 2, 3, hint=3)
    counting = CountingFileIO()
    manager = manager_of(tmp_path, counting=counting)
    manager.latest_id()
    manager_of(tmp_path).create_new(snapshot_of(4))
    counting.calls.clear()
    newest = manager.latest()
    assert newest is not None
    assert newest.id == 4
    assert counting.calls == {"exists": 2, "read": 2}
    counting.calls.clear()
    assert manager.latest() == newest
    assert counting.calls == {"exists": 1, "read": 2}  # the hint, which the other writer has not written, and the file
    manager.write_latest_hint(4)
    counting.calls.clear()
    assert manager.latest() == newest
    assert counting.calls == {"exists": 1, "read": 2}


@pytest.mark.parametrize("hint", [None, "", "no number", "0", "77", "-1"])
def test_the_newest_is_found_without_a_good_hint(tmp_path: Path, hint: str | None) -> None:
    manager = manager_of(tmp_path)
    commit(manager, *range(1, 12))
    if hint is not None:
        (tmp_path / "snapshot" / "LATEST").write_text(hint)
        (tmp_path / "snapshot" / "EARLIEST").write_text(hint)
    (tmp_path / "snapshot" / ".snapshot-99.x.tmp").write_text("")
    (tmp_path / "snapshot" / "snapshot-99.tmp").write_text("")
    assert manager_of(tmp_path).latest_id() == 11
    assert manager_of(tmp_path).earliest_id() == 1


def test_a_hint_that_is_far_behind_costs_one_listing(tmp_path: Path) -> None:
    commit(manager_of(tmp_path), *range(1, 101), hint=1)
    counting = CountingFileIO()
    assert manager_of(tmp_path, counting=counting).latest_id() == 100
    assert counting.calls["list"] == 1


def test_a_rolled_back_or_new_table_is_noticed(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    commit(manager, 1, 2, 3, hint=3)
    assert manager.latest_id() == 3
    for snapshot_id in (2, 3):
        (tmp_path / "snapshot" / f"snapshot-{snapshot_id}").unlink()
    assert manager.latest_id() == 1


@pytest.mark.parametrize("is_hinted", [True, False])
def test_snapshots_behind_a_gap_are_seen_by_a_manager_that_saw_those_before(tmp_path: Path, is_hinted: bool) -> None:
    """Another engine's fast-forward copies the branch's hint, or leaves none where the branch has none."""
    manager = manager_of(tmp_path)
    commit(manager, 1, 2, hint=2)
    assert manager.latest_id() == 2
    (tmp_path / "snapshot" / "LATEST").unlink()
    commit(manager_of(tmp_path), 5, 6, hint=6 if is_hinted else None)
    assert manager.latest_id() == 6
    assert manager_of(tmp_path).latest_id() == 6


def test_a_hint_whose_snapshot_is_not_there_does_not_hide_what_a_manager_saw(tmp_path: Path) -> None:
    """In the middle of another engine's fast-forward the hint is copied before the snapshots."""
    manager = manager_of(tmp_path)
    commit(manager, 1, 2, hint=2)
    manager.latest_id()
    manager.write_latest_hint(6)
    assert manager.latest_id() == 2
    commit(manager_of(tmp_path), 5, 6)
    newest = manager.latest()
    assert newest is not None
    assert newest.id == 6


def test_a_snapshot_that_is_deleted_while_it_is_looked_for_is_looked_for_again(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    commit(manager, 1, 2, hint=2)
    manager.latest_id()
    (tmp_path / "snapshot" / "snapshot-2").unlink()
    with pytest.raises(CorruptDataError, match=r"snapshot-2 is missing, though .*LATEST names it as the newest"):
        manager.latest()
    manager.write_latest_hint(1)
    newest = manager.latest()
    assert newest is not None
    assert newest.id == 1


def test_expired_snapshots_end_the_walk_and_are_named(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    commit(manager, 3, 4, 5, hint=5)
    manager.write_earliest_hint(3)
    newest = manager.get(5)
    assert [snapshot.id for snapshot in manager.walk_back(newest)] == [5, 4, 3]
    assert manager.earliest_id() == 3
    with pytest.raises(NotFoundError, match=r"snapshot 2 of .* does not exist; snapshots 3 to 5 exist"):
        manager.get(2)


@given(time_millis=st.integers(0, 12_000))
def test_time_travel_takes_the_newest_snapshot_at_or_before(
    tmp_path_factory: pytest.TempPathFactory, time_millis: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "time-travel"
    manager = manager_of(folder)
    for snapshot_id in range(3, 11):
        manager.create_new(snapshot_of(snapshot_id))
    found = manager.at_or_before(time_millis)
    wanted = min(10, time_millis // 1_000)
    assert (found.id if found else None) == (wanted if wanted >= 3 else None)


def test_a_snapshot_file_under_another_number_is_corrupt(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    commit(manager, 1)
    (tmp_path / "snapshot" / "snapshot-1").rename(tmp_path / "snapshot" / "snapshot-2")
    with pytest.raises(CorruptDataError, match="holds the snapshot 1, expected 2"):
        manager.get(2)


def test_a_manager_travels_without_what_it_saw(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    commit(manager, 1, 2)
    again = pickle.loads(pickle.dumps(manager))
    assert again.latest_id() == 2


def test_bytes_that_are_read_again_are_not_parsed_again_and_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_of(tmp_path)
    commit(manager, 1)
    parsed = manager.latest()
    replaced = snapshot_of(1, commit_user="another")

    with monkeypatch.context() as patch:
        patch.delattr(Snapshot, "from_json")
        assert manager.latest() == parsed
    Path(tmp_path, "snapshot/snapshot-1").write_text(replaced.to_json())
    assert manager.latest() == replaced
    Path(tmp_path, "snapshot/snapshot-1").write_text(replaced.to_json()[:-9])
    with pytest.raises(CorruptDataError, match="snapshot-1"):
        manager.latest()
