"""Values in predicates of Spark's V2 API, as literals of our filters.

Source: Spark, `org.apache.spark.sql.connector.expressions.LiteralValue`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from py4j.protocol import Py4JJavaError

from lakelog.filestore.predicate import Literal, LiteralKind

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

_WHOLE = frozenset({"byte", "short", "integer", "long"})
_FLOATING = frozenset({"float", "double"})
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL = "NULL"
_NULL_OR_STRING = "'null'"
_STRING = re.compile(r"'[^']*(?:''[^']*)*'|NULL")
_BETWEEN = ", "


class UnknownError(Exception):
    """A part of a predicate that our readers cannot evaluate."""


def is_literal(given: Any) -> bool:  # a Java Expression
    """Whether an expression is a value."""
    return str(given.getClass().getSimpleName()) == "LiteralValue"


def literal_value(given: Any) -> Literal:  # a Java Expression
    """The value of an expression; Spark has cast it to the type of the column. Raises UnknownError for another one."""
    if not is_literal(given):
        raise UnknownError
    return literal_of(given.value(), str(given.dataType().typeName()))


def listed_literals(jvm: Jvm, listed: Any) -> tuple[Literal, ...]:  # a Java Predicate
    """The values of an IN, which Spark has cast to one type. Raises UnknownError if one of them is not a value.

    They come as one string: a call for each value takes half a millisecond.
    """
    children = listed.children()
    count = len(children) - 1
    if not count:
        return ()
    values, objects = jvm.empty_array(_class(jvm), count), jvm.empty_array(jvm.java_class("java.lang.Object"), count)
    copy = jvm.java_class("java.lang.System").arraycopy
    try:
        copy(children, 1, values, 0, count)  # into an array of values alone: the name of a column may look like one
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getSimpleName()) == "ArrayStoreException":
            raise UnknownError from None
        raise
    copy(values, 0, objects, 0, count)
    kind = str(values[0].dataType().typeName())
    texts = _split(str(jvm.java_class("java.util.Arrays").toString(objects)), kind)
    if len(texts) != count:
        raise UnknownError
    parse = _parser(kind)
    return tuple(
        # Spark 4.2 may write a null among strings as this string.
        literal_value(values[at])
        if text == _NULL_OR_STRING
        else literal_of(None if text == _NULL else parse(text), kind)
        for at, text in enumerate(texts)
    )


def _class(jvm: Jvm) -> Any:  # a Java class
    return jvm.connector("expressions.LiteralValue")


def _split(text: str, kind: str) -> list[str]:
    """The texts of the values in the text of an array."""
    inner = text[1:-1]
    if kind != "string":
        return inner.split(_BETWEEN)
    return list(_strings(inner))


def _strings(text: str) -> Iterator[str]:
    """The quoted strings and the nulls in a text. Raises UnknownError for anything else between them."""
    at = 0
    for found in _STRING.finditer(text):
        if found.start() != at:
            raise UnknownError
        yield found[0]
        at = found.end() + len(_BETWEEN)
        if text[found.end() : at] not in (_BETWEEN, ""):
            raise UnknownError
    if at != len(text) + len(_BETWEEN):
        raise UnknownError


def _parser(kind: str) -> Callable[[str], Any]:
    """What makes a value of its text, as py4j would give it. Raises UnknownError for a type that filters lack."""
    if kind in _WHOLE or kind in _MOMENTS or kind == "date":
        return int
    if kind in _FLOATING:
        return float
    if kind.startswith("decimal"):
        return Decimal
    found = _PARSERS.get(kind)
    if found is None:
        raise UnknownError
    return found


_PARSERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text == "true",
    "string": lambda text: text[1:-1].replace("''", "'"),
    "binary": lambda text: bytes.fromhex(text.removeprefix("0x")),
}


def literal_of(value: Any, kind: str) -> Literal:
    """A value in Spark's own form, of the type with this name. Raises UnknownError for what filters lack."""
    if value is None:
        return Literal(kind=LiteralKind.NULL, value=None)
    if kind == "boolean":
        return Literal(kind=LiteralKind.BOOLEAN, value=bool(value))
    if kind in _WHOLE:
        return Literal(kind=LiteralKind.NUMBER, value=Decimal(int(value)))
    if kind in _FLOATING:
        number = Decimal(_as_stored(float(value), kind))
        if not number.is_finite():
            raise UnknownError
        return Literal(kind=LiteralKind.NUMBER, value=number)
    if kind.startswith("decimal"):
        return Literal(kind=LiteralKind.NUMBER, value=Decimal(str(value)))
    if kind == "string":
        return Literal(kind=LiteralKind.STRING, value=str(value))
    if kind == "binary":
        return Literal(kind=LiteralKind.BYTES, value=bytes(value))
    if kind == "date":
        return Literal(kind=LiteralKind.TIMESTAMP, value=_day(int(value)))
    if kind in _MOMENTS:
        return Literal(kind=LiteralKind.TIMESTAMP, value=_moment(int(value), has_zone=kind == "timestamp"))
    raise UnknownError


def _as_stored(value: float, kind: str) -> float:
    """The number that a column of the type stores: a FLOAT comes by its shortest text, which names another DOUBLE."""
    stored: float = struct.unpack("f", struct.pack("f", value))[0] if kind == "float" else value
    return stored


def _day(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        raise UnknownError from None


def _moment(micros: int, *, has_zone: bool) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise UnknownError from None
    text = moment.strftime("%H:%M:%S.%f")
    return f"{moment.date().isoformat()} {text}" + ("Z" if has_zone else "")
