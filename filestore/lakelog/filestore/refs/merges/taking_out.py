"""Rows that a merge takes out of an append-only table: the files that hold them are replaced by files without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.errors import CorruptDataError
from lakelog.common.types import DataField
from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.refs.merges.sides import counted_rows
from lakelog.filestore.refs.states.row_equality import comparable
from lakelog.filestore.refs.states.table_state import StateFile, TableState
from lakelog.filestore.write.places import partitions_of
from lakelog.filestore.write.write import add_entry

_COUNT, _PLACE, _TAKEN = "count", "place", "taken"


class WantedRows:
    """Rows with how often each is wanted; what is found of them is taken off."""

    def __init__(self, rows: pa.Table, fields: Sequence[DataField]) -> None:
        self._fields = fields
        values = comparable(rows, fields)
        self._names = values.columns
        self._left = values.group_by(self._names).agg(pl.len().cast(pl.Int64).alias(_COUNT))

    @property
    def count(self) -> int:
        """How many rows are wanted still."""
        return int(self._left[_COUNT].sum())

    def take_off(self, rows: pa.Table) -> np.ndarray:
        """Take the wanted rows off that are among these; for each of these whether it is one."""
        values = comparable(rows, self._fields)
        numbered = values.with_columns(pl.int_range(pl.len()).over(self._names).alias(_PLACE))
        found = numbered.join(self._left, on=self._names, how="left", nulls_equal=True, maintain_order="left")
        is_taken = (found[_PLACE] < found[_COUNT]).fill_null(False)
        taken = values.filter(is_taken).group_by(self._names).agg(pl.len().cast(pl.Int64).alias(_TAKEN))
        left = self._left.join(taken, on=self._names, how="left", nulls_equal=True)
        self._left = (
            left.with_columns((pl.col(_COUNT) - pl.col(_TAKEN).fill_null(0)).alias(_COUNT))
            .filter(pl.col(_COUNT) > 0)
            .select(*self._names, _COUNT)
        )
        return is_taken.to_numpy()


def without_rows(main: TableState, base: TableState, branch: TableState, rows: pa.Table) -> list[ManifestEntry]:
    """The entries of a commit that takes rows out of the table as it is in `main`: files are deleted and added.

    The files that the branch has replaced are searched first, as most of its deletes are there; the search ends with
    the last row. Raises CorruptDataError when a row is not there.
    """
    table, fields = main.table, main.table.schema.fields
    wanted = WantedRows(rows, fields)
    partitions, _ = partitions_of(table, rows)
    entries: list[ManifestEntry] = []
    for bucket, file in _searched(main, base, branch, set(partitions)):
        if not wanted.count:
            break
        left = _left_of(main, bucket, file, wanted)
        if left is not None:
            entries.append(replace(add_entry(table, bucket, file[0]), kind=FileKind.DELETE))
            entries += [add_entry(table, bucket, one) for one in left]
    if wanted.count:
        raise CorruptDataError(
            f"table {table.name} lacks {wanted.count} of the rows that its branch {branch.table.branch!r} has deleted, "
            "though both come from a state that has them: name the state with base="
        )
    return entries


def _searched(
    main: TableState, base: TableState, branch: TableState, partitions: set[bytes]
) -> Iterator[tuple[BucketId, StateFile]]:
    """The files of the table in these partitions, those that the branch has taken out first."""
    there, had, has = main.buckets(), base.buckets(), branch.buckets()
    later: list[tuple[BucketId, StateFile]] = []
    for bucket, files in sorted(there.items()):
        if bucket.partition not in partitions:
            continue
        lost = {file.file_name for file, _ in had.get(bucket, ())} - {file.file_name for file, _ in has.get(bucket, ())}
        for file in files:
            if file[0].file_name in lost:
                yield bucket, file
            else:
                later.append((bucket, file))
    yield from later


def _left_of(main: TableState, bucket: BucketId, file: StateFile, wanted: WantedRows) -> list[DataFileMeta] | None:
    """The files in the place of one that held wanted rows, none where nothing stays; None for the file as it is."""
    table, meta = main.table, file[0]
    budget = READ_MEMORY_BUDGET.of(table.schema.options)
    pieces = [rows for rows, _ in counted_rows(main, bucket, [file], table.schema.fields, budget_bytes=budget)]
    masks = [wanted.take_off(rows) for rows in pieces]
    if not any(mask.any() for mask in masks):
        return None
    kept = pa.concat_tables([rows.filter(pa.array(~mask)) for rows, mask in zip(pieces, masks, strict=True)])
    if not kept.num_rows:
        return []
    stored = StoredRows(
        rows=kept,
        sequences=pa.array(np.arange(kept.num_rows, dtype=np.int64) + meta.min_sequence_number),
        kinds=pa.array(np.zeros(kept.num_rows, np.int8)),
    )
    return write_data_files(table, bucket, [stored], level=meta.level, source=FileSource.APPEND)
