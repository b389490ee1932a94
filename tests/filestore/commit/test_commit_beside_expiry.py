"""Commits whose base, or whose own snapshot, expires before they know how they went. The simulation found these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit import BEFORE_CREATE, TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.expire.expiry import Expired, Retention
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from tests.support.tables.small_tables import NO_WAIT, SCHEMA, UNSYNCED, in_new_process, prepare_batch, rows_of

NEWEST_ONLY = Retention(count_min=1, count_max=1, age_millis=3_600_000, limit=100)


@dataclass(frozen=True, slots=True)
class MeanwhileFileIO(LocalFileIO):
    """Lets something happen at one call: `before` it, or after it, whose answer is then lost."""

    before: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    after: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    keeps_data: bool = False  # deletes of data files fail

    def create_new(self, path: str, data: bytes) -> bool:
        self._meet(self.before, path)
        is_created = LocalFileIO.create_new(self, path, data)
        if self._meet(self.after, path):
            raise UnavailableError(f"{path}: no answer")
        return is_created

    def open_output(self, path: str) -> pa.NativeFile:
        self._meet(self.before, path)
        return LocalFileIO.open_output(self, path)

    def delete(self, path: str) -> None:
        if self.keeps_data and "/data-" in path:
            raise UnavailableError(f"{path}: not deleted")
        LocalFileIO.delete(self, path)

    def _meet(self, waiting: list[tuple[str, Callable[[], None]]], path: str) -> bool:
        if not waiting or waiting[0][0] not in path:
            return False
        waiting.pop(0)[1]()
        return True


def make(folder: Path, file_io: FileIO) -> FileStoreTable:
    """A table that only adds rows, so that a row which is there twice is seen."""
    schema = build_schema(SCHEMA, options={"bucket": "-1", "write-only": "true"})
    return FileStoreTable.create(folder / "t", schema, file_io)


def others(table: FileStoreTable, *, commits: int = 3) -> Callable[[], None]:
    """Another writer's commits, and an expiry of all but the last."""

    def work() -> None:
        stranger = FileStoreTable.open(table.path, UNSYNCED)
        for _ in range(commits):
            stranger.write(rows_of(100))
        expire(stranger)

    return work


def expire(table: FileStoreTable) -> Expired:
    return expire_snapshots(table, retention=NEWEST_ONLY)


def written(table: FileStoreTable, batch: int) -> int:
    """How often the first row of a batch is there."""
    rows: list[object] = in_new_process(table.path).to_arrow().to_pylist()
    return rows.count(rows_of(batch).to_pylist()[0])


def data_files(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.path).rglob("data-*")}


