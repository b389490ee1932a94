"""A commit that ends without an answer says so, and what became of it can be found out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError, UnavailableError, UnknownOutcomeError
from lakelog.filestore.commit import find_commit
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.outcomes import CommitOutcome, FoundCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, remove_orphan_files
from tests.support.tables.small_tables import NO_WAIT, UNSYNCED, content, in_new_process, make_table, rows_of

LAST_ONLY = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


@dataclass(frozen=True, slots=True)
class Away(LocalFileIO):
    """A store that does not answer any more, from the creation of a snapshot on, which takes effect or does not."""

    takes_effect: bool = True
    comes_back: bool = False
    is_away: list[bool] = field(default_factory=list)

    def create_new(self, path: str, data: bytes) -> bool:
        if "/snapshot/" not in path or (self.is_away and self.comes_back):
            return LocalFileIO.create_new(self, path, data)
        self.is_away.append(True)
        if self.takes_effect:
            LocalFileIO.create_new(self, path, data)
        raise UnavailableError(f"{path}: no answer")

    def exists(self, path: str) -> bool:
        if self.is_away and not self.comes_back:
            raise UnavailableError(f"{path}: no answer")
        return LocalFileIO.exists(self, path)

    def read_bytes(self, path: str) -> bytes:
        if self.is_away and not self.comes_back:
            raise UnavailableError(f"{path}: no answer")
        return LocalFileIO.read_bytes(self, path)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    table = make_table(tmp_path, options={"write-only": "true"})
    table.write(rows_of(0))
    return table


def write_without_answer(table: FileStoreTable, *, takes_effect: bool) -> UnknownOutcomeError:
    away = FileStoreTable.open(table.path, Away(takes_effect=takes_effect))
    with pytest.raises(UnknownOutcomeError, match=r"it is unknown whether the commit is in the table") as raised:
        away.write(rows_of(1), clock=NO_WAIT)
    return raised.value


def find(table: FileStoreTable, error: UnknownOutcomeError) -> FoundCommit:
    assert error.commit_uuid is not None
    return find_commit(in_new_process(table.path), error.commit_uuid, snapshot_id=error.snapshot_id)


def test_a_commit_whose_answer_was_lost_is_found(table: FileStoreTable) -> None:
    error = write_without_answer(table, takes_effect=True)
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.COMMITTED, snapshot_id=2)
    table.write(rows_of(2))
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.COMMITTED, snapshot_id=2)


def test_the_error_says_how_to_ask(table: FileStoreTable) -> None:
    error = write_without_answer(table, takes_effect=True)
    assert f"lakelog table find-commit {table.path} {error.commit_uuid} --snapshot-id 2" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.commit_uuid, copy.snapshot_id, str(copy)) == (error.commit_uuid, 2, str(error))


def test_a_commit_without_effect_is_open_until_another_has_its_snapshot(table: FileStoreTable) -> None:
    error = write_without_answer(table, takes_effect=False)
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.NOT_COMMITTED, is_open=True)
    table.write(rows_of(1))
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.NOT_COMMITTED)


def test_files_of_a_commit_that_may_be_there_are_kept(table: FileStoreTable) -> None:
    write_without_answer(table, takes_effect=True)
    assert set(content(in_new_process(table.path)).values()) == {0, 1}


def test_the_outcome_of_a_commit_whose_snapshot_has_expired_is_not_knowable(table: FileStoreTable) -> None:
    error = write_without_answer(table, takes_effect=True)
    table.write(rows_of(2))
    expire_snapshots(table, retention=LAST_ONLY)
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.NOT_KNOWABLE, expired_up_to=2)


def test_the_snapshot_id_makes_the_answer_certain_after_an_expiry(table: FileStoreTable) -> None:
    table.write(rows_of(1))
    expire_snapshots(table, retention=LAST_ONLY)
    error = write_without_answer(table, takes_effect=False)
    table.write(rows_of(2))
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.NOT_COMMITTED)
    assert error.commit_uuid is not None
    unsure = find_commit(table, error.commit_uuid)
    assert unsure == FoundCommit(outcome=CommitOutcome.NOT_KNOWABLE, expired_up_to=1)


@pytest.mark.parametrize("kept_by", ["changelog", "tag"])
def test_an_expired_commit_is_found_where_it_is_kept(tmp_path: Path, kept_by: str) -> None:
    options = (
        {"changelog.num-retained.min": "10", "changelog.num-retained.max": "100"} if kept_by == "changelog" else {}
    )
    table = make_table(tmp_path, options={"write-only": "true", **options})
    table.write(rows_of(0))
    error = write_without_answer(table, takes_effect=True)
    if kept_by == "tag":
        UNSYNCED.write_bytes(table.paths.tag("kept"), UNSYNCED.read_bytes(table.paths.snapshot(2)))
    table.write(rows_of(2))
    expire_snapshots(table, retention=LAST_ONLY)
    assert find(table, error) == FoundCommit(outcome=CommitOutcome.COMMITTED, snapshot_id=2)


def test_a_snapshot_behind_an_expiry_is_no_commit(table: FileStoreTable) -> None:
    """Its writer slept until its id had expired, created it all the same, and has not deleted it yet."""
    for batch in range(1, 5):
        table.write(rows_of(batch))
    stale = replace(table.snapshots.get(2), id=4, uuid="slept")
    expire_snapshots(table, retention=LAST_ONLY)
    expected = {2: CommitOutcome.NOT_COMMITTED, 4: CommitOutcome.NOT_KNOWABLE}  # the fourth has lost its files by now
    for number, outcome in expected.items():
        assert table.snapshots.create_new(replace(stale, id=number))
        assert find_commit(in_new_process(table.path), "slept", snapshot_id=number).outcome is outcome
        Path(table.paths.snapshot(number)).unlink()


def test_every_attempt_of_a_commit_has_its_uuid(table: FileStoreTable) -> None:
    """So a creation that takes effect late, under any of the attempts, is found by it."""
    seen: list[str | None] = []

    class Refusing(LocalFileIO):
        def create_new(self, path: str, data: bytes) -> bool:
            if "/snapshot/" in path and len(seen) < 3:
                seen.append(Snapshot.from_json(data, path=path).uuid)
                raise UnavailableError(f"{path}: no answer")
            return super().create_new(path, data)

    snapshot = FileStoreTable.open(table.path, Refusing()).write(rows_of(1), clock=NO_WAIT)
    assert seen == [snapshot.uuid] * 3


def test_an_earlier_attempt_that_lands_before_the_next_is_the_commit(table: FileStoreTable) -> None:
    """The second attempt loses against the first, whose manifests count: those of the second go."""
    late: list[Callable[[], bool]] = []

    class Slow(LocalFileIO):
        def create_new(self, path: str, data: bytes) -> bool:
            if "/snapshot/" not in path:
                return super().create_new(path, data)
            if not late:
                late.append(lambda: UNSYNCED.create_new(path, data))
                raise UnavailableError(f"{path}: no answer")
            late[0]()
            return super().create_new(path, data)

    snapshot = FileStoreTable.open(table.path, Slow()).write(rows_of(1), clock=NO_WAIT)
    assert snapshot == in_new_process(table.path).snapshots.latest()
    assert table.snapshots.ids() == [1, 2]
    found = remove_orphan_files(in_new_process(table.path), older_than_millis=0, allow_young=True)
    assert found.files == ()


def test_a_refusal_that_may_be_wrong_is_an_unknown_outcome(table: FileStoreTable) -> None:
    away = FileStoreTable.open(table.path, Away(takes_effect=False, comes_back=True))
    answers = iter((CommitRequest(commit_user="a", commit_identifier=1, kind=CommitKind.APPEND),))

    def resolve(_: Snapshot | None) -> CommitRequest:
        found = next(answers, None)
        if found is None:
            raise ConflictError("refused")
        return found

    with pytest.raises(UnknownOutcomeError, match="refused"):
        TableCommit(away, clock=NO_WAIT).commit(resolve)


def test_what_cannot_be_a_commit_is_refused(table: FileStoreTable) -> None:
    with pytest.raises(InvalidRequestError, match="by its uuid and a snapshot id of at least 1"):
        find_commit(table, "")
    with pytest.raises(InvalidRequestError, match="found 'x' and 0"):
        find_commit(table, "x", snapshot_id=0)


def test_a_table_without_snapshots_has_no_commit(tmp_path: Path) -> None:
    found = find_commit(make_table(tmp_path), "x")
    assert found == FoundCommit(outcome=CommitOutcome.NOT_COMMITTED, is_open=True)
