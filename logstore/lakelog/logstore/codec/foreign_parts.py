"""Cuts off the schemas beside foreign records: records of one schema are a part, and only its payloads are parsed.

Kafka Connect's JsonConverter writes the schema first, with the same bytes for each record of a table until the schema
changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.logstore.codec.connect_types import columns_of_envelope
from lakelog.logstore.codec.foreign_records import BadRecordError, check_depth, check_size
from lakelog.logstore.codec.foreign_rules import Columns, ForeignRules
from lakelog.logstore.codec.foreign_unavailable import may_be_unavailable
from lakelog.logstore.codec.json_value import JsonValueError, parse_json

_SCHEMAS_MAX = 32
_SCHEMA_OPENING = b'{"schema":'
_PAYLOAD_OPENING = b',"payload":'
_MEMBERS_MAX = 20_000  # more may be any number of columns, and Arrow would create each of them for every record


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Records of one schema, or without schema: their numbers, columns and payloads."""

    numbers: Sequence[int]
    columns: Columns
    payloads: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A batch by its schemas, `odd` records that are read one by one, and the reasons of `bad` ones."""

    parts: Sequence[Part]
    odd: Part
    bad: Mapping[int, str] = field(default_factory=dict)


def parts_of(values: Sequence[bytes | None], rules: ForeignRules) -> Parts:
    """The parts of a batch; tombstones are in no part. Records that are too large or too deep are already bad here."""
    left, bad = _within_limits(values, rules)
    marks = may_be_unavailable([value for _, value in left], rules.unavailable)
    is_odd = [is_marked or one[1].count(b":") > _MEMBERS_MAX for one, is_marked in zip(left, marks, strict=True)]
    odd = [one for one, is_one in zip(left, is_odd, strict=True) if is_one]
    left = [one for one, is_one in zip(left, is_odd, strict=True) if not is_one]
    plain = [one for one in left if not one[1].startswith(_SCHEMA_OPENING)]
    left = [one for one in left if one[1].startswith(_SCHEMA_OPENING)]
    parts = [_part(plain, None)] if plain else []
    for _ in range(_SCHEMAS_MAX):
        if not left:
            break
        prefix, columns = _schema_of(left[0][1])
        if prefix is None:
            odd.append(left.pop(0))
            continue
        same = [(number, value[len(prefix) : -1]) for number, value in left if _is_behind(value, prefix)]
        left = [one for one in left if not _is_behind(one[1], prefix)]
        parts.append(_part(same, columns))
    flat = [_not_too_deep(part, bad) for part in parts]
    return Parts(parts=flat, odd=_part(sorted(odd + left), None), bad=bad)


def _not_too_deep(part: Part, bad: dict[int, str]) -> Part:
    """The part without records that are nested too deeply for Arrow's parser; these become bad."""
    kept = []
    for number, payload in zip(part.numbers, part.payloads, strict=True):
        try:
            check_depth(payload)
        except BadRecordError as error:
            bad[number] = str(error)
        else:
            kept.append((number, payload))
    return _part(kept, part.columns)


def _part(records: Sequence[tuple[int, bytes]], columns: Columns) -> Part:
    return Part(
        numbers=[number for number, _ in records], columns=columns, payloads=[payload for _, payload in records]
    )


def _is_behind(value: bytes, prefix: bytes) -> bool:
    return value.startswith(prefix) and value.endswith(b"}")


def _within_limits(
    values: Sequence[bytes | None], rules: ForeignRules
) -> tuple[list[tuple[int, bytes]], dict[int, str]]:
    kept, bad = [], {}
    for number, value in enumerate(values):
        if value is None:
            continue
        try:
            check_size(value, rules.bytes_max)
        except BadRecordError as error:
            bad[number] = str(error)
        else:
            kept.append((number, value))
    return kept, bad


def _schema_of(value: bytes) -> tuple[bytes | None, Columns]:
    """The bytes before the payload, and the columns of the schema; None for a record of another form."""
    end = _end_of_object(value, len(_SCHEMA_OPENING))
    if end is None or not value.startswith(_PAYLOAD_OPENING, end) or not value.endswith(b"}"):
        return None, None
    try:
        check_depth(value[len(_SCHEMA_OPENING) : end])
        schema = parse_json(value[len(_SCHEMA_OPENING) : end])
        columns = None if schema is None else columns_of_envelope(schema)
    except (BadRecordError, JsonValueError, ValueError):
        return None, None
    return value[: end + len(_PAYLOAD_OPENING)], columns


def _end_of_object(value: bytes, start: int) -> int | None:
    """Where the object, or null, that begins at `start` ends."""
    if value.startswith(b"null", start):
        return start + 4
    depth, at = 0, start
    while at < len(value):
        byte = value[at]
        if byte == ord('"'):
            at += 1
            while at < len(value) and value[at] != ord('"'):
                at += 2 if value[at] == ord("\\") else 1
        elif byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if depth == 0:
                return at + 1
        elif depth == 0:
            return None
        at += 1
    return None
