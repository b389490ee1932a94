"""Each guard of the file store, taken out: the simulation must see promises break."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lakelog.common.errors import NotFoundError, UnavailableError
from lakelog.common.types import DataType
from lakelog.filestore.commit import batches, commit, conflicts, next_snapshot, outcomes
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.outcomes import UnknownAttempts
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.commit.written_manifests import delete_manifests
from lakelog.filestore.compact.picking import CompactUnit
from lakelog.filestore.expire import expiry, references
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.expire.kept_files import KeptFiles
from lakelog.filestore.expire.references import References
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots import snapshot_manager
from lakelog.filestore.metadata.snapshots.commit_times import CommitTimes
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.state_keeping import StateKeeper
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.branches import line_plan
from lakelog.filestore.refs.restore import restore
from lakelog.filestore.write import deleting, table_write
from tests.filestore.simulation.history import BRANCHES_EVERY, FOREIGN_EVERY, RESTORES_EVERY, simulate

SEEDS_TO_SEE_A_BREAK = 400
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check_breaks(*wanted: str, every: int = 1) -> None:
    """Some seed, the last of each `every`, breaks a promise, in one of the wanted words."""
    found = []
    for seed in range(every - 1, every * SEEDS_TO_SEE_A_BREAK, every):
        violations = simulate(seed).violations
        if any(word in violation for word in wanted for violation in violations):
            print(f"seed {seed}: {violations[0]}")
            return
        found += violations
    raise AssertionError(f"{SEEDS_TO_SEE_A_BREAK} seeds kept the promise; others that broke: {found[:5]}")


def applied_anyhow(live: LiveFiles, entries: Iterable[ManifestEntry]) -> LiveFiles:
    """The live files after a change that is not checked."""
    for entry in entries:
        if (entry.kind is FileKind.DELETE) == (live.find(entry) is not None):
            live = live.apply([entry])
    return live


def test_snapshots_are_created_by_one_writer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(self: LocalFileIO, path: str, data: bytes) -> bool:
        self.write_bytes(path, data)
        return True

    monkeypatch.setattr(LocalFileIO, "create_new", replaced)
    check_breaks("")


def test_an_id_that_has_expired_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "continues_table", lambda *_, **__: True)
    monkeypatch.setattr(outcomes, "continues_table", lambda *_, **__: True)
    check_breaks("was acknowledged as snapshot")


def test_a_commit_looks_for_itself_when_an_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnknownAttempts, "find", lambda self: None)
    monkeypatch.setattr(UnknownAttempts, "check_none_expired", lambda self, latest: None)
    check_breaks("and again in", "but its writer was told")


def test_files_stay_while_the_outcome_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    create = TableCommit._create

    def cleaning(self: TableCommit, prepared: commit._Attempt) -> bool:
        try:
            return create(self, prepared)
        except (UnavailableError, NotFoundError):
            delete_manifests(self._table, prepared.manifests)
            raise

    monkeypatch.setattr(TableCommit, "_create", cleaning)
    check_breaks("deletes manifest")


def test_changes_are_checked_against_the_newest_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchecked(
        live: LiveBuckets, entries: Sequence[ManifestEntry], *, kind: CommitKind, key_types: Sequence[DataType]
    ) -> LiveBuckets:
        return applied_anyhow(live.whole(), entries)

    monkeypatch.setattr(commit, "check_conflicts", unchecked)
    check_breaks("cannot be read", "lacks")


def test_a_compaction_minds_what_was_deleted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    check = conflicts.check_conflicts

    def lenient(
        live: LiveBuckets, entries: Sequence[ManifestEntry], *, kind: CommitKind, key_types: Sequence[DataType]
    ) -> LiveBuckets:
        if kind is CommitKind.COMPACT:
            return applied_anyhow(live.whole(), entries)
        return check(live, entries, kind=kind, key_types=key_types)

    monkeypatch.setattr(commit, "check_conflicts", lenient)
    check_breaks("cannot be read", "lacks")


def test_a_batch_that_comes_again_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "is_replay", lambda last, identifier, digest, *, what: False)
    check_breaks("and again in")


def test_the_state_is_kept_from_other_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateKeeper, "_put", lambda self, snapshot_id: None)
    check_breaks("has lost lakelog's state", every=FOREIGN_EVERY)  # histories with another engine


def test_rows_that_lost_a_race_get_younger_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batches, table_write):
        monkeypatch.setattr(module, "is_overtaken", lambda *_: False)
    check_breaks("older than what is there", "lacks")


def test_numbers_go_on_where_the_table_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveFiles, "next_sequence", lambda self, bucket: 0)
    check_breaks("lacks")


def test_deletes_stay_while_older_rows_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompactUnit, "drops_deletes", property(lambda self: True))
    check_breaks("has beyond them")


def test_an_expiry_keeps_what_tags_show(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = KeptFiles.__init__

    def careless(self: KeptFiles, *given: object, **named: object) -> None:
        prepare(self, *given, **named)  # type: ignore[arg-type]  # whatever it is given
        self.kept = set()

    monkeypatch.setattr(KeptFiles, "__init__", careless)
    check_breaks("deletes data-")


def test_manifests_that_the_next_snapshot_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    names = references.manifest_names

    def of_one_list(table: TableStore, *lists: str) -> Iterator[str]:
        """What goes is asked for list by list; what stays with both lists of the snapshot behind."""
        return names(table, *lists) if len(lists) == 1 else iter(())

    monkeypatch.setattr(expiry, "manifest_names", of_one_list)
    check_breaks("deletes manifest")


def test_manifests_that_tags_name_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(References, "add_metadata", lambda self, snapshot: None)
    check_breaks("deletes manifest")


def test_snapshots_expire_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_behind(items: Sequence[object]) -> list[tuple[object, object]]:
        return [*itertools.pairwise(items)][::-1]

    monkeypatch.setattr(expiry, "itertools", SimpleNamespace(pairwise=from_behind))
    check_breaks("deletes")


def test_the_newest_snapshot_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_one(
        ids: Sequence[int], retention: Retention, *, time_of: Callable[[int], int], now_millis: int, **_: object
    ) -> int:
        return ids[-1] if len(ids) < 3 else ids[-2]

    def to_the_end(self: expiry._Expiry, earliest: int) -> tuple[int, ...]:
        end = self._first_kept(range(earliest, self._newest.id + 1), self._retention)
        for number in range(earliest, end + 2):
            self._table.file_io.delete(self._table.paths.snapshot(number))
        return ()

    monkeypatch.setattr(expiry, "first_kept", all_but_one)
    monkeypatch.setattr(expiry._Expiry, "expire_snapshots", to_the_end)
    check_breaks("deletes snapshot")


def test_a_hint_is_a_place_to_start_from_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = SnapshotManager.latest_id

    def trusting(self: SnapshotManager) -> int | None:
        hint = self._hint(self._paths.latest_hint)
        return hint if hint is not None and self._exists(hint) else looked_up(self)

    monkeypatch.setattr(SnapshotManager, "latest_id", trusting)
    check_breaks("those of no snapshot")


def test_a_right_clock_does_not_follow_one_that_was_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_back(latest: Snapshot | None, now_millis: int, *, table_name: str) -> int:
        return now_millis if latest is None else max(now_millis, latest.time_millis)

    monkeypatch.setattr(next_snapshot, "next_commit_millis", never_back)
    check_breaks("is dated wrongly")


def test_a_timestamp_is_looked_up_past_wrong_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    def believing(times: Sequence[int], moment_millis: int, *, now_millis: int) -> int | None:
        """As a binary search over dates that rise."""
        return bisect.bisect_right(times, moment_millis) - 1 if times and times[0] <= moment_millis else None

    monkeypatch.setattr(snapshot_manager, "newest_at", believing)
    check_breaks("the rows at")


def test_an_expiry_by_age_looks_past_wrong_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommitTimes, "of", lambda self, number: self._date(number) or 0)
    check_breaks("stays: it was the newest until", "is gone: it was the newest until")


def test_a_commit_without_an_answer_is_not_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnknownAttempts, "reported", lambda self: contextlib.nullcontext())
    check_breaks("its writer is to try again")


def test_what_became_of_a_commit_is_found_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each attempt had a uuid of its own, the last one's would be looked for in vain."""
    prepare = TableCommit._prepare

    def renamed(self: TableCommit, *given: object, may_merge: bool) -> commit._Attempt:
        attempt = prepare(self, *given, may_merge=may_merge)  # type: ignore[arg-type]  # whatever it is given
        return replace(attempt, snapshot=replace(attempt.snapshot, uuid=str(uuid.uuid4())))

    monkeypatch.setattr(TableCommit, "_prepare", renamed)
    check_breaks("is told to be", "and again in")


def test_a_restore_protects_its_files_by_a_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "write_tag", lambda *_, **__: None)
    check_breaks("needs", every=RESTORES_EVERY)


def test_a_restore_keeps_the_batches_of_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "parse_users", lambda _: {})
    check_breaks("and again in", every=RESTORES_EVERY)


def test_a_branch_takes_no_changelog_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_plan, "rewritten", lambda present, snapshot, *, path: snapshot.to_json())
    check_breaks("are not those that were committed", every=BRANCHES_EVERY)


def test_a_statement_is_planned_again_behind_another_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = deleting.TableChange.resolve

    def planned_once(self: deleting.TableChange, latest: Snapshot | None) -> CommitRequest | None:
        if self._is_read:
            self._base = latest  # as if nothing had come first
        return resolve(self, latest)

    monkeypatch.setattr(deleting.TableChange, "resolve", planned_once)
    check_breaks("lacks", "has beyond")
