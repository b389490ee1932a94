"""The rows of parts, in any process: snapshots, the log, and the files that have what the log lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.patience import Patience
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField, RowKind
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.predicate import Predicate, RowTest, resolved_columns
from lakelog.filestore.read import DataSplit, read_change_file, read_splits, read_splits_as_changes
from lakelog.logstore.options import OnUntracked
from lakelog.streams.options.log_options import MetadataColumn
from lakelog.streams.reading.metadata_columns import LogMetadata, with_snapshot_metadata
from lakelog.streams.reading.parts import (
    DeltaPart,
    DifferencePart,
    LogPart,
    NormalizedPart,
    Part,
    SnapshotMark,
    SplitsPart,
)

if TYPE_CHECKING:
    from lakelog.filestore.refs import StateUnit
    from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
    from lakelog.logstore.kafka.records.read_ahead import Ahead
    from lakelog.protocol.reading import ChangeFile, NormalizedRange, OperationStops
    from lakelog.protocol.stores import LogTarget

    ReadAhead = Callable[[KafkaTopic, Mapping[int, tuple[int, int]]], dict[int, Ahead]]

logger = logging.getLogger("lakelog.streams")

BATCH_BYTES = 16 << 20
BATCH_RECORDS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRows:
    """The rows of parts, as Arrow batches of `schema`: columns of the table, `_row_kind`, and metadata columns."""

    table: FileStoreTable
    target: LogTarget | None
    fields: tuple[DataField, ...]
    where: Predicate | None
    has_row_kind: bool
    schema: pa.Schema
    metadata: tuple[MetadataColumn, ...] = ()
    fails_on_loss: bool = True
    on_untracked: OnUntracked = OnUntracked.FAIL
    stops: Mapping[str, str] = field(default_factory=dict)  # those of `OperationStops`
    in_hand: ReadAhead | None = None  # gives the records of ranges that have come already, else nothing

    def rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        match part:
            case SplitsPart():
                return self._snapshot(part)
            case LogPart():
                return self._log(part)
            case NormalizedPart():
                return self._normalized(part.ranges)
            case DeltaPart():
                return self._deltas(part.entries)
            case DifferencePart():
                return self._difference(part.unit)

    def _snapshot(self, part: SplitsPart) -> Iterator[pa.RecordBatch]:
        if not self.metadata:
            yield from self._splits(part.splits, lambda batch: batch)
            return
        assert part.snapshot is not None
        for split in part.splits:
            add = partial(
                with_snapshot_metadata,
                columns=self.metadata,
                bucket=split.bucket_id.number,
                snapshot=part.snapshot,
            )
            yield from self._splits([split], add)

    def _splits(
        self, splits: Sequence[DataSplit], add: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        columns = [field.name for field in self.fields]
        if self.has_row_kind and self.table.schema.is_change_log:
            for batch, kinds in read_splits_as_changes(
                self.table, splits, columns=columns, where=self.where, batch_bytes=BATCH_BYTES
            ):
                yield self._shaped(add(batch), self._shown(kinds))
            return
        for batch in read_splits(self.table, splits, columns=columns, where=self.where, batch_bytes=BATCH_BYTES):
            yield self._shaped(add(batch), _inserts(batch.num_rows) if self.has_row_kind else None)

    def _log(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        from lakelog.logstore.kafka.records.read_ahead import AHEAD_RECORDS_MAX, read_ahead
        from lakelog.logstore.kafka.records.reader import read_range
        from lakelog.protocol.state import MarkCheck

        for bucket, files in part.files.items():
            if not any(one[0] == bucket and one[2] > one[1] for one in part.ranges):
                yield from self._changes_in_files(bucket, files, is_upsert=part.is_upsert)
        ranges = {bucket: (start, end) for bucket, start, end in part.ranges if end > start}
        if not ranges:
            return
        topic = self._topic_of(part)
        is_small = sum(end - start for start, end in ranges.values()) <= AHEAD_RECORDS_MAX
        # Most of a large batch would be fetched twice: the consumer takes more than is read ahead.
        ahead = {} if self.in_hand is None else self.in_hand(topic, ranges)
        if not ahead and is_small and len(ranges) > 1:
            ahead = read_ahead(topic, ranges)
        for bucket, (start, end) in ranges.items():
            yield from self._changes_in_files(bucket, part.files.get(bucket, ()), is_upsert=part.is_upsert)
            source = topic.partition(bucket)
            about = LogMetadata(
                self.table,
                self.metadata,
                bucket=bucket,
                where=str(source),
                snapshot_ends=part.snapshot_ends.get(bucket, ()),
            )
            for batch in read_range(
                source,
                self._read_fields(),
                start=start,
                end=end,
                batch_rows=BATCH_RECORDS,
                with_offset=bool(self.metadata),
                with_timestamp=about.has_timestamp,
                on_header=self._on_header(about, str(source), start),
                on_author=about.on_author,
                check_header=MarkCheck(table_name=self.table.name, on_untracked=self.on_untracked),
                holds_nothing=self._gap_test(topic, bucket),
                patience=Patience(0 if self.target is None else self.target.unavailable_seconds),
                ahead=ahead.pop(bucket, None),
                done=part.done.get(bucket, {}),
            ):
                yield from self._changes(about.add_to(batch) if self.metadata else batch)

    def _on_header(self, about: LogMetadata, where: str, start: int) -> Callable[[int, bytes], None] | None:
        """The function that takes the headers of transactions: for metadata columns, and to check operations."""
        check, given = self._operation_stops().on_header(where, start=start), about.on_header
        if check is None:
            return given

        def take(offset: int, header: bytes) -> None:
            check(offset, header)
            if given is not None:
                given(offset, header)

        return take

    def _operation_stops(self) -> OperationStops:
        from lakelog.protocol.reading import OperationStops

        return OperationStops(table_name=self.table.name, options=self.stops)

    def _changes_in_files(
        self, bucket: int, files: Sequence[ChangeFile], *, is_upsert: bool
    ) -> Iterator[pa.RecordBatch]:
        """The changes that the log of a bucket had, from files, in the same order and with the same kinds."""
        for file in files:
            snapshot = SnapshotMark.shown(file.snapshot_id, file.watermark_millis)
            for batch in read_change_file(self.table, file.entry, self._read_fields(), kind_name=ROW_KIND_COLUMN):
                changes = as_upserts(batch, has_old_rows=file.is_changelog) if is_upsert else batch
                if self.metadata:
                    changes = with_snapshot_metadata(changes, self.metadata, bucket=bucket, snapshot=snapshot)
                yield from self._changes(changes)

    def _topic_of(self, part: LogPart) -> KafkaTopic:
        """The topic of a part's ranges: an older one, or the one that the table has."""
        if part.topic is not None:
            return part.topic
        assert self.target is not None
        return self.target.topic

    def _gap_test(self, topic: KafkaTopic, bucket: int) -> Callable[[int, int], bool]:
        """The test of deleted offsets; if losses are accepted, all reported ones pass it."""
        from lakelog.logstore.kafka.records.consumer import nothing_known
        from lakelog.protocol.stores import gap_test

        is_older = self.target is None or topic != self.target.topic
        held_nothing: Callable[[int, int], bool] = nothing_known
        if self.target is not None and not is_older:
            held_nothing = gap_test(self.table, self.target.topic_id, bucket)
        if self.fails_on_loss:
            return held_nothing
        source = topic.partition(bucket)

        def accepted(start: int, log_start: int) -> bool:
            if not held_nothing(start, log_start):
                logger.warning(
                    "%s: offsets %d to %d were deleted by retention, and are left out", source, start, log_start
                )
            return True

        return accepted

    def _normalized(self, ranges: Sequence[NormalizedRange]) -> Iterator[pa.RecordBatch]:
        from lakelog.protocol.reading import Normalizer

        assert self.target is not None
        normalizer = Normalizer(
            table=self.table,
            target=self.target,
            shown=self.fields,
            where=self.where,
            batch_rows=BATCH_RECORDS,
            stops=self._operation_stops(),
        )
        for one in ranges:
            for rows, kinds in normalizer.changes(one):
                yield self._shaped(rows, self._shown(kinds))

    def _deltas(self, entries: Sequence[ManifestEntry]) -> Iterator[pa.RecordBatch]:
        for entry in entries:
            for batch in read_change_file(self.table, entry, self._read_fields(), kind_name=ROW_KIND_COLUMN):
                yield from self._changes(batch)

    def _difference(self, unit: StateUnit) -> Iterator[pa.RecordBatch]:
        from lakelog.filestore.refs import unit_differences

        read = self._read_fields()
        keys = [field for field in self.table.schema.fields if field.name in self.table.schema.primary_keys]
        compared = [*read, *(key for key in keys if key not in read)]
        for found in unit_differences(self.table, self.table, unit, compared, has_debts=True):
            changes = found.changes()
            kinds = pc.index_in(changes.column(ROW_KIND_COLUMN), value_set=_kind_strings()).cast(pa.int8())
            numbered = changes.set_column(0, ROW_KIND_COLUMN, kinds)
            for batch in numbered.combine_chunks().to_batches(max_chunksize=BATCH_RECORDS):
                if self.metadata:
                    bucket = (*unit.after, *unit.before)[0].bucket_id.number
                    mark = SnapshotMark.shown(max(one.snapshot_id for one in (*unit.before, *unit.after)), None)
                    batch = with_snapshot_metadata(batch, self.metadata, bucket=bucket, snapshot=mark)  # noqa: PLW2901
                yield from self._changes(batch)

    def _read_fields(self) -> list[DataField]:
        filtered = () if self.where is None else resolved_columns(self.where, self.table.schema.fields)
        found = [*self.fields, *(field for field in filtered if field not in self.fields)]
        return found or [self.table.schema.fields[0]]  # without a column, the number of rows would be lost

    def _changes(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The changes that are asked for; a read without row kinds gives the rows after a change."""
        if not self.has_row_kind:
            batch = batch.filter(pc.is_in(batch.column(ROW_KIND_COLUMN), value_set=_adds()))
        if self.where is not None:
            test = RowTest(self.where, self.table.schema.fields)
            batch = batch.filter(test.passing(pa.Table.from_batches([batch])))
        if batch.num_rows:
            yield self._shaped(batch, self._shown(batch.column(ROW_KIND_COLUMN)))

    def _shown(self, kinds: pa.Array) -> pa.Array | None:
        """The texts of row kinds (int8), if they are asked for."""
        if not self.has_row_kind:
            return None
        are_inserts = not np.asarray(kinds).any()  # whose number is 0
        return _inserts(len(kinds)) if are_inserts else _kind_strings().take(kinds)

    def _shaped(self, batch: pa.RecordBatch, kinds: pa.Array | None) -> pa.RecordBatch:
        if kinds is not None:
            columns = {field.name: batch.column(field.name) for field in self.fields}
            columns[ROW_KIND_COLUMN] = kinds
            columns |= {one.column: batch.column(one.column) for one in self.metadata}
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return conform(batch, self.schema)


# An array of Python values makes pyarrow import pandas, which takes 0.4 s of processor time: only where needed.
@cache
def _adds() -> pa.Array:
    return pa.array([kind.value for kind in RowKind if kind.is_add], pa.int8())


@cache
def _kind_strings() -> pa.Array:
    return pa.array(ROW_KIND_TEXTS)


def _inserts(count: int) -> pa.Array:
    """The row kind of so many rows that are all there: a slice of one array, since each snapshot begins with them."""
    return _repeated_inserts(max(BATCH_RECORDS, 1 << (count - 1).bit_length()))[:count]


@lru_cache(maxsize=2)
def _repeated_inserts(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(ROW_KIND_TEXTS[RowKind.INSERT.value]), count)


def as_upserts(changes: pa.RecordBatch, *, has_old_rows: bool) -> pa.RecordBatch:
    """Changes in the form of a log without old values: the row after each change as +I, and deletes as -D.

    If files have old rows, -U is an old row and is left out; otherwise it says that its key has no row any more.
    """
    kinds = changes.column(ROW_KIND_COLUMN)
    at = changes.schema.get_field_index(ROW_KIND_COLUMN)
    kind = {one: pa.scalar(one.value, pa.int8()) for one in RowKind}
    is_add = pc.is_in(kinds, value_set=_adds())
    plain = pc.if_else(is_add, kind[RowKind.INSERT], kind[RowKind.DELETE])
    shown = changes.set_column(at, changes.schema.field(at), plain)
    return shown.filter(pc.not_equal(kinds, kind[RowKind.UPDATE_BEFORE])) if has_old_rows else shown


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, by name, in its order and its types.

    Raises InvalidRequestError, naming the column, for a value that the type cannot hold.
    """
    columns = []
    for one in schema:
        column = batch.column(one.name)
        try:
            columns.append(column if column.type == one.type else column.cast(one.type))
        except pa.ArrowInvalid as error:
            raise InvalidRequestError(
                f"column {one.name!r} has a value of type {column.type} that {one.type} cannot hold: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
