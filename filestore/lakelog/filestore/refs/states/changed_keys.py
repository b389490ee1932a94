"""The rows of a bucket in which two states may differ, found by the keys of the files that only one of them has.

The rows of other keys come from the same files in both states. So in a file that both have, only the row groups that
may hold one of these keys are read, and each file is read once. This is for tables that keep the last row of a key and
whose shared files have many more rows than the others; otherwise both states are read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.data.data_reader import read_data_file, row_bytes
from lakelog.filestore.data.key_lookup import read_rows_of_keys
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.order import key_frame, to_series
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.refs.states.state_parts import StateUnit
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND

RATIO_MIN = 4  # a lookup reads the keys of whole row groups
_ROW, _SEQUENCE, _IS_ADD = "row", "sequence", "is_add"
_Files = dict[tuple[str, DeletionFile | None], DataFileMeta]


def rows_of_changed_keys(
    before: TableStore, after: TableStore, unit: StateUnit, fields: Sequence[DataField], *, budget_bytes: int
) -> tuple[pa.Table, pa.Table] | None:
    """The rows that the states have of the keys that may differ, in the columns `fields`.

    None if both states must be read as a whole, because of the kind of table, the cost, or the memory budget.
    """
    if not _keeps_last_rows(before, after, unit, fields):
        return None
    old, new = _files(unit.before), _files(unit.after)
    shared = [file for name, file in new.items() if name in old]
    only = [[file for name, file in own.items() if name not in other] for own, other in ((old, new), (new, old))]
    changed = sum(file.row_count for files in only for file in files)
    if not is_large_beside_changes(unit) or changed * row_bytes(fields) > budget_bytes:
        return None
    gathered = _Gathered(after, unit, fields, [])
    for table, files, sides in zip((before, after), only, ((True, False), (False, True)), strict=True):
        for file in files:
            gathered.read(table, file, sides, budget_bytes)
    keys = gathered.keys()
    for file in shared:
        gathered.look_up(file, keys)
    return gathered.state(0), gathered.state(1)


def is_large_beside_changes(unit: StateUnit) -> bool:
    """Whether the files of both states are so large that looking up keys costs less than reading."""
    old, new = _files(unit.before), _files(unit.after)
    shared = sum(file.row_count for name, file in new.items() if name in old)
    alone = [file for own, other in ((old, new), (new, old)) for name, file in own.items() if name not in other]
    return shared >= RATIO_MIN * sum(file.row_count for file in alone)


def _keeps_last_rows(before: TableStore, after: TableStore, unit: StateUnit, fields: Sequence[DataField]) -> bool:
    """Whether the files of both states are read in the same way, and the youngest row of a key is the table's row."""
    schemas = [table.stored.schema for table in (before, after)]
    buckets = {split.bucket_id for split in (*unit.before, *unit.after)}
    names = {field.name for field in fields}
    columns = [[field for field in schema.fields if field.name in names] for schema in schemas]
    return (
        all(is_merged_on_read(schema) and row_merge(schema) is None for schema in schemas)
        and not after.schema.is_change_log
        and len(buckets) == 1
        and columns[0] == columns[1]
    )


def _files(splits: Iterable[DataSplit]) -> _Files:
    return {(file.file_name, split.deletions.get(file.file_name)): file for split in splits for file in split.files}


@dataclass(slots=True)
class _Gathered:
    """Rows from the files of a bucket, with their keys; each row says which states have it."""

    table: TableStore
    unit: StateUnit
    fields: Sequence[DataField]
    parts: list[tuple[pa.Table, pl.DataFrame, tuple[bool, bool]]]

    def read(self, line: TableStore, file: DataFileMeta, sides: tuple[bool, bool], budget_bytes: int) -> None:
        """Add all rows of a file of a line: the schema number of the file is one of that line."""
        table = line.stored
        for batch in read_data_file(table, self.unit.bucket, file, self._wanted, piece_bytes=budget_bytes):
            rows = pa.Table.from_batches([batch])
            self.parts.append((rows, key_frame(rows, table.schema.key_fields), sides))

    def look_up(self, file: DataFileMeta, keys: pl.DataFrame) -> None:
        """Add the rows of a file that have one of the keys."""
        for found in read_rows_of_keys(self.table.stored, self.unit.bucket, file, self._wanted, keys):
            self.parts.append((found.rows, found.keys, (True, True)))

    def keys(self) -> pl.DataFrame:
        """The keys of all rows, in key order."""
        frame = pl.concat([keys for _, keys, _ in self.parts])
        return frame.unique().sort(frame.columns, nulls_last=False)

    def state(self, side: int) -> pa.Table:
        """The rows of one state: the youngest row of each key, without deletes."""
        names = [field.name for field in self.fields]
        found = [(rows, keys) for rows, keys, sides in self.parts if sides[side]]
        if not found:
            return self.parts[0][0].select(names).slice(0, 0)
        rows, frame = pa.concat_tables([rows for rows, _ in found]), pl.concat([keys for _, keys in found])
        ordered = frame.with_columns(
            pl.Series(_ROW, np.arange(frame.height)),
            to_series(rows.column(SEQUENCE_NUMBER)).alias(_SEQUENCE),
            are_adds(to_series(rows.column(VALUE_KIND))).alias(_IS_ADD),
        ).sort(_SEQUENCE, _IS_ADD, maintain_order=True)
        youngest = ordered.unique(frame.columns, keep="last", maintain_order=True).filter(pl.col(_IS_ADD))
        return rows.select(names).take(youngest[_ROW].to_arrow())

    @property
    def _wanted(self) -> list[DataField]:
        return [*self.table.stored.schema.select(field.name for field in self.fields), SEQUENCE_FIELD, KIND_FIELD]
