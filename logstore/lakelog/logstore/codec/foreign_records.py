"""Reads one foreign Debezium record at a time: its changes, or the reason why it is bad.

Only this way can find a record bad; the columnar way gives up and leaves the decision to this one. Source: Debezium's
documentation, "Change event values" of each connector.

| op | a table with primary key | without |
|---|---|---|
| c, r | an insert of `after` | the same |
| u | an update to `after`; where the key differs from that of `before`, a delete and an insert | both images |
| d | a delete of `before`; without that image of the record's key | a delete of `before` |
| t | a truncation | the same |
| m | nothing: a message of the database's log | the same |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from lakelog.common.column_names import matching
from lakelog.common.errors import CorruptDataError
from lakelog.common.quoting import shown
from lakelog.common.timestamps import utc_of
from lakelog.common.types import DataType, RowKind
from lakelog.logstore.codec.connect_types import ConnectColumn, columns_of_envelope
from lakelog.logstore.codec.json_value import Json, JsonValueError, parse_json, value_of

RECORD_BYTES_MAX = 16 << 20
RECORD_DEPTH_MAX = 64

RECORD_VALUES_MAX = 100_000  # objects and lists
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # an open one goes to the end: never read twice
_BRACKETS = re.compile(rb"[\[{\]}]")
_OPS = ("c", "r", "u", "d", "t", "m")
_ID = "_id"
STAND_INS = ("AA==", "1970-01-01T00:00:00Z")  # for a Decimal and a ZonedTimestamp that are NOT NULL


class BadRecordError(CorruptDataError):
    """A record cannot be applied; the message has the reason, without the record's place."""


class Marker(Enum):
    """A record without rows."""

    NOTHING = "a message of the database's log"
    TRUNCATION = "all rows before it are deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A parsed record: its columns from the schema beside it (None without one), and its images by row kind.

    `is_key` says that its one image is the record's key, which may have members that are not columns. `is_document`
    says that the images, or the key, may hold extended JSON.
    """

    columns: tuple[ConnectColumn, ...] | None
    images: tuple[tuple[RowKind, Mapping[str, Json]], ...]
    marker: Marker | None = None
    is_key: bool = False
    is_document: bool = False


KeyOf = Callable[[Mapping[str, Json]], tuple[Json, ...] | None]


def read_envelope(
    value: bytes,
    key: bytes | None,
    *,
    key_of: KeyOf | None,
    columns: tuple[ConnectColumn, ...] | None,
    bytes_max: int = RECORD_BYTES_MAX,
    keys_stay: bool = False,
) -> Envelope:
    """The changes of a record. Raises BadRecordError.

    `key_of` gives the values of the primary key in an image, None if one is missing; `key_of` itself is None for a
    table without key. `columns` are those of the schema that was already cut off. `keys_stay` says that no update
    changes a column of the primary key that the record's key lacks.
    """
    check_size(value, bytes_max)
    check_depth(value)
    try:
        found = parse_json(value)
        if isinstance(found, Mapping) and "payload" in found and "op" not in found:
            schema, found = value_of(found, "schema"), value_of(found, "payload")
            columns = None if schema is None else columns_of_envelope(schema)
    except (JsonValueError, ValueError) as error:
        raise BadRecordError(f"not a JSON record: {error}") from error
    if not isinstance(found, Mapping):
        raise BadRecordError(f"not a change: found {shown(found)}, expected an object with before, after and op")
    try:
        op, before, after = (value_of(found, name) for name in ("op", "before", "after"))
    except JsonValueError as error:
        raise BadRecordError(f"not a change: {error}") from error
    if not isinstance(op, str) or op not in _OPS:
        raise BadRecordError(f"not a change: op is {shown(op)}, expected one of {', '.join(_OPS)}")
    if op in ("t", "m"):
        marker = Marker.TRUNCATION if op == "t" else Marker.NOTHING
        return Envelope(columns=columns, images=(), marker=marker)
    old, new = _image(before, "before"), _image(after, "after")
    if key_of is not None and op in ("u", "d") and _is_narrow(key, key_of):
        if old is not None and _has_only(old, image_of_key(key)):
            old = None
        _check_old_key(op, old, key_of, keys_stay=keys_stay)
    images = _images(op, old, new, key, key_of)
    is_key = op == "d" and old is None
    is_document = is_key or isinstance(before, str) or isinstance(after, str)
    return Envelope(columns=columns, images=tuple(images), is_key=is_key, is_document=is_document)


def _is_narrow(key: bytes | None, key_of: KeyOf) -> bool:
    """Whether the record's key shows that it lacks columns of the table's primary key."""
    try:
        return key is not None and key_of(image_of_key(key)) is None
    except (BadRecordError, JsonValueError):
        return False


def _has_only(before: Mapping[str, Json], key: Mapping[str, Json]) -> bool:
    """Whether an image says no more than the record's key, as PostgreSQL logs old rows by default."""
    return all(not value or value in STAND_INS for name, value in before.items() if name not in key)


def _check_old_key(op: str, before: Mapping[str, Json] | None, key_of: KeyOf, *, keys_stay: bool) -> None:
    """Raise BadRecordError for a change whose old row has an unknown key: the record key lacks columns."""
    if before is not None and key_of(before) is not None:
        return
    if op == "u" and keys_stay:
        return
    way_out = ", or say partition_changes='never' if they never change" if op == "u" else ""
    raise BadRecordError(
        f"op {op!r} has no image 'before' with the primary key of the table, and the record's key lacks columns of it:"
        " the old row is unknown. Set REPLICA IDENTITY FULL in the database, so that the connector writes old rows"
        f"{way_out}"
    )


