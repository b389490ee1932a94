"""Writes by `format("lakelog")` to tables without a log: `df.write`, `df.writeStream`, INSERT INTO.

Spark plans them without us, so rows reach the tasks in any distribution. That is enough for files; the buckets of a log
have owners, so tables with a log are refused, with an error that names how to write them.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from lakelog.catalog import Table
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError, UnavailableError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.commit import CommitRequest, TableCommit, batch_properties
from lakelog.filestore.compact import compacted_ahead
from lakelog.filestore.index import HashIndex, HashIndexChange
from lakelog.filestore.metadata.manifests import FileKind
from lakelog.filestore.metadata.snapshots import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, lineage_property
from lakelog.filestore.metadata.tables import discard_files
from lakelog.filestore.read import waiting_buckets
from lakelog.filestore.refs import is_snapshot_due
from lakelog.filestore.write import Replaced, WrittenRows, add_entry, moved_behind, replaced_partitions
from lakelog.protocol.state import Batch, BucketFile
from lakelog.protocol.stores import DriverSnapshots
from lakelog.spark.capture.checkpoint import files_of_batch, parse_offset_log, parse_watermark
from lakelog.spark.capture.checkpoint_table import bind, check_unseen
from lakelog.spark.compaction.compaction import compact_due
from lakelog.spark.failures import sentence_first
from lakelog.spark.logging_level import LoggingLevel, show_log
from lakelog.spark.options import PARTITION_OVERWRITE_CONF
from lakelog.spark.projection import check_schema, with_new_columns
from lakelog.spark.sink.alignment import QUERY_ID, digest_of
from lakelog.spark.sink.batch_write import base_index, next_sequence
from lakelog.spark.sink.checkpoint_folders import folder_beside, local_path, text_of
from lakelog.spark.sink.declaring import StreamDeclaration
from lakelog.spark.sink.overwriting import chosen_overwrite
from lakelog.spark.sink.task import FilesWrite, answered, rows_of_task

logger = logging.getLogger("lakelog.spark")


@dataclass(frozen=True, slots=True)
class WrittenFiles(WriterCommitMessage):
    """What a task has written, and on which snapshot; `query_id` is the id of the streaming query, None for a batch.

    It also carries an `error` of the rows, as in `lakelog.spark.failures`: the commit raises it. `overwrite_mode` is
    that of the session, which only tasks can read.
    """

    files: tuple[tuple[int, BucketFile], ...]
    changelog: tuple[tuple[int, BucketFile], ...]
    row_count: int
    base_id: int
    query_id: str | None
    hashes: HashIndexChange | None = None
    overwrite_mode: str | None = None
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPlan:
    """The plan of one write: on which snapshot, with which sequence numbers, and what it replaces, if anything.

    If `replaces` is None, the session's conf says what an overwrite replaces.
    """

    table: FileStoreTable
    base_id: int
    first_sequence: int
    is_overwrite: bool
    replaces: Replaced | None
    index: HashIndex | None

    @classmethod
    def of(
        cls,
        table: Table,
        schema: spark.StructType,
        *,
        is_overwrite: bool,
        replaces: Replaced | None = None,
        merges_schema: bool = False,
    ) -> FilesPlan:
        """Plan a write of rows of `schema` on the newest snapshot. Raises InvalidRequestError."""
        check_has_no_log(table)
        if merges_schema:
            table = with_new_columns(table, schema)
        check_schema(schema, table.schema, table_name=table.name)
        state = DriverSnapshots(table.store, None).newest()
        return cls(
            table=table.store,
            base_id=state.snapshot_id,
            first_sequence=next_sequence(table.store, state),
            is_overwrite=is_overwrite,
            replaces=replaces,
            index=base_index(table.store, 0 if is_overwrite else state.snapshot_id),
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of one task, or return the error of rows that do not fit."""
        context = TaskContext.get()
        assert context is not None, "a write task runs in a Spark worker"
        write = FilesWrite(
            table=self.table,
            first_sequence=self.first_sequence,
            is_overwrite=self.is_overwrite,
            index=self.index,
        )
        given = rows_of_task(batches, self.table, context)
        if self.index is not None and context.partitionId():
            given = _refused(given, self.table.name)
        message = answered(lambda: write.write(given, context.partitionId()))
        query_id = context.getLocalProperty(QUERY_ID)
        return WrittenFiles(
            files=message.files,
            changelog=message.changelog,
            row_count=message.row_count,
            base_id=self.base_id,
            query_id=query_id,
            hashes=message.hashes,
            overwrite_mode=context.getLocalProperty(PARTITION_OVERWRITE_CONF),
            error=message.error,
        )

    def commit_rows(self, written: Sequence[WrittenFiles]) -> Snapshot | None:
        """Take the files of a batch write into one snapshot. Raises like `commit`."""
        batch = Batch(user=str(uuid.uuid4()), identifier=BATCH_COMMIT_IDENTIFIER, source_digest=None)
        return self.commit(written, batch, is_stream=False)

    def commit(
        self, written: Sequence[WrittenFiles], batch: Batch, *, is_stream: bool, is_taking_over: bool = False
    ) -> Snapshot | None:
        """Take the files into one snapshot, with other sequence numbers if other writers have committed meanwhile.

        `is_taking_over` lets the batch take over the job of another query. Raises ConflictError for an overwrite when
        another writer has committed meanwhile.
        """
        snapshots = DriverSnapshots(self.table, None)
        hashes = self._hashes(written)
        files = [file for message in written for file in message.files]
        # Spark plans a streaming write again for its commit: only the messages know the snapshot they were written on.
        base_id = min((message.base_id for message in written), default=self.base_id)
        rows = WrittenRows(
            entries=[add_entry(self.table, file.bucket_id(bucket), file.meta) for bucket, file in files],
            changelog=[
                add_entry(self.table, file.bucket_id(bucket), file.meta)
                for message in written
                for bucket, file in message.changelog
            ],
        )

        def resolve(latest: Snapshot | None) -> CommitRequest | None:
            nonlocal rows, hashes
            of_batch = self._properties(latest, batch, is_taking_over=is_taking_over) if is_stream else {}
            if of_batch is None:
                return None
            if self.is_overwrite:
                self._check_base(latest, base_id)
            else:
                rows, hashes = moved_behind(self.table, latest, rows, hashes)
            replaced = self._replaced(latest, written)
            live = self.table.live_files.of(latest).entries() if replaced else ()
            return CommitRequest(
                commit_user=batch.user,
                commit_identifier=batch.identifier,
                kind=CommitKind.OVERWRITE if self.is_overwrite else CommitKind.APPEND,
                entries=[
                    *(replace(entry, kind=FileKind.DELETE) for entry in live if entry.partition in replaced),
                    *rows.entries,
                ],
                changelog=rows.changelog,
                hashes=self._on_top_of(replaced, hashes),
                properties=of_batch,
                watermark=batch.watermark_millis,
                operation="OVERWRITE" if self.is_overwrite else "WRITE",
            )

        with compacted_ahead(self.table, rows.entries if self.is_overwrite else ()) as commit_compaction:
            given = rows
            snapshot = TableCommit(self.table).commit(resolve)
            if snapshot is not None:
                discard_files(self.table, sorted(self._paths(given) - self._paths(rows)))
                commit_compaction()
        touched = waiting_buckets(self.table) if snapshot is None else [entry.bucket_id for entry in rows.entries]
        if snapshot is not None or touched:
            compact_due(batch, snapshots, touched)
        return snapshot

    def _paths(self, rows: WrittenRows) -> set[str]:
        return {self.table.data_path(entry.bucket_id, entry.file) for entry in (*rows.entries, *rows.changelog)}

    def _properties(self, latest: Snapshot | None, batch: Batch, *, is_taking_over: bool) -> Mapping[str, str] | None:
        """The properties of the snapshot of a micro-batch; None if the table has the batch already."""
        found = batch_properties(
            self.table,
            latest,
            user=batch.user,
            identifier=batch.identifier,
            digest=batch.source_digest,
            job=batch.job,
            is_taking_over=is_taking_over,
        )
        return None if found is None else found | lineage_property(batch.user, batch.identifier, batch.lineage)

    def _hashes(self, written: Sequence[WrittenFiles]) -> HashIndexChange | None:
        """The change of the HASH index by the only task that had rows."""
        changes = [message.hashes for message in written if message.hashes is not None]
        return HashIndexChange.joined(changes) if self.index is not None else None

    def _replaced(self, latest: Snapshot | None, written: Sequence[WrittenFiles]) -> set[bytes]:
        """The partitions that are replaced. Raises InvalidRequestError for rows outside the overwrite's condition."""
        if not self.is_overwrite:
            return set()
        conf = next((message.overwrite_mode for message in written), None)
        partitions = {file.partition for message in written for _, file in message.files}
        replaces = chosen_overwrite(self.table, self.replaces, conf, partitions)
        return replaced_partitions(self.table, latest, replaces, partitions)

    def _on_top_of(self, replaced: set[bytes], hashes: HashIndexChange | None) -> HashIndexChange | None:
        if hashes is None or not self.is_overwrite:
            return hashes
        return HashIndexChange(files=hashes.files, replaced=replaced | hashes.partitions)

    def _check_base(self, latest: Snapshot | None, base_id: int) -> None:
        """Raise ConflictError for an overwrite that was planned on another snapshot: later changes would be lost."""
        found = 0 if latest is None else latest.id
        if found != base_id:
            raise ConflictError(
                f"snapshot {found} of table {self.table.name} appeared while rows were written on snapshot {base_id}; "
                "nothing was committed: write again"
            )


