"""The bucket of a row as a Spark column, equal to the bucket that the file store computes.

If Spark SQL can build the BinaryRow of the bucket key, the column is native: Spark's `hash` of a binary is the hash of
the format (Murmur3, seed 42) whenever the length is a multiple of four, as the length of a BinaryRow always is. It
needs no Python worker and works in SQL. Other key types and bucket functions go through the file store's own vectorised
function.

Source of the bytes: `lakelog.filestore.encoding.binary_row`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf

from lakelog.catalog import Table
from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore import FileStoreTable
from lakelog.filestore.encoding import IN_SLOT_BYTES, MAX_COMPACT_PRECISION, bucket_of, null_bits_width
from lakelog.filestore.options import BucketFunction
from lakelog.filestore.schema import TableSchema
from lakelog.spark.types import to_spark_type

_INTEGER_MASKS = {
    TypeRoot.TINYINT: "0xFF",
    TypeRoot.SMALLINT: "0xFFFF",
    TypeRoot.INT: "0xFFFFFFFF",
    TypeRoot.DATE: "0xFFFFFFFF",
}
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (*_TEXT, TypeRoot.BINARY, TypeRoot.VARBINARY)
_MILLIS_PRECISION = 3
_ZERO_WORD = "X'0000000000000000'"


def bucket_column(rows: DataFrame, table: Table | FileStoreTable) -> Column:
    """The bucket (INT) in which the table keeps each row.

    Raises InvalidRequestError when the rows lack a bucket key column, or the table has no fixed buckets.
    """
    schema = table.schema
    missing = [name for name in schema.bucket_keys if name not in rows.columns]
    if missing:
        raise InvalidRequestError(
            f"the bucket of table {table.name} follows from {listed(schema.bucket_keys)}; the rows lack "
            f"{listed(missing)}"
        )
    return bucket_column_of(schema)


def bucket_column_of(schema: TableSchema) -> Column:
    """The bucket (INT) of each row of a DataFrame that has the bucket key columns of `schema`.

    Raises InvalidRequestError for a table without fixed buckets.
    """
    if schema.bucket_count < 1:
        raise InvalidRequestError(
            f"the table has bucket={schema.bucket_count}: rows have a bucket only where bucket is 1 or more"
        )
    sql = native_bucket_sql(schema)
    return sf.expr(sql) if sql is not None else _vectorised(schema)


def native_bucket_sql(schema: TableSchema) -> str | None:
    """Spark SQL that gives the bucket; None if SQL cannot compute it."""
    fields = schema.bucket_fields
    if schema.bucket_function is BucketFunction.MOD:
        return f"CAST(pmod(CAST({quoted_name(fields[0].name)} AS BIGINT), {schema.bucket_count}) AS INT)"
    if schema.bucket_function is not BucketFunction.DEFAULT or not all(map(_is_native, fields)):
        return None
    return f"abs(hash({_binary_row_sql(fields)}) % {schema.bucket_count})"


def _is_native(field: DataField) -> bool:
    kind = field.type
    match kind.root:
        case TypeRoot.DECIMAL:
            return (kind.precision or 0) <= MAX_COMPACT_PRECISION
        case TypeRoot.BOOLEAN | TypeRoot.BIGINT | TypeRoot.TIMESTAMP_LTZ:
            return True
        case _:
            return kind.root in _INTEGER_MASKS or kind.root in _BYTES


def _binary_row_sql(fields: Sequence[DataField]) -> str:
    """SQL for the BinaryRow of these columns: null bits, slots, variable part."""
    offset = f"{null_bits_width(len(fields)) + 8 * len(fields)}L"
    slots: list[str] = []
    tails: list[str] = []
    for field in fields:
        column = f"CAST({quoted_name(field.name)} AS {to_spark_type(field.type, name=field.name).simpleString()})"
        slot, tail = _value_sql(field, column, offset)
        if field.type.nullable and not _keeps_room_for_null(field):
            slot = f"CASE WHEN {column} IS NULL THEN {_ZERO_WORD} ELSE {slot} END"
            if tail is not None:
                length, content = (f"CASE WHEN {column} IS NULL THEN {no} ELSE" for no in ("0L", "X''"))
                tail = f"{length} {tail[0]} END", f"{content} {tail[1]} END"
        slots.append(slot)
        if tail is not None:
            length, content = tail
            tails.append(content)
            offset = f"{offset} + {length}"
    return f"concat({', '.join([*_null_bits_sql(fields), *slots, *tails])})"


def _keeps_room_for_null(field: DataField) -> bool:
    """True for types whose null values keep an offset and zeros, as `lakelog.filestore.encoding.bucket` says."""
    return field.type.root is TypeRoot.TIMESTAMP_LTZ and (field.type.precision or 0) > _MILLIS_PRECISION


def _null_bits_sql(fields: Sequence[DataField]) -> list[str]:
    words = []
    for word in range(null_bits_width(len(fields)) // 8):
        bits = [
            f"CASE WHEN {quoted_name(field.name)} IS NULL THEN {_long(1 << (index + 8) % 64)} ELSE 0L END"
            for index, field in enumerate(fields)
            if (index + 8) // 64 == word and field.type.nullable
        ]
        words.append(_little_endian_sql(" | ".join(bits)) if bits else _ZERO_WORD)
    return words


def _value_sql(field: DataField, column: str, offset: str) -> tuple[str, tuple[str, str] | None]:
    """SQL for the slot of a non-null value, and for the length and bytes of its variable part."""
    kind = field.type
    root = kind.root
    if root in _BYTES:
        return _bytes_sql(f"CAST({column} AS BINARY)", offset)
    if root is TypeRoot.TIMESTAMP_LTZ:
        micros = f"coalesce(unix_micros({column}), 0L)"
        millis = f"((({micros}) - pmod({micros}, 1000L)) div 1000L)"
        if (kind.precision or 0) <= _MILLIS_PRECISION:
            return _little_endian_sql(millis), None
        nanos = f"(pmod({micros}, 1000L) * 1000L)"
        return _little_endian_sql(f"shiftleft({offset}, 32) | {nanos}"), ("8L", _little_endian_sql(millis))
    if root in _INTEGER_MASKS:
        number = f"unix_date({column})" if root is TypeRoot.DATE else column
        mask = int(_INTEGER_MASKS[root], 16)
        return _little_endian_sql(f"CAST({number} AS BIGINT) & {mask}L"), None
    if root is TypeRoot.DECIMAL:
        unscaled = f"CAST({column} * CAST({10 ** (kind.scale or 0)} AS DECIMAL(19, 0)) AS BIGINT)"
        return _little_endian_sql(unscaled), None
    return _little_endian_sql(f"CAST({column} AS BIGINT)"), None


def _bytes_sql(data: str, offset: str) -> tuple[str, tuple[str, str]]:
    size = f"octet_length({data})"
    in_slot = f"concat(rpad({data}, {IN_SLOT_BYTES}, X'00'), unhex(lpad(hex(128 + {size}), 2, '0')))"
    out_of_slot = _little_endian_sql(f"shiftleft({offset}, 32) | CAST({size} AS BIGINT)")
    slot = f"CASE WHEN {size} <= {IN_SLOT_BYTES} THEN {in_slot} ELSE {out_of_slot} END"
    padded = f"((({size} + 7) div 8) * 8)"
    length = f"CASE WHEN {size} <= {IN_SLOT_BYTES} THEN 0L ELSE {padded} END"
    content = f"CASE WHEN {size} <= {IN_SLOT_BYTES} THEN X'' ELSE rpad({data}, CAST({padded} AS INT), X'00') END"
    return slot, (length, content)


def _little_endian_sql(number: str) -> str:
    """SQL for the eight bytes of a BIGINT, lowest first: it swaps pairs, quads and halves in turn."""
    value = f"({number})"
    for shift, mask in ((8, "71777214294589695L"), (16, "281470681808895L")):
        value = f"((shiftrightunsigned({value}, {shift}) & {mask}) | shiftleft({value} & {mask}, {shift}))"
    value = f"(shiftrightunsigned({value}, 32) | shiftleft({value}, 32))"
    return f"unhex(lpad(hex({value}), 16, '0'))"


def _long(bits: int) -> str:
    """A BIGINT literal with these bits."""
    return f"{bits}L" if bits < 1 << 63 else f"(-{(1 << 63) - 1}L - 1L)"


def _vectorised(schema: TableSchema) -> Column:
    fields = schema.bucket_fields
    bucket_count, function = schema.bucket_count, schema.bucket_function

    def buckets(*columns: pa.Array) -> pa.Array:
        rows = pa.Table.from_arrays(list(columns), names=[field.name for field in fields])
        return pa.array(bucket_of(rows, fields, bucket_count, function))

    casted = [sf.col(quoted_name(field.name)).cast(to_spark_type(field.type, name=field.name)) for field in fields]
    # PySpark's stubs know no functions with a variable number of columns.
    bucket_udf = arrow_udf(buckets, "int")  # type: ignore[call-overload]
    column: Column = bucket_udf(*casted)
    return column
