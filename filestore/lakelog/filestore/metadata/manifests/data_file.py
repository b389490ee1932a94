"""The metadata of one data file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any  # Any: parsed JSON and Avro records are untyped until they are checked here

from lakelog.common.file_names import check_file_name, check_file_names
from lakelog.common.json_fields import INT, binary, items, optional, string, strings, whole

SEQUENCE_MAX = (1 << 63) - (1 << 32)  # leaves sequence numbers for the rows of a batch
EMPTY_ROW = bytes(12)  # a serialized BinaryRow of no fields


class FileSource(IntEnum):
    """The kind of write that created a data file; the value is the one in manifests."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Column statistics: serialized BinaryRows of minima and maxima, and null counts.

    A null inside a row is an unknown bound. `null_counts` None means that all counts are unknown. Source: Paimon spec,
    "Manifest" (SimpleStats record).
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None


EMPTY_STATS = SimpleStats(min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data file. Source: Paimon spec, "Data files" (DataFileMeta).

    `min_key` and `max_key` are the serialized trimmed primary keys of the first and last row, exact; without primary
    key they are rows without fields. `value_stats_cols` names the columns that `value_stats` covers: None is all of
    them, in the order of the file's schema. `creation_time_millis` is the wall clock of the writer's zone, read as if
    it were UTC, as the format stores it, see `wall_clock_millis`. `delete_row_count` None is unknown. `checksums` are
    those of the file's blocks, see `lakelog.filestore.formats.blocks.checked`; None if another engine wrote the file or
    its manifest.
    """

    file_name: str
    file_size_bytes: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_millis: int | None = None
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    checksums: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        """A compact JSON object, for places that carry files outside of manifests.

        Keys: n name, z bytes, r rows, k [min key, max key], ks and vs [min, max, null counts], s [min, max sequence
        number], i schema id, l level, x extra files, t creation time, d deleted rows, e embedded index, o source,
        c value stats columns, p external path, f first row id, w write columns, h checksums. Bytes are base64; values
        equal to the default are left out; `ks` is left out when its bounds are the keys and nothing is null.
        """
        fields: dict[str, Any] = {
            "n": self.file_name,
            "z": self.file_size_bytes,
            "r": self.row_count,
            "k": [_text(self.min_key), _text(self.max_key)],
            "s": [self.min_sequence_number, self.max_sequence_number],
            "i": self.schema_id,
            "l": self.level,
        }
        if self.key_stats != _stats_of_keys(self.min_key, self.max_key):
            fields["ks"] = _stats_json(self.key_stats)
        if self.value_stats != EMPTY_STATS:
            fields["vs"] = _stats_json(self.value_stats)
        optional = {
            "x": list(self.extra_files) or None,
            "t": self.creation_time_millis,
            "d": self.delete_row_count,
            "e": None if self.embedded_file_index is None else _text(self.embedded_file_index),
            "o": None if self.file_source is None else int(self.file_source),
            "c": None if self.value_stats_cols is None else list(self.value_stats_cols),
            "p": self.external_path,
            "f": self.first_row_id,
            "w": None if self.write_cols is None else list(self.write_cols),
            "h": None if self.checksums is None else _text(self.checksums),
        }
        return fields | {key: value for key, value in optional.items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> DataFileMeta:
        """Parse the object of `to_json`. Raises KeyError or ValueError for anything else."""
        min_key, max_key = _binaries(fields, "k")
        first, last = _numbers(fields, "s")
        source = optional(whole, fields, "o")
        return cls(
            file_name=check_file_name(string(fields, "n")),
            file_size_bytes=whole(fields, "z"),
            row_count=whole(fields, "r"),
            min_key=min_key,
            max_key=max_key,
            key_stats=_parse_stats(fields, "ks") if "ks" in fields else _stats_of_keys(min_key, max_key),
            value_stats=_parse_stats(fields, "vs") if "vs" in fields else EMPTY_STATS,
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=whole(fields, "i"),
            level=whole(fields, "l", INT),
            extra_files=check_file_names(optional(strings, fields, "x") or ()),
            creation_time_millis=optional(whole, fields, "t"),
            delete_row_count=optional(whole, fields, "d"),
            embedded_file_index=optional(binary, fields, "e"),
            file_source=None if source is None else FileSource(source),
            value_stats_cols=optional(strings, fields, "c"),
            external_path=optional(string, fields, "p"),
            first_row_id=optional(whole, fields, "f"),
            write_cols=optional(strings, fields, "w"),
            checksums=optional(binary, fields, "h"),
        )


def wall_clock_millis(epoch_millis: int) -> int:
    """The `creation_time_millis` of a timestamp: the local wall clock, read as if it were UTC."""
    offset = datetime.fromtimestamp(epoch_millis / 1000).astimezone().utcoffset()
    assert offset is not None
    return epoch_millis + round(offset.total_seconds() * 1000)


def millis_of_wall_clock(creation_time_millis: int) -> int:
    """The timestamp of a `creation_time_millis`, in milliseconds since 1970, in this process's time zone."""
    wall_clock = datetime.fromtimestamp(creation_time_millis / 1000, UTC).replace(tzinfo=None)
    return round(wall_clock.astimezone().timestamp() * 1000)


def _stats_of_keys(min_key: bytes, max_key: bytes) -> SimpleStats:
    """The key stats of a file whose keys have no nulls, for keys of one column: the stats are the keys themselves."""
    arity = int.from_bytes(min_key[:4], "big")
    is_row = len(min_key) >= 12 + 8 * arity
    return SimpleStats(min_values=min_key, max_values=max_key, null_counts=(0,) * arity if is_row else None)


def _stats_json(stats: SimpleStats) -> list[Any]:
    counts = None if stats.null_counts is None else list(stats.null_counts)
    return [_text(stats.min_values), _text(stats.max_values), counts]


def _parse_stats(fields: Mapping[str, Any], key: str) -> SimpleStats:
    least, most, nulls = items(fields, key, length=3)
    parts = {"least": least, "most": most, "nulls": nulls}
    counts = optional(items, parts, "nulls")
    return SimpleStats(
        min_values=binary(parts, "least"),
        max_values=binary(parts, "most"),
        null_counts=None if counts is None else tuple(_null_counts(counts)),
    )


def _null_counts(counts: Sequence[Any]) -> Iterator[int | None]:
    for count in counts:
        yield optional(whole, {"null count": count}, "null count")


def _binaries(fields: Mapping[str, Any], key: str) -> tuple[bytes, bytes]:
    first, last = items(fields, key, length=2)
    pair = {"first": first, "last": last}
    return binary(pair, "first"), binary(pair, "last")


def _numbers(fields: Mapping[str, Any], key: str) -> tuple[int, int]:
    first, last = items(fields, key, length=2)
    pair = {"first": first, "last": last}
    return whole(pair, "first"), whole(pair, "last")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
