"""How long a table knows of its batch statements: each entry stays until its prepared commit is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.common.clock import system_millis
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from lakelog.filestore.metadata.snapshots.users import CommitUser, read_users
from lakelog.filestore.refs.restore.restore import writers_since
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.state.ports import SnapshotChange
from lakelog.protocol.state.prepared import USER_PREFIX, PreparedCommit, PreparedCommits
from lakelog.protocol.state.state import Batch, LogState, TableState
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from tests.support.tables.small_tables import make_table

TOPIC, STREAM = "topic", "a-stream"
MINUTE = 60_000


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    made = make_table(tmp_path)
    return replace(made, schema=replace(made.schema, options={**made.schema.options, "log.system": "kafka"}))


def statement(number: int) -> str:
    return f"{USER_PREFIX}00000000-0000-0000-0000-{number:012}"


def entry(*, age_minutes: int, identifier: int = BATCH_COMMIT_IDENTIFIER) -> CommitUser:
    return CommitUser(identifier=identifier, digest=None, time_millis=system_millis() - age_minutes * MINUTE)


def commit(table: FileStoreTable, batch: int, more: Mapping[str, CommitUser] | None = None) -> Snapshot:
    """A snapshot without rows, of a batch of a stream, which `more` users have written too."""

    def decide(state: TableState) -> SnapshotChange:
        users = {**state.users, STREAM: entry(age_minutes=0, identifier=batch), **(more or {})}
        return SnapshotChange(files=(), changelog=(), users=users, log=LogState(topic_id=TOPIC), lineage=())

    DriverSnapshots(table, TOPIC).append(Batch(user=STREAM, identifier=batch, source_digest=None), decide)
    newest = table.snapshots.latest()
    assert newest is not None
    return newest


def users_of(table: FileStoreTable, snapshot: Snapshot) -> set[str]:
    return set(read_users(snapshot, table.snapshots))


def prepare(table: FileStoreTable, number: int) -> str:
    prepared = PreparedCommit(
        table_uuid=table.uuid,
        topic_id=TOPIC,
        user=statement(number),
        operation="DELETE",
        schema_id=0,
        base_snapshot_id=0,
        time_millis=0,
        row_count=0,
        parts={},
    )
    return PreparedCommits(table).write(prepared)


def test_a_statement_goes_with_the_commit_after_its_prepared_commit_and_a_stream_stays(table: FileStoreTable) -> None:
    name = prepare(table, 1)
    commit(table, 0, {statement(1): entry(age_minutes=0), "other": entry(age_minutes=61, identifier=3)})
    assert users_of(table, commit(table, 1)) == {STREAM, "other", statement(1)}
    PreparedCommits(table).delete(name)
    assert users_of(table, commit(table, 2)) == {STREAM, "other"}


def test_an_old_statement_stays_while_its_prepared_commit_is_there(table: FileStoreTable) -> None:
    prepare(table, 1)
    commit(table, 0, {statement(1): entry(age_minutes=90 * 24 * 60 + 1)})
    assert statement(1) in users_of(table, commit(table, 1))


def test_a_hundred_statements_in_a_row_leave_one(table: FileStoreTable) -> None:
    for number in range(100):
        name = prepare(table, number)
        newest = commit(table, number, {statement(number): entry(age_minutes=0)})
        PreparedCommits(table).delete(name)
        assert users_of(table, newest) == {STREAM, statement(number)}


def test_a_driver_learns_of_its_forgotten_statement_from_the_snapshots(table: FileStoreTable) -> None:
    snapshots = DriverSnapshots(table, TOPIC)
    base = commit(table, 0)
    name = prepare(table, 1)
    taken = commit(table, 1, {statement(1): entry(age_minutes=0)})
    PreparedCommits(table).delete(name)
    commit(table, 2)
    assert snapshots.first_with(statement(1), after=base.id) == taken
    assert snapshots.took_in(statement(1), after=base.id) is True
    assert snapshots.took_in(statement(2), after=base.id) is False
    Path(table.paths.snapshot(taken.id)).unlink()
    Path(table.paths.snapshot(base.id)).unlink()
    assert snapshots.took_in(statement(1), after=base.id) is None


def test_a_restore_names_streams_that_go_on_and_no_statement(table: FileStoreTable) -> None:
    first = commit(table, 0)
    second = commit(table, 1, {statement(1): entry(age_minutes=0)})
    assert [(one.user, one.identifier, one.at_target) for one in writers_since(table, second, first)] == [
        (STREAM, 1, 0)
    ]
