"""A table gets a log, loses it, or gets another one, from its newest snapshot on.

The next schema is created first, then a snapshot that changes no row and begins the next generation. Between the two
writers and streams are refused, and so they are after a crash until the call is made again, which continues. Source:
docs/rfcs/0028-life-of-a-log.md, "Generations".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.log_system import LOG_SYSTEM_KEY
from lakelog.filestore.commit.commit import CommitRequest, TableCommit
from lakelog.filestore.io.path_forms import warehouse_of
from lakelog.filestore.metadata.identity import PLACE_KEY, latest_of
from lakelog.filestore.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.users import LOG_STATE_KEY, carried_properties
from lakelog.filestore.options.layout import TABLE_UUID
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.kafka.offsets import high_watermarks
from lakelog.logstore.options import CHANGE_TRACKING, TOPIC, TOPIC_ID, LogSystem, is_eventual
from lakelog.protocol.log_ending import end_log
from lakelog.protocol.log_generations import (
    GENERATIONS_KEY,
    NO_LOG_STATE,
    EndedGeneration,
    ended_generations,
    generations_to_json,
    older_schema,
    state_of_log,
)
from lakelog.protocol.loggable import check_loggable
from lakelog.protocol.new_identity import restarted_state
from lakelog.protocol.place import check_no_copy, recorded_place
from lakelog.protocol.state import LogState
from lakelog.protocol.stores import LogTarget
from lakelog.protocol.table_log import TableLog, kafka_topic, log_of
from lakelog.protocol.topics import drop_topic, new_topic

logger = logging.getLogger("lakelog.protocol")

NameTopic = Callable[[str], str]
_LOG_PREFIXES = ("log.", CHANGE_TRACKING.key)


def add_log(
    table: FileStoreTable,
    options: Mapping[str, str],
    *,
    check: Callable[[TableSchema], None],
    topic_of: NameTopic,
    kafka: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """Give a table without a log one, which begins at its newest snapshot; gives the changed table.

    `options` are those of the log, `check` raises for a schema that cannot be, `topic_of` names a topic by what follows
    the table's name in it, and `kafka` are the user's own settings of Kafka clients. Raises InvalidRequestError for a
    table that has a log, UnsupportedError for one that cannot get one, UnavailableError when Kafka does not answer.
    """
    newest = _newest(table)
    if newest.has_log:
        if _is_cut_off(newest):
            return _recorded(newest, {})  # before it the table had no log
        raise InvalidRequestError(f"table {table.name} has a log already, the topic {TOPIC.of(newest.schema.options)}")
    if _is_cut_off(newest):
        raise InvalidRequestError(
            f"table {table.name} loses its log by a call that was cut off: finish it with `lakelog log remove`, then "
            "call this again"
        )
    stored = {TABLE_UUID.key: str(uuid.uuid4()), **newest.schema.options, **options}
    wanted = _next_schema(newest, {**stored, LOG_SYSTEM_KEY: LogSystem.KAFKA.value, PLACE_KEY: table.path})
    check(wanted)
    check_can_begin(wanted, table_name=table.name)
    return _recorded(_with_topic(newest, wanted, topic_of, kafka), {})


def remove_log(
    table: FileStoreTable, *, keep_topic: bool = False, kafka: Mapping[str, str] | None = None
) -> FileStoreTable:
    """End the log of a table and take it into the files; gives the changed table. `keep_topic` leaves its topic.

    Raises InvalidRequestError for a table without a log, and for one with a batch that only its stream can finish;
    ConflictError while a stream writes the table; NotFoundError without the topic; UnavailableError.
    """
    newest = _newest(table)
    if not newest.has_log and not _is_cut_off(newest):
        raise InvalidRequestError(f"table {table.name} has no log")
    if newest.has_log:
        if newest.schema.is_merged_at_write or newest.schema.has_changelog_at_write:
            raise UnsupportedError(
                f"table {table.name} is merged, or has its changelogs written, by each batch, since it has a log; "
                "without one its files would have to be written anew. Create another table without a log, and copy it"
            )
        _check_transactional(newest.schema, table_name=table.name)
        _check_not_cut_off(newest)
        log = _log(newest, kafka)
        log.check_topic()
        check_no_copy(newest, recorded_place(newest))
        end_log(newest, _target(log), takes_parts=False)
        left = {key: value for key, value in newest.schema.options.items() if not key.startswith(_LOG_PREFIXES)}
        left.pop(PLACE_KEY, None)
        without = _next_schema(newest, left)
        newest.schemas.create(without)
        newest = replace(newest, schema=without)
    else:
        log = _older_log(newest, kafka)
    done = _recorded(newest, _ends(newest, log))
    if not keep_topic:
        drop_topic(log)
    return done


def renew_log(
    table: FileStoreTable,
    *,
    topic_of: NameTopic,
    keep_topic: bool = False,
    kafka: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """Give a table with a log a new topic, which begins at its newest snapshot; gives the changed table.

    The older topic is taken in first, and deleted unless `keep_topic`; where it does not exist, batches that were
    logged and in no snapshot are written again by their streams. Raises InvalidRequestError for a table without a log,
    ConflictError while a stream writes the table, UnavailableError.
    """
    newest = _newest(table)
    if not newest.has_log:
        raise InvalidRequestError(f"table {table.name} has no log; `lakelog log add` gives it one")
    _check_transactional(newest.schema, table_name=table.name)
    check_no_copy(newest, recorded_place(newest))
    if _is_cut_off(newest):
        log = _older_log(newest, kafka)
    else:
        log = _log(newest, kafka)
        if _is_there(log):
            end_log(newest, _target(log), takes_parts=True)
        else:
            logger.warning("topic %s of table %s does not exist: its last records are lost", log.topic, table.name)
        wanted = _next_schema(newest, newest.schema.options)
        newest = _with_topic(newest, wanted, topic_of, kafka)
    done = _recorded(newest, _ends(newest, log))
    if not keep_topic:
        drop_topic(log)
    return done


def check_can_begin(schema: TableSchema, *, table_name: str) -> None:
    """Raise InvalidRequestError or UnsupportedError for a table with files that cannot get a log. Pure."""
    check_loggable(schema, table_name=table_name)
    _check_transactional(schema, table_name=table_name)
    if schema.has_changelog_at_write:
        raise UnsupportedError(
            f"table {table_name} has a changelog-producer, and with log.changelog-mode=all a log has its changelogs "
            "written by each batch, not by compactions: leave one of the two out, or create another table with both"
        )
    if schema.is_merged_at_write:
        raise UnsupportedError(
            f"table {table_name} does not keep the last row of a key: with a log it is merged when it is written, and "
            "its files would have to be written anew. Create another table with log.system=kafka, and copy the rows"
        )


def _check_transactional(schema: TableSchema, *, table_name: str) -> None:
    if is_eventual(schema.options):
        raise UnsupportedError(
            f"table {table_name} has log.consistency=eventual: such a log has no transactions by which it could begin "
            "or end later. Create another table with it, or use 'transactional'"
        )


def _newest(table: FileStoreTable) -> FileStoreTable:
    """The table with its newest schema."""
    if table.branch != MAIN_BRANCH:
        raise UnsupportedError(f"branch {table.branch!r} of table {table.name} is not written yet; branches are read")
    latest_of(table)  # raises for a table that was dropped or renamed
    return replace(table, schema=table.schemas.latest() or table.schema)


def _state(table: FileStoreTable, latest: Snapshot | None) -> tuple[Mapping[str, str], LogState | None, str]:
    """The properties of lakelog as of a snapshot, the state of the log in them, and the snapshot's name in errors."""
    carried = carried_properties(latest, table.snapshots).properties
    where = f"table {table.path}, snapshot {latest.id if latest else 0}"
    return carried, state_of_log(carried, where=where), where


