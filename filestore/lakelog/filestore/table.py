"""A table of the file store: opened or made by path, written, compacted and read, without Spark and without Kafka."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypedDict,
    Unpack,
    get_args,
)  # Any: duckdb is an optional extra without types here

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField
from lakelog.filestore.changes import ChangeSource, change_files, read_change_file
from lakelog.filestore.commit import CommitClock, CommitRequest, TableCommit
from lakelog.filestore.compact.choosing import due_work, pick_unit
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.expiry import Expired, Retention, expire_snapshots
from lakelog.filestore.fileio import FileIO, LocalFileIO
from lakelog.filestore.live_files import BucketId
from lakelog.filestore.manifest import FileKind
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.options import PARTITION_EXPIRATION_TIME, READ_MEMORY_BUDGET, TABLE_UUID, WRITE_ONLY
from lakelog.filestore.partition_times import expired_partitions
from lakelog.filestore.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.predicate import Predicate, parse_where
from lakelog.filestore.read import read_split
from lakelog.filestore.scan import DataSplit, check_schema, plan
from lakelog.filestore.schema import SchemaManager, TableSchema
from lakelog.filestore.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.store import TableStore
from lakelog.filestore.table_write import Overwrite, PartitionFilter, Replaced, TableWrite
from lakelog.filestore.write import check_table_writable

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

logger = logging.getLogger("lakelog.filestore")

WriteMode = Literal["append", "overwrite", "overwrite-partitions"]
_LOG_SYSTEM_KEY = "log.system"
_NO_LOG = "none"


class Which(TypedDict, total=False):
    """Which state of a table a read shows: one of these, or without any the newest."""

    snapshot_id: int | None
    timestamp_millis: int | None
    tag: str | None


class Selection(Which, total=False):
    """Which rows and columns a read gives.

    `where` is a condition in SQL. `snapshot_id` reads that snapshot, `timestamp_millis` the newest one at that moment
    or before, `tag` the one that the tag keeps; without any of them it is the newest.
    """

    columns: Sequence[str] | None
    where: str | Predicate | None


@dataclass(frozen=True, kw_only=True)
class FileStoreTable(TableStore):
    """One table: LSM files in the Paimon format."""

    @classmethod
    def open(cls, path: str | Path, file_io: FileIO | None = None, *, branch: str = MAIN_BRANCH) -> FileStoreTable:
        """The table in a folder, with its newest schema, or a branch of it. Raises NotFoundError when there is none."""
        file_io = file_io or LocalFileIO()
        root = _root(path)
        schema = SchemaManager(file_io, TablePaths(root, branch)).latest()
        if schema is None and branch != MAIN_BRANCH:
            raise NotFoundError(f"table {root} has no branch {branch!r}")
        if schema is None:
            raise NotFoundError(f"{root} holds no table: it has no schema/schema-N file; check the path, or create it")
        return cls(path=root, file_io=file_io, schema=schema, branch=branch)

    @classmethod
    def create(cls, path: str | Path, schema: TableSchema, file_io: FileIO | None = None) -> FileStoreTable:
        """Make a table in a folder, with an identity of its own. Raises ConflictError when one is there.

        Raises InvalidRequestError or UnsupportedError for a merge engine that does not fit the columns.
        """
        row_merge(schema)
        file_io = file_io or LocalFileIO()
        root = _root(path)
        options = {TABLE_UUID.key: str(uuid.uuid4()), **schema.options}
        made = replace(schema, options=options, time_millis=schema.time_millis or time.time_ns() // 1_000_000)
        SchemaManager(file_io, TablePaths(root)).create(made)
        return cls(path=root, file_io=file_io, schema=made)

    @property
    def options(self) -> dict[str, str]:
        """The table's options as they are stored."""
        return dict(self.schema.options)

    def snapshot(
        self, *, snapshot_id: int | None = None, timestamp_millis: int | None = None, tag: str | None = None
    ) -> Snapshot | None:
        """The snapshot to read: by id, by time, by tag, or the newest; None for a table without any.

        Raises NotFoundError for an id or a tag that is not there and for a time before the oldest living snapshot.
        """
        if sum(given is not None for given in (snapshot_id, timestamp_millis, tag)) > 1:
            raise InvalidRequestError("a read takes one of a snapshot id, a timestamp and a tag")
        if tag is not None:
            return self.snapshots.tagged(tag)
        if snapshot_id is not None:
            return self.snapshots.get(snapshot_id)
        if timestamp_millis is None:
            return self.snapshots.latest()
        found = self.snapshots.at_or_before(timestamp_millis)
        if found is None:
            raise NotFoundError(f"{self.name} has no snapshot at or before {timestamp_millis} ms; name a later time")
        return found

    def to_batches(self, **what: Unpack[Selection]) -> Iterator[pa.RecordBatch]:
        """The rows in batches and in no order. What is wrong with the arguments is raised before the first batch."""
        read = self._planned(**what)
        return (batch for split in read.splits for batch in read.batches(split))

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as one Arrow table, in no order. Reads on all cores, which share the memory budget."""
        read = self._planned(**what)
        workers = max(1, min(os.cpu_count() or 1, len(read.splits)))
        shared = replace(read, budget_bytes=read.budget_bytes // workers)
        with ThreadPoolExecutor(workers) as pool:
            parts = pool.map(lambda split: list(shared.batches(split)), read.splits)
            return pa.Table.from_batches([batch for part in parts for batch in part], to_arrow_schema(read.fields))

    def _planned(
        self, *, columns: Sequence[str] | None = None, where: str | Predicate | None = None, **which: Unpack[Which]
    ) -> _PlannedRead:
        predicate = parse_where(where) if isinstance(where, str) else where
        if which:
            check_schema(self, self.snapshots.latest())
        return _PlannedRead(
            table=self,
            fields=self.schema.fields if columns is None else self.schema.select(columns),
            where=predicate,
            splits=plan(self, self.snapshot(**which), where=predicate).splits,
            budget_bytes=READ_MEMORY_BUDGET.of(self.schema.options),
        )

    def to_polars(self, **what: Unpack[Selection]) -> pl.DataFrame:
        """The rows as a polars frame, in no order; maps become lists of key and value."""
        frame = pl.from_arrow(self.to_arrow(**what))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_duckdb(self, *, connection: Any = None, **what: Unpack[Selection]) -> DuckDBPyRelation:
        """The rows as a DuckDB relation. Needs duckdb."""
        try:
            import duckdb  # noqa: PLC0415
        except ImportError as error:
            raise InvalidRequestError("to_duckdb needs duckdb: pip install 'lakelog[duckdb]'") from error
        return duckdb.from_arrow(self.to_arrow(**what), connection=connection or duckdb.default_connection())

    def changes(
        self,
        *,
        after: int | None = None,
        up_to: int | None = None,
        source: ChangeSource = ChangeSource.AUTO,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes of the snapshots behind `after`, up to `up_to`: all that are there by default.

        The columns follow `_row_kind` (+I, -U, +U, -D). Changes come snapshot by snapshot, bucket by bucket. Raises
        NotFoundError for a snapshot that is not there.
        """
        check_schema(self, self.snapshots.latest())
        fields = self.schema.fields if columns is None else self.schema.select(columns)
        first = (self.snapshots.earliest_id() or 1) if after is None else after + 1
        last = (self.snapshots.latest_id() or 0) if up_to is None else up_to
        found = [self.snapshots.get(number) for number in range(first, last + 1)]
        return self._changes(found, fields, source)

    def _changes(
        self, snapshots: Sequence[Snapshot], fields: Sequence[DataField], source: ChangeSource
    ) -> Iterator[pa.RecordBatch]:
        texts = pa.array(ROW_KIND_TEXTS)
        schema = pa.schema([pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), *to_arrow_schema(fields)])
        for snapshot in snapshots:
            for entry in change_files(self, snapshot, source):
                for batch in read_change_file(self, entry, fields, kind_name=ROW_KIND_COLUMN):
                    *values, kinds = batch.columns
                    yield pa.RecordBatch.from_arrays([texts.take(kinds), *values], schema=schema)

    def write(
        self,
        rows: pa.Table,
        *,
        mode: WriteMode = "append",
        where: str | Predicate | None = None,
        kinds: pa.Array | None = None,
        clock: CommitClock | None = None,
    ) -> Snapshot:
        """Write rows and commit them in one snapshot; `kinds` are row kinds as int8, None makes every row an upsert.

        `overwrite` replaces all rows of the table, or with `where`, a condition on partition columns, those of the
        partitions that meet it; the new rows must meet it too. `overwrite-partitions` replaces the partitions that the
        new rows are in. Afterwards the touched buckets are compacted where that is due, unless the table is write-only.
        Raises InvalidRequestError for rows that do not fit and for tables with a log, ConflictError for an overwrite of
        a table that changed meanwhile.
        """
        self._check_has_no_log()
        if mode not in get_args(WriteMode):
            raise InvalidRequestError(f"write mode {mode!r} is not known; use {', '.join(get_args(WriteMode))}")
        write = TableWrite(self, rows, kinds, replaces=self._replaced(mode, where))
        commit = TableCommit(self, clock=clock)
        try:
            snapshot = commit.commit(write.resolve)
        except ConflictError:
            if not commit.has_unknown_outcome:
                write.discard(write.files)
            raise
        assert snapshot is not None
        write.discard(write.superseded)
        if not WRITE_ONLY.of(self.schema.options):
            self._compact_after_write({(entry.partition, entry.bucket) for entry in write.entries}, clock)
        return snapshot

    def _replaced(self, mode: WriteMode, where: str | Predicate | None) -> Replaced | None:
        if where is not None and mode != "overwrite":
            raise InvalidRequestError(f"a write with mode {mode!r} takes no condition; use mode='overwrite'")
        if mode == "append":
            return None
        if where is None:
            return Overwrite.EVERYTHING if mode == "overwrite" else Overwrite.WRITTEN_PARTITIONS
        return PartitionFilter(self.schema, parse_where(where) if isinstance(where, str) else where)

    def drop_partitions(self, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the partitions that meet a condition on partition columns; None when none does.

        Raises InvalidRequestError for a condition on other columns and for tables with a log, ConflictError for a table
        that changed meanwhile.
        """
        wanted = PartitionFilter(self.schema, parse_where(where) if isinstance(where, str) else where)
        return self._drop(wanted.matching, clock)

    def expire_partitions(self, *, now_millis: int | None = None, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the partitions that are older than `partition.expiration-time`; None when none is.

        Partitions whose values tell no time stay. Raises as `drop_partitions`, and InvalidRequestError without the
        option.
        """
        age = PARTITION_EXPIRATION_TIME.of(self.schema.options)
        if age is None or not self.schema.partition_keys:
            raise InvalidRequestError(
                f"table {self.name} has no {PARTITION_EXPIRATION_TIME.key}, or no partitions: there is nothing to go by"
            )
        now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
        return self._drop(
            lambda partitions: expired_partitions(self.schema, list(partitions), age_millis=age, now_millis=now), clock
        )

    def _drop(self, choose: Callable[[set[bytes]], set[bytes]], clock: CommitClock | None) -> Snapshot | None:
        self._check_has_no_log()
        check_table_writable(self)
        base = self.snapshots.latest()
        live = self.live_files.of(base)
        gone = choose({partition for partition, _ in live.buckets})
        entries = [replace(entry, kind=FileKind.DELETE) for entry in live.entries() if entry.partition in gone]
        if not entries:
            return None
        request = CommitRequest(
            commit_user=str(uuid.uuid4()),
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.OVERWRITE,
            entries=entries,
            operation="OVERWRITE",
        )

        def resolve(latest: Snapshot | None) -> CommitRequest:
            if latest != base:
                raise ConflictError(f"{self.name} changed while partitions were dropped; drop them again")
            return request

        return TableCommit(self, clock=clock).commit(resolve)

    def compact(self, *, full: bool = True, clock: CommitClock | None = None) -> Snapshot | None:
        """Merge the runs of every bucket into one (`full`), or what is due by the table's options.

        None when there was nothing to do. Raises ConflictError when somebody else compacted meanwhile.
        """
        return self._compact(None, is_full=full, clock=clock)

    def _compact(
        self, buckets: Collection[BucketId] | None, *, is_full: bool, clock: CommitClock | None
    ) -> Snapshot | None:
        work = due_work(
            self, self.snapshots.latest(), buckets, lambda _, files: pick_unit(self, files, is_full=is_full)
        )
        results = [result for one in work if (result := compact_bucket(self, one)) is not None]
        return commit_results(self, results, clock=clock) if results else None

    def _compact_after_write(self, buckets: set[BucketId], clock: CommitClock | None) -> None:
        """The rows are committed: whatever keeps a compaction from happening must not look like a failed write."""
        try:
            self._compact(buckets, is_full=False, clock=clock)
        except LakelogError as error:
            logger.warning("%s: the compaction after a write did not happen: %s", self.name, error)

    def expire_snapshots(self, *, retention: Retention | None = None, now_millis: int | None = None) -> Expired:
        """Delete snapshots that are too old or too many by the table's options, or by `retention`.

        What a consumer, a tag, a branch or a newer snapshot needs stays. Time travel reaches kept snapshots only.
        """
        return expire_snapshots(
            self, retention=retention, now_millis=time.time_ns() // 1_000_000 if now_millis is None else now_millis
        )

    def _check_has_no_log(self) -> None:
        system = self.schema.options.get(_LOG_SYSTEM_KEY, _NO_LOG)
        if system != _NO_LOG:
            raise InvalidRequestError(
                f"table {self.name} has {_LOG_SYSTEM_KEY}={system}: a write must go through the log too; use the "
                "stream writer of lakelog.spark"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedRead:
    """What to read, and how."""

    table: FileStoreTable
    fields: Sequence[DataField]
    where: Predicate | None
    splits: Sequence[DataSplit]
    budget_bytes: int

    def batches(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        return read_split(
            self.table,
            split,
            columns=[field.name for field in self.fields],
            where=self.where,
            memory_budget_bytes=self.budget_bytes,
        )


def _root(path: str | Path) -> str:
    """The absolute folder, without a slash at its end."""
    text = str(path)
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())