def check_size(value: bytes, bytes_max: int) -> None:
    """Raise BadRecordError for a record of too many bytes."""
    if len(value) > bytes_max:
        raise BadRecordError(f"oversized: {len(value)} bytes, at most {bytes_max} are read (max_record_bytes)")


def check_depth(value: bytes) -> None:
    """Raise BadRecordError for objects and lists that are nested too deeply. Without recursion."""
    opened = value.count(b"{") + value.count(b"[")
    if opened <= RECORD_DEPTH_MAX:
        return
    depth = 0
    for number, token in enumerate(_BRACKETS.finditer(_STRINGS.sub(b"", value))):
        depth += 1 if token[0] in b"[{" else -1
        if number > 2 * RECORD_VALUES_MAX:
            raise BadRecordError(f"oversized: more than {RECORD_VALUES_MAX} objects and lists")
        if depth > RECORD_DEPTH_MAX:
            raise BadRecordError(
                f"nested too deep: more than {RECORD_DEPTH_MAX} objects and lists inside of each other"
            )


def _image(value: Json, side: str) -> Mapping[str, Json] | None:
    """An image; MongoDB's connector writes it as a string of extended JSON."""
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, str):
        try:
            check_depth(value.encode())
            document = parse_json(value.encode())
        except (JsonValueError, UnicodeEncodeError) as error:
            raise BadRecordError(f"not a change: {side} is a string that is not a document: {error}") from error
        if isinstance(document, Mapping):
            return {name: plain_of_extended(value_of(document, name)) for name in document}
    raise BadRecordError(f"not a change: {side} is {shown(value)}, expected an object")


def _images(
    op: str,
    before: Mapping[str, Json] | None,
    after: Mapping[str, Json] | None,
    key: bytes | None,
    key_of: KeyOf | None,
) -> Sequence[tuple[RowKind, Mapping[str, Json]]]:
    if op == "d":
        if before is not None:
            return [(RowKind.DELETE, before)]
        if key_of is None:
            raise BadRecordError("op 'd' has no image 'before', and the table has no primary key to delete by")
        return [(RowKind.DELETE, image_of_key(key))]
    if after is None:
        way_out = "; let the connector capture whole documents or rows" if op == "u" else ""
        raise BadRecordError(f"op {op!r} has no image 'after'{way_out}")
    if op != "u":
        return [(RowKind.INSERT, after)]
    if key_of is None:
        if before is None:
            raise BadRecordError("op 'u' has no image 'before', which a table without primary key needs")
        return [(RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, after)]
    if before is not None:
        try:
            old, new = key_of(before), key_of(after)
        except JsonValueError as error:
            raise BadRecordError(f"not a change: {error}") from error
        if old is not None and new is not None and old != new:
            return [(RowKind.DELETE, before), (RowKind.INSERT, after)]
    return [(RowKind.UPDATE_AFTER, after)]


def beside_key(key: bytes, key_fields: Sequence[str]) -> list[str]:
    """The columns of a table's primary key that a record key lacks; none for a key that names no columns."""
    try:
        found = {column for name in image_of_key(key) for column in matching(name, key_fields)}
    except BadRecordError:
        return []
    return [name for name in key_fields if name not in found]


def image_of_key(key: bytes | None) -> Mapping[str, Json]:
    """The columns that a record's key names. Raises BadRecordError."""
    if key is None:
        raise BadRecordError("op 'd' has neither an image 'before' nor a record key")
    try:
        check_depth(key)
        found = parse_json(key)
        if isinstance(found, Mapping) and "payload" in found and "schema" in found:
            found = value_of(found, "payload")
        if isinstance(found, Mapping):
            return _document_key(found) or found
    except JsonValueError as error:
        raise BadRecordError(f"op 'd' has no image 'before', and its key is no JSON: {error}") from error
    raise BadRecordError(f"op 'd' has no image 'before', and its key is {shown(found)}, expected an object")


def _document_key(key: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The `_id` of a document, which MongoDB's connector writes as {"id": "<extended JSON>"}."""
    text = key.get("id")
    if len(key) != 1 or not isinstance(text, str):
        return None
    try:
        value = plain_of_extended(parse_json(text.encode()))
    except (JsonValueError, UnicodeEncodeError):
        return None  # a column `id` of type STRING
    return {_ID: value, "id": text}


def plain_of_extended(value: Json) -> Json:
    """A value of MongoDB's extended JSON as plain JSON; objects that hold several values stay."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    convert = _EXTENDED.get(name)
    try:
        return value if convert is None else convert(inner)
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return value


def plain_inside(value: Json, kind: DataType) -> Json:
    """A value of a document for a column: plain JSON in each place where the column's type has a type of its own."""
    value = plain_of_extended(value)
    if kind.element is not None and isinstance(value, list):
        return [plain_inside(one, kind.element) for one in value]
    if not isinstance(value, Mapping):
        return value
    if kind.value is not None:
        return {name: plain_inside(value_of(value, name), kind.value) for name in value}
    members = {field.name: field.type for field in kind.fields}
    for name in value if members else ():
        found = matching(name, members)
        value = {**value, name: plain_inside(value_of(value, name), members[found[0]])} if len(found) == 1 else value
    return value


def _date(inner: Json) -> Json:
    inner = plain_of_extended(inner)
    return utc_of(inner, separator="T", suffix="Z") if isinstance(inner, int) else inner


_EXTENDED: Mapping[str, Callable[[Json], Json]] = {
    "$oid": str,
    "$uuid": str,
    "$symbol": str,
    "$numberInt": int,
    "$numberLong": int,
    "$numberDouble": lambda inner: Decimal(inner) if Decimal(inner).is_finite() else float(inner),
    "$numberDecimal": Decimal,
    "$date": _date,
    "$binary": lambda inner: inner["base64"] if isinstance(inner, Mapping) else inner,
}
