"""Avro data files: read whole, row by row, then put into columns.

Paimon's logical types are not Avro's: `timestamp-millis` means without zone, `local-timestamp-millis` with zone. So the
values are decoded without logical types, and the table's schema says what they are.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any  # Any: Avro records are untyped

import pyarrow as pa

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.quoting import cause
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.avro.avro import avro_errors_named, decoded
from lakelog.filestore.formats.avro.avro_blocks import AvroBlocks
from lakelog.filestore.formats.blocks.reader_errors import errors_named
from lakelog.filestore.formats.blocks.stored_file import StoredFile
from lakelog.filestore.io.integrity import damaged

_COUNT = DataType(root=TypeRoot.INT, nullable=False)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MILLIS_DIGITS = 3


class AvroFile:
    """One Avro file: its bytes are held, its records are decoded block by block. A context manager."""

    def __init__(self, file: StoredFile) -> None:
        self._path = file.path
        with errors_named(file.path, "Avro"), file.open() as source:
            data = source.read()
        self._size = len(data)
        with avro_errors_named(file.path):
            self._file: AvroBlocks | None = AvroBlocks(data)
            self._file.schema = _plain(self._file.schema, itertools.count())
            self.row_count = sum(block.records for block in self._file.packed())
            self.names = [field["name"] for field in self._file.schema["fields"]]

    def __enter__(self) -> AvroFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file = None

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
                raise damaged(self._path, f"it does not hold the table's columns: {cause(error)}") from error
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _records(self) -> Iterator[dict[str, Any]]:
        file = self._file
        assert file is not None, "a closed file was read"
        with avro_errors_named(self._path):
            # A schema without logical types, which reads a map as an array of entries, so that duplicate keys are kept:
            # both have the same bytes.
            yield from decoded(file, json.dumps(file.schema).encode())


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
