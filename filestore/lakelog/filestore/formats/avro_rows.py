"""Avro data files: read whole, row by row, then put into columns.

Paimon's logical types are not Avro's: `timestamp-millis` means without zone, `local-timestamp-millis` with. So the
values are decoded without logical types, and the table's schema says what they are.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any  # Any: Avro records are untyped

import fastavro
import pyarrow as pa

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.fileio import FileIO
from lakelog.filestore.formats.avro import NOT_AVRO
from lakelog.filestore.formats.avro_writing import MAGIC, SYNC_BYTES, header_bytes
from lakelog.filestore.formats.checked import errors_named, open_checked
from lakelog.filestore.integrity import damaged

_SCHEMA_KEY = "avro.schema"
_COUNT = DataType(root=TypeRoot.INT, nullable=False)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MILLIS_DIGITS = 3


class AvroFile:
    """One Avro file: its bytes are held, its records are decoded block by block. A context manager."""

    def __init__(
        self, file_io: FileIO, path: str, *, size_bytes: int | None = None, checksums: bytes | None = None
    ) -> None:
        self._path = path
        with (
            errors_named(path, "Avro"),
            open_checked(file_io, path, size_bytes=size_bytes, checksums=checksums) as source,
        ):
            data = source.read()
        self._size = len(data)
        try:
            self._data, self.row_count = _decodable(data)
        except NOT_AVRO as error:
            raise damaged(path, f"it is not a readable Avro file: {error!r}") from error

    def __enter__(self) -> AvroFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._data = b""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in the file."""
        return self._size // max(1, self.row_count)

    def iter_batches(self, fields: Sequence[DataField], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The columns `fields`, found by name, in batches of at most `batch_rows`. Raises CorruptDataError."""
        schema = pa.schema([to_arrow_field(field) for field in fields])
        found = self._records()
        while records := list(itertools.islice(found, batch_rows)):
            try:
                columns = [_column([record[field.name] for record in records], field.type) for field in fields]
            except (LookupError, OverflowError, pa.ArrowException, TypeError, ValueError) as error:
                raise damaged(self._path, f"it does not hold the table's columns: {error!r}") from error
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _records(self) -> Iterator[dict[str, Any]]:
        try:
            yield from fastavro.reader(io.BytesIO(self._data))  # type: ignore[misc]  # ours are records, never scalars
        except NOT_AVRO as error:
            if "you need to install" in str(error):
                raise UnsupportedError(
                    f"{self._path} is compressed with a codec that is not installed: {error}"
                ) from error
            raise damaged(self._path, f"it is not a readable Avro file: {error!r}") from error


def _decodable(data: bytes) -> tuple[bytes, int]:
    """The file with a schema that says nothing of logical types and maps, and the number of its records.

    A map is encoded as an array of records of key and value is; read as such, none of its entries hides another.
    """
    source = io.BytesIO(data)
    if source.read(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as an Avro file")
    meta = read_meta(source)
    numbers = itertools.count()
    meta[_SCHEMA_KEY] = json.dumps(_plain(json.loads(meta[_SCHEMA_KEY]), numbers)).encode()
    start = source.tell()
    sync = source.read(SYNC_BYTES)
    rows = 0
    while source.tell() < len(data):
        rows += read_long(source)
        source.read(max(0, read_long(source)))
        if source.read(SYNC_BYTES) != sync:
            raise ValueError("a block is cut off or does not end with the file's marker")
    return header_bytes(meta) + data[start:], rows


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


def _plain(schema: Any, numbers: Iterator[int]) -> Any:
    if isinstance(schema, list):
        return [_plain(part, numbers) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") == "map":
        values = {"name": "value", "type": _plain(schema["values"], numbers)}
        entry = {"type": "record", "name": f"lakelog_entry_{next(numbers)}"}
        return {"type": "array", "items": entry | {"fields": [{"name": "key", "type": "string"}, values]}}
    return {key: _plain(value, numbers) for key, value in schema.items() if key != "logicalType"}


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
    mask = pa.array([value is None for value in values], pa.bool_())
    if root is TypeRoot.ROW:
        members = [_column([_member(value, member.name) for value in values], member.type) for member in kind.fields]
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=mask)
    lists = [[] if value is None else value for value in values]
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
    keys, items = (_column([entry[name] for entry in flat], part) for name, part in (("key", key), ("value", value)))
    return pa.MapArray.from_arrays(starts, keys, items, type=wanted, mask=mask)


def _member(value: Mapping[str, Any] | None, name: str) -> Any:
    return None if value is None else value[name]


def _decimals(values: Sequence[bytes | None], wanted: pa.DataType) -> pa.Array:
    """Unscaled big endian numbers as decimals: Arrow holds the same number in 16 bytes, little endian."""
    whole = b"".join(
        bytes(16) if value is None else int.from_bytes(value, "big", signed=True).to_bytes(16, "little", signed=True)
        for value in values
    )
    validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(wanted, len(values), [validity, pa.py_buffer(whole)])
