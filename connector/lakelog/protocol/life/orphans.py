"""Orphan files of a table with a log: a file that the log or a prepared commit names is none."""

from __future__ import annotations

from collections.abc import Iterator

from lakelog.common.errors import CorruptDataError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.expire import NamedElsewhere, OrphanFile
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.errors import SKIP_UNREADABLE
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.life.log_beginning import is_cut_off, newest_of
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.prepared import names_of
from lakelog.protocol.state.writer_marks import WriterMarks
from lakelog.protocol.stores.table_states import newest_state


def names_in_log(table: FileStoreTable, log: TableLog) -> NamedElsewhere:
    """The argument `named_elsewhere` of `lakelog.filestore.verbs.remove_orphan_files` for a table with a log."""

    def named() -> set[str]:
        # The order matters: what a prepared commit lists gets into the log next, then into a snapshot.
        prepared = names_of(table)
        if is_cut_off(newest_of(table)):  # no snapshot has begun this log, so it is empty; the older log was taken in
            return prepared
        return prepared | set(files_in_log(table, log))

    return named


def ended_marks(table: FileStoreTable, log: TableLog, *, before_millis: int) -> list[OrphanFile]:
    """The marks of writers, last changed before a time, that no run of their writer asks for. See `WriterMarks.ended`.

    A running write replaces its mark, which is young then. Raises CorruptDataError.
    """
    if log.is_eventual or is_cut_off(newest_of(table)):
        return []
    state = newest_state(table, topic_id=log.topic_id)
    found = WriterMarks(table, log.topic_id).ended(state, before_millis=before_millis)
    return [
        OrphanFile(path=path, size_bytes=entry.size_bytes, modified_millis=entry.modified_millis)
        for path, entry in found
    ]


def files_in_log(table: TableStore, log: TableLog) -> Iterator[str]:
    """The names of files in the headers that the newest snapshot has not taken in.

    The log must be read before the snapshots: then a transaction that is taken in meanwhile is in one of the two. A
    transaction that is not committed yet is not found; its files are as young as the transaction. The records of an
    eventual log name no files. Raises StalledError, LogTruncatedError, UnavailableError and CorruptDataError.
    """
    log.check_topic()
    if log.is_eventual:
        return
    state = newest_state(table, topic_id=log.topic_id).logged
    headers = HeaderFiles(table)
    for bucket in range(table.bucket_count):
        partition = kafka_topic(log).partition(bucket)
        tail = read_tail(partition, state.position(bucket).offset)
        for transaction in tail.transactions:
            where = f"{partition}, offset {transaction.first_offset}"
            header_file = headers.name_of(transaction.header, where=where)
            if header_file is not None:
                yield header_file
            header = headers.read(transaction.header, where=where)
            if header.table_uuid != table.uuid:
                raise CorruptDataError(
                    f"the commit header at {where} is of table {header.table_uuid}, not of this one. {SKIP_UNREADABLE}"
                )
            parts = (file for part in header.parts.values() for file in part.files)  # of other buckets too
            for file in (*header.files, *header.changelog, *header.removed, *parts):
                yield file.meta.file_name
                yield from file.meta.extra_files