class FilesWriter(DataSourceArrowWriter):
    """A batch write. The files of a failed write stay until orphan files are removed: they may be in a snapshot."""

    def __init__(self, plan: FilesPlan, level: LoggingLevel | None = None) -> None:
        """Write nothing yet. `level` is the level from which the committing process shows its log."""
        self._plan = plan
        self._level = level

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """One task's rows."""
        return self._plan.write(iterator)

    @sentence_first()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """One snapshot of all files."""
        show_log(self._level)
        self._plan.commit_rows(written_files(messages))


class FilesStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: each micro-batch exactly once, under Spark's query id or `commit_user`.

    Spark commits a batch again after a crash, and calls abort with all messages after a commit that raised, which may
    have taken effect: so the commit asks the table, and abort deletes nothing.
    """

    def __init__(
        self, plan: FilesPlan, commit_user: str | None, checkpoint: str | None, declared: StreamDeclaration
    ) -> None:
        """Write nothing yet. `checkpoint` is the location that the query was given; None where Spark chose it."""
        self._plan = plan
        self._declared = declared
        self._commit_user = commit_user
        self._checkpoint = checkpoint

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """One task's rows."""
        return self._plan.write(iterator)

    @sentence_first()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """One snapshot of the micro-batch; none for a batch without tasks, which has nothing to record.

        A batch without rows makes a snapshot if a tag waits for one.
        """
        written = written_files(messages)
        users = {message.query_id for message in written if message.query_id}
        query_id = next(iter(users), None)
        user = self._commit_user or query_id
        if user is None:
            return
        plain = Batch(user=user, identifier=batchId, source_digest=None)
        batch = self._declared.recorded(self._identified(plain, query_id), self._plan.table, query_id, self._checkpoint)
        has_rows = self._plan.is_overwrite or any(message.row_count for message in written)
        if has_rows or is_snapshot_due(self._plan.table, watermark=batch.watermark_millis):
            self._plan.commit(written, batch, is_stream=True, is_taking_over=self._declared.takes_over)

    def _identified(self, batch: Batch, query_id: str | None) -> Batch:
        """The batch with the digest of its source offsets and its watermark.

        Both stay None if the checkpoint is not on this machine. Raises InvalidRequestError if it belongs to another
        table.
        """
        self._check_checkpoint(batch)
        folder = None if self._checkpoint is None else local_path(self._checkpoint)
        if folder is None:
            return batch
        path = folder / "offsets" / str(batch.identifier)
        text = path.read_text(encoding="utf-8")
        lines = parse_offset_log(text, path=str(path))
        files = files_of_batch(batch.identifier, lines, lambda name: text_of(folder / name))
        digest = digest_of(lines, query_id=None if self._commit_user is None else query_id, files=files)
        return replace(batch, source_digest=digest, watermark_millis=parse_watermark(text, path=str(path)))

    def _check_checkpoint(self, batch: Batch) -> None:
        """Write the table into the checkpoint. If Python cannot read the checkpoint, warn by what the table knows."""
        table = self._plan.table
        folder = None if self._checkpoint is None else folder_beside(table, self._checkpoint)
        try:
            if folder is not None and folder.find_text(f"offsets/{batch.identifier}") is not None:
                bind(folder, table, user=batch.user, batch_id=batch.identifier)
                return
        except (NotFoundError, UnavailableError) as error:  # the table's access may not reach the checkpoint
            logger.info("checkpoint %s is not read: %s", self._checkpoint, error)
        check_unseen(table, user=batch.user, batch_id=batch.identifier)


