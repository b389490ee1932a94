"""Column types as Arrow types, and back. No I/O.

| Paimon | Arrow |
|---|---|
| CHAR, VARCHAR, STRING | string |
| BINARY(n), VARBINARY, BYTES, BLOB | binary |
| TIME(p) | time32[ms] up to 3 digits, else time64[us or ns] |
| TIMESTAMP(p) | timestamp of s (0), ms (1-3), us (4-6), ns (7-9), without zone |
| TIMESTAMP_LTZ(p) | the same with zone UTC |
| ARRAY, MAP, MULTISET, ROW | list, map, map to int32, struct |
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec

import pyarrow as pa

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import MAX_LENGTH, DataField, DataType, TypeRoot, array_of, check_depth, map_of, row_of

_PLAIN = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.BLOB: pa.binary(),
    TypeRoot.DATE: pa.date32(),
}


def time_unit(precision: int) -> str:
    """The Arrow unit that holds `precision` fractional digits of a second."""
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type that holds every value of `kind` without loss."""
    if kind.root in _PLAIN:
        return _PLAIN[kind.root]
    precision = kind.precision or 0
    match kind.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(precision, kind.scale or 0)
        case TypeRoot.TIME:
            return pa.time32("ms") if precision <= 3 else pa.time64(time_unit(precision))
        case TypeRoot.TIMESTAMP:
            return pa.timestamp(time_unit(precision))
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp(time_unit(precision), tz="UTC")
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return pa.list_(pa.field("element", to_arrow_type(kind.element), kind.element.nullable))
        case TypeRoot.MULTISET:
            assert kind.element is not None
            return pa.map_(to_arrow_type(kind.element), pa.field("value", pa.int32(), nullable=False))
        case TypeRoot.MAP:
            assert kind.key is not None
            assert kind.value is not None
            return pa.map_(to_arrow_type(kind.key), pa.field("value", to_arrow_type(kind.value), kind.value.nullable))
        case TypeRoot.ROW:
            return pa.struct([to_arrow_field(field) for field in kind.fields])
        case _:
            raise UnsupportedError(f"type {kind} has no Arrow type in lakelog yet")


def wide_decimal(scale: int) -> pa.DataType:
    """The Arrow type that can hold every number of 38 digits with `scale` digits behind the point.

    Arrow's casts to 128 bits wrap around where a number does not fit: -7 becomes a DECIMAL(38, 38) of -0.19 without an
    error. So decimals and strings that get another scale are cast to this type first.
    """
    return pa.decimal256(76, scale)


def to_arrow_field(field: DataField) -> pa.Field:
    """The Arrow field of a column, with its nullability."""
    return pa.field(field.name, to_arrow_type(field.type), field.type.nullable)


