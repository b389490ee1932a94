"""Gives a table a log, removes its log, or gives it another one, from its newest snapshot on.

The next schema is created first, then a snapshot that changes no row and begins the next generation. Between the two,
and after a crash there, writers and streams are refused until the call is made again, which continues. Source:
docs/rfcs/0028-life-of-a-log.md, "Generations".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.log_system import LOG_OPTION_PREFIXES, LOG_SYSTEM_KEY
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import PropertyKey
from lakelog.filestore.metadata.tables import read_fork
from lakelog.filestore.options import LOG_BRANCH, TABLE_UUID
from lakelog.filestore.schema import MAIN_BRANCH, TableSchema
from lakelog.logstore.options import TOPIC, LogSystem, is_eventual
from lakelog.protocol.access.place import check_no_copy, recorded_place
from lakelog.protocol.access.table_log import TableLog
from lakelog.protocol.access.topics import drop_topic
from lakelog.protocol.life.log_beginning import (
    NameTopic,
    begin,
    check_not_cut_off,
    create_next,
    finish,
    is_cut_off,
    newest_of,
    next_schema,
    older_log,
    present_log,
)
from lakelog.protocol.life.log_ending import end_log
from lakelog.protocol.life.log_ends import LogEnd, cut_buckets
from lakelog.protocol.state.loggable import check_loggable
from lakelog.protocol.statements.statement_runs import target_of

logger = logging.getLogger("lakelog.protocol")


def add_log(
    table: FileStoreTable,
    options: Mapping[str, str],
    *,
    check: Callable[[TableSchema], None],
    topic_of: NameTopic,
    kafka: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """Give a table a log that begins at its newest snapshot; returns the changed table.

    `options` are those of the log, `check` raises for an impossible schema, `topic_of` gives the name of a topic from
    what follows the table's name in it, and `kafka` are the user's own settings of Kafka clients. Raises
    InvalidRequestError for a table that has a log, UnsupportedError for a table that cannot get one, UnavailableError
    when Kafka does not answer.
    """
    newest = newest_of(table)
    if newest.has_log:
        if is_cut_off(newest):
            return finish(newest, topic_of, kafka)
        raise InvalidRequestError(f"table {table.name} has a log already, the topic {TOPIC.of(newest.schema.options)}")
    if is_cut_off(newest):
        raise InvalidRequestError(
            f"a call that removes the log of table {table.name} was cut off: finish it with `lakelog log remove`, then "
            "call this again"
        )
    stored = {TABLE_UUID.key: str(uuid.uuid4()), **newest.schema.options, **options, **_own_identity(newest)}
    wanted = next_schema(newest, {**stored, LOG_SYSTEM_KEY: LogSystem.KAFKA.value, PropertyKey.PLACE: table.path})
    check(wanted)
    check_can_begin(wanted, table_name=table.name)
    return begin(create_next(newest, wanted, topic_of, kafka), LogEnd())


def _own_identity(table: FileStoreTable) -> dict[str, str]:
    """The options that distinguish a branch's log from its table's: a uuid for its transactions and headers."""
    if table.branch == MAIN_BRANCH:
        return {}
    fork = read_fork(table, table.branch)
    branch_id = str(uuid.uuid4()) if fork is None else fork.branch_id
    return {TABLE_UUID.key: branch_id, LOG_BRANCH.key: branch_id}


def remove_log(
    table: FileStoreTable,
    *,
    keep_topic: bool = False,
    skip_unreadable: bool = False,
    kafka: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """End the log of a table and take it into the files; returns the changed table. `keep_topic` keeps its topic.

    With `skip_unreadable`, records that cannot be taken in are left out; if the topic is lost, all records.

    Raises InvalidRequestError for a table without a log, and for one with a batch that only its stream can finish;
    ConflictError while a stream writes the table; NotFoundError without the topic; UnavailableError.
    """
    newest = newest_of(table)
    if not newest.has_log and not is_cut_off(newest):
        raise InvalidRequestError(f"table {table.name} has no log")
    if newest.has_log:
        if newest.schema.is_merged_at_write or newest.schema.has_changelog_at_write:
            raise UnsupportedError(
                f"because of its log, each batch of table {table.name} merges rows or writes changelogs; without a log "
                "its files would have to be rewritten. Create another table without a log, and copy the rows"
            )
        _check_transactional(newest.schema, table_name=table.name)
        check_not_cut_off(newest)
        log: TableLog | None = present_log(newest, kafka)
        assert log is not None
        check_no_copy(newest, recorded_place(newest))
        _end(newest, log, takes_parts=False, skip_unreadable=skip_unreadable)
        left = {key: value for key, value in newest.schema.options.items() if not key.startswith(LOG_OPTION_PREFIXES)}
        without = next_schema(newest, left | {PropertyKey.PLACE: newest.path})
        newest.schemas.create(without)
        newest = replace(newest, schema=without)
    else:
        log = older_log(newest, kafka)
    done = begin(newest, LogEnd.of(newest, log))
    if not keep_topic and log is not None:
        drop_topic(log)
    return done


def renew_log(
    table: FileStoreTable,
    *,
    topic_of: NameTopic,
    keep_topic: bool = False,
    skip_unreadable: bool = False,
    kafka: Mapping[str, str] | None = None,
) -> FileStoreTable:
    """Give a table with a log a new topic, which begins at its newest snapshot; returns the changed table.

    The older topic is taken in first, and deleted unless `keep_topic`. If it does not exist, or a bucket has lost
    records that snapshots hold, streams write batches again that were logged there but are in no snapshot, and streams
    that had not read what snapshots hold read it from the files. With `skip_unreadable` the same holds for records that
    cannot be taken in, and for the records after them. Raises InvalidRequestError for a table
    without a log, ConflictError while a stream writes the table, UnavailableError.
    """
    newest = newest_of(table)
    if not newest.has_log:
        raise InvalidRequestError(f"table {table.name} has no log; `lakelog log add` gives it one")
    _check_transactional(newest.schema, table_name=table.name)
    check_no_copy(newest, recorded_place(newest))
    log: TableLog | None
    if is_cut_off(newest):
        log = older_log(newest, kafka)
        done = finish(newest, topic_of, kafka)
    else:
        log = present_log(newest, kafka)
        cut = cut_buckets(newest, log)
        if cut:
            logger.warning(
                "topic %s of table %s does not exist, or has lost records of buckets %s: what is in no "
                "snapshot is lost",
                log.topic,
                table.name,
                ", ".join(str(bucket) for bucket in sorted(cut)),
            )
        if len(cut) < log.bucket_count:
            end_log(newest, target_of(log), takes_parts=True, without=cut, skips_unreadable=skip_unreadable)
        wanted = next_schema(newest, newest.schema.options)
        end = LogEnd.of(newest, log)
        done = begin(create_next(newest, wanted, topic_of, kafka), end)
    if not keep_topic and log is not None:
        drop_topic(log)
    return done


def _end(table: FileStoreTable, log: TableLog, *, takes_parts: bool, skip_unreadable: bool) -> None:
    """End a log; with `skip_unreadable` the topic may be missing. Raises like `end_log` and `check_topic`."""
    if not skip_unreadable:
        log.check_topic()
        end_log(table, target_of(log), takes_parts=takes_parts)
        return
    cut = cut_buckets(table, log)
    if len(cut) < log.bucket_count:
        end_log(table, target_of(log), takes_parts=takes_parts, without=cut, skips_unreadable=True)


def check_can_begin(schema: TableSchema, *, table_name: str) -> None:
    """Raise InvalidRequestError or UnsupportedError for a table with files that cannot get a log. Pure."""
    check_loggable(schema, table_name=table_name)
    _check_transactional(schema, table_name=table_name)
    if schema.has_changelog_at_write:
        raise UnsupportedError(
            f"table {table_name} has a changelog-producer, and with log.changelog-mode=all the changelogs of a table "
            "with a log are written by each batch, not by compactions: leave one of the two out, or create another "
            "table with both"
        )
    if schema.is_merged_at_write:
        raise UnsupportedError(
            f"table {table_name} does not keep the last row of a key: with a log, rows are merged at each write, so "
            "its files would have to be rewritten. Create another table with log.system=kafka, and copy the rows"
        )


def _check_transactional(schema: TableSchema, *, table_name: str) -> None:
    if is_eventual(schema.options):
        raise UnsupportedError(
            f"table {table_name} has log.consistency=eventual: such a log has no transactions by which it could begin "
            "or end later. Create another table with it, or use 'transactional'"
        )
