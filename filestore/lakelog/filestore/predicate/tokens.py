"""The tokens of a condition in Spark SQL, in one pass over the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<hex>[xX](?:'[^']*'|"[^"]*"))
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<text>'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+")
    |(?P<name>`(?:[^`]|``)*+`)
    |(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYdDfF])?(?!\w))
    |(?P<word>\w+)
    |(?P<sign><=>|<>|!=|<=|>=|==|\|\||&&|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_OCTAL_DIGITS = 3
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_PLAIN_LENGTH = 40
_LENGTH_MAX = 2_000  # of a number, in characters
_EXPONENT_MAX = 400  # a DOUBLE ends at 1.8e308, a DECIMAL at 1e38
_EXPONENT_MIN = -2_000


class TokenKind(StrEnum):
    """The kind of a token. The value is its group in the regular expression."""

    HEX = "hex"
    RAW = "raw"
    TEXT = "text"
    NAME = "name"
    NUMBER = "number"
    WORD = "word"
    SIGN = "sign"
    END = "end"


_KINDS: dict[str | None, TokenKind] = {kind.value: kind for kind in TokenKind}


class Token(NamedTuple):
    """One token: `text` as it was written, and where it starts and ends. `word` is in capitals; "" for other kinds."""

    kind: TokenKind
    text: str
    start: int
    end: int
    word: str = ""

    @property
    def text_value(self) -> str:
        """The value of a string literal. Raises ValueError for one that is not Unicode.

        Source: Spark, `ParserUtils.unescapeSQLString`; a quote that is written twice is one quote, as in Spark since 4.
        """
        quote, inner = self.text[0], self.text[1:-1]
        if "\\" not in inner and quote not in inner:
            return inner
        value = _ESCAPE.sub(_unescaped, inner) if quote not in inner else _unquoted(inner, quote)
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # two escapes may make one character


def tokens_of(text: str, start: int = 0) -> Iterator[Token]:
    """The tokens from `start` on, then END forever. Blanks and comments are left out.

    A quote that is never closed is a SIGN.
    """
    for found in _TOKEN.finditer(text, start):
        kind = _KINDS.get(found.lastgroup)
        if kind is not None:
            written = found[0]
            yield Token(kind, written, *found.span(), written.upper() if kind is TokenKind.WORD else "")
    while True:
        yield Token(TokenKind.END, "", len(text), len(text))


def _unquoted(inner: str, quote: str) -> str:
    """As `_ESCAPE`, with doubled quotes: an escaped quote before a quote is not a doubled quote."""
    pattern = re.compile(f"{_ESCAPE.pattern}|{quote}{quote}", re.DOTALL)
    return pattern.sub(lambda found: quote if found[1] is None else _unescaped(found), inner)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) == 1:
        return _ESCAPED.get(code, code)
    return chr(int(code, 8) if len(code) == _OCTAL_DIGITS else int(code[1:], 16))


def number_value(written: str) -> Decimal:
    """The number in a string. Raises ValueError for other strings, and for numbers that no column could hold.

    The exponent is limited, since a number may need as many digits as its exponent.
    """
    if len(written) < _PLAIN_LENGTH and written.isascii() and written.replace(".", "", 1).isdigit():
        return Decimal(written)
    if len(written) > _LENGTH_MAX:
        raise ValueError(f"it has {len(written)} characters, at most {_LENGTH_MAX} are allowed")
    if _NUMBER.fullmatch(written) is None:
        raise ValueError(
            "it is not a number; NaN and infinity are strings in a filter, without a cast: x >= 'NaN', x < 'Infinity'"
        )
    try:
        value = Decimal(written.strip())
    except InvalidOperation:  # an exponent beyond the limits of Decimal
        value = Decimal("Infinity")
    if not value.is_finite() or not (_EXPONENT_MIN <= value.adjusted() <= _EXPONENT_MAX or not value):
        raise ValueError(f"its exponent must be from {_EXPONENT_MIN} to {_EXPONENT_MAX}")
    return value if value else Decimal(0)
