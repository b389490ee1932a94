"""The numbers of rows of one file, in tables of other engines with `row-tracking.enabled`.

An appended file has the numbers from `first_row_id` on, row by row, and its rows were last changed by the snapshot
`max_sequence_number`. A compaction, an update and a delete write rows that keep their numbers: in the columns `_ROW_ID`
and `_SEQUENCE_NUMBER` of the new file, where null means the numbers of an appended file. Whether a file has these
columns is said by its own schema, not by the table's. Rows from before the table numbered them have neither. Source:
Paimon, `SpecialFields`, `DataFileRecordReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.types import DataField, parse_type
from lakelog.filestore.data.data_reader import opened_file, parts_of, stored_columns
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.evolution import FieldMapping
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD_ID

ROW_ID, SEQUENCE = "_ROW_ID", SEQUENCE_NUMBER
_ROW_ID_FIELD_ID = 2_147_483_642
NUMBER_FIELDS = (
    DataField(id=_ROW_ID_FIELD_ID, name=ROW_ID, type=parse_type("BIGINT")),
    DataField(id=SEQUENCE_NUMBER_FIELD_ID, name=SEQUENCE, type=parse_type("BIGINT")),
)


def read_numbered(
    table: TableStore, bucket: BucketId, file: DataFileMeta, fields: Sequence[DataField], *, piece_bytes: int
) -> Iterator[pa.RecordBatch]:
    """All rows of a file, deleted rows included, in the columns `fields`, then `_ROW_ID` and `_SEQUENCE_NUMBER`.

    Raises as `read_data_file`.
    """
    with opened_file(table, bucket, file) as opened:
        stored = stored_columns(table, file)
        kept = [field for field in NUMBER_FIELDS if field.name in opened.names]
        mapping = FieldMapping.of([*fields, *NUMBER_FIELDS], [*stored, *kept])
        read = mapping.stored or tuple(stored[:1])  # one column, to count the rows
        start = 0
        for _, batches in parts_of(opened, read, piece_bytes, None, (table.schema.fields, stored)):
            for batch in batches:
                yield numbered(mapping.adapt(batch), file, start)
                start += batch.num_rows


def numbered(batch: pa.RecordBatch, file: DataFileMeta, start: int) -> pa.RecordBatch:
    """A batch that begins at row `start` of a file; its last two columns are stored numbers, or null."""
    ids, sequences = batch.column(batch.num_columns - 2), batch.column(batch.num_columns - 1)
    if ids.null_count and file.first_row_id is not None:
        first = file.first_row_id + start
        ids = _filled(ids, np.arange(first, first + len(ids)))
    if sequences.null_count:
        sequences = sequences.fill_null(file.max_sequence_number)
    columns = [*batch.columns[:-2], ids, sequences]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _filled(values: pa.Array, others: npt.NDArray[np.int64]) -> pa.Array:
    """The values, and the others where they are null."""
    is_null = np.asarray(values.is_null())
    known = np.asarray(values.fill_null(0))
    return pa.array(np.where(is_null, others, known), pa.int64())
