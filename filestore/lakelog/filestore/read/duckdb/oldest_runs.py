"""The oldest run of a bucket as files that DuckDB reads itself, although younger files replace some of their rows.

Where a table keeps the newest row of each key, a row of the oldest run is a row of the table unless a younger file has
its key. DuckDB leaves those out by an anti join with the keys of the younger files, which are few; the rows of the
younger files are merged with each other, and come through Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import DELETION_VECTORS, IGNORE_DELETE, SEQUENCE_FIELD
from lakelog.filestore.read.scan import DataSplit

_YOUNG_MAX = 4  # the rows of younger files are at most a fourth of those of the oldest run
_YOUNG_ROWS_MAX = 1 << 20
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)  # 0.0 and -0.0 are two keys, and one to DuckDB


def has_bases(table: TableStore, fields: Sequence[DataField]) -> bool:
    """Whether the newest row of a key is that of the youngest file that has it, and `fields` hold the key."""
    schema, options = table.schema, table.schema.options
    return (
        bool(schema.primary_keys)
        and set(schema.partition_keys) <= set(schema.primary_keys) <= {field.name for field in fields}
        and not any(schema.field(name).type.root in _FLOATS for name in schema.primary_keys)
        and schema.merge_engine.traits.keeps_last
        and not (IGNORE_DELETE.of(options) or SEQUENCE_FIELD.of(options) or DELETION_VECTORS.of(options))
    )


def base_files(split: DataSplit) -> tuple[DataFileMeta, ...]:
    """The files of the oldest run of a split in a table with bases; none where these are not much larger."""
    if split.raw_convertible or split.deletions or split.branch is not None:
        return ()
    bases, young = _parts(split)
    rows = sum(file.row_count for file in young)
    if not young or rows > _YOUNG_ROWS_MAX or rows * _YOUNG_MAX > sum(file.row_count for file in bases):
        return ()
    is_older = max(file.max_sequence_number for file in bases) < min(file.min_sequence_number for file in young)
    return bases if is_older and all(file.delete_row_count == 0 for file in bases) else ()


def young_files(split: DataSplit) -> list[DataSplit]:
    """The files above the oldest run, each alone: read so, they give all their keys, those of deleted rows too."""
    return [replace(split, files=(file,), raw_convertible=True) for file in _parts(split)[1]]


def _parts(split: DataSplit) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
    """The files of the oldest run, and the younger ones."""
    bottom = max(file.level for file in split.files)
    bases = tuple(file for file in split.files if file.level == bottom)
    return bases, tuple(file for file in split.files if file.level != bottom)
