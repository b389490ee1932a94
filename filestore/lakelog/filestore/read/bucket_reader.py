"""The files of one bucket as merged rows, within a memory budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from lakelog.common.arrow import pieces_of
from lakelog.common.types import DataField
from lakelog.filestore.data.data_reader import read_data_file, row_bytes
from lakelog.filestore.data.row_groups import RowFilter
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.merge.deduplicate import Slice, merge_ordered, merge_unordered, without_deletes
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.runs import RunCursor, aligned_slices, are_ranked, piece_sizes
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import Section, SortedRun
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.predicate import Bound

COPIES = 3  # of a piece of rows in memory: as read, its keys, as merged


class BucketReader:
    """Reads data files of one bucket. `deletions` are the deletion vectors of files, by their names.

    With `where`, `rows` leaves out row groups without a row that passes; it does not filter rows.
    """

    def __init__(
        self,
        table: TableStore,
        bucket: BucketId,
        *,
        memory_budget_bytes: int,
        deletions: Mapping[str, DeletionFile] | None = None,
        where: Bound | None = None,
    ) -> None:
        self._table = table
        self._deletions = deletions or {}
        self._bucket = bucket
        self._budget_bytes = memory_budget_bytes
        self._merge = row_merge(table.schema)
        self._where = where
        self._rows: RowFilter | None = None

    def rows(self, section: Section, fields: Sequence[DataField]) -> Iterator[pa.Table]:
        """The rows of a section in the columns `fields` and maybe more, in no order; deletes are applied."""
        is_single = len(section.runs) == 1
        if self._where is not None:  # rows to merge are filtered only by key columns, which all rows of a key share
            names = None if is_single else frozenset(self._table.schema.trimmed_primary_keys)
            self._rows = RowFilter(bound=self._where, names=names)
        if is_single:
            run = section.runs[0]
            pieces = self._pieces(run, [*fields, *_kinds_of(run)], self._budget_bytes // COPIES)
            yield from (without_deletes(piece) for piece in pieces)
            return
        if self._merge is not None:
            read = [*self._merge.needed(fields), SEQUENCE_FIELD, KIND_FIELD]
            for slices in self._aligned(section, [read] * len(section.runs)):
                yield self._merge.merge(slices, keeps_deletes=False)
            return
        is_ranked = are_ranked(section.runs)
        wanted = [*self._with_keys(fields), *([] if is_ranked else [SEQUENCE_FIELD])]
        for slices in self._aligned(section, [[*wanted, *_kinds_of(run)] for run in section.runs]):
            yield from merge_unordered(slices, is_ranked=is_ranked)

    def stored_rows(self, section: Section, *, keeps_deletes: bool) -> Iterator[pa.Table]:
        """The rows of a section in key order with all columns, sequence numbers and kinds."""
        is_ranked = are_ranked(section.runs)
        for slices in self.slices(section):
            yield self.merged(slices, is_ranked=is_ranked, keeps_deletes=keeps_deletes)

    def slices(self, section: Section) -> Iterator[list[Slice]]:
        """The rows of a section run by run, youngest first, a key range at a time, as `stored_rows` merges them."""
        fields = [*self._table.schema.fields, SEQUENCE_FIELD, KIND_FIELD]
        return self._aligned(section, [fields] * len(section.runs))

    def merged(self, slices: Sequence[Slice], *, is_ranked: bool, keeps_deletes: bool) -> pa.Table:
        """The rows that remain of the slices, in key order, by the table's merge engine. See `merge_ordered`."""
        if self._merge is None:
            return merge_ordered(slices, is_ranked=is_ranked, keeps_deletes=keeps_deletes)
        return self._merge.merge(slices, keeps_deletes=keeps_deletes)

    def _with_keys(self, fields: Sequence[DataField]) -> list[DataField]:
        keys = self._table.schema.key_fields
        return [*fields, *(key for key in keys if key not in fields)]

    def _aligned(self, section: Section, fields: Sequence[Sequence[DataField]]) -> Iterator[list[Slice]]:
        """The slices of the runs of a section, each with the columns that are read from it."""
        wanted = [run.row_count * row_bytes(read) for run, read in zip(section.runs, fields, strict=True)]
        budget_bytes = self._budget_bytes // COPIES
        cursors = [
            RunCursor(
                tables=self._pieces(run, read, piece_bytes),
                key_fields=self._table.schema.key_fields,
                rows_left=run.row_count,
                level=run.level,
            )
            for run, read, piece_bytes in zip(section.runs, fields, piece_sizes(wanted, budget_bytes), strict=True)
        ]
        return aligned_slices(cursors, budget_bytes)

    def _pieces(self, run: SortedRun, fields: Sequence[DataField], piece_bytes: int) -> Iterator[pa.Table]:
        """The rows of a run in pieces of about `piece_bytes`."""
        return pieces_of(self._batches(run.files, fields, piece_bytes), piece_bytes)

    def _batches(
        self, files: Iterable[DataFileMeta], fields: Sequence[DataField], piece_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            deletions = self._deletions.get(file.file_name)
            yield from read_data_file(
                self._table,
                self._bucket,
                file,
                fields,
                piece_bytes=piece_bytes,
                deletions=deletions,
                rows=self._rows,
            )


def _kinds_of(run: SortedRun) -> list[DataField]:
    """The column of row kinds, if a run may hold deletes."""
    return [KIND_FIELD] if run.may_hold_deletes else []