class AwayStreamWriter(DataSourceStreamArrowWriter):
    """The streaming write of a table whose file store does not answer: it only ends.

    Spark creates a new writer to end a batch whose commit raised. If that failed too, Spark would report "Writing job
    failed" instead of what the commit raised, for example that its outcome is unknown.
    """

    def __init__(self, reason: str) -> None:
        """`reason` is the answer of the file store."""
        self._reason = reason

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:  # noqa: ARG002  # no row is taken
        """Raises UnavailableError."""
        raise UnavailableError(self._reason)

    @sentence_first()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        """Raises UnavailableError."""
        raise UnavailableError(self._reason)


def check_has_no_log(table: Table) -> None:
    """Raise InvalidRequestError for a table with a log, naming how to write it."""
    if table.log is not None:
        raise InvalidRequestError(
            f"table {table.name} has a log, whose buckets have one owner each: write a stream with "
            "lakelog.spark.write_stream(df, table, ...) or with LakelogSink in foreachBatch; "
            "writeStream.format('lakelog') "
            "is for tables without a log"
        )


def _refused(batches: Iterable[pa.RecordBatch], table_name: str) -> Iterator[pa.RecordBatch]:
    """No rows. Raises InvalidRequestError for any row, since this task cannot assign buckets."""
    for batch in batches:
        if batch.num_rows:
            raise InvalidRequestError(
                f"table {table_name} has dynamic buckets, and Spark brings the rows of format('lakelog') to any tasks: "
                "two could give one key two buckets. Write one task with df.coalesce(1), or a stream with "
                "lakelog.spark.write_stream or LakelogSink, which bring the rows of a key to one task"
            )
        yield batch


def written_files(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFiles]:
    """The answers of the tasks. Raises the first error that one of them found in its rows."""
    written = [message for message in messages if isinstance(message, WrittenFiles)]
    for message in written:
        if message.error is not None:
            raise message.error
    return written
