"""Row filters from text: the small language of conditions, which Spark and DuckDB read in the same way.

    condition   and (OR and)*
    and         not (AND not)*
    not         (NOT | !)* test
    test        operand [compare operand | IS [NOT] what | [NOT] IN list | [NOT] BETWEEN operand AND operand
                         | [NOT] LIKE text [ESCAPE text]]
    operand     column | literal | (condition)

AND, OR and lists may have any number of parts; parentheses are nested up to a limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.predicate.casts import (
    DECIMALS,
    NUMBERS,
    TIMESTAMPS,
    cast_day,
    cast_number,
    cast_text,
    suffixed_number,
)
from lakelog.filestore.predicate.cursor import Cursor, cut
from lakelog.filestore.predicate.tokens import Token, TokenKind
from lakelog.filestore.predicate.tree import (
    And,
    Compare,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Or,
    Predicate,
    joined,
    negated,
)

_DEPTH_MAX = 64
_COMPARISONS = {
    "=": Comparison.EQ,
    "==": Comparison.EQ,
    "<>": Comparison.NE,
    "!=": Comparison.NE,
    "<": Comparison.LT,
    "<=": Comparison.LE,
    ">": Comparison.GT,
    ">=": Comparison.GE,
}
_FLIPPED = {
    Comparison.LT: Comparison.GT,
    Comparison.GT: Comparison.LT,
    Comparison.LE: Comparison.GE,
    Comparison.GE: Comparison.LE,
}
_LITERALS = {"TRUE", "FALSE", "NULL"}
_RESERVED = {"AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE"}
_OTHER_SIGNS = {"+", "-", "*", "/", "%", "&", "|", "^", "||", "::", "["}
_OTHER_WORDS = {"RLIKE", "REGEXP", "ILIKE", "DIV", "COLLATE", "SIMILAR"}
# Lists of plain literals, which may be long, are parsed by one regular expression.
_PLAIN_ITEM = r"(?:'[^'\\]*+'|[+-]?[0-9]++(?:\.[0-9]++)?+)\s*+"
_PLAIN_LIST = re.compile(rf"\s*+(?:{_PLAIN_ITEM},\s*+)*+{_PLAIN_ITEM}\)")
_PLAIN = re.compile(r"'[^']*'|[+-]?[0-9]+(?:\.[0-9]+)?")


def parse(text: str, *, zone: str, is_stored: bool = False) -> Predicate:
    """The filter in `text`. Raises InvalidRequestError, quoting the part that cannot be parsed.

    A filter that a table stores (`is_stored`) may be of a release that also took what engines read differently.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"the filter {cut(ascii(text))} is not Unicode text: {error.reason}") from error
    return _Parser(text, zone, is_stored=is_stored).whole()


@dataclass(frozen=True, slots=True)
class _Column:
    name: str


_Operand = _Column | Literal | Predicate


