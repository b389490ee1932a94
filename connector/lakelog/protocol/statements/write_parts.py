"""The parts of a write: the files of all its buckets, and the headers that name all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any  # what is done in each bucket is the caller's

import numpy as np
import pyarrow as pa

from lakelog.common.clock import Stopwatch
from lakelog.common.patience import Patience
from lakelog.filestore.encoding import bucket_of
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import FileNames
from lakelog.filestore.write import StatementChanges
from lakelog.logstore.codec.encoded_records import NO_RECORDS, EncodedRecords
from lakelog.protocol.access.place import check_no_copy
from lakelog.protocol.state.header import BucketFile, StagedPart
from lakelog.protocol.state.ports import PartBase, PreparedBucket
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.steps import StepObserver, process_observer
from lakelog.protocol.state.writer_marks import WriterMark, WriterMarks
from lakelog.protocol.state.writes import digest_of_sources, write_name
from lakelog.protocol.statements.owned_log import LogPorts, Mark, OwnedLog, Part
from lakelog.protocol.statements.staging import every_row, write_staged
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.write_log import NumberedWrite, OpenedLog
from lakelog.protocol.stores.encoded_parts import ChangeRows, encode_part
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.logged_rows import split_rows
from lakelog.protocol.stores.task_stores import TaskFiles, TaskLog
from lakelog.protocol.writing.tail_checks import next_sequence

BATCH_BYTES_MAX = 32 << 20  # of rows that one write may have, or several that are joined
_THREADS_MAX = 16
_OF_HEADERS = 0  # the bucket of writes that change nothing


class WritingTable:
    """A table with a log, as a writer opens it: its ports, and the parts of its writes. `close` ends its threads."""

    def __init__(self, observe: StepObserver | None = None) -> None:
        self._observe = observe or process_observer()
        self._threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="lakelog-write")

    def opened(self, table: TableStore, target: LogTarget) -> OpenedLog[StatementChanges, EncodedRecords]:
        """The table and its log, as they are now."""
        log = TaskLog(table, target, BATCH_BYTES_MAX)
        ports = LogPorts(
            table_uuid=table.uuid,
            table_name=table.name,
            bucket_count=table.bucket_count,
            log=log,
            files=TaskFiles(table, target),
            statements=LoggedTable.of(table, target, observe=self._observe).ports,
            holds=log.holds,
            in_each=self._in_each,
            observe=self._observe,
            check_place=lambda state: check_no_copy(table, state.place),
            put_mark=partial(_put_mark, table, target),
            find_mark=partial(_find_mark, table, target),
            patience=lambda: Patience(target.unavailable_seconds),
        )
        return OpenedLog(ports=ports, make=partial(made_parts, table, target))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _in_each(self, work: Callable[[int], Any], buckets: Iterable[int], /) -> list[Any]:
        asked = list(buckets)
        if len(asked) == 1:
            return [work(asked[0])]
        begun = [self._threads.submit(work, bucket) for bucket in asked]
        errors = [error for one in begun if (error := one.exception()) is not None]
        if errors:
            raise errors[0]
        return [one.result() for one in begun]


def made_parts(
    table: TableStore, target: LogTarget, log: OwnedLog[EncodedRecords], write: NumberedWrite[StatementChanges]
) -> dict[int, Part[EncodedRecords]]:
    """Write the files of a write on what the log has; gives the part of each bucket in which it changes something.

    With identifiers there is a part, also where it changes nothing: a header. Nothing is logged.
    """
    state = log.state
    parts: dict[int, PreparedBucket[EncodedRecords]] = {}
    staged: dict[int, StagedPart] = {}
    for bucket, rows in _by_bucket(table, write.changes):
        headers = tuple(header for header, _ in log.buckets[bucket].logged)
        first = next_sequence(state, bucket, list(headers))
        base = PartBase(first_sequence=first, snapshot_id=state.snapshot_id, tail=headers)
        part = TaskFiles(table, target).prepare(bucket, partial(encode_part, table, target, bucket, rows), base)
        if part.is_empty:
            continue
        is_merged = table.schema.is_merged_at_write
        files = _given_changes(table, bucket, rows, first) if is_merged else part.files
        parts[bucket] = part
        staged[bucket] = StagedPart(offset=log.buckets[bucket].end, files=files, is_tracked=target.tracking.is_on)
    if not parts and write.has_identifiers:  # else the next process would not know of it, and it would be done later
        parts[_OF_HEADERS] = _header_alone()
        staged[_OF_HEADERS] = StagedPart(offset=log.buckets[_OF_HEADERS].end, files=())
    batch = Batch(
        user=write.user,
        identifier=write.number,
        source_digest=digest_of_sources(write.sources),
        lineage=dict((table.lineage if write.lineage is None else write.lineage) or {}),
    )
    name = write_name(write.user, write.number)
    return {
        bucket: (
            part,
            part.header(
                batch,
                table_uuid=table.uuid,
                schema_id=table.schema.id,
                base_snapshot_id=state.snapshot_id,
                statement=name,
                parts=staged,
            ),
        )
        for bucket, part in parts.items()
    }


def _header_alone() -> PreparedBucket[EncodedRecords]:
    """A part that changes nothing."""
    return PreparedBucket(
        files=(),
        changelog=(),
        record_count=NO_RECORDS.sent_count,
        size_bytes=NO_RECORDS.size_bytes,
        payload=NO_RECORDS,
        age_seconds=Stopwatch().seconds,
    )


def _put_mark(table: TableStore, target: LogTarget, mark: Mark) -> None:
    ends = {bucket: (end, mark.number) for bucket, end in mark.ends.items()}
    WriterMarks(table, target.topic_id).put(
        WriterMark(
            table_uuid=table.uuid,
            topic_id=target.topic_id,
            user=mark.user,
            identifier=mark.number,
            digest=mark.digest,
            ends=ends,
        )
    )


def _find_mark(table: TableStore, target: LogTarget, user: str) -> int | None:
    found = WriterMarks(table, target.topic_id).find(user)
    return None if found is None else found.identifier


def _by_bucket(table: TableStore, changes: StatementChanges) -> list[tuple[int, ChangeRows]]:
    """The rows of each bucket, in arrival order."""
    schema = table.schema
    if table.bucket_count == 1:
        return [(0, ChangeRows(rows=changes.rows, kinds=changes.kinds))] if changes.rows.num_rows else []
    buckets = bucket_of(changes.rows, schema.bucket_fields, table.bucket_count, schema.bucket_function)
    found = []
    for bucket in np.unique(buckets).tolist():
        places = pa.array(np.flatnonzero(buckets == bucket))
        found.append((bucket, ChangeRows(rows=changes.rows.take(places), kinds=changes.kinds.take(places))))
    return found


def _given_changes(table: TableStore, bucket: int, rows: ChangeRows, first_sequence: int) -> tuple[BucketFile, ...]:
    """Files with the changes as they were given: from merged rows the part could not be made again."""
    files: dict[int, list[BucketFile]] = {}
    names = FileNames()
    for part in split_rows(table, rows.rows, rows.kinds):
        write_staged(table, part.bucket_id, every_row(table, part), first_sequence, names, files, [])
    return tuple(files.get(bucket, ()))
