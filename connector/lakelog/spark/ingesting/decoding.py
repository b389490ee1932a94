"""Foreign records to rows and dead letters, in Spark's workers.

Each output row is one of three: a change for the table (`row`), a bad record (`reason`), or at the end of a task its
counts (`summary`). Every record is in exactly one of the counts: accepted or bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.patience import Patience
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules
from lakelog.logstore.kafka.clients.record_limit import RecordLimit, record_limit
from lakelog.logstore.options import ChangelogMode
from lakelog.spark.ingesting.counts import BadRecord, Counts
from lakelog.spark.tables import log_target
from lakelog.spark.types import spark_arrow_schema, to_spark_schema
from lakelog.spark.worker import spare_modules_from_collection

_OF_RECORD = ("topic_id", "partition", "offset", "timestamp", "key", "value")
_CHUNK_RECORDS = 8_192
_CHUNK_BYTES = 32 << 20
_NOT_ORDERED = (
    "op 't' truncates the table, which has an order among the other records only where the topic has one partition and"
    " the table a primary key"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimit:
    """The largest record that the log of a table takes, and how its rows become records."""

    limit: RecordLimit
    mode: ChangelogMode

    @classmethod
    def of(cls, table: Table) -> LogLimit | None:
        """The limit of a table's log; None for a table without a log. Asks the broker once per process."""
        target = log_target(table)
        if target is None:
            return None
        limit = Patience(target.unavailable_seconds).keep_trying(lambda: record_limit(target.topic))
        return cls(limit=limit, mode=target.mode)

    def too_large(self, decoded: ForeignRows, rules: ForeignRules) -> dict[int, str]:
        """Record -> why the log does not take its rows. Finds the rows that are too large by bisection."""
        bad: dict[int, str] = {}
        parts = [(0, decoded.rows.num_rows)]
        while parts:
            start, end = parts.pop()
            kinds = pa.array(decoded.kinds[start:end])
            rows = decoded.rows.slice(start, end - start)
            try:
                self.limit.check_changes(rows, kinds, rules.fields, rules.key_fields, self.mode)
            except InvalidRequestError as error:
                middle = (start + end) // 2
                if end - start == 1:
                    bad[int(decoded.records[start])] = f"oversized: {error}"
                else:
                    parts += [(start, middle), (middle, end)]
        return bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """The body of mapInArrow that turns records into rows, dead letters and a summary.

    `kept` has the positions, (partition, offset), of records that became dead letters in an earlier attempt of this
    batch. `orders_truncations` says that a truncation has a defined position among the other records. `limit` is that
    of the log.
    """

    rules: ForeignRules
    row_schema: spark.StructType
    orders_truncations: bool
    kept: frozenset[tuple[int, int]] = frozenset()
    limit: LogLimit | None = None

    @classmethod
    def of(cls, table: Table, rules: ForeignRules, *, orders_truncations: bool) -> Decoder:
        """The decoder for a table's columns."""
        fields = [replace(one, type=one.type.with_nullable(True)) for one in rules.fields]
        return cls(
            rules=rules,
            row_schema=to_spark_schema(fields),
            orders_truncations=orders_truncations and bool(table.schema.primary_keys),
            limit=LogLimit.of(table),
        )

    @property
    def schema(self) -> spark.StructType:
        """The columns of the output."""
        return spark.StructType(
            [
                spark.StructField("row", self.row_schema),
                spark.StructField(ROW_KIND_COLUMN, spark.StringType()),
                spark.StructField("unavailable", spark.ArrayType(spark.StringType())),
                spark.StructField("topic_id", spark.StringType()),
                spark.StructField("partition", spark.IntegerType()),
                spark.StructField("offset", spark.LongType()),
                spark.StructField("timestamp", spark.TimestampType()),
                spark.StructField("key", spark.BinaryType()),
                spark.StructField("value", spark.BinaryType()),
                spark.StructField("reason", spark.StringType()),
                spark.StructField("summary", spark.StringType()),
            ]
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_modules_from_collection()
        schema = spark_arrow_schema(self.schema)
        counted = Counts()
        for batch in batches:
            for records in _chunks(batch):
                made, counts = self._decoded(records, schema)
                counted += counts
                yield from made
        yield _summary(counted, schema)

    def _decoded(self, records: pa.RecordBatch, schema: pa.Schema) -> tuple[list[pa.RecordBatch], Counts]:
        names = ("value", "key", "partition", "offset")
        values, keys, partitions, offsets = (records.column(name).to_pylist() for name in names)
        places = list(zip(partitions, offsets, strict=True))
        kept = {number for number, place in enumerate(places) if place in self.kept}
        given = [None if number in kept else value for number, value in enumerate(values)]
        decoded = decode_foreign(given, keys, self.rules)
        if not self.orders_truncations:
            decoded.refuse(dict.fromkeys(decoded.truncations, _NOT_ORDERED))
        if self.limit is not None:
            decoded.refuse(self.limit.too_large(decoded, self.rules))
        decoded.refuse(_beyond_spark(decoded, schema.field("row").type))
        made = []
        if len(decoded.records):
            made.append(self._rows(decoded, records, schema))
        if decoded.bad:
            made.append(_letters(decoded.bad, records, schema))
        first = min(decoded.bad, default=None)
        topics = records.column("topic")
        counts = Counts(
            input=records.num_rows,
            accepted=len(np.unique(decoded.records)) + len(decoded.silent) - len(kept),
            dead=len(decoded.bad) + len(kept),
            kept=len(kept),
            rows=len(decoded.records),
            unavailable=tuple(dict.fromkeys(name for names in decoded.unavailable.values() for name in names)),
            truncation=max((offsets[number] for number in decoded.truncations), default=None),
            new_columns=decoded.new_columns,
            new_members=decoded.new_members,
            left_out=int(decoded.left_out.sum()),
            odd_times=decoded.seen.odd,
            plain_times=frozenset(decoded.seen.plain),
            first_bad=None
            if first is None
            else BadRecord(
                topic=topics[first].as_py(),
                partition=partitions[first],
                offset=offsets[first],
                reason=decoded.bad[first],
            ),
        )
        return made, counts

    def _rows(self, decoded: ForeignRows, records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """The changes. A change that lacks an old value carries its record, which may become a dead letter."""
        count = len(decoded.records)
        rows = decoded.rows.combine_chunks()
        members = [_as_spark(rows.column(one.name), one.type) for one in schema.field("row").type]
        row = pa.StructArray.from_arrays(members, fields=list(schema.field("row").type))
        lacking = np.zeros(count, np.bool_)
        lacking[list(decoded.unavailable)] = True
        numbers = pa.array(decoded.records)
        found: dict[str, pa.Array] = {
            "row": row,
            ROW_KIND_COLUMN: pa.array(ROW_KIND_TEXTS).take(pa.array(decoded.kinds)),
            "unavailable": pa.array([decoded.unavailable.get(at) for at in range(count)], pa.list_(pa.string()))
            if decoded.unavailable
            else pa.nulls(count, pa.list_(pa.string())),
        }
        for name in ("topic_id", "partition", "offset"):
            found[name] = records.column(name).take(numbers)
        if decoded.unavailable:
            of_lacking = pa.array(np.where(lacking, decoded.records, 0), mask=~lacking)
            for name in ("timestamp", "key", "value"):
                found[name] = records.column(name).take(of_lacking)
        return _batch(found, count, schema)


def _beyond_spark(decoded: ForeignRows, row_type: pa.DataType) -> dict[int, str]:
    """Record -> why Spark cannot hold its row: a timestamp out of range. Finds these rows by bisection."""
    bad: dict[int, str] = {}
    parts = [(0, decoded.rows.num_rows)]
    while parts:
        start, end = parts.pop()
        rows = decoded.rows.slice(start, end - start)
        for one in row_type:
            try:
                _as_spark(rows.column(one.name), one.type)
            except pa.ArrowInvalid as error:
                if end - start == 1:
                    bad[int(decoded.records[start])] = f"wrong type: column {one.name!r}: {error}"
                else:
                    middle = (start + end) // 2
                    parts += [(start, middle), (middle, end)]
                break
    return bad


def _chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces of a batch, small enough to be parsed in little memory."""
    size = batch.column("value").nbytes
    count = min(_CHUNK_RECORDS, max(1, batch.num_rows * _CHUNK_BYTES // max(size, 1)))
    for start in range(0, batch.num_rows, count):
        yield batch.slice(start, count)


def _letters(bad: Mapping[int, str], records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    numbers = sorted(bad)
    place = pa.array(numbers, pa.int64())
    found = {name: records.column(name).take(place) for name in _OF_RECORD}
    found["reason"] = pa.array([bad[number] for number in numbers], pa.string())
    return _batch(found, len(numbers), schema)


def _summary(counts: Counts, schema: pa.Schema) -> pa.RecordBatch:
    return _batch({"summary": pa.array([counts.to_json()], pa.string())}, 1, schema)


def _batch(found: Mapping[str, pa.Array], count: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema; null for those that were not found."""
    columns: Sequence[pa.Array] = [
        _as_spark(found[one.name], one.type) if one.name in found else pa.nulls(count, one.type) for one in schema
    ]
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)


def _as_spark(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == kind else values.cast(kind)