class _Parser:
    def __init__(self, text: str, zone: str, *, is_stored: bool = False) -> None:
        self._at = Cursor(text)
        self._zone = zone
        self._is_stored = is_stored
        self._depth = 0

    def whole(self) -> Predicate:
        """The condition of the whole text."""
        found = self._condition(self._any(), 0)
        self._at.accepts(";")
        if self._at.next.kind is not TokenKind.END:
            raise self._at.no_condition(f"{cut(self._at.text[self._at.next.start :])} follows it")
        return found

    # Conditions

    def _any(self) -> _Operand:
        return self._chain("OR")

    def _chain(self, word: str) -> _Operand:
        """Parts with AND or OR between them, or a single part."""
        start = self._at.next.start
        first = self._chain("AND") if word == "OR" else self._not()
        if self._at.next.word != word:
            return first
        parts = [self._condition(first, start)]
        while self._at.accepts(word):
            start = self._at.next.start
            part = self._chain("AND") if word == "OR" else self._not()
            parts.append(self._condition(part, start))
        return joined(parts, kind=Or if word == "OR" else And)

    def _not(self) -> _Operand:
        is_negated = is_condition = False
        while self._at.accepts("NOT", "!"):
            is_negated, is_condition = not is_negated, True
        start = self._at.next.start
        found = self._test()
        if not is_condition:
            return found
        condition = self._condition(found, start)
        return negated(condition) if is_negated else condition

    def _test(self) -> _Operand:
        start = self._at.next.start
        left = self._operand()
        found = self._rest_of_test(left, start)
        if found is None:
            return left
        if self._at.next.text in (*_COMPARISONS, "<=>") or self._at.next.word in (*_RESERVED - {"AND", "OR"}, "ISNULL"):
            raise self._at.refused(start, self._at.end)
        return found

    def _rest_of_test(self, left: _Operand, start: int) -> Predicate | None:
        """The test of an operand; None if nothing follows it."""
        sign, word = self._at.next.text, self._at.next.word
        if sign in _COMPARISONS and self._at.next.kind is TokenKind.SIGN:
            self._at.take()
            return self._compared(left, _COMPARISONS[sign], start)
        if self._at.accepts("<=>"):
            return self._null_safe(left, start)
        if self._at.accepts("IS"):
            return self._is(left, start)
        if self._at.accepts("ISNULL"):
            return IsNull(column=self._column(left, start, self._at.end), is_negated=False)
        is_negated = self._at.accepts("NOT")
        word = self._at.next.word
        if self._at.accepts("IN"):
            return self._in(left, start, is_negated)
        if self._at.accepts("BETWEEN"):
            return self._between(left, start, is_negated)
        if self._at.accepts("LIKE"):
            return self._like(left, start, is_negated)
        if word in _OTHER_WORDS or sign in _OTHER_SIGNS:
            self._at.take()
            raise self._at.refused(start, self._at.take().end)
        if is_negated:
            raise self._at.no_condition("NOT expects IN, BETWEEN or LIKE")
        return None

    def _compared(self, left: _Operand, operator: Comparison, start: int) -> Predicate:
        end, second = self._at.end, self._at.next.start
        right = self._operand()
        if not isinstance(left, _Column) and isinstance(right, _Column):
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
            start, second = second, start
        column = self._column(left, start, end)
        return Compare(column=column, operator=operator, literal=self._literal(right, second))

    def _null_safe(self, left: _Operand, start: int) -> Predicate:
        found = self._compared(left, Comparison.EQ, start)
        assert isinstance(found, Compare)
        if found.literal.value is None:
            return IsNull(column=found.column, is_negated=False)
        return And(parts=(found, IsNull(column=found.column, is_negated=True)))

    def _is(self, left: _Operand, start: int) -> Predicate:
        is_negated = self._at.accepts("NOT")
        what = self._at.take().word
        column = self._column(left, start, self._at.end)
        if what in ("NULL", "UNKNOWN"):
            return IsNull(column=column, is_negated=is_negated)
        if what not in ("TRUE", "FALSE"):
            raise self._at.refused(start, self._at.end)
        holds = Compare(column=column, operator=Comparison.EQ, literal=_boolean(what == "TRUE"))
        # IS gives false for a null, never null, which matters under another NOT.
        found = And(parts=(holds, IsNull(column=column, is_negated=True)))
        return negated(found) if is_negated else found

    def _in(self, left: _Operand, start: int, is_negated: bool) -> Predicate:
        column = self._column(left, start, self._at.end)
        if self._at.next.text != "(":
            raise self._at.no_condition("IN expects a list in parentheses")
        plain = _PLAIN_LIST.match(self._at.text, self._at.next.end)
        if plain is not None:
            literals = [self._plain(item) for item in _PLAIN.findall(plain[0])]
            self._at.go_to(plain.end())
            return In(column=column, literals=tuple(literals), is_negated=is_negated)
        opening = self._at.take()
        literals = []
        while self._at.next.text != ")":
            literals.append(self._item(opening, start))
            if not self._at.accepts(","):
                break
        if self._at.next.text != ")" or not literals:
            raise self._at.refused(start, self._at.closing(opening))
        self._at.take()
        return In(column=column, literals=tuple(literals), is_negated=is_negated)

    def _item(self, opening: Token, start: int) -> Literal:
        if self._at.next.word == "SELECT":
            raise self._at.refused(start, self._at.closing(opening))
        first = self._at.next.start
        return self._literal(self._operand(), first)

    def _between(self, left: _Operand, start: int, is_negated: bool) -> Predicate:
        column = self._column(left, start, self._at.end)
        limits: list[Compare] = []
        for operator in (Comparison.GE, Comparison.LE):
            if limits:
                self._at.expect("AND")
            first = self._at.next.start
            literal = self._literal(self._operand(), first)
            limits.append(Compare(column=column, operator=operator, literal=literal))
        found = And(parts=tuple(limits))
        return negated(found) if is_negated else found

    def _like(self, left: _Operand, start: int, is_negated: bool) -> Predicate:
        column = self._column(left, start, self._at.end)
        strings = []
        for number in range(2):
            if number and not self._at.accepts("ESCAPE"):
                strings.append("\\")
                continue
            first = self._at.next.start
            literal = self._literal(self._operand(), first)
            if not isinstance(literal.value, str) or literal.kind is not LiteralKind.STRING:
                raise self._at.refused(first, self._at.end)
            strings.append(literal.value)
        pattern, escape = strings
        if len(escape) != 1:
            raise self._at.refused(start, self._at.end)
        return Like(column=column, pattern=pattern, escape=escape, is_negated=is_negated)

    # Operands

    def _operand(self) -> _Operand:
        start, sign, is_signed = self._at.next.start, 1, False
        while self._at.next.kind is TokenKind.SIGN and self._at.next.text in ("+", "-"):
            is_signed = True
            sign = -sign if self._at.take().text == "-" else sign
        found = self._unsigned()
        if is_signed:
            literal = self._literal(found, start)
            if not isinstance(literal.value, Decimal):
                raise self._at.refused(start, self._at.end)
            found = _number(literal.value.copy_negate() if sign < 0 else literal.value)
        if self._at.next.kind is TokenKind.SIGN and self._at.next.text in _OTHER_SIGNS:
            self._at.take()
            raise self._at.refused(start, self._at.take().end)
        return found

    def _unsigned(self) -> _Operand:
        token = self._at.take()
        match token.kind:
            case TokenKind.NUMBER:
                return _number_of(token.text)
            case TokenKind.TEXT | TokenKind.RAW:
                return self._string(self._strings(token))
            case TokenKind.HEX:
                return Literal(kind=LiteralKind.BYTES, value=self._bytes(token))
            case TokenKind.NAME:
                return self._column_of(token, token.text[1:-1].replace("``", "`"))
            case TokenKind.WORD if token.word not in _RESERVED:
                return self._worded(token)
        if token.text == "(":
            return self._enclosed()
        if token.kind is TokenKind.SIGN and token.text in ("$", ":", "?", "*"):
            raise self._at.refused(token.start, self._at.take().end)
        raise self._at.no_condition(
            f"a column or a literal expected, found {cut(self._at.text[token.start :]) if token.text else 'its end'}"
        )

    def _enclosed(self) -> _Operand:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidRequestError(
                f"the filter {cut(repr(self._at.text))} has more than {_DEPTH_MAX} parentheses inside of each other; "
                "leave out those that are not needed"
            )
        found = self._any()
        self._at.expect(")")
        self._depth -= 1
        return found

    def _worded(self, token: Token) -> _Operand:
        """A column, or a literal that begins with a word."""
        if token.word in _LITERALS:
            return _NULL if token.word == "NULL" else _boolean(token.word == "TRUE")
        if token.word in TIMESTAMPS | NUMBERS and self._at.next.kind is TokenKind.TEXT:
            return self._of_type(token.word, self._unsigned(), token.start)
        if self._at.next.text != "(":
            return self._column_of(token, token.text)
        if token.word == "CAST":
            return self._cast(token)
        if token.word in TIMESTAMPS:
            self._at.take()
            inner = self._operand()
            self._at.expect(")")
            return self._of_type(token.word, inner, token.start)
        arguments = self._at.text[self._at.next.start : self._at.closing(self._at.next)]
        raise self._at.unknown(f"{token.word}{arguments}")

    def _cast(self, token: Token) -> Literal:
        self._at.take()
        inner = self._operand()
        self._at.expect("AS")
        word = self._at.take().word
        sizes: list[int] = []
        if word in DECIMALS and self._at.accepts("("):
            while not sizes or self._at.accepts(","):
                size = self._at.take()
                if not size.text.isdecimal() or len(sizes) == 2:
                    raise self._at.no_condition(f"{word} expects its precision and scale, such as {word}(10, 2)")
                sizes.append(int(size.text[:9]))
            self._at.expect(")")
        self._at.expect(")")
        return self._of_type(word, inner, token.start, tuple(sizes))

    def _of_type(self, word: str, inner: _Operand, start: int, sizes: tuple[int, ...] = ()) -> Literal:
        """A literal cast to another type."""
        if isinstance(inner, Literal):
            try:
                if word in NUMBERS and isinstance(inner.value, Decimal):
                    return _number(cast_number(inner.value, word, sizes))
                if word in NUMBERS and inner.kind is LiteralKind.STRING:
                    return _number(cast_text(str(inner.value), word, sizes))
            except ValueError as error:
                raise InvalidRequestError(
                    f"the number {cut(self._at.text[start : self._at.end])} in the filter is not usable: {error}"
                ) from error
            if word in TIMESTAMPS and inner.kind is LiteralKind.STRING:
                text = str(inner.value)
                return Literal(
                    kind=LiteralKind.TIMESTAMP, value=cast_day(text) if word == "DATE" else text, zone=self._zone
                )
        raise self._at.refused(start, self._at.end)

    def _column_of(self, token: Token, name: str) -> _Column:
        if self._at.next.text == ".":
            self._at.take()
            self._at.take()
            raise InvalidRequestError(
                f"the filter {self._at.quoted} names {cut(self._at.text[token.start : self._at.end])}; filters take "
                "whole columns without a table name (a dot in a column's name needs backticks)"
            )
        return _Column(name)

    def _strings(self, token: Token) -> str:
        """A string literal, joined with adjacent ones."""
        if token.text[0] == '"' and not self._is_stored:
            raise InvalidRequestError(
                f"the filter {self._at.quoted} has {cut(token.text)}, a string for Spark and a name for DuckDB: write "
                "'...' for a string, and `...` for a name"
            )
        parts = [self._text_of(token)]
        while self._at.next.kind in (TokenKind.TEXT, TokenKind.RAW):
            parts.append(self._text_of(self._at.take()))
        return "".join(parts)

    def _text_of(self, token: Token) -> str:
        if token.kind is TokenKind.RAW:
            return token.text[2:-1]
        try:
            return token.text_value
        except ValueError as error:
            raise InvalidRequestError(f"the string {cut(token.text)} in the filter is not Unicode: {error}") from error

    def _string(self, value: str) -> Literal:
        return Literal(kind=LiteralKind.STRING, value=value, zone=self._zone, is_written=not self._is_stored)

    def _bytes(self, token: Token) -> bytes:
        try:
            return bytes.fromhex(token.text[2:-1])
        except ValueError as error:
            raise InvalidRequestError(
                f"the bytes {cut(token.text)} in the filter must be hex digits, two a byte, such as X'01AB'"
            ) from error

    def _plain(self, item: str) -> Literal:
        if item[0] == "'":
            return self._string(item[1:-1])
        return _number_of(item)

    # Uses of an operand

    def _condition(self, found: _Operand, start: int) -> Predicate:
        if isinstance(found, _Column):
            return Compare(column=found.name, operator=Comparison.EQ, literal=_boolean(True))
        if not isinstance(found, Literal):
            return found
        if found.kind not in (LiteralKind.BOOLEAN, LiteralKind.NULL):
            raise self._at.refused(start, self._at.end)
        return Constant(value=None if found.value is None else bool(found.value))

    def _column(self, found: _Operand, start: int, end: int) -> str:
        if not isinstance(found, _Column):
            raise self._at.refused(start, end)
        return found.name

    def _literal(self, found: _Operand, start: int) -> Literal:
        if not isinstance(found, Literal):
            raise self._at.refused(start, self._at.end)
        return found


_NULL = Literal(kind=LiteralKind.NULL, value=None)


def _number(value: Decimal) -> Literal:
    return Literal(kind=LiteralKind.NUMBER, value=value)


def _boolean(value: bool) -> Literal:
    return Literal(kind=LiteralKind.BOOLEAN, value=value)


def _number_of(written: str) -> Literal:
    try:
        return _number(suffixed_number(written))
    except ValueError as error:
        raise InvalidRequestError(f"the number {cut(written)} in the filter is not usable: {error}") from error
