"""How long a table knows of its batch statements: each entry is in every later snapshot."""

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
from lakelog.protocol.state.prepared import STATEMENT_RETAINED_MILLIS, USER_PREFIX, PreparedCommit, PreparedCommits
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


def test_a_statement_stays_for_an_hour_and_a_stream_for_the_option(table: FileStoreTable) -> None:
    old, young, stream = (entry(age_minutes=61), entry(age_minutes=50), entry(age_minutes=61, identifier=3))
    first = commit(table, 0, {statement(1): old, statement(2): young, "other": stream})
    assert users_of(table, first) == {STREAM, "other", statement(1), statement(2)}
    assert users_of(table, commit(table, 1)) == {STREAM, "other", statement(2)}


def test_a_statement_stays_while_its_prepared_commit_is_there(table: FileStoreTable) -> None:
    prepared = PreparedCommit(
        table_uuid=table.uuid,
        topic_id=TOPIC,
        user=statement(1),
        operation="DELETE",
        schema_id=0,
        base_snapshot_id=0,
        time_millis=0,
        row_count=0,
        parts={},
    )
    PreparedCommits(table).write(prepared)
    commit(table, 0, {statement(1): entry(age_minutes=61)})
    assert statement(1) in users_of(table, commit(table, 1))


def test_a_statement_each_minute_leaves_an_hour_of_them_in_a_snapshot(table: FileStoreTable) -> None:
    commit(table, 0, {statement(age): entry(age_minutes=age) for age in range(24 * 60)})
    assert len(users_of(table, commit(table, 1))) == 1 + STATEMENT_RETAINED_MILLIS // MINUTE


def test_a_restore_names_streams_that_go_on_and_no_statement(table: FileStoreTable) -> None:
    first = commit(table, 0)
    second = commit(table, 1, {statement(1): entry(age_minutes=0)})
    assert [(one.user, one.identifier, one.at_target) for one in writers_since(table, second, first)] == [
        (STREAM, 1, 0)
    ]
