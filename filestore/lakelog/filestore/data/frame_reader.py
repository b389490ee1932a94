"""One data file's rows as polars frames, decoded by polars if it gives the same values as Arrow.

Polars decodes Parquet in about half of Arrow's processor time, and its frames need no conversion. The blocks that it
decodes are first compared with their checksums. Then polars reads a local file itself, by the same descriptor; the
system still has the bytes in memory. For a file in an object store it gets a copy of the verified bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.quoting import CAUSE_MAX, cut
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.data.data_reader import file_fields, opened_file, parts_of, read_data_file, row_bytes
from lakelog.filestore.data.row_groups import RowFilter, groups_left
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.evolution import FieldMapping

_ALIKE = {
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
    TypeRoot.CHAR,
    TypeRoot.VARCHAR,
    TypeRoot.DATE,
    TypeRoot.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ,
}
_ROWS_MIN = 65_536  # for fewer rows a query of polars takes longer than Arrow
# Polars works through a given frame as a whole: a million rows of two columns do not stay in the processor's caches.
_SLICE_ROWS = 65_536


def read_data_frames(
    table: TableStore,
    bucket: BucketId,
    file: DataFileMeta,
    fields: Sequence[DataField],
    *,
    piece_bytes: int,
    deletions: DeletionFile | None = None,
    rows: RowFilter | None = None,
) -> Iterator[pl.DataFrame]:
    """The rows that `read_data_file` gives, as frames of at most about `piece_bytes`."""
    stored = file_fields(table, file, fields)
    mapping = FieldMapping.of(fields, stored)
    may_decode = (
        bool(fields)
        and mapping.is_plain
        and deletions is None
        and file.checksums is not None
        and file.row_count >= _ROWS_MIN
        and all(field.type.root in _ALIKE for field in fields)
    )
    if not may_decode:
        batches = read_data_file(table, bucket, file, fields, piece_bytes=piece_bytes, deletions=deletions, rows=rows)
        yield from (pl.DataFrame(batch) for batch in batches)
        return
    columns = (table.schema.fields, stored)
    with opened_file(table, bucket, file) as opened:
        if isinstance(opened, ParquetFile) and not opened.footer.int96_columns:
            every = range(len(opened.row_groups))
            groups = list(every) if rows is None else groups_left(opened, rows, *columns)
            may_decode = _fits(opened, file, groups, piece_bytes)
            if may_decode and sum(opened.row_groups[group][0] for group in groups) >= _ROWS_MIN:
                yield from _decoded(opened, fields, groups, piece_bytes, file.file_name)
                return
        for _, batches in parts_of(opened, fields, piece_bytes, rows, columns):
            yield from (pl.DataFrame(batch) for batch in batches)


def _fits(opened: ParquetFile, file: DataFileMeta, groups: Sequence[int], piece_bytes: int) -> bool:
    """Whether the memory that polars needs while decoding fits: a row group, or the whole file if it is not local."""
    held = file.file_size_bytes if not opened.is_own_file else 0
    return max([held, *(opened.row_groups[group][1] for group in groups)]) <= piece_bytes


def _decoded(
    opened: ParquetFile, fields: Sequence[DataField], groups: Sequence[int], piece_bytes: int, file_name: str
) -> Iterator[pl.DataFrame]:
    """The columns `fields` of row groups, decoded by polars."""
    names = [field.name for field in fields]
    schema = pl.DataFrame(to_arrow_schema(fields).empty_table()).schema
    starts = [0, *itertools.accumulate(count for count, _ in opened.row_groups)]
    rows_max = max(1, piece_bytes // max(row_bytes(fields), opened.row_bytes, 1))
    for first, last in _runs(groups, starts, rows_max):
        source = opened.verified(fields, range(first, last))
        if source is None:
            raise AssertionError("a file with checksums in its manifest entry is read without them")
        try:
            part = pl.scan_parquet(
                source, parallel="row_groups", use_statistics=False, glob=False, hive_partitioning=False
            )
            frame = part.slice(starts[first], starts[last] - starts[first]).select(names).collect()
        except pl.exceptions.PolarsError as error:
            raise damaged(file_name, f"polars cannot decode it: {cut(str(error), CAUSE_MAX)}") from error
        finally:
            if not isinstance(source, bytes):
                source.close()
        del source
        if frame.schema != schema or frame.height != starts[last] - starts[first]:
            batches = opened.iter_batches(fields, row_groups=list(range(first, last)))
            frame = pl.DataFrame(pa.Table.from_batches(batches))
        yield from frame.iter_slices(_SLICE_ROWS)


def _runs(groups: Sequence[int], starts: Sequence[int], rows_max: int) -> Iterator[tuple[int, int]]:
    """Neighbouring row groups together, up to `rows_max` rows, as first and last, exclusive."""
    first = last = None
    for group in groups:
        if first is None or last is None or group != last or starts[group + 1] - starts[first] > rows_max:
            if first is not None and last is not None:
                yield first, last
            first = group
        last = group + 1
    if first is not None and last is not None:
        yield first, last
