"""The beginning of a generation of a log: the next schema, with a topic or none, then its snapshot.

The snapshot changes no row. If the schema has another number of buckets than the files, the snapshot holds the rows in
new files. Between the two, and after a crash there, writers and streams are refused until the call is made again, which
continues. Source: docs/rfcs/0028-life-of-a-log.md, "Generations".
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.alter import move_rows
from lakelog.filestore.commit import CommitRequest, TableCommit
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, carried_properties
from lakelog.filestore.metadata.tables import check_log_is_own, latest_of
from lakelog.filestore.options import TABLE_UUID
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.access.table_log import TableLog, log_of
from lakelog.protocol.access.topics import new_topic
from lakelog.protocol.life.identity_renewal import file_sequences, restarted_state
from lakelog.protocol.life.log_ends import LogEnd, is_lost
from lakelog.protocol.state.log_generations import NO_LOG_STATE, older_schema, state_of_log, with_ended
from lakelog.protocol.state.moved_parts import moved_state
from lakelog.protocol.state.state import LogState

logger = logging.getLogger("lakelog.protocol")

NameTopic = Callable[[str], str]
_NAMES_MAX = 20


def newest_of(table: FileStoreTable) -> FileStoreTable:
    """The table with its newest schema. Raises ConflictError for a table that was dropped or renamed."""
    latest_of(table)  # raises for a table that was dropped or renamed
    newest = replace(table, schema=table.schemas.latest() or table.schema)
    check_log_is_own(newest)
    return newest


def is_cut_off(table: FileStoreTable) -> bool:
    """Whether the newest snapshot has another log than the newest schema."""
    latest = table.snapshots.latest()
    carried, state, _ = _state(table, latest)
    if state is None:
        is_new = latest is None or not carried
        return table.has_log and not is_new
    return state.topic_id != TOPIC_ID.of(table.schema.options)


def check_not_cut_off(table: FileStoreTable) -> None:
    """Raise InvalidRequestError if a generation has a schema but no snapshot."""
    if is_cut_off(table):
        raise InvalidRequestError(
            f"a call that gives table {table.name} another log was cut off: finish it with `lakelog log add`, "
            "`lakelog log renew` or `lakelog table rescale`, then call this again"
        )


def next_schema(table: FileStoreTable, options: Mapping[str, str]) -> TableSchema:
    """The schema after the table's, with these options."""
    return replace(table.schema, id=table.schema.id + 1, options=dict(options))


def create_next(
    table: FileStoreTable, wanted: TableSchema, topic_of: NameTopic, kafka: Mapping[str, str] | None
) -> FileStoreTable:
    """Create a topic and the schema that names it; returns the table with that schema. The topic's name must be new."""
    name = f"{TABLE_UUID.of(wanted.options)}.{wanted.id}"
    for number in itertools.count(1):
        topic, is_created = topic_of(name if number == 1 else f"{name}-{number}"), False
        try:
            made = new_topic(
                topic, wanted, warehouse_of(table.path), kafka=kafka, is_named=lambda made: _is_created(table, made)
            )
            with made as with_topic:
                is_created = True
                table.schemas.create(with_topic)
            return replace(table, schema=with_topic)
        except ConflictError:
            if is_created or number == _NAMES_MAX:
                raise
            logger.warning(
                "table %s: topic %s exists and no schema names it: a call that was cut off has left it; delete it with "
                "Kafka's tools",
                table.name,
                topic,
            )
    raise AssertionError("unreachable")


def _is_created(table: FileStoreTable, schema: TableSchema) -> bool:
    """Whether a schema file names the topic of a schema, however its creation ended. Raises LakelogError."""
    try:
        return TOPIC_ID.of(table.schemas.get(schema.id).options) == TOPIC_ID.of(schema.options)
    except NotFoundError:
        return False


def finish(table: FileStoreTable, topic_of: NameTopic, kafka: Mapping[str, str] | None) -> FileStoreTable:
    """Begin the generation of the table's newest schema, if a call was cut off; returns the table.

    A topic that no longer exists is created again: nothing was in it.
    """
    end = LogEnd.of(table, older_log(table, kafka))
    if is_lost(present_log(table, kafka)):
        table = create_next(table, next_schema(table, table.schema.options), topic_of, kafka)
    return begin(table, end)


def begin(table: FileStoreTable, end: LogEnd) -> FileStoreTable:
    """Commit the snapshot that begins the generation of the table's schema, unless there is one.

    `end` is the end of the previous log. Rows move if files have another number of buckets than the schema.
    """
    topic_id = TOPIC_ID.of(table.schema.options) if table.has_log else ""

    def properties(latest: Snapshot | None, sequences: Mapping[int, int]) -> dict[str, str] | None:
        carried, older, _ = _state(table, latest)
        if latest is not None and topic_id == ("" if older is None else older.topic_id):
            return None
        generations = with_ended(table, carried, latest=latest, ends=end.offsets, is_lost=end.is_lost)
        if not table.has_log:
            return generations | {PropertyKey.LOG_STATE: NO_LOG_STATE}
        state = restarted_state(table, latest, carried, sequences)
        before = None if older is None else older_schema(table, older.topic_id)
        if before is not None and before.bucket_count != table.bucket_count:
            state = moved_state(state, bucket_count=before.bucket_count)
        return generations | {PropertyKey.LOG_STATE: state.to_json(), PropertyKey.PLACE: table.path}

    def of_moved(before: Snapshot, sequences: Mapping[int, int]) -> Mapping[str, str]:
        found = properties(before, sequences)
        if found is None:
            raise ConflictError(f"{table.name} changed while its rows were moved to other buckets")
        return found

    def resolve(latest: Snapshot | None) -> CommitRequest | None:
        found = properties(latest, file_sequences(table, latest))
        if found is None:
            return None
        return CommitRequest(properties=found, operation="LOG")

    if table.has_log:
        move_rows(table, properties=of_moved)
    TableCommit(table).commit(resolve)
    return table


def older_log(table: FileStoreTable, kafka: Mapping[str, str] | None) -> TableLog | None:
    """The log of the newest snapshot, which the newest schema no longer has; None for a time without a log."""
    _, state, where = _state(table, table.snapshots.latest())
    if state is None:
        return None
    schema = older_schema(table, state.topic_id)
    if schema is None:
        raise CorruptDataError(f"{where} names a log that no schema of the table has; restore its schema files")
    return present_log(replace(table, schema=schema), kafka)


def present_log(table: FileStoreTable, kafka: Mapping[str, str] | None) -> TableLog:
    """The log that the schema of a table with a log names."""
    log = log_of(table.schema, warehouse_of(table.path), path=table.path, kafka=kafka)
    assert log is not None, "the table has a log"
    return log


def _state(table: FileStoreTable, latest: Snapshot | None) -> tuple[Mapping[str, str], LogState | None, str]:
    """The properties of lakelog at a snapshot, the state of the log in them, and the snapshot's name in errors."""
    carried = carried_properties(latest, table.snapshots).properties
    where = f"table {table.path}, snapshot {latest.id if latest else 0}"
    return carried, state_of_log(carried, where=where), where
