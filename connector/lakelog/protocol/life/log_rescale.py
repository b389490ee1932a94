"""Changes the number of buckets of a table with a log: the next generation of its log, with its rows in new files.

The log is ended and taken into the files; a topic with one partition per bucket is created, and a schema that names
topic and buckets; then one snapshot holds the rows in their new buckets, the beginning of the new log, and the end of
the older one. The older topic stays for readers that have not read it to its end. Source:
docs/rfcs/0033-buckets-of-a-log.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.alter import rescaled_schema
from lakelog.protocol.access.place import check_no_copy, recorded_place
from lakelog.protocol.life.log_beginning import (
    NameTopic,
    begin,
    create_next,
    finish,
    is_cut_off,
    newest_of,
    present_log,
)
from lakelog.protocol.life.log_ending import end_log
from lakelog.protocol.life.log_ends import LogEnd
from lakelog.protocol.statements.statement_runs import target_of
from lakelog.protocol.writing.eventual import check_transactional


def rescale_log(
    table: FileStoreTable, bucket_count: int, *, topic_of: NameTopic, kafka: Mapping[str, str] | None = None
) -> FileStoreTable:
    """Give a table with a log another number of buckets and a topic with as many partitions; returns the changed table.

    A call that was cut off is finished first. A batch that is in a part of the buckets stays so: its stream writes the
    other rows into the new buckets. `topic_of` gives the name of a topic from what follows the table's name in it,
    `kafka` are the user's own settings of Kafka clients. Raises InvalidRequestError for a number below 1 and for a
    table that lost its log; UnsupportedError for an eventual log; ConflictError while a stream writes the table;
    NotFoundError without the topic; UnavailableError.
    """
    newest = newest_of(table)
    if not newest.has_log:
        cut_off = "; the call that removes it was cut off: finish it with `lakelog log remove`" * is_cut_off(newest)
        raise InvalidRequestError(f"table {table.name} has no log any more{cut_off}; then open it again")
    check_transactional(newest.schema, "rescale", table_name=table.name)
    check_no_copy(newest, recorded_place(newest))
    if is_cut_off(newest):
        newest = finish(newest, topic_of, kafka)
    wanted = rescaled_schema(newest, newest.schema, bucket_count)
    if wanted is newest.schema:
        return newest
    log = present_log(newest, kafka)
    log.check_topic()
    end_log(newest, target_of(log), takes_parts=True)
    after = create_next(newest, wanted, topic_of, kafka)
    return begin(after, LogEnd.of(after, log))
