"""Defaults of columns as users write them in SQL: constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.predicate import Token, TokenKind, tokens_of
from lakelog.filestore.schema.column_defaults import default_of

_BARE = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    }
)
_TYPED = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_NULL = "NULL"
_SUFFIXES = "lLsSyYdDfFbB"


def with_default(field: DataField, path: Sequence[str], given: str | None) -> DataField:
    """A column with a default, or without one. Raises as `stored_default`, and InvalidRequestError for a member."""
    if len(path) > 1:
        raise InvalidRequestError(f"{'.'.join(path)} is a part of a column: only a whole column has a default")
    return replace(field, default_value=None if given is None else stored_default(field.type, given, column=field.name))


def stored_default(kind: DataType, given: str, *, column: str) -> str | None:
    """The text of a default in a schema file; None for NULL.

    Raises UnsupportedError for what is not a constant and for a nested column, InvalidRequestError for a constant that
    the column cannot hold.
    """
    text = _constant(given)
    if text is None:
        raise UnsupportedError(
            f"column {column!r} has DEFAULT {shown(given)}: a default is a constant, such as 5, 'new' or "
            "DATE '2026-01-31'; write other values in the INSERT"
        )
    if kind.is_nested:
        raise UnsupportedError(f"column {column!r} has a DEFAULT and the type {kind}: leave the default out")
    if text.upper() == _NULL and given.strip().upper() == _NULL:
        return None
    stored = text if kind.root in _BARE else f"'{text}'"
    default_of(DataField(id=0, name=column, type=kind, default_value=stored))
    return stored


def _constant(given: str) -> str | None:
    """The value of a constant as a text; None for another expression."""
    tokens = list(takewhile(lambda token: token.kind is not TokenKind.END, tokens_of(given)))  # it never ends
    words = [token.word or token.text for token in tokens]
    if words[:2] == ["CAST", "("] and words[3:4] == ["AS"] and words[-1:] == [")"]:
        return _text(tokens[2])
    match tokens:
        case [Token(kind=TokenKind.WORD) as word] if word.word in ("TRUE", "FALSE", _NULL):
            return word.word.lower()
        case [Token(kind=TokenKind.NUMBER) as number]:
            return number.text.rstrip(_SUFFIXES)
        case [Token(kind=TokenKind.SIGN, text="+" | "-") as sign, Token(kind=TokenKind.NUMBER) as number]:
            return sign.text.removeprefix("+") + number.text.rstrip(_SUFFIXES)
        case [Token(kind=TokenKind.WORD) as word, text] if word.word in _TYPED:
            return _text(text)
        case [text]:
            return _text(text)
    return None


def _text(token: Token) -> str | None:
    return token.text_value if token.kind is TokenKind.TEXT else None
