"""ORC data files: Arrow to bytes, laid out as Paimon lays them out.

TIME is an INT of milliseconds, MULTISET a map to INT, TIMESTAMP_LTZ a timestamp with zone; the others are ORC's own.
Each column, member, element, key and value has its field id in the attribute `paimon.id`. Source: Paimon,
`OrcTypeUtil`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.blocks.checked import ChecksummedFile
from lakelog.filestore.formats.blocks.field_ids import element_id, key_id
from lakelog.filestore.formats.blocks.storing import stored_rows, timestamps_in
from lakelog.filestore.io.fileio import FileIO

STRIPE_BYTES = 16 << 20
_ID_KEY = b"paimon.id"
_COUNT = DataType(root=TypeRoot.INT, nullable=False)
_SECONDS_MAX = 9_223_372_036
_COMPRESSIONS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "zlib": "zlib",
    "gzip": "zlib",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}


def orc_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema that is written for columns: their types in the file, with field ids."""
    return pa.schema([_field(column.name, column.type, column.id, column.id, 0) for column in fields])


class OrcWriter:
    """One new ORC file, written piece by piece. A context manager: an unfinished file is deleted at its end."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        *,
        compression: str = "zstd",
        stripe_bytes: int = STRIPE_BYTES,
    ) -> None:
        self._path = path
        self._schema = orc_schema(fields)
        codec = _compression(compression)
        self._output = ChecksummedFile(file_io, path, holds_errors=True)  # Arrow aborts the process when a write raises
        self._writer = orc.ORCWriter(self._output.sink, compression=codec, stripe_size=stripe_bytes)

    def __enter__(self) -> OrcWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._output.give_up(self._writer.close)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without the stripe in memory."""
        return self._output.size_bytes

    @property
    def checksums(self) -> bytes:
        """Checksums of the blocks of a finished file."""
        return self._output.checksums

    @property
    def footer(self) -> None:
        """None: the statistics of this format are not read."""

    def write(self, table: pa.Table) -> None:
        """Append rows. Raises InvalidRequestError for nulls in NOT NULL columns and timestamps that ORC cannot hold."""
        stored = _from_the_start(stored_rows(table, self._schema, self._path))
        for name, column in zip(stored.column_names, stored.columns, strict=True):
            for chunk in column.chunks:
                for timestamps in timestamps_in(chunk):
                    _check_timestamps(name, timestamps)
        self._writer.write(stored)
        self._output.check()

    def finish(self) -> int:
        """Write the footer, make the file durable and return its size in bytes."""
        self._writer.close()
        return self._output.finish()


def _field(name: str, kind: DataType, own_id: int, column_id: int, depth: int) -> pa.Field:
    return pa.field(name, _type(kind, column_id, depth), kind.nullable, metadata={_ID_KEY: str(own_id).encode()})


def _type(kind: DataType, column_id: int, depth: int) -> pa.DataType:
    """The type in the file; `column_id` is that of the innermost column or ROW member around it."""
    inner, key = element_id(column_id, depth), key_id(column_id, depth)
    match kind.root:
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return pa.list_(_field("element", kind.element, inner, column_id, depth + 1))
        case TypeRoot.MAP | TypeRoot.MULTISET:
            keys, values = (kind.element, _COUNT) if kind.root is TypeRoot.MULTISET else (kind.key, kind.value)
            assert keys is not None
            assert values is not None
            return pa.map_(
                _field("key", keys.with_nullable(False), key, column_id, depth + 1),
                _field("value", values, inner, column_id, depth + 1),
            )
        case TypeRoot.ROW:
            return pa.struct([_field(part.name, part.type, part.id, part.id, 0) for part in kind.fields])
        case TypeRoot.TIME:
            return pa.int32()
        case _:
            return to_arrow_type(kind)


def _from_the_start(table: pa.Table) -> pa.Table:
    """The rows, with nested columns copied: Arrow writes a slice of structs with nulls of the start."""
    positions = pa.array(np.arange(table.num_rows))
    for index, column in enumerate(table.schema):
        if pa.types.is_nested(column.type):
            copied = table.column(index).combine_chunks().take(positions)
            table = table.set_column(index, column, _with_nulls_inside(copied))
    return table


def _with_nulls_inside(array: pa.Array) -> pa.Array:
    """A copied array in which the members of a struct are null where the struct is.

    ORC has no values there. Arrow (26.0) leaves them out for itself only below a column that has nulls: else all values
    behind such a struct were shifted by one, and the last ones lost.
    """
    kind, count = array.type, len(array)
    if not pa.types.is_nested(kind):
        return array
    assert array.offset == 0, "a slice has other positions"
    if pa.types.is_struct(kind):
        members = [array.field(at) for at in range(kind.num_fields)]
        if array.null_count:
            places = pa.array(np.arange(count), mask=array.is_null().to_numpy(zero_copy_only=False))
            members = [member.take(places) for member in members]
        return pa.Array.from_buffers(
            kind, count, array.buffers()[:1], array.null_count, 0, [_with_nulls_inside(one) for one in members]
        )
    if pa.types.is_map(kind):
        parts = [_with_nulls_inside(array.keys), _with_nulls_inside(array.items)]
        inside = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
    else:
        inside = _with_nulls_inside(array.values)
    return pa.Array.from_buffers(kind, count, array.buffers()[:2], array.null_count, 0, [inside])


def _check_timestamps(name: str, values: pa.Array) -> None:
    """Raise InvalidRequestError for timestamps that some reader of ORC reads wrongly.

    Arrow counts nanoseconds, from 1677 to 2262. Before 1970 it writes parts of a millisecond as a negative number,
    which Java's reader refuses.
    """
    present = values.drop_null().cast(pa.int64()).to_numpy()
    if not len(present):
        return
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit]
    seconds = np.floor_divide(present, per_second)
    is_far = (seconds < -_SECONDS_MAX) | (seconds >= _SECONDS_MAX)
    is_odd = (present < 0) & (present % max(1, per_second // 1_000) != 0)
    odd = np.flatnonzero(is_far | is_odd)
    if len(odd):
        found = _text(int(present[odd[0]]), per_second)
        raise InvalidRequestError(
            f"column {name!r} holds the timestamp {found}, which ORC files cannot hold: they hold timestamps from 1677 "
            "to 2262, and before 1970 whole milliseconds only; use file.format=parquet"
        )


def _text(value: int, per_second: int) -> str:
    seconds, part = divmod(value, per_second)
    return f"{np.datetime64(seconds, 's')} + {part}/{per_second} s"


def _compression(name: str) -> str:
    try:
        return _COMPRESSIONS[name.lower()]
    except KeyError as error:
        known = ", ".join(sorted(_COMPRESSIONS))
        raise InvalidRequestError(f"file.compression {name!r} is not known for ORC; known are {known}") from error