def to_arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of columns, in their order."""
    return pa.schema([to_arrow_field(field) for field in fields])


def takes_python_values_at_once() -> bool:
    """Whether no import comes before them: the first ones make pyarrow import pandas, 0.3 s, where it is installed."""
    return "pandas" in sys.modules or not _has_pandas()


@cache
def _has_pandas() -> bool:
    return find_spec("pandas") is not None


def misplaced_null(values: pa.Array | pa.ChunkedArray, kind: DataType, place: str = "") -> str | None:
    """The first place in values of a type that is NOT NULL and holds a null; None if there is none.

    The place is empty for the values themselves, otherwise it names the member in them: `.member`, `[]`, `.key`,
    `.value`.
    """
    if not kind.nullable and values.null_count:
        return place
    if not kind.is_nested or not _has_not_null_inside(kind):
        return None
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    found = (misplaced for chunk in chunks if (misplaced := _misplaced_in(chunk.drop_null(), kind, place)) is not None)
    return next(found, None)


def _has_not_null_inside(kind: DataType) -> bool:
    parts = [part for part in (kind.element, kind.key, kind.value, *(field.type for field in kind.fields)) if part]
    return any(not part.nullable or _has_not_null_inside(part) for part in parts)


def _misplaced_in(values: pa.Array, kind: DataType, place: str) -> str | None:
    """`misplaced_null` for the members of nested values that are not null themselves."""
    if kind.root is TypeRoot.ROW:
        members = [
            (child, field.type, f"{place}.{field.name}")
            for child, field in zip(values.flatten(), kind.fields, strict=True)
        ]
    elif kind.root is TypeRoot.ARRAY:
        assert kind.element is not None
        members = [(values.flatten(), kind.element, f"{place}[]")]
    else:
        key = kind.element if kind.root is TypeRoot.MULTISET else kind.key
        assert key is not None
        start, length = values.offsets[0].as_py(), values.offsets[-1].as_py() - values.offsets[0].as_py()
        members = [(values.keys.slice(start, length), key, f"{place}.key")]
        if kind.value is not None:
            members.append((values.items.slice(start, length), kind.value, f"{place}.value"))
    found = (misplaced for member in members if (misplaced := misplaced_null(*member)) is not None)
    return next(found, None)


# Where the comment of a column is: what Spark calls it, then pypaimon, then pyiceberg.
_COMMENT_KEYS = (b"comment", b"description", b"doc")
_UNIT_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FROM_ARROW = {
    pa.bool_(): TypeRoot.BOOLEAN,
    pa.int8(): TypeRoot.TINYINT,
    pa.int16(): TypeRoot.SMALLINT,
    pa.int32(): TypeRoot.INT,
    pa.int64(): TypeRoot.BIGINT,
    pa.uint8(): TypeRoot.SMALLINT,
    pa.uint16(): TypeRoot.INT,
    pa.uint32(): TypeRoot.BIGINT,
    pa.float16(): TypeRoot.FLOAT,
    pa.float32(): TypeRoot.FLOAT,
    pa.float64(): TypeRoot.DOUBLE,
    pa.date32(): TypeRoot.DATE,
    pa.date64(): TypeRoot.DATE,
    pa.bool8(): TypeRoot.BOOLEAN,
}
_UINT64_DIGITS = 20
_DECIMAL_DIGITS_MAX = 38
_TIME_PRECISION_MAX = 3  # TIME is stored in milliseconds; a write refuses values with more digits
# Arrow types that the format lacks, and what to do with such a column.
_WAYS_OUT = (
    (pa.types.is_null, "all its values are null: cast it to the type that its values will have"),
    (pa.types.is_duration, "cast it to a whole number of its unit (pa.int64(), BIGINT)"),
    (pa.types.is_interval, "cast it to text, or to months, days and nanoseconds in columns of their own"),
    (pa.types.is_union, "give each member a column of its own"),
    (pa.types.is_list_view, "cast it to a list"),
    (pa.types.is_large_list_view, "cast it to a list"),
    (pa.types.is_run_end_encoded, "decode it with pyarrow.compute.run_end_decode"),
    (pa.types.is_decimal256, "DECIMAL has at most 38 digits: cast it to one of them, or to text"),
)


def from_arrow_type(kind: pa.DataType, *, name: str, depth: int = 0) -> DataType:
    """The column type of an Arrow type, wide enough for each value; ROW members get ids 0, which the schema renumbers.

    A TIME alone is narrower than Arrow's: it has milliseconds. Raises UnsupportedError, naming the column `name`, for
    types that the format lacks, and InvalidRequestError for types that are nested too deeply; `depth` is the number of
    types around this one.
    """
    check_depth(depth)
    if kind in _FROM_ARROW:
        return DataType(root=_FROM_ARROW[kind])
    types = pa.types
    if types.is_dictionary(kind):
        return from_arrow_type(kind.value_type, name=name, depth=depth)
    if isinstance(kind, pa.UuidType) and not depth:
        return DataType(root=TypeRoot.VARCHAR, length=MAX_LENGTH)
    if isinstance(kind, pa.JsonType):
        return from_arrow_type(kind.storage_type, name=name, depth=depth)
    if types.is_uint64(kind):
        return DataType(root=TypeRoot.DECIMAL, precision=_UINT64_DIGITS, scale=0)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return DataType(root=TypeRoot.VARCHAR, length=MAX_LENGTH)
    if types.is_fixed_size_binary(kind):
        return DataType(root=TypeRoot.BINARY, length=kind.byte_width)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return DataType(root=TypeRoot.VARBINARY, length=MAX_LENGTH)
    if types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS_MAX:
        return DataType(root=TypeRoot.DECIMAL, precision=kind.precision, scale=kind.scale)
    if types.is_time(kind):
        return DataType(root=TypeRoot.TIME, precision=min(_UNIT_PRECISION[kind.unit], _TIME_PRECISION_MAX))
    if types.is_timestamp(kind):
        root = TypeRoot.TIMESTAMP if kind.tz is None else TypeRoot.TIMESTAMP_LTZ
        return DataType(root=root, precision=_UNIT_PRECISION[kind.unit])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element = from_arrow_type(kind.value_type, name=f"{name}.element", depth=depth + 1)
        return array_of(element.with_nullable(kind.value_field.nullable))
    if types.is_map(kind):
        value = from_arrow_type(kind.item_type, name=f"{name}.value", depth=depth + 1).with_nullable(
            kind.item_field.nullable
        )
        return map_of(from_arrow_type(kind.key_type, name=f"{name}.key", depth=depth + 1), value)
    if types.is_struct(kind):
        return row_of([from_arrow_field(field, path=f"{name}.{field.name}", depth=depth + 1) for field in kind])
    way_out = next((way for is_kind, way in _WAYS_OUT if is_kind(kind)), "give it another type, or leave it out")
    raise UnsupportedError(f"column {name!r} has the Arrow type {kind}, which the Paimon format cannot hold: {way_out}")


def from_arrow_field(field: pa.Field, *, path: str | None = None, depth: int = 0) -> DataField:
    """The column of an Arrow field, with id 0 and the comment of its metadata. Raises UnsupportedError."""
    kind = from_arrow_type(field.type, name=path or field.name, depth=depth).with_nullable(field.nullable)
    return DataField(id=0, name=field.name, type=kind, description=_comment_of(field))


def from_arrow_schema(schema: Iterable[pa.Field]) -> tuple[DataField, ...]:
    """The columns of an Arrow schema, with ids 0. Raises UnsupportedError that names each column without a type."""
    columns, refused = [], []
    for field in schema:
        try:
            columns.append(from_arrow_field(field))
        except UnsupportedError as error:
            refused.append(str(error))
    if refused:
        raise UnsupportedError("\n".join(refused))
    return tuple(columns)


def _comment_of(field: pa.Field) -> str | None:
    metadata = field.metadata or {}
    found = next((metadata[key] for key in _COMMENT_KEYS if metadata.get(key)), None)
    return None if found is None else str(found.decode("utf-8", "replace"))


def pieces_of(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """The batches as tables of about this size, in their order. Empty ones are left out."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes + batch.nbytes // 2 >= size_bytes:  # another one would lead further off
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)
