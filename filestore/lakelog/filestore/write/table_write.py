"""One write of rows to a table without a log, and the rows that it replaces."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from enum import Enum, auto

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.conflicts import is_overtaken
from lakelog.filestore.commit.looks import Look, look_at
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.encoding.binary_row import deserialize_row, to_table
from lakelog.filestore.index.hash_index import HashIndexChange
from lakelog.filestore.index.index_manifest import hash_index
from lakelog.filestore.io.network import CallsBeside, calls_at_once
from lakelog.filestore.io.syncing import LaterSyncs, synced_at_once
from lakelog.filestore.metadata.manifests.data_file import SEQUENCE_MAX
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.identity import check_same_table
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.predicate import Predicate, RowTest, resolved_columns, sql_of
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.assigning import BucketAssigner, bucket_assigner
from lakelog.filestore.write.moved_rows import moved_rows
from lakelog.filestore.write.row_input import Rows, row_source
from lakelog.filestore.write.row_kinds import RowKinds, parsed_kinds, rows_and_kinds, with_kinds
from lakelog.filestore.write.validate import check_columns
from lakelog.filestore.write.write import WrittenRows, write_rows
from lakelog.filestore.write.write_buffer import write_batches

# Sequence numbers that a stream leaves for rows that others commit while it is written: there are fewer of those. A
# stream that was overtaken nevertheless, by another stream, leaves more.
ROOM = 1 << 32
_ROOM_GROWTH = 16
_BESIDE_BYTES_MAX = 8 << 20  # so many bytes of rows are written on the snapshot that a handle knows


class Overwrite(Enum):
    """What an overwrite without a condition replaces."""

    EVERYTHING = auto()
    WRITTEN_PARTITIONS = auto()


class PartitionFilter:
    """A condition on partition columns. Raises InvalidRequestError for other columns."""

    def __init__(self, schema: TableSchema, where: Predicate) -> None:
        self._schema = schema
        self._where = where
        others = [
            field.name for field in resolved_columns(where, schema.fields) if field.name not in schema.partition_keys
        ]
        if others or not schema.partition_keys:
            found = f"it names {listed(others)}, " if others else ""
            known = (
                f"it has {listed(schema.partition_keys)}" if schema.partition_keys else "it has no partition columns"
            )
            raise InvalidRequestError(
                f"the condition selects partitions of the table: {found}expected its partition columns alone; {known}"
            )

    def matching(self, partitions: Collection[bytes]) -> set[bytes]:
        """The serialized partitions that meet the condition."""
        fields = self._schema.partition_fields
        ordered = list(partitions)
        rows = to_table(fields, [deserialize_row([field.type for field in fields], one) for one in ordered])
        meets = RowTest(self._where, fields).passing(rows).to_pylist()
        return {partition for partition, is_met in zip(ordered, meets, strict=True) if is_met}

    def check_inside(self, written: Collection[bytes]) -> None:
        """Raise InvalidRequestError when the partition of a written row does not meet the condition."""
        outside = set(written) - self.matching(written)
        if outside:
            fields = self._schema.partition_fields
            values = deserialize_row([field.type for field in fields], min(outside))
            named = listed(f"{field.name}={shown(value)}" for field, value in zip(fields, values, strict=True))
            raise InvalidRequestError(
                f"rows of the partition {named} do not meet the condition {self} of the overwrite; nothing was written"
            )

    def __str__(self) -> str:
        return sql_of(self._where)


Replaced = Overwrite | PartitionFilter
Naming = Callable[[CommitRequest, Snapshot | None], CommitRequest]  # behind the newest snapshot


class TableWrite:
    """One write: prepared before the commit, and again if another writer's rows come first.

    So the rows of the later snapshot are the younger ones, even if its write started earlier. A stream is not read
    again: it may give its rows only once, and the files that were written from it hold them.
    """

    def __init__(
        self,
        table: TableStore,
        rows: Rows,
        kinds: RowKinds | None = None,
        *,
        replaces: Replaced | None,
        operation: str | None = None,
        clock: CommitClock | None = None,
        named: Naming | None = None,
    ) -> None:
        """Write the files. `replaces` None adds the rows to the table. `operation` is that of a statement.

        `named` gives the commit its user and number, at each attempt. Raises InvalidRequestError.
        """
        self._table = table
        self._rows = row_source(rows)
        self._kinds = parsed_kinds(kinds)
        check_columns(table.schema, self._rows.columns, table_name=table.name)
        self._replaces = replaces
        self._operation = operation or ("WRITE" if replaces is None else "OVERWRITE")
        self._user = str(uuid.uuid4())
        self._named = named
        self._room = ROOM
        self._later = LaterSyncs()
        self.superseded: list[str] = []  # the paths of files to delete once the commit has succeeded
        self._base, self._written, self._hashes, self.look = self._begun(clock or CommitClock())
        if isinstance(replaces, PartitionFilter):
            self._check_inside(replaces)

    def _begun(self, clock: CommitClock) -> tuple[Snapshot | None, WrittenRows, HashIndexChange | None, Look | None]:
        """The snapshot on which the files are written, the files, and the look at the table for the commit.

        In a store behind a network a handle writes small files on the snapshot that it knows, and looks at the table
        meanwhile. Where that shows another snapshot, `resolve` moves the rows, and the next writes look first.
        """
        table = self._table
        known, now = table.snapshots.noted, clock.seconds()
        is_near = calls_at_once(table.file_io) <= 1
        if is_near or known is None or table.commit_line.has_met_others_lately(now) or not self._may_begin_on(known):
            look = look_at(table, clock)
            if look.snapshot is None:
                check_same_table(table, None)
            return look.snapshot, *self._prepare(look.snapshot, None), look
        with CallsBeside(table.file_io) as beside:
            looked = beside.begin(lambda: look_at(table, clock))
            written, hashes = self._prepare(known, None)
            try:
                look = looked()
                if look.snapshot is None:
                    check_same_table(table, None)
            except BaseException:
                self.discard(self._data_paths(written))  # it has no index files
                raise
        if look.snapshot != known:
            table.commit_line.note_others(now)
        return known, written, hashes, look

    def _may_begin_on(self, known: Snapshot) -> bool:
        """Whether the rows may be written on a snapshot that may be out of date: few, with nothing to read."""
        is_small = self._rows.table is not None and self._rows.table.nbytes <= _BESIDE_BYTES_MAX
        is_plain = self._replaces is None and not self._table.schema.has_dynamic_buckets
        return is_small and is_plain and self._table.live_files.holds(known)

    def resolve(self, latest: Snapshot | None) -> CommitRequest:
        """The commit after `latest`. Raises ConflictError for an overwrite whose base is no longer the newest."""
        is_overwrite = self._replaces is not None
        if latest != self._base:
            if is_overwrite:
                found = "none" if latest is None else str(latest.id)
                raise ConflictError(
                    f"{self._table.name}: snapshot {found} appeared while the overwrite was prepared; overwrite again"
                )
            if is_overtaken(self._table, latest, self.entries, self._hashes):
                before = self.paths
                self._written, self._hashes = self._prepare(latest, self._written)
                self.superseded += sorted({*before}.difference(self.paths))
            self._base = latest
        replaced = self._replaced(latest)
        live = self._table.live_files.of(latest).entries() if replaced else ()
        request = CommitRequest(
            commit_user=self._user,
            kind=CommitKind.OVERWRITE if is_overwrite else CommitKind.APPEND,
            entries=[
                *(replace(entry, kind=FileKind.DELETE) for entry in live if entry.partition in replaced),
                *self.entries,
            ],
            changelog=self._written.changelog,
            hashes=None if self._hashes is None else replace(self._hashes, replaced=replaced | self._hashes.replaced),
            operation=self._operation,
            unsynced=self._later.paths,
        )
        return request if self._named is None else self._named(request, latest)

    @property
    def entries(self) -> list[ManifestEntry]:
        """The data files that the commit adds."""
        return self._written.entries

    @property
    def paths(self) -> list[str]:
        """The paths of all files that were written: data, changelog and index files."""
        indexes = () if self._hashes is None else self._hashes.files.values()
        return [*self._data_paths(self._written), *(self._table.paths.index(file.file_name) for file in indexes)]

    def _data_paths(self, written: WrittenRows) -> list[str]:
        entries = (*written.entries, *written.changelog)
        return [self._table.data_path(entry.bucket_id, entry.file) for entry in entries]

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files that no snapshot names."""
        discard_files(self._table, paths)

    def _replaced(self, latest: Snapshot | None) -> set[bytes]:
        if self._replaces is None:
            return set()
        return replaced_partitions(self._table, latest, self._replaces, {entry.partition for entry in self.entries})

    def _check_inside(self, replaced: PartitionFilter) -> None:
        try:
            replaced.check_inside({entry.partition for entry in self.entries})
        except InvalidRequestError:
            self.discard(self.paths)
            raise

    def _prepare(
        self, latest: Snapshot | None, before: WrittenRows | None
    ) -> tuple[WrittenRows, HashIndexChange | None]:
        """The rows in files, perhaps those of `before` moved, and the change of the HASH index, if any."""
        is_overwrite = self._replaces is not None
        assigner = bucket_assigner(self._table, None if is_overwrite else latest)
        is_stream = self._rows.table is None  # it may take so long that the manifests of `latest` expire meanwhile
        live = self._table.live_files.of(latest) if is_stream else self._table.live_files.near(latest)
        with self._later.collected():  # it keeps those of `before`, which may stay
            written = self._write(self._first_sequence(live), assigner, before)
        if assigner is None:
            return written, None
        hashes = assigner.write_index()
        return written, HashIndexChange(files=hashes.files, replaced=set(hashes.seen)) if is_overwrite else hashes

    def _first_sequence(self, live: LiveBuckets) -> Callable[[BucketId], int]:
        """Where sequence numbers start: for a stream so high that others may commit while it is written."""
        if self._rows.table is not None or self._replaces is not None or self._table.schema.is_change_log:
            return live.next_sequence
        room = self._room
        self._room *= _ROOM_GROWTH

        def first(bucket: BucketId) -> int:
            following = live.next_sequence(bucket)
            return following + room if following + room < SEQUENCE_MAX else following

        return first

    def _write(
        self, first_sequence: Callable[[BucketId], int], assigner: BucketAssigner | None, before: WrittenRows | None
    ) -> WrittenRows:
        """The rows in level-0 files: those of a stream a write buffer at a time, or from the files of `before`."""
        is_overwrite = self._replaces is not None
        if before is not None and self._rows.table is None:
            return moved_rows(self._table, before, first_sequence=first_sequence, assigner=assigner)
        if self._rows.table is not None:
            rows, kinds = rows_and_kinds(self._rows.table, self._kinds)
            return write_rows(
                self._table,
                rows,
                kinds,
                first_sequence=first_sequence,
                assigner=assigner,
                is_overwrite=is_overwrite,
            )
        written, _ = write_batches(
            self._table,
            with_kinds(synced_at_once(self._rows.batches()), self._kinds),
            first_sequence=first_sequence,
            assigner=assigner,
            is_overwrite=is_overwrite,
        )
        return written


def replaced_partitions(
    table: TableStore, latest: Snapshot | None, replaces: Replaced, written: Collection[bytes]
) -> set[bytes]:
    """The partitions that an overwrite by `written` replaces, including those with only an index."""
    if replaces is Overwrite.WRITTEN_PARTITIONS:
        return set(written)
    there = partitions_of(table, latest)
    return replaces.matching(there) if isinstance(replaces, PartitionFilter) else there


def partitions_of(table: TableStore, snapshot: Snapshot | None) -> set[bytes]:
    """The partitions of a snapshot with rows or a HASH index."""
    return {partition for partition, _ in table.live_files.of(snapshot).buckets}.union(hash_index(table, snapshot))
