"""Avro data files: read whole, row by row, then put into columns. lakelog writes none.

Paimon's logical types are not Avro's: `timestamp-millis` means without zone, `local-timestamp-millis` with. So the
values are decoded without logical types, and the table's schema says what they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any  # Any: Avro records are untyped

import pyarrow as pa

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.errors import CorruptDataError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.fileio import FileIO
from lakelog.filestore.formats.avro import decode_container

MAGIC = b"Obj\x01"
_SCHEMA_KEY = "avro.schema"
_COUNT = DataType(root=TypeRoot.INT, nullable=False)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MILLIS_DIGITS = 3


class AvroFile:
    """One Avro file, decoded when it is opened. A context manager."""

    def __init__(self, file_io: FileIO, path: str) -> None:
        data = file_io.read_bytes(path)
        self._path = path
        self._records = decode_container(without_logical_types(data, path=path), path=path)
        self._size = len(data)

    def __enter__(self) -> AvroFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._records = []

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return len(self._records)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in the file."""
        return self._size // max(1, self.row_count)

    def iter_batches(self, fields: Sequence[DataField], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The columns `fields`, found by name, in batches of at most `batch_rows`. Raises CorruptDataError."""
        schema = pa.schema([to_arrow_field(field) for field in fields])
        for start in range(0, len(self._records), batch_rows):
            records = self._records[start : start + batch_rows]
            try:
                columns = [_column([record[field.name] for record in records], field.type) for field in fields]
            except (KeyError, pa.ArrowException, TypeError, ValueError) as error:
                raise CorruptDataError(
                    f"Avro file {self._path} does not hold the table's columns: {error!r}"
                ) from error
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def without_logical_types(data: bytes, *, path: str) -> bytes:
    """The bytes of an Avro object file whose schema says nothing of logical types. Raises CorruptDataError."""
    source = io.BytesIO(data)
    try:
        if source.read(4) != MAGIC:
            raise ValueError("it does not begin as an Avro file")
        meta = read_meta(source)
        schema = json.loads(meta[_SCHEMA_KEY])
    except (EOFError, KeyError, IndexError, ValueError) as error:
        raise CorruptDataError(f"{path} is not a readable Avro file: {error}") from error
    meta[_SCHEMA_KEY] = json.dumps(_plain(schema)).encode()
    return header_of(meta) + data[source.tell() :]


def header_of(meta: Mapping[str, bytes]) -> bytes:
    """The bytes of an Avro object file up to its sync marker."""
    header = bytearray(MAGIC + encode_long(len(meta)))
    for key, value in meta.items():
        for part in (key.encode(), value):
            header += encode_long(len(part)) + part
    return bytes(header) + b"\x00"


def read_meta(source: io.BytesIO) -> dict[str, bytes]:
    """The map of a file's header: blocks of entries, closed by an empty one."""
    meta: dict[str, bytes] = {}
    while count := read_long(source):
        if count < 0:
            read_long(source)
        for _ in range(abs(count)):
            key = source.read(read_long(source)).decode()
            meta[key] = source.read(read_long(source))
    return meta


def read_long(source: io.BytesIO) -> int:
    """The next number. Raises IndexError at the end."""
    value = shift = 0
    while True:
        byte = source.read(1)[0]
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def encode_long(number: int) -> bytes:
    """The bytes of a number."""
    value = number << 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _plain(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {key: _plain(value) for key, value in schema.items() if key != "logicalType"}
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema


def _column(values: Sequence[Any], kind: DataType) -> pa.Array:
    """Decoded values of one column as an Arrow array."""
    wanted = to_arrow_type(kind)
    root = kind.root
    if root in _TIMESTAMPS:
        stored = pa.timestamp("ms" if (kind.precision or 0) <= _MILLIS_DIGITS else "us", tz=wanted.tz)
        return pa.array(values, pa.int64()).view(stored).cast(wanted)
    if root is TypeRoot.DATE:
        return pa.array(values, pa.int32()).view(wanted)
    if root is TypeRoot.TIME:
        return pa.array(values, pa.int32()).view(pa.time32("ms")).cast(wanted)
    if root is TypeRoot.DECIMAL:
        return _decimals(values, wanted)
    if not kind.is_nested:
        return pa.array(values, wanted)
    mask = pa.array([value is None for value in values])
    if root is TypeRoot.ROW:
        members = [_column([_member(value, member.name) for value in values], member.type) for member in kind.fields]
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=mask)
    lists = [[] if value is None else value if root is TypeRoot.ARRAY else _pairs(value) for value in values]
    offsets = [0]
    for one in lists:
        offsets.append(offsets[-1] + len(one))
    flat = [item for one in lists for item in one]
    starts = pa.array(offsets, pa.int32())
    if root is TypeRoot.ARRAY:
        assert kind.element is not None
        return pa.ListArray.from_arrays(starts, _column(flat, kind.element), type=wanted, mask=mask)
    key, value = (kind.element, _COUNT) if root is TypeRoot.MULTISET else (kind.key, kind.value)
    assert key is not None
    assert value is not None
    keys, items = _column([one for one, _ in flat], key), _column([other for _, other in flat], value)
    return pa.MapArray.from_arrays(starts, keys, items, type=wanted, mask=mask)


def _member(value: Mapping[str, Any] | None, name: str) -> Any:
    return None if value is None else value[name]


def _pairs(entries: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    """The entries of a map. One without text keys is an array of records of key and value."""
    if isinstance(entries, Mapping):
        return list(entries.items())
    return [(entry["key"], entry["value"]) for entry in entries]


def _decimals(values: Sequence[bytes | None], wanted: pa.DataType) -> pa.Array:
    """Unscaled big endian numbers as decimals: Arrow holds the same number in 16 bytes, little endian."""
    whole = b"".join(
        bytes(16) if value is None else int.from_bytes(value, "big", signed=True).to_bytes(16, "little", signed=True)
        for value in values
    )
    validity = pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(wanted, len(values), [validity, pa.py_buffer(whole)])
