"""The files of one bucket as merged rows, within a memory budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lakelog.common.arrow import pieces_of, to_arrow_type
from lakelog.common.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakelog.common.types import DataField
from lakelog.filestore.data_file import DataFileMeta
from lakelog.filestore.formats.parquet import ParquetFile
from lakelog.filestore.levels import Section, SortedRun
from lakelog.filestore.merge.deduplicate import merge_ordered, merge_unordered, without_deletes
from lakelog.filestore.merge.runs import RunCursor, aligned_slices, are_ranked
from lakelog.filestore.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.store import KIND_FIELD, SEQUENCE_FIELD, TableStore

_BATCH_ROWS_MAX = 65_536
_BATCH_ROWS_MIN = 64
_VARIABLE_BYTES = 32  # a guess for one text or nested value, until rows have been seen
_COPIES = 3  # of a piece of rows at a time: as read, its keys, as merged
_SYSTEM_NAMES = {SEQUENCE_NUMBER, VALUE_KIND}


class BucketReader:
    """Reads data files of one bucket."""

    def __init__(self, table: TableStore, partition: bytes, bucket: int, *, memory_budget_bytes: int) -> None:
        self._table = table
        self._partition = partition
        self._bucket = bucket
        self._budget_bytes = memory_budget_bytes

    def rows(self, section: Section, fields: Sequence[DataField]) -> Iterator[pa.Table]:
        """The rows of a section in the columns `fields` and maybe more, in no order; deletes are applied."""
        if len(section.runs) == 1:
            run = section.runs[0]
            pieces = self._pieces(run, [*fields, *_kinds_of(run)], self._budget_bytes // _COPIES)
            yield from (without_deletes(piece) for piece in pieces)
            return
        is_ranked = are_ranked(section.runs)
        wanted = [*self._with_keys(fields), *([] if is_ranked else [SEQUENCE_FIELD])]
        for slices in aligned_slices(self._cursors(section, [[*wanted, *_kinds_of(run)] for run in section.runs])):
            yield from merge_unordered(slices, is_ranked=is_ranked)

    def stored_rows(self, section: Section, *, keeps_deletes: bool) -> Iterator[pa.Table]:
        """The rows of a section in key order with all columns, sequence numbers and kinds."""
        is_ranked = are_ranked(section.runs)
        fields = [*self._table.schema.fields, SEQUENCE_FIELD, KIND_FIELD]
        for slices in aligned_slices(self._cursors(section, [fields] * len(section.runs))):
            yield merge_ordered(slices, is_ranked=is_ranked, keeps_deletes=keeps_deletes)

    def _with_keys(self, fields: Sequence[DataField]) -> list[DataField]:
        keys = self._table.schema.key_fields
        return [*fields, *(key for key in keys if key not in fields)]

    def _cursors(self, section: Section, fields: Sequence[Sequence[DataField]]) -> list[RunCursor]:
        """A cursor for each run, with the columns that are read of it."""
        wishes = [run.row_count * row_bytes(read) for run, read in zip(section.runs, fields, strict=True)]
        shares = share_budget(wishes, self._budget_bytes // _COPIES)
        return [
            RunCursor(
                tables=self._pieces(run, read, share),
                key_fields=self._table.schema.key_fields,
                rows_left=run.row_count,
            )
            for run, read, share in zip(section.runs, fields, shares, strict=True)
        ]

    def _pieces(self, run: SortedRun, fields: Sequence[DataField], piece_bytes: int) -> Iterator[pa.Table]:
        """The rows of a run in pieces of about `piece_bytes`."""
        return pieces_of(self._batches(run.files, fields, piece_bytes), piece_bytes)

    def _batches(
        self, files: Iterable[DataFileMeta], fields: Sequence[DataField], piece_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            path = self._table.data_path(self._partition, self._bucket, file)
            self._check_columns(file, fields, path)
            try:
                opened = ParquetFile(self._table.file_io, path)
            except NotFoundError as error:
                raise NotFoundError(
                    f"data file {path} is gone: its snapshot has expired meanwhile; plan the read again"
                ) from error
            with opened:
                if opened.row_count != file.row_count:
                    raise CorruptDataError(f"data file {path} has {opened.row_count} rows, expected {file.row_count}")
                group_bytes = sum(size for _, size in opened.row_groups)
                estimate = max(row_bytes(fields), group_bytes // max(1, file.row_count))
                batch_rows = min(max(piece_bytes // estimate, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)
                yield from opened.iter_batches(fields, batch_rows=batch_rows)

    def _check_columns(self, file: DataFileMeta, fields: Sequence[DataField], path: str) -> None:
        """Raise UnsupportedError where a file of an older or newer schema has a wanted column in another form."""
        if not path.endswith(".parquet"):
            raise UnsupportedError(f"data file {path} has a format that lakelog does not read yet; Parquet is read")
        if file.schema_id == self._table.schema.id:
            return
        stored = {column.id: column for column in self._table.schemas.get(file.schema_id).fields}
        for field in fields:
            if field.name in _SYSTEM_NAMES:
                continue
            found = stored.get(field.id)
            same = found is not None and found.name == field.name
            if not same or found is None or found.type.with_nullable(True) != field.type.with_nullable(True):
                raise UnsupportedError(
                    f"data file {path} was written with schema {file.schema_id}, where column {field.name!r} is "
                    f"{'missing' if found is None else f'{found.name!r} {found.type}'}; reading over schema changes "
                    "is not there yet"
                )


def _kinds_of(run: SortedRun) -> list[DataField]:
    """The column of row kinds, where it says anything."""
    return [KIND_FIELD] if run.may_hold_deletes else []


def row_bytes(fields: Sequence[DataField]) -> int:
    """A guess of a row's bytes in memory."""
    total = 1
    for field in fields:
        kind = to_arrow_type(field.type)
        try:
            total += -(-kind.bit_width // 8)
        except ValueError:  # types of no fixed width
            total += _VARIABLE_BYTES
    return total


def share_budget(wanted: Sequence[int], budget_bytes: int) -> list[int]:
    """What each of several gets of a budget: small wishes are met, the large ones share the rest evenly."""
    shares = [0] * len(wanted)
    left = budget_bytes
    for rank, index in enumerate(sorted(range(len(wanted)), key=lambda index: wanted[index])):
        shares[index] = min(wanted[index], left // (len(wanted) - rank))
        left -= shares[index]
    return [max(share, 1) for share in shares]