def _is_cut_off(table: FileStoreTable) -> bool:
    """Whether the newest snapshot has another log than the newest schema."""
    latest = table.snapshots.latest()
    carried, state, _ = _state(table, latest)
    if state is None:
        is_new = latest is None or not carried
        return table.has_log and not is_new
    return state.topic_id != TOPIC_ID.of(table.schema.options)


def _check_not_cut_off(table: FileStoreTable) -> None:
    if _is_cut_off(table):
        raise InvalidRequestError(
            f"table {table.name} gets another log by a call that was cut off: finish it with `lakelog log add`, or "
            "`lakelog log renew`, then call this again"
        )


def _ends(table: FileStoreTable, log: TableLog) -> dict[int, int]:
    """Where a log ended: its high watermarks, or without the topic the offsets of the newest snapshot."""
    if _is_there(log):
        return {bucket: at.offset for bucket, at in high_watermarks(kafka_topic(log), table.bucket_count).items()}
    _, state, _ = _state(table, table.snapshots.latest())
    return {} if state is None else {bucket: at.offset for bucket, at in state.positions.items()}


def _next_schema(table: FileStoreTable, options: Mapping[str, str]) -> TableSchema:
    return replace(table.schema, id=table.schema.id + 1, options=dict(options))


def _with_topic(
    table: FileStoreTable, wanted: TableSchema, topic_of: NameTopic, kafka: Mapping[str, str] | None
) -> FileStoreTable:
    """Create the topic and the schema that names it. No topic of the table had its name before."""
    topic = topic_of(f"{TABLE_UUID.of(wanted.options)}.{wanted.id}")
    with new_topic(topic, wanted, warehouse_of(table.path), kafka=kafka) as with_topic:
        table.schemas.create(with_topic)
    return replace(table, schema=with_topic)


