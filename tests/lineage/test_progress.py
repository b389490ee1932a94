"""How far a line was fed, and what is held until it is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.origins.record import ReadMode
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import CommitUser, PropertyKey, users_to_json
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.lineage.tables.feeding import Feeder
from lakelog.lineage.tables.progress import FedLine
from lakelog.logstore.options import LOGSTORE_OPTIONS
from lakelog.protocol.state.state import LogState, TakenBatch
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES
from lakelog.warehouse.system_database import SystemDatabase
from tests.support.lineage.lineage_records import LINEAGE_ON, entry, lineage, table_source


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """The files of a table with a log."""
    schema = build_schema(pa.schema({"id": pa.int64()}), options={"log.system": "kafka"}, also=LOGSTORE_OPTIONS)
    return FileStoreTable.create(f"{tmp_path}/db.db/t", schema)


def commit(
    table: FileStoreTable, users: dict[str, int], ledger: dict[str, int], *entries: dict[str, object], **state: object
) -> None:
    """Commit a snapshot with these users, with this ledger of bucket 0, and these batches."""
    taken = {0: {user: TakenBatch(identifier=identifier) for user, identifier in ledger.items()}}
    last = {user: CommitUser(identifier=number, digest=None, time_millis=0) for user, number in users.items()}
    log = LogState(topic_id="t", ledger=taken, **state)  # type: ignore[arg-type]  # abandoned users
    request = CommitRequest(
        commit_user="u",
        commit_identifier=0,
        kind=CommitKind.APPEND,
        properties={
            PropertyKey.USERS: users_to_json(last),
            PropertyKey.LINEAGE: json.dumps({"batches": entries}),
            PropertyKey.LOG_STATE: log.to_json(),
        },
    )
    TableCommit(table).commit(lambda _: request)


def of_static(end: int) -> dict[str, object]:
    """Batch 12 of `a`, which read a state of a table."""
    return entry("a", 12, lineage(12, table_source("db.static", end=end, mode=ReadMode.BATCH)))


def feed(table: FileStoreTable) -> list[tuple[object, ...]]:
    """Feed the line; the source's snapshots and the batches that are stored then."""
    database = SystemDatabase(warehouse=table.path.removesuffix("/db.db/t"), file_io=LocalFileIO(), given=LINEAGE_ON)
    feeder = Feeder.of(database)
    feeder.take_line(FedLine(table, "main"))
    feeder.flush()
    return sorted((row["user"], row["source_to"], row["sink_snapshot"]) for row in database.found(SNAPSHOT_EDGES))


def consumers(table: FileStoreTable) -> dict[str, int]:
    return {
        one.consumer_id: one.next_snapshot
        for one in ConsumerManager(table.file_io, table.paths).readable()
        if not one.is_own
    }


def test_parts_of_a_batch_are_held_until_it_is_whole(table: FileStoreTable) -> None:
    commit(table, {"a": 11, "b": 4}, {"a": 12}, entry("b", 4, lineage(4, table_source("db.x", end=1))), of_static(3))
    commit(table, {"a": 11, "b": 5}, {"a": 12}, entry("b", 5, lineage(5, table_source("db.x", end=2))))
    assert feed(table) == [("b", 1, 1), ("b", 2, 2)]
    assert consumers(table) == {"lakelog-lineage": 3, "lakelog-stream-lineage-parts": 1}

    commit(table, {"a": 12, "b": 5}, {}, of_static(4))

    assert feed(table) == [("a", 3, 3), ("a", 4, 3), ("b", 1, 1), ("b", 2, 2)]
    assert consumers(table) == {"lakelog-lineage": 4}


def test_an_abandoned_batch_holds_nothing(table: FileStoreTable) -> None:
    commit(table, {"b": 4}, {"a": 12}, entry("b", 4, lineage(4)), of_static(3), abandoned={"a": 12})

    feed(table)

    assert consumers(table) == {"lakelog-lineage": 2}


def test_records_that_are_no_batches_hold_nothing(table: FileStoreTable) -> None:
    commit(table, {"b": 4}, {}, entry("b", 4, lineage(4)), {"user": "repair", "identifier": 0, "log_repair": {}})

    feed(table)

    assert consumers(table) == {"lakelog-lineage": 2}


def test_a_line_without_lineage_has_no_consumer(table: FileStoreTable) -> None:
    TableCommit(table).commit(lambda _: CommitRequest(commit_user="u", commit_identifier=0, kind=CommitKind.APPEND))

    feed(table)

    assert consumers(table) == {}
