"""JSON that others wrote: parsed within limits, with functions that take out members by type and range.

Everything here raises ValueError, saying what was found and what was expected, or KeyError for a member that is
missing; the caller knows the file. Use `optional` for a member that may be missing.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar  # Any: parsed JSON is untyped until it is checked here

from lakelog.common.quoting import shown

JSON_BYTES_MAX = 16 << 20
JSON_VALUES_MAX = 500_000
JSON_DEPTH_MAX = 256

LONG = range(-(1 << 63), 1 << 63)
COUNT = range(1 << 63)
INT = range(1 << 31)

Value = TypeVar("Value")
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(
    data: bytes | str,
    *,
    bytes_max: int = JSON_BYTES_MAX,
    values_max: int = JSON_VALUES_MAX,
    depth_max: int = JSON_DEPTH_MAX,
) -> Any:
    """The value of a JSON text of a limited size, number of values and depth. NaN and infinities are not JSON.

    A value takes about 100 bytes of memory: the limits are set for what a process can hold.
    """
    encoded = data.encode() if isinstance(data, str) else data  # fails for bytes that are not Unicode
    opened = check_json_size(encoded, bytes_max=bytes_max, values_max=values_max)
    try:
        value = json.loads(encoded, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError(f"its values are nested deeper than {depth_max}") from error
    if opened > depth_max and _is_deeper(value, depth_max):
        raise ValueError(f"its values are nested deeper than {depth_max}")
    if _SURROGATE.search(encoded) is not None:
        json.dumps(value, ensure_ascii=False).encode()  # half of a character is not Unicode
    return value


def check_json_size(encoded: bytes, *, bytes_max: int = JSON_BYTES_MAX, values_max: int = JSON_VALUES_MAX) -> int:
    """The most lists and objects that a JSON text may have. Raises ValueError for one that `parse_json` would not read.

    Call it before JSON is written: JSON that cannot be read again would be lost.
    """
    if len(encoded) > bytes_max:
        raise ValueError(f"it has {len(encoded)} bytes, at most {bytes_max} are read")
    opened = encoded.count(b"[") + encoded.count(b"{")
    if opened + encoded.count(b",") > values_max:
        raise ValueError(f"it has more than {values_max} values")
    return opened


def parse_object(data: bytes | str, *, values_max: int = JSON_VALUES_MAX) -> Mapping[str, Any]:
    """The object that a JSON text is, within the limits of `parse_json`."""
    value = parse_json(data, values_max=values_max)
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, found {shown(value)}")  # noqa: TRY004  # callers expect one error
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _is_deeper(value: object, depth_max: int) -> bool:
    """Whether objects and lists are nested more deeply than this. Without recursion."""
    level: list[Any] = [value]
    for _ in range(depth_max + 1):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def whole(fields: Mapping[str, Any], key: str, allowed: range = LONG) -> int:
    """A whole number in a range."""
    value = fields.get(key)
    if type(value) is not int or value not in allowed:
        raise _misfit(fields, key, f"a whole number from {allowed.start} to {allowed.stop - 1}")
    return value


def string(fields: Mapping[str, Any], key: str) -> str:
    """A string."""
    value = fields.get(key)
    if type(value) is not str:
        raise _misfit(fields, key, "a string")
    return value


def strings(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of strings."""
    value = fields.get(key)
    if type(value) is not list or not all(type(one) is str for one in value):
        raise _misfit(fields, key, "a list of strings")
    return tuple(value)


def string_map(fields: Mapping[str, Any], key: str) -> dict[str, str]:
    """An object whose members are strings."""
    value = fields.get(key)
    if type(value) is not dict or not all(type(one) is str for one in value.values()):
        raise _misfit(fields, key, "an object of strings")
    return value


def member(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object."""
    value = fields.get(key)
    if type(value) is not dict:
        raise _misfit(fields, key, "an object")
    return value


def items(fields: Mapping[str, Any], key: str, *, length: int | None = None) -> list[Any]:
    """A list, of a known length or of any length."""
    value = fields.get(key)
    if type(value) is not list or (length is not None and len(value) != length):
        raise _misfit(fields, key, "a list" if length is None else f"a list of {length} items")
    return value


def objects(fields: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A list of objects."""
    found = items(fields, key)
    for one in found:
        if not isinstance(one, dict):
            raise ValueError(f"{key} must hold objects, found {shown(one)}")  # noqa: TRY004  # one error
    return found


def binary(fields: Mapping[str, Any], key: str) -> bytes:
    """Bytes, as base64."""
    value = fields.get(key)
    try:
        if type(value) is str:
            return base64.b64decode(value, validate=True)
    except binascii.Error:
        pass
    raise _misfit(fields, key, "bytes as base64")


def optional(take: Callable[[Mapping[str, Any], str], Value], fields: Mapping[str, Any], key: str) -> Value | None:
    """The result of one of the functions above; None if the member is missing or null."""
    return None if fields.get(key) is None else take(fields, key)


def number_of(key: str, allowed: range = INT) -> int:
    """The key of a member as a whole number."""
    if _WHOLE.fullmatch(key) is None or int(key) not in allowed:
        raise ValueError(f"a whole number from {allowed.start} to {allowed.stop - 1} was expected, found {shown(key)}")
    return int(key)


def _misfit(fields: Mapping[str, Any], key: str, expected: str) -> ValueError | KeyError:
    if key not in fields:
        return KeyError(key)
    return ValueError(f"{key} must be {expected}, found {shown(fields[key])}")
