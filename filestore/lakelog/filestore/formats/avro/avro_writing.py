"""Avro data files: Arrow to bytes, laid out as Paimon lays them out.

| type | Avro |
|---|---|
| TINYINT, SMALLINT, INT | int |
| DECIMAL | bytes with the logical type decimal |
| DATE, TIME | int with date, time-millis |
| TIMESTAMP to 3, to 6 digits | long with timestamp-millis, timestamp-micros |
| TIMESTAMP_LTZ to 3, to 6 digits | long with local-timestamp-millis, local-timestamp-micros |
| MAP, MULTISET with string keys | map |
| MAP, MULTISET with other keys | array of records of key and value, with the logical type map |

Other types are Avro's own. A nullable type is a union with null first. Source: Paimon, `AvroSchemaConverter`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.avro.avro import codec_of, packed_block
from lakelog.filestore.formats.avro.avro_blocks import SYNC_BYTES, header_bytes
from lakelog.filestore.formats.avro.avro_values import STRINGS, encode_rows, entry_types, long_bytes
from lakelog.filestore.formats.blocks.checked import ChecksummedFile
from lakelog.filestore.formats.blocks.storing import stored_rows
from lakelog.filestore.io.fileio import FileIO

_BLOCK_BYTES = 64 << 10
_ROWS_AT_ONCE = 32_768
_NAMESPACE = "org.apache.paimon.avro.generated"
_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


def avro_schema(fields: Sequence[DataField]) -> dict[str, object]:
    """The Avro schema of a data file of these columns."""
    return _Names().record("record", fields)


class AvroWriter:
    """One new Avro file, written piece by piece. A context manager: an unfinished file is deleted at its end."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        *,
        compression: str = "zstd",
        compression_level: int = 1,
    ) -> None:
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        self._codec = codec_of(compression)
        self._zstd_level = compression_level
        self._sync = os.urandom(SYNC_BYTES)
        self._output = ChecksummedFile(file_io, path)

    def __enter__(self) -> AvroWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._output.give_up()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._output.size_bytes

    @property
    def checksums(self) -> bytes:
        """Checksums of the blocks of a finished file."""
        return self._output.checksums

    @property
    def footer(self) -> None:
        """None: the statistics of this format are not read."""

    def write(self, table: pa.Table) -> None:
        """Append rows. Raises InvalidRequestError for nulls in NOT NULL columns and other types."""
        stored = stored_rows(table, self._schema, self._path)
        self._begin()
        for batch in stored.to_batches(max_chunksize=_ROWS_AT_ONCE):
            if not batch.num_rows:  # tables may have chunks without rows, and a block has rows
                continue
            for count, data in _blocks(encode_rows(batch, self._fields)):
                packed = packed_block(self._codec, data, zstd_level=self._zstd_level)
                self._output.sink.write(long_bytes(count) + long_bytes(len(packed)) + packed + self._sync)

    def finish(self) -> int:
        """Make the file durable and return its size in bytes."""
        self._begin()
        return self._output.finish()

    def _begin(self) -> None:
        if not self._output.size_bytes:
            schema = json.dumps(avro_schema(self._fields)).encode()
            head = header_bytes({"avro.schema": schema, "avro.codec": self._codec.encode()})
            self._output.sink.write(head + self._sync)


def _blocks(rows: pa.LargeBinaryArray) -> Iterator[tuple[int, bytes]]:
    """Encoded rows in blocks of about 64 KiB: their number, and their bytes one after the other."""
    _, offsets, data = rows.buffers()
    starts = np.frombuffer(offsets, np.int64)[rows.offset : rows.offset + len(rows) + 1]
    cuts = np.unique(np.searchsorted(starts, np.arange(starts[0], starts[-1], _BLOCK_BYTES), side="left"))
    for first, last in zip(cuts, [*cuts[1:], len(rows)], strict=True):
        yield int(last - first), b"" if data is None else data[int(starts[first]) : int(starts[last])].to_pybytes()


class _Names:
    """Schemas of types. A record is named by its path; a duplicate name gets a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def record(self, name: str, fields: Sequence[DataField]) -> dict[str, object]:
        """The record of a ROW, or of the whole file."""
        own = self._own(name)
        members = [self._member(field.name, field.type, f"{name}_{field.name}") for field in fields]
        return {"type": "record", "name": own, "namespace": _NAMESPACE, "fields": members}

    def _own(self, name: str) -> str:
        own, number = name, 1
        while own in self._taken:
            number += 1
            own = f"{name}_{number}"
        self._taken.add(own)
        return own

    def _member(self, name: str, kind: DataType, path: str) -> dict[str, object]:
        member: dict[str, object] = {"name": name, "type": self._type(kind, path)}
        return member | {"default": None} if kind.nullable else member

    def _type(self, kind: DataType, path: str) -> object:
        found = self._some(kind, path)
        return ["null", found] if kind.nullable else found

    def _some(self, kind: DataType, path: str) -> object:
        digits = kind.precision or 0
        unit = "millis" if digits <= 3 else "micros"
        match kind.root:
            case root if root in _PLAIN:
                return _PLAIN[root]
            case TypeRoot.DECIMAL:
                return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": kind.scale or 0}
            case TypeRoot.DATE:
                return {"type": "int", "logicalType": "date"}
            case TypeRoot.TIME:
                return {"type": "int", "logicalType": "time-millis"}
            case TypeRoot.TIMESTAMP:
                return {"type": "long", "logicalType": f"timestamp-{unit}"}
            case TypeRoot.TIMESTAMP_LTZ:
                return {"type": "long", "logicalType": f"local-timestamp-{unit}"}
            case TypeRoot.ARRAY:
                assert kind.element is not None
                return {"type": "array", "items": self._type(kind.element, path)}
            case TypeRoot.ROW:
                return self.record(path, kind.fields)
            case _:
                return self._map(kind, path)

    def _map(self, kind: DataType, path: str) -> object:
        key, value = entry_types(kind)
        if key.root in STRINGS:
            return {"type": "map", "values": self._type(value, path)}
        entry = {
            "type": "record",
            "name": self._own(path),
            "namespace": _NAMESPACE,
            "fields": [
                {"name": "key", "type": self._type(key, f"{path}_key")},
                self._member("value", value, f"{path}_value"),
            ],
        }
        return {"type": "array", "logicalType": "map", "items": entry}
