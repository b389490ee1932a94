"""Arrow columns as Avro's binary encoding, column by column: no Python per value.

A column becomes an array of bytes, one element per value; joined element by element the columns are the rows. Integers
are zigzag varints. An array is a count, its items and a zero byte; a map is encoded like an array of records of key and
value, with string keys or others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.blocks.varints import varint_bytes

_DECIMAL_BYTES = 16
_VARINT_BYTES_MAX = 10
_COUNT = DataType(root=TypeRoot.INT)
STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_BYTES = pa.large_binary()
_EMPTY, _ZERO, _SECOND_OF_UNION = b"", b"\x00", b"\x02"


@cache
def _scalar(value: bytes) -> pa.Scalar:
    """The bytes as an Arrow scalar; not created at import, since pyarrow would import pandas."""
    return pa.scalar(value, _BYTES)


def encode_rows(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.LargeBinaryArray:
    """The rows of a batch of the columns `fields`."""
    return _joined(
        *(_encoded(values, field.type) for values, field in zip(batch.columns, fields, strict=True)), count=len(batch)
    )


def entry_types(kind: DataType) -> tuple[DataType, DataType]:
    """The types of the keys and values of a MAP or MULTISET. String keys are never null in Avro."""
    key, value = (kind.element, _COUNT) if kind.root is TypeRoot.MULTISET else (kind.key, kind.value)
    assert key is not None
    assert value is not None
    return (key.with_nullable(False) if key.root in STRINGS else key), value


def long_bytes(number: int) -> bytes:
    """A long of zero or more as a varint."""
    return varint_bytes(number << 1)


def _encoded(values: pa.Array, kind: DataType) -> pa.LargeBinaryArray:
    """Values, which may be null if the type is nullable."""
    if not kind.nullable:
        return _some(values, kind)
    present = _joined(_scalar(_SECOND_OF_UNION), _some(values.drop_null(), kind), count=len(values) - values.null_count)
    if not values.null_count:
        return present
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    positions = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
    return present.take(positions).fill_null(_scalar(_ZERO))


def _some(values: pa.Array, kind: DataType) -> pa.LargeBinaryArray:
    """Values without nulls."""
    root = kind.root
    if root in _INTEGERS:
        return _varints(_integers(values))
    if root in _TIMESTAMPS:
        unit = "ms" if (kind.precision or 0) <= 3 else "us"
        return _varints(_integers(values.cast(pa.timestamp(unit, values.type.tz))))
    if root is TypeRoot.BOOLEAN:
        return _fixed(values.cast(pa.uint8()).to_numpy().reshape(-1, 1))
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        width = 4 if root is TypeRoot.FLOAT else 8
        return _fixed(values.to_numpy().astype(f"<f{width}", copy=False).view(np.uint8).reshape(-1, width))
    if root is TypeRoot.DECIMAL:
        return _decimals(values, kind.precision or 0)
    if root is TypeRoot.ROW:
        members = zip(values.flatten(), kind.fields, strict=True)
        return _joined(*(_encoded(part, member.type) for part, member in members), count=len(values))
    if root is TypeRoot.ARRAY:
        assert kind.element is not None
        return _lists(values.offsets, _encoded(values.flatten(), kind.element))
    if root in (TypeRoot.MAP, TypeRoot.MULTISET):
        key, value = entry_types(kind)
        start, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        keys, items = (part.slice(start, end - start) for part in (values.keys, values.items))
        return _lists(values.offsets, _joined(_encoded(keys, key), _encoded(items, value), count=end - start))
    data = values.cast(_BYTES)
    return _joined(_varints(pc.binary_length(data).to_numpy()), data, count=len(data))


def _joined(*parts: pa.LargeBinaryArray | pa.Scalar, count: int) -> pa.LargeBinaryArray:
    """For each element, its parts one after the other."""
    if not count:
        return pa.array([], _BYTES)
    return pc.binary_join_element_wise(*parts, _scalar(_EMPTY))


def _lists(offsets: pa.Array, items: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Arrays of encoded items; `offsets` bound the items of each, counted from any start."""
    bounds = offsets.to_numpy().astype(np.int64)
    counts = np.diff(bounds)
    if not len(counts):
        return pa.array([], _BYTES)
    _, starts, data = items.buffers()
    at = np.frombuffer(starts, np.int64)[items.offset :] if len(items) else np.zeros(1, np.int64)
    inner = pa.py_buffer(np.ascontiguousarray(at[bounds - bounds[0]]))
    bodies = pa.LargeBinaryArray.from_buffers(_BYTES, len(counts), [None, inner, data or pa.py_buffer(b"")])
    heads = pc.if_else(pa.array(counts == 0), _scalar(_EMPTY), _varints(counts))
    return _joined(heads, bodies, _scalar(_ZERO), count=len(counts))


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    kinds = {32: pa.int32(), 64: pa.int64()}
    plain = values.view(kinds.get(values.type.bit_width, values.type))
    return np.asarray(plain.to_numpy(), np.int64)


def _varints(values: npt.NDArray[np.integer]) -> pa.LargeBinaryArray:
    """Zigzag varints: seven bits per byte, the lowest first; the top bit is set if more bytes follow."""
    signed = values.astype(np.int64, copy=False)
    zigzag = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    lengths = np.ones(len(zigzag), np.int64)
    for part in range(1, _VARINT_BYTES_MAX):
        is_longer = zigzag >= np.uint64(1 << 7 * part)
        if not is_longer.any():
            break
        lengths += is_longer
    most = int(lengths.max(initial=1))
    groups = np.empty((len(zigzag), most), np.uint8)
    for part in range(most):
        bits = ((zigzag >> np.uint64(7 * part)) & np.uint64(0x7F)).astype(np.uint8)
        groups[:, part] = bits | np.where(lengths > part + 1, 0x80, 0).astype(np.uint8)
    return _of_lengths(groups[np.arange(most) < lengths[:, None]], lengths)


def _fixed(values: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Each row of bytes as one element."""
    return _of_lengths(np.ascontiguousarray(values), np.full(len(values), values.shape[1], np.int64))


def _of_lengths(data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeBinaryArray.from_buffers(_BYTES, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _decimals(values: pa.Array, precision: int) -> pa.LargeBinaryArray:
    """Unscaled numbers, big endian, in as many bytes as the precision needs. Arrow has them in 16, little endian."""
    width = ((10**precision - 1).bit_length() + 8) // 8
    if not len(values):
        return pa.array([], _BYTES)
    whole = np.frombuffer(values.buffers()[1], np.uint8)[: (values.offset + len(values)) * _DECIMAL_BYTES]
    whole = whole.reshape(-1, _DECIMAL_BYTES)
    stored = whole[values.offset : values.offset + len(values), width - 1 :: -1]
    head = np.full((len(values), 1), 2 * width, np.uint8)
    return _fixed(np.hstack([head, stored]))