def _recorded(table: FileStoreTable, ends: Mapping[int, int]) -> FileStoreTable:
    """Commit the snapshot that begins the generation of the table's schema, unless there is one."""
    topic_id = TOPIC_ID.of(table.schema.options) if table.has_log else ""

    def resolve(latest: Snapshot | None) -> CommitRequest | None:
        carried, older, where = _state(table, latest)
        if latest is not None and topic_id == ("" if older is None else older.topic_id):
            return None
        properties = {
            GENERATIONS_KEY: generations_to_json([*ended_generations(carried, where=where), ended(latest, older)])
        }
        if table.has_log:
            properties |= {LOG_STATE_KEY: restarted_state(table, latest, carried).to_json(), PLACE_KEY: table.path}
        else:
            properties[LOG_STATE_KEY] = NO_LOG_STATE
        return CommitRequest(
            commit_user=str(uuid.uuid4()),
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.APPEND,
            properties=properties,
            operation="LOG",
        )

    def ended(latest: Snapshot | None, older: LogState | None) -> EndedGeneration:
        number = 1 if latest is None else latest.id + 1
        if older is None:
            return EndedGeneration(topic_id="", topic="", snapshot_id=number)
        topic = _topic_of(table, older.topic_id)
        return EndedGeneration(topic_id=older.topic_id, topic=topic, ends=ends, snapshot_id=number)

    TableCommit(table).commit(resolve)
    return table


def _topic_of(table: FileStoreTable, topic_id: str) -> str:
    schema = older_schema(table, topic_id)
    return "" if schema is None else TOPIC.of(schema.options)


def _older_log(table: FileStoreTable, kafka: Mapping[str, str] | None) -> TableLog:
    """The log of the newest snapshot, which the newest schema does not have any more."""
    _, state, where = _state(table, table.snapshots.latest())
    schema = None if state is None else older_schema(table, state.topic_id)
    if schema is None:
        raise CorruptDataError(f"{where} names a log that no schema of the table has; restore its schema files")
    return _log(replace(table, schema=schema), kafka)


def _log(table: FileStoreTable, kafka: Mapping[str, str] | None) -> TableLog:
    log = log_of(table.schema, warehouse_of(table.path), path=table.path, kafka=kafka)
    assert log is not None, "the table has a log"
    return log


def _target(log: TableLog) -> LogTarget:
    return LogTarget(
        topic=kafka_topic(log), topic_id=log.topic_id, mode=log.mode, unavailable_seconds=log.unavailable_seconds
    )


def _is_there(log: TableLog) -> bool:
    """Whether the topic exists, and is the table's."""
    try:
        log.check_topic()
    except (NotFoundError, CorruptDataError):
        return False
    return True
