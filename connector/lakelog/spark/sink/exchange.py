"""Sending rows to the tasks that own their buckets: as Arrow blocks through Spark's shuffle, not as rows.

The task that has the rows checks them, splits them by bucket, and sends the rows of each bucket on as binaries that are
Arrow streams. The task that owns the bucket joins them in the order of their positions in the batch. Shuffling the rows
themselves takes a quarter more time, since Spark takes each row apart and puts it together twice.

A shuffle ends before the first task after it begins: a row that the table or its topic refuses fails the batch before
anything of it is logged.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from lakelog.common.arrow import pieces_of
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.encoding import bucket_of, hashes_of
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import ROWKIND_FIELD
from lakelog.filestore.write import AssignRules, check_kinds_taken, split_kinds, validate_rows, written_kinds
from lakelog.logstore.kafka.clients.record_limit import RecordLimit
from lakelog.logstore.options import ChangelogMode
from lakelog.spark.failures import ANSWERED
from lakelog.spark.worker import spare_modules_from_collection, task_number

TASK_COLUMN = "task"
SORT_PREFIX = "_lakelog_sort_"
BLOCKS = pa.schema(
    [
        pa.field(TASK_COLUMN, pa.int32(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("place", pa.int64(), nullable=False),
        pa.field("block", pa.binary(), nullable=False),
    ]
)
BLOCKS_TYPE = StructType(
    [
        StructField(TASK_COLUMN, IntegerType(), nullable=False),
        StructField("bucket", IntegerType(), nullable=False),
        StructField("place", LongType(), nullable=False),
        StructField("block", BinaryType(), nullable=False),
    ]
)

PIECE_BYTES = 64 << 20  # size of the rows that are split at a time
BLOCK_BYTES = 256 << 10  # small: Spark joins up to 2,000 of them in one Arrow batch
PLACES_PER_TASK = 1 << 40
_NO_BUCKET = -1  # the bucket of a block that carries an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The body of mapInArrow before the shuffle: turns rows into blocks, each for the task `bucket % task_count`.

    Dynamic buckets are chosen by the task that gets the rows: then a block has all keys of a class of a partition, see
    `filestore.write.assigning`, and `bucket` is the task. `limit` is that of the table's topic and `mode` is how
    changes become records; both are None for a table without a log.
    """

    table: TableStore
    task_count: int
    limit: RecordLimit | None = None
    mode: ChangelogMode | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_modules_from_collection()
        try:
            yield from self.blocks(batches, task_number())
        except ANSWERED as error:
            written = _Blocks()
            for task in range(self.task_count):
                written.output.write(pickle.dumps(error))
                written.end_block(task, _NO_BUCKET, 0)
            yield written.batch()

    def blocks(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """The blocks of the rows of the task with this number. Raises InvalidRequestError."""
        place = task * PLACES_PER_TASK
        for piece in pieces_of(batches, PIECE_BYTES):
            rows = self._checked(piece)
            written = _Blocks()
            for bucket, part in split_by_bucket(rows, self._buckets(rows)):
                self._check_records(part)
                for block in _cut(part, BLOCK_BYTES):
                    with pa.ipc.new_stream(written.output, block.schema) as stream:
                        stream.write_table(block)
                    written.end_block(bucket % self.task_count, bucket, place)
                    place += 1
            yield written.batch()

    def _checked(self, piece: pa.Table) -> pa.Table:
        schema = self.table.schema
        rows = validate_rows(schema, piece.select(schema.field_names), table_name=self.table.name)
        self._check_kinds(rows, piece)
        for name in piece.column_names:
            if name == ROW_KIND_COLUMN or name.startswith(SORT_PREFIX):
                rows = rows.append_column(name, piece.column(name))
        return rows

    def _check_kinds(self, rows: pa.Table, piece: pa.Table) -> None:
        """Raise InvalidRequestError for row kinds that the table does not take, before anything is logged."""
        if ROW_KIND_COLUMN in piece.column_names:
            check_kinds_taken(self.table, piece.column(ROW_KIND_COLUMN))
        elif ROWKIND_FIELD.of(self.table.schema.options) is not None:
            check_kinds_taken(self.table, written_kinds(self.table.schema, rows, None, table_name=self.table.name))

    def _check_records(self, part: pa.Table) -> None:
        if self.limit is not None and self.mode is not None:
            schema = self.table.schema
            rows, kinds = split_kinds(part)
            columns = rows.select(schema.field_names)
            self.limit.check_changes(columns, kinds, schema.fields, schema.primary_keys, self.mode)

    def _buckets(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        schema = self.table.schema
        if schema.has_dynamic_buckets:
            classes = AssignRules.of(schema.options, writer_count=self.task_count).class_of(
                hashes_of(rows, schema.key_fields)
            )
            # Partitions that have fewer classes than there are tasks begin with different tasks.
            starts = hashes_of(rows, schema.partition_fields) if schema.partition_fields else np.int32(0)
            return np.mod(np.abs(np.fmod(starts, self.task_count)) + classes, self.task_count)
        return bucket_of(rows, schema.bucket_fields, self.table.bucket_count, schema.bucket_function)


def split_by_bucket(rows: pa.Table, buckets: npt.NDArray[np.int32]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket, in their order."""
    if not rows.num_rows:
        return
    narrow = buckets.astype(np.int16) if buckets.max() <= np.iinfo(np.int16).max else buckets
    grouping = np.argsort(narrow, kind="stable")  # of 16 bits: a radix sort
    numbers, starts = np.unique(buckets[grouping], return_index=True)
    grouped = rows if len(numbers) == 1 else rows.take(pa.array(grouping))
    ends = [*starts[1:], len(buckets)]
    for bucket, start, end in zip(numbers, starts, ends, strict=True):
        yield int(bucket), grouped.slice(start, end - start)


def received(batches: Iterable[pa.RecordBatch]) -> dict[int, pa.Table]:
    """The rows of each bucket in the blocks that a task was given, in order.

    The order is that of the columns `SORT_PREFIX...`, which are left out, then of the rows' positions in the batch.
    Raises the error of a sender.
    """
    blocks: list[tuple[int, int, pa.Buffer]] = []
    for batch in batches:
        buckets, places = batch.column("bucket").to_pylist(), batch.column("place").to_pylist()
        blocks += zip(buckets, places, (one.as_buffer() for one in batch.column("block")), strict=True)
    # By bucket and position, which no two blocks share, except those with errors.
    blocks.sort(key=lambda block: block[:2])
    if blocks and blocks[0][0] == _NO_BUCKET:
        error: LakelogError = pickle.loads(blocks[0][2])
        raise error
    tables: dict[int, list[pa.Table]] = {}
    for bucket, _, block in blocks:
        tables.setdefault(bucket, []).append(pa.ipc.open_stream(block).read_all())
    return {bucket: in_order(pa.concat_tables(parts)) for bucket, parts in tables.items()}


def in_order(rows: pa.Table) -> pa.Table:
    """The rows in the order of the columns `SORT_PREFIX...`, nulls first, without them; unchanged if there are none."""
    sort_columns = [name for name in rows.column_names if name.startswith(SORT_PREFIX)]
    if not sort_columns:
        return rows
    keys = pl.from_arrow(rows.select(sort_columns))
    assert isinstance(keys, pl.DataFrame)
    order = keys.with_row_index("row").sort(sort_columns, nulls_last=False, maintain_order=True)["row"]
    return rows.drop_columns(sort_columns).take(order.to_arrow())


def check_owned(buckets: Iterable[int], task_count: int, number: int, table_name: str) -> None:
    """Raise InvalidRequestError for a bucket that another task writes: two owners would fence each other forever."""
    for bucket in buckets:
        if bucket % task_count != number:
            raise InvalidRequestError(
                f"task {number} of {task_count} was given rows of bucket {bucket} of table {table_name}, which "
                f"belongs to task {bucket % task_count}: rows of a table with a log must come through "
                "lakelog.spark.write_stream or LakelogSink, which bring each bucket to one task"
            )


def _cut(rows: pa.Table, size_bytes: int) -> Iterator[pa.Table]:
    step = max(1, rows.num_rows * size_bytes // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


class _Blocks:
    """Blocks that are written one after the other into the memory of one Arrow array, `output`.

    An array made of a list of blocks would copy each several times: 85 ms of processor time for 200,000 rows, 3 so.
    """

    def __init__(self) -> None:
        self.output = pa.BufferOutputStream()
        self._ends = [0]
        self._places: list[tuple[int, int, int]] = []

    def end_block(self, task: int, bucket: int, place: int) -> None:
        """What was written since the last one is a block."""
        self._ends.append(self.output.tell())
        self._places.append((task, bucket, place))

    def batch(self) -> pa.RecordBatch:
        """All blocks. Nothing more is written then."""
        ends = pa.py_buffer(np.array(self._ends, np.int32))
        blocks = pa.Array.from_buffers(pa.binary(), len(self._places), [None, ends, self.output.getvalue()])
        columns = list(zip(*self._places, strict=True)) or [()] * 3
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, BLOCKS, strict=False)]
        return pa.RecordBatch.from_arrays([*arrays, blocks], schema=BLOCKS)
