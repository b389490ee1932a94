"""What a commit writes, carries on, refuses, and how it acts in races."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError, UnavailableError, UnknownOutcomeError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit import AFTER_CREATE, BEFORE_CREATE, TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.snapshots.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    SCHEMA_DIGEST_KEY,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import PropertyKey, carried_properties, read_users
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import remove_orphan_files
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.small_tables import (
    NO_WAIT,
    UNSYNCED,
    commit_batch,
    committed_batches,
    content,
    content_after,
    in_new_process,
    make_table,
    prepare_batch,
)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return make_table(tmp_path)


def request(kind: CommitKind = CommitKind.APPEND, **changes: object) -> CommitRequest:
    plain = CommitRequest(commit_user="someone", commit_identifier=1, kind=kind)
    return replace(plain, **changes)  # type: ignore[arg-type]  # the tests name attributes of CommitRequest


def commit(table: FileStoreTable, asked: CommitRequest) -> Snapshot:
    snapshot = TableCommit(table, clock=NO_WAIT).commit(lambda _: asked)
    assert snapshot is not None
    return snapshot


def racing(table: FileStoreTable, times: int) -> Callable[[str], None]:
    """A step observer that lets another writer win the next `times` races."""
    batches = iter(range(times))

    def observe(step: str) -> None:
        if step == BEFORE_CREATE and next(batches, None) is not None:
            rival = FileStoreTable.open(table.path, UNSYNCED)
            commit(rival, request(commit_user="rival"))

    return observe


def test_the_first_snapshot_has_the_id_1_and_an_empty_base(table: FileStoreTable) -> None:
    snapshot = commit_batch(table, 0)
    assert snapshot is not None
    assert snapshot.id == 1
    assert table.manifests.read_list(snapshot.base_manifest_list) == ()
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (6, 6)


def test_a_replay_commits_nothing(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    assert commit_batch(table, 0) is None
    assert committed_batches(table) == [0]


def test_an_earlier_batch_of_a_user_is_an_error(table: FileStoreTable) -> None:
    for batch in range(3):
        commit_batch(table, batch)
    with pytest.raises(InvalidRequestError, match="a later batch"):
        commit_batch(table, 1)


def test_the_same_batch_with_another_source_is_an_error(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    with pytest.raises(InvalidRequestError, match="other source offsets"):
        append_commit(table, user="job", identifier=0, digest="other", entries=[])


def test_an_empty_batch_commits(table: FileStoreTable) -> None:
    snapshot = append_commit(table, user="job", identifier=0, digest=None, entries=[], lineage={"source": 1})
    assert snapshot is not None
    assert json.loads(snapshot.properties[PropertyKey.LINEAGE]) == {"source": 1}


def test_properties_of_lakelog_are_carried_on_but_lineage_is_not(table: FileStoreTable) -> None:
    commit(table, request(properties={"lakelog.place": "here", PropertyKey.LINEAGE: "[1]", "other": "x"}))
    carried = commit(table, request())
    assert carried.properties == {
        PropertyKey.USERS: "{}",
        "lakelog.place": "here",
        SCHEMA_DIGEST_KEY: table.schemas.digest_of(0),
        PropertyKey.UUID: table.uuid,
    }


def test_an_operation_that_paimon_has_not_is_a_property_of_its_snapshot_alone(table: FileStoreTable) -> None:
    """Paimon 2.0 reads no table whose newest snapshot has an `operation` that it does not know."""
    request = CommitRequest(
        commit_user="u", commit_identifier=BATCH_COMMIT_IDENTIFIER, kind=CommitKind.APPEND, operation="RESCALE"
    )
    for given, wanted in (("RESCALE", "RESCALE"), ("UPDATE", "UPDATE"), (None, None)):
        found = TableCommit(table).commit(lambda _: replace(request, operation=given))  # noqa: B023  # called now
        assert found is not None
        stored = json.loads(table.file_io.read_bytes(table.paths.snapshot(found.id)))
        assert stored.get("operation") == ("UPDATE" if given == "UPDATE" else None)
        assert table.snapshots.get(found.id).operation_name == wanted


def test_users_are_found_behind_snapshots_of_other_engines(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    for kind in (CommitKind.COMPACT, CommitKind.APPEND):
        ours = commit(table, request(kind))
        foreign = replace(ours, id=ours.id + 1, properties={}, commit_user="flink", commit_kind=kind)
        table.snapshots.create_new(foreign)
    latest = table.snapshots.latest()
    assert read_users(latest, table.snapshots)["job"].identifier == 0
    assert [snapshot.id for snapshot in carried_properties(latest, table.snapshots).foreign] == [5]
    assert commit_batch(table, 0) is None
    assert PropertyKey.USERS in commit(table, request()).properties


def test_resolve_is_asked_at_every_attempt_with_the_newest_snapshot(table: FileStoreTable) -> None:
    seen: list[int | None] = []

    def resolve(latest: Snapshot | None) -> CommitRequest:
        seen.append(None if latest is None else latest.id)
        return request()

    snapshot = TableCommit(table, clock=NO_WAIT).commit(resolve, on_step=racing(table, 3))
    assert seen == [None, 1, 2, 3]
    assert snapshot is not None
    assert snapshot.id == 4


def test_resolve_may_say_that_nothing_is_left_to_do(table: FileStoreTable) -> None:
    answers = iter((request(), None))
    done = TableCommit(table, clock=NO_WAIT).commit(lambda _: next(answers), on_step=racing(table, 1))
    assert done is None
    assert committed_batches(table, "someone") == []


def test_a_lost_race_leaves_no_manifest_behind(table: FileStoreTable) -> None:
    entries = prepare_batch(table, 0)
    TableCommit(table, clock=NO_WAIT).commit(lambda _: request(entries=entries), on_step=racing(table, 2))
    named = set()
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            named |= {name, *(manifest.file_name for manifest in table.manifests.read_list(name))}
    assert set(table.file_io.list_names(f"{table.paths.root}/manifest")) == named


def test_too_many_lost_races_are_a_conflict(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"commit.max-retries": "3"})
    with pytest.raises(ConflictError, match="lost 4 races"):
        TableCommit(table, clock=NO_WAIT).commit(lambda _: request(), on_step=racing(table, 100))


def test_a_commit_gives_up_after_its_timeout(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"commit.max-retries": "100", "commit.timeout": "1 s"})
    times = iter(range(0, 100, 1))
    clock = CommitClock(seconds=lambda: next(times) * 0.4, sleep=lambda _: None)
    with pytest.raises(ConflictError, match="lost"):
        TableCommit(table, clock=clock).commit(lambda _: request(), on_step=racing(table, 100))


def test_retries_wait_longer_and_longer(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"commit.max-retry-wait": "50 ms"})
    waits: list[float] = []
    ticks = itertools.count()
    clock = CommitClock(sleep=waits.append, chance=lambda: 1.0, seconds=lambda: next(ticks))
    TableCommit(table, clock=clock).commit(lambda _: request(), on_step=racing(table, 5))
    assert waits == [0.01, 0.02, 0.04, 0.05, 0.05]


def test_an_own_snapshot_of_unknown_outcome_is_found_by_its_uuid(table: FileStoreTable) -> None:
    class SilentSuccess(LocalFileIO):
        def create_new(self, path: str, data: bytes) -> bool:
            created = super().create_new(path, data)
            if "/snapshot/" in path:
                raise UnavailableError(f"{path}: no answer")
            return created

    asked: list[Snapshot | None] = []

    def resolve(latest: Snapshot | None) -> CommitRequest:
        asked.append(latest)
        return request()

    silent = TableCommit(FileStoreTable.open(table.path, SilentSuccess(sync_data=False)), clock=NO_WAIT)
    snapshot = silent.commit(resolve)
    assert snapshot == table.snapshots.latest()
    assert asked == [None]  # the second look found it, and called no resolve


class Unanswered(LocalFileIO):
    """Snapshots are created, or not, and nobody says so."""

    def create_new(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path:
            raise UnavailableError(f"{path}: no answer")
        return super().create_new(path, data)


def refused_the_second_time() -> Callable[[Snapshot | None], CommitRequest]:
    asked: list[Snapshot | None] = []

    def resolve(latest: Snapshot | None) -> CommitRequest:
        asked.append(latest)
        if len(asked) == 2:
            raise ConflictError("another writer was first")
        return request()

    return resolve


def test_files_of_a_refused_commit_are_discarded(table: FileStoreTable) -> None:
    discarded: list[str] = []
    with pytest.raises(ConflictError, match="another writer was first"):
        TableCommit(table, clock=NO_WAIT).commit(
            refused_the_second_time(), on_step=racing(table, 1), discard=lambda: discarded.append("files")
        )
    assert discarded == ["files"]


def test_files_that_an_attempt_without_an_answer_names_stay(table: FileStoreTable) -> None:
    unanswered = FileStoreTable.open(table.path, Unanswered(sync_data=False))
    discarded: list[str] = []
    with pytest.raises(UnknownOutcomeError, match="another writer was first"):
        TableCommit(unanswered, clock=NO_WAIT).commit(
            refused_the_second_time(), discard=lambda: discarded.append("files")
        )
    assert discarded == []


def test_a_store_that_says_no_to_its_own_success_is_not_believed(table: FileStoreTable) -> None:
    class RetriesByItself(LocalFileIO):
        def create_new(self, path: str, data: bytes) -> bool:
            super().create_new(path, data)
            return "/snapshot/" not in path and self.exists(path)

    unsure = FileStoreTable.open(table.path, RetriesByItself(sync_data=False))
    entries = prepare_batch(table, 0)
    snapshot = commit(unsure, request(entries=entries))
    assert snapshot.id == 1
    assert content(in_new_process(table.path)) == content_after(1)


def test_a_hint_that_cannot_be_written_does_not_undo_the_commit(table: FileStoreTable) -> None:
    class NoHints(LocalFileIO):
        def write_bytes(self, path: str, data: bytes) -> None:
            raise UnavailableError(f"{path}: read-only")

    snapshot = commit(FileStoreTable.open(table.path, NoHints(sync_data=False)), request())
    assert in_new_process(table.path).snapshots.latest() == snapshot


def test_the_steps_are_observed_around_the_creation(table: FileStoreTable) -> None:
    told: list[tuple[str, bool]] = []
    TableCommit(table).commit(
        lambda _: request(),
        on_step=lambda step: told.append((step, UNSYNCED.exists(table.paths.snapshot(1)))),
    )
    assert told == [(BEFORE_CREATE, False), (AFTER_CREATE, True)]


def test_time_never_runs_back_between_snapshots(table: FileStoreTable) -> None:
    times = iter((5_000, 3_000, 7_000))
    clock = CommitClock(now_millis=lambda: next(times))
    snapshots = [TableCommit(table, clock=clock).commit(lambda _: request()) for _ in range(3)]
    assert [snapshot.time_millis for snapshot in snapshots if snapshot] == [5_000, 5_000, 7_000]


def test_the_watermark_never_falls(table: FileStoreTable) -> None:
    marks = [commit(table, request(watermark=mark)).watermark for mark in (None, 5, 3, None, 8)]
    assert marks == [None, 5, 5, 5, 8]


def test_a_snapshot_has_the_newest_schema_id(table: FileStoreTable) -> None:
    table.schemas.create(replace(table.schema, id=1))
    assert commit(table, request()).schema_id == 1


def test_an_append_that_deletes_files_is_an_overwrite(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    live = list(table.live_files.of(table.snapshots.latest()).entries())
    snapshot = commit(table, request(entries=[replace(live[0], kind=FileKind.DELETE)]))
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert snapshot.delta_record_count == -live[0].file.row_count


def test_a_compaction_whose_input_was_removed_is_a_conflict(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    live = list(table.live_files.of(table.snapshots.latest()).entries())
    compaction = request(CommitKind.COMPACT, entries=[replace(entry, kind=FileKind.DELETE) for entry in live])
    commit(table, compaction)
    with pytest.raises(ConflictError, match="no longer live"):
        commit(table, compaction)


def test_a_file_that_is_live_is_not_added_again(table: FileStoreTable) -> None:
    entries = prepare_batch(table, 0)
    commit(table, request(entries=entries))
    with pytest.raises(ConflictError, match="already"):
        commit(table, request(entries=entries))


def test_two_compactions_into_one_level_are_a_conflict(table: FileStoreTable) -> None:
    lifted = [
        replace(entry, file=replace(entry.file, level=5))
        for batch in (0, 0)
        for entry in prepare_batch(table, batch)
        if entry.bucket == 0
    ]
    commit(table, request(CommitKind.COMPACT, entries=lifted[:1]))
    with pytest.raises(ConflictError, match="overlap"):
        commit(table, request(CommitKind.COMPACT, entries=lifted[1:]))


def test_only_an_overwrite_changes_the_number_of_buckets(table: FileStoreTable) -> None:
    entries = prepare_batch(table, 0)
    commit(table, request(entries=entries))
    other = [replace(entry, total_buckets=4) for entry in prepare_batch(table, 1)]
    with pytest.raises(ConflictError, match="4 buckets"):
        commit(table, request(entries=other))
    commit(table, request(CommitKind.OVERWRITE, entries=other))


def test_commit_time_is_flat_in_the_number_of_snapshots(tmp_path: Path) -> None:
    counting = FaultyFileIO(UNSYNCED)
    table = FileStoreTable.open(make_table(tmp_path, options={"manifest.merge-min-count": "10"}).path, counting)
    calls = []
    for batch in range(120):
        counting.calls.clear()
        assert append_commit(table, user="job", identifier=batch, digest=None, entries=[]) is not None
        calls.append(len(counting.calls))
        assert "list_names" not in counting.calls or batch == 0
    assert max(calls[1:]) <= min(calls[1:]) + 2


def test_manifest_lists_stay_short_and_lose_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"manifest.merge-min-count": "5"})
    lengths = []
    for batch in range(40):
        snapshot = commit_batch(table, batch)
        assert snapshot is not None
        lengths.append(len(table.manifests.read_list(snapshot.base_manifest_list)))
    assert max(lengths) <= 5 + 6
    assert content(in_new_process(table.path)) == content_after(40)


def test_a_commit_names_no_file_that_was_removed_while_the_writer_slept(table: FileStoreTable) -> None:
    entries = prepare_batch(table, 1)
    remove_orphan_files(table, dry_run=False, older_than_millis=-60_000, allow_young=True)
    two_hours_later = replace(NO_WAIT, now_millis=lambda: system_millis() + 7_200_000)

    with pytest.raises(ConflictError, match="removed as an orphan before the commit named it"):
        TableCommit(table, clock=two_hours_later).commit(lambda _: request(entries=entries))
    assert table.snapshots.latest() is None

    again = prepare_batch(table, 1)
    assert TableCommit(table, clock=two_hours_later).commit(lambda _: request(entries=again)) is not None
