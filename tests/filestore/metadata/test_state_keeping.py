"""What lakelog knows of writers survives the upkeep of other engines; where it is lost, every writer says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import CommitUser, parse_users
from lakelog.filestore.metadata.tables import identity
from lakelog.filestore.metadata.tables.consumers import STATE_CONSUMER, ConsumerManager
from lakelog.filestore.metadata.tables.identity import OutdatedSnapshotError, StateLostError
from lakelog.filestore.metadata.tables.state_keeping import LAG_SNAPSHOTS, StateKeeper
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete_consumer, expire_snapshots, reset_consumer
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.foreign_engine import expire_as_others_do, foreign_snapshot
from tests.support.tables.small_tables import (
    UNSYNCED,
    commit_batch,
    content,
    content_after,
    in_new_process,
    make_table,
    rows_of,
)

ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return make_table(tmp_path)


def upkeep_of_others(table: FileStoreTable) -> None:
    foreign_snapshot(table)
    expire_as_others_do(table)


def without_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateKeeper, "before_commit", lambda *_what, **_named: None)
    monkeypatch.setattr(StateKeeper, "_put", lambda *_what: None)


def test_a_batch_is_known_after_another_engine_compacted_and_expired(table: FileStoreTable) -> None:
    for batch in range(10):
        commit_batch(table, batch)
        upkeep_of_others(table)
        assert commit_batch(in_new_process(table.path), batch) is None
    assert content(table) == content_after(10)


def test_without_the_consumer_the_state_is_lost_and_every_writer_says_so(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_keeping(monkeypatch)
    commit_batch(table, 0)
    upkeep_of_others(table)
    with pytest.raises(StateLostError, match=r"snapshots before 2 had it.* table new-identity PATH"):
        commit_batch(table, 0)
    with pytest.raises(StateLostError):
        in_new_process(table.path).write(rows_of(9))
    with pytest.raises(StateLostError):
        table.compact(full=True)
    assert content(table) == content_after(1)


def test_without_consumer_and_check_a_replay_is_written_twice(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_keeping(monkeypatch)
    monkeypatch.setattr(identity, "_check_state_not_lost", lambda *_what, **_named: None)
    commit_batch(table, 0)
    upkeep_of_others(table)
    assert commit_batch(table, 0) is not None


def test_a_snapshot_that_is_not_the_newest_any_more_is_looked_at_again(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    foreign = foreign_snapshot(table)
    late = in_new_process(table.path)
    commit_batch(table, 1)
    table.file_io.delete(table.paths.snapshot(1))
    with pytest.raises(OutdatedSnapshotError, match="name a newer snapshot"):
        identity.carried_by(late, foreign)


def test_a_crash_anywhere_leaves_the_state_where_other_engines_keep_it(tmp_path: Path) -> None:
    dies_at = 0
    while True:
        dies_at += 1
        folder = tmp_path / str(dies_at)
        commit_batch(make_table(folder), 0)
        try:
            table = in_new_process(f"{folder}/t", FaultyFileIO(UNSYNCED, dies_at))
            for batch in (1,):
                commit_batch(table, batch)
        except InjectedCrash:
            pass
        else:
            break
        survivor = in_new_process(f"{folder}/t")
        upkeep_of_others(survivor)
        held = {last.identifier for last in users_of(survivor)}
        assert len(held) == 1
        for batch in range(max(held), 2):
            commit_batch(survivor, batch)
        assert content(survivor) == content_after(2)
    assert dies_at > 20


def users_of(table: FileStoreTable) -> list[CommitUser]:
    carried = identity.carried_by(table, table.snapshots.latest())
    return list(parse_users(carried.properties).values())


def test_the_first_commit_is_protected_before_it_is_there(tmp_path: Path) -> None:
    dies_at = 0
    while True:
        dies_at += 1
        table = make_table(tmp_path / str(dies_at))
        try:
            commit_batch(in_new_process(table.path, FaultyFileIO(UNSYNCED, dies_at)), 0)
        except InjectedCrash:
            pass
        else:
            break
        if table.snapshots.latest_id() is None:
            continue
        upkeep_of_others(table)
        assert commit_batch(in_new_process(table.path), 0) is None


def test_the_consumer_follows_close_enough_and_is_not_written_by_every_commit(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts = []
    put = ConsumerManager.put

    def counted(self: ConsumerManager, consumer_id: str, next_snapshot: int) -> None:
        puts.append(next_snapshot)
        put(self, consumer_id, next_snapshot)

    monkeypatch.setattr(ConsumerManager, "put", counted)
    for batch in range(24):
        snapshot = commit_batch(table, batch)
        assert snapshot is not None
        at = ConsumerManager(table.file_io, table.paths).find(STATE_CONSUMER)
        assert at is not None
        assert 0 <= snapshot.id - at < LAG_SNAPSHOTS
    assert len(puts) == 24 / LAG_SNAPSHOTS


def test_the_consumer_is_put_again_after_a_minute(table: FileStoreTable) -> None:
    keeper = StateKeeper(table.file_io, table.paths)
    consumers = ConsumerManager(table.file_io, table.paths)
    state = {"lakelog.log": "positions"}
    keeper.after_commit(1, state, now_millis=0)
    keeper.after_commit(2, state, now_millis=59_999)
    assert consumers.find(STATE_CONSUMER) == 1
    keeper.after_commit(3, state, now_millis=60_000)
    assert consumers.find(STATE_CONSUMER) == 3


def test_a_table_without_streams_and_log_has_no_consumer(table: FileStoreTable) -> None:
    table.write(rows_of(0))
    assert ConsumerManager(table.file_io, table.paths).readable() == []


def test_a_table_that_only_others_wrote_is_written_after_their_expiry(table: FileStoreTable) -> None:
    table.write(rows_of(0))
    for _ in range(3):
        foreign_snapshot(table, CommitKind.APPEND)
    expire_as_others_do(table)
    assert commit_batch(table, 0) is not None


def test_our_own_expiry_is_not_stopped_by_our_own_consumer(table: FileStoreTable) -> None:
    for batch in range(6):
        commit_batch(table, batch)
    expire_snapshots(table, retention=ONE)
    assert table.snapshots.ids() == [6]
    assert commit_batch(in_new_process(table.path), 5) is None


def test_our_expiry_of_consumers_leaves_our_own(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"consumer.expiration-time": "1 s"})
    commit_batch(table, 0)
    reset_consumer(table, "reader", 1)
    expire_snapshots(table, now_millis=2**45)
    assert [(one.consumer_id, one.is_own) for one in ConsumerManager(table.file_io, table.paths).readable()] == [
        (STATE_CONSUMER, True)
    ]


def test_a_table_whose_consumers_other_engines_delete_is_a_warning_of_each_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Paimon's expiry takes a consumer file that is older than the option, whatever its name."""
    table = make_table(tmp_path, options={"consumer.expiration-time": "1 d"})
    for batch in range(LAG_SNAPSHOTS + 2):
        commit_batch(table, batch)
    (warning,) = caplog.messages
    assert "has the option consumer.expiration-time (86400 s)" in warning
    assert "remove the option" in warning


def test_a_deleted_consumer_is_written_again_and_a_loss_before_is_an_error(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    delete_consumer(table, STATE_CONSUMER)
    upkeep_of_others(table)
    with pytest.raises(CorruptDataError):
        commit_batch(table, 0)


def test_no_reader_takes_the_name_of_our_own_consumer(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    with pytest.raises(InvalidRequestError, match="is lakelog's own"):
        reset_consumer(table, STATE_CONSUMER, 1)