def test_an_id_that_was_used_and_has_expired_is_not_used_again(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    table.write(rows_of(0))
    file_io.before.append(("snapshot-2", others(table)))  # the writer slept: its id 2 is free again, 4 is the newest
    snapshot = table.write(rows_of(1))
    assert snapshot.id == 5
    assert table.snapshots.ids() == [4, 5]
    assert (written(table, 0), written(table, 1), written(table, 100)) == (1, 1, 3)


def test_neither_is_the_first_id(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    file_io.before.append(("snapshot-1", others(table, commits=2)))  # 1 has expired, 2 follows at once
    assert table.write(rows_of(1)).id == 3
    assert (written(table, 1), written(table, 100)) == (1, 2)


def test_a_snapshot_that_others_continued_before_its_base_expired_is_not_taken_back(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    table.write(rows_of(0))

    def continue_and_expire_the_base() -> None:
        stranger = FileStoreTable.open(table.path, UNSYNCED)
        stranger.write(rows_of(100))
        expire_snapshots(stranger, retention=Retention(count_min=2, count_max=2, age_millis=3_600_000, limit=100))

    file_io.after.append(("snapshot-2", continue_and_expire_the_base))
    assert table.write(rows_of(1)).id == 2
    assert table.snapshots.ids() == [2, 3]
    assert (written(table, 0), written(table, 1), written(table, 100)) == (1, 1, 1)


def test_a_write_that_cannot_be_looked_for_any_more_is_not_written_again(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    table.write(rows_of(0))
    file_io.after.append(("snapshot-2", others(table)))
    with pytest.raises(UnavailableError, match=r"it is unknown .* snapshot 2 may have been it"):
        table.write(rows_of(1))
    assert written(table, 1) == 1


def test_a_batch_of_a_user_is_found_where_its_snapshot_has_expired(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    table.write(rows_of(0))
    entries = prepare_batch(table, 1)
    file_io.after.append(("snapshot-2", others(table)))
    append_commit(table, user="job", identifier=1, digest=None, entries=entries, clock=NO_WAIT)
    assert written(table, 1) == 1


def test_a_refusal_is_no_refusal_while_the_outcome_is_unknown(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    table.write(rows_of(0))
    file_io.after.append(("snapshot-2", others(table)))
    with pytest.raises(
        UnavailableError, match="it is unknown whether"
    ):  # the base of the overwrite is no longer the newest
        table.write(rows_of(1), mode="overwrite")
    assert written(table, 1) == 1
    assert written(table, 0) == 0


def test_a_base_that_expires_while_it_is_read_is_a_lost_race(tmp_path: Path) -> None:
    table = make(tmp_path, UNSYNCED)
    table.write(rows_of(0))
    late = in_new_process(table.path)
    request = CommitRequest(
        commit_user="job", commit_identifier=1, kind=table.snapshots.get(1).commit_kind, entries=prepare_batch(table, 1)
    )
    asked: list[int] = []

    def resolve(latest: Snapshot | None) -> CommitRequest:
        assert latest is not None
        asked.append(latest.id)
        if latest.id == 1:
            others(table)()
            in_new_process(table.path)  # and forgets what was read
        return request

    snapshot = TableCommit(late, clock=NO_WAIT).commit(resolve)
    assert snapshot is not None
    assert (asked, snapshot.id) == ([1, 4], 5)
    assert written(table, 1) == 1


def keyed(folder: Path, file_io: FileIO) -> FileStoreTable:
    """A table whose writers prepare their files anew when they lost a race."""
    options = {"bucket": "1", "write-only": "true", "commit.max-retries": "1"}
    table = FileStoreTable.create(folder / "t", build_schema(SCHEMA, primary_keys=["id"], options=options), file_io)
    table.write(rows_of(0))
    return table


def test_a_write_whose_clean_up_fails_has_succeeded(tmp_path: Path) -> None:
    """The files of an attempt that lost a race do no harm."""
    file_io = MeanwhileFileIO(sync_data=False, keeps_data=True)
    table = keyed(tmp_path, file_io)
    file_io.before.append(("snapshot-2", lambda: overtake(table)))
    assert table.write(rows_of(1)).id == 3
    assert len(data_files(table)) == 4


def overtake(table: FileStoreTable) -> None:
    FileStoreTable.open(table.path, UNSYNCED).write(rows_of(100))


def test_a_refused_write_leaves_none_of_its_files(tmp_path: Path) -> None:
    """Not even those of earlier attempts, which were prepared anew."""
    file_io = MeanwhileFileIO(sync_data=False)
    table = keyed(tmp_path, file_io)
    file_io.before.extend([("snapshot-2", lambda: overtake(table)), ("snapshot-3", lambda: overtake(table))])
    before = data_files(table)
    with pytest.raises(ConflictError, match="lost 2 races"):
        table.write(rows_of(1), clock=NO_WAIT)
    named = {entry.file.file_name for entry in table.live_files.of(table.snapshots.latest()).entries()}
    assert data_files(table) == named
    assert before < named


def test_an_expiry_leaves_the_rest_to_another_that_is_at_it(tmp_path: Path) -> None:
    table = make(tmp_path, UNSYNCED)
    for batch in range(4):
        table.write(rows_of(batch))

    @dataclass(frozen=True, slots=True)
    class Listing(LocalFileIO):
        def list_names(self, directory: str) -> list[str]:
            names = LocalFileIO.list_names(self, directory)
            if directory.endswith("/snapshot"):
                expire(FileStoreTable.open(table.path, UNSYNCED))
            return names

    assert expire(in_new_process(table.path, Listing(sync_data=False))) == Expired()
    assert table.snapshots.ids() == [4]


def test_the_step_before_a_snapshot_is_observed_at_each_attempt(tmp_path: Path) -> None:
    file_io = MeanwhileFileIO(sync_data=False)
    table = make(tmp_path, file_io)
    table.write(rows_of(0))
    file_io.before.append(("snapshot-2", others(table)))
    steps: list[str] = []
    append_commit(table, user="job", identifier=1, digest=None, entries=[], clock=NO_WAIT, on_step=steps.append)
    assert steps == [BEFORE_CREATE, BEFORE_CREATE, "after snapshot create"]


def test_reads_of_what_has_expired_say_so(tmp_path: Path) -> None:
    table = make(tmp_path, UNSYNCED)
    table.write(rows_of(0))
    late = in_new_process(table.path)
    others(table)()
    with pytest.raises(NotFoundError, match=r"snapshot 1 .* does not exist; snapshots 4 to 4 exist"):
        late.to_arrow(snapshot_id=1)
