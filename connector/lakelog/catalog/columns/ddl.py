"""Columns written as DDL, with the type names of Spark and Paimon.

    columns   column (, column)*
    column    name [:] type attribute*
    attribute NOT NULL | NULL | COMMENT 'text' | DEFAULT constant
    type      ARRAY<type> | MULTISET<type> | MAP<type, type> | STRUCT<columns> | ROW<columns>
              | word [(number [, number])] [WITH LOCAL TIME ZONE | WITHOUT TIME ZONE]

Nested types take NOT NULL too. A name without digits has its meaning in Spark: TIMESTAMP has a time zone, BINARY any
length, TIME six digits. Names that Spark lacks have their meaning in Paimon: TIMESTAMP(3) has no zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.quoting import cut, shown
from lakelog.common.types import DataField, DataType, TypeRoot, array_of, check_depth, map_of, parse_type, row_of
from lakelog.filestore.alter import AddColumn, SchemaChange, UpdateColumnType, stored_default
from lakelog.filestore.predicate import Token, TokenKind, tokens_of

_FORM = "expected a form such as \"id BIGINT NOT NULL, name STRING COMMENT 'of the buyer'\""
# Spark's names that parse_type lacks, or that have another meaning in Paimon.
_OF_SPARK = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "CHARACTER": "CHAR",
    "TIMESTAMP_NTZ": "TIMESTAMP",
}
_WITHOUT_DIGITS = {"BINARY": "BYTES", "TIME": "TIME(6)", "TIMESTAMP": "TIMESTAMP_LTZ(6)"}
_LENGTH_NEEDED = {"CHAR": "STRING", "VARCHAR": "STRING", "VARBINARY": "BINARY"}
_ZONES = ("WITH LOCAL TIME ZONE", "WITHOUT TIME ZONE")
_OTHER_ATTRIBUTES = {
    "PRIMARY": "name the columns of the primary key as primary_keys",
    "GENERATED": "columns are not generated here; leave it out",
    "AS": "columns are not generated here; leave it out",
    "CONSTRAINT": "there are no constraints here; leave it out",
    "CHECK": "there are no constraints here; leave it out",
    "UNIQUE": "there are no constraints here; name a primary key as primary_keys",
}
_ATTRIBUTES = frozenset({"NOT", "NULL", "COMMENT", "DEFAULT", *_OTHER_ATTRIBUTES})


def parse_ddl(text: str) -> tuple[DataField, ...]:
    """The columns in DDL, with ids 0.

    Raises InvalidRequestError, quoting the part that cannot be parsed, and UnsupportedError for a type that the format
    lacks; both name the column.
    """
    return _Parser(text).whole()


def parse_ddl_type(text: str, *, column: str) -> DataType:
    """The DDL type of a column that exists or is added: names mean the same as in the DDL of a whole table.

    Raises like `parse_ddl`, also for a comment or anything else behind the type.
    """
    fields = parse_ddl(f"{quoted_name(column)} {text}")
    if len(fields) != 1 or fields[0].description is not None or fields[0].default_value is not None:
        raise InvalidRequestError(f"column {column!r}: {shown(text)} has something after the type; {_FORM}")
    return fields[0].type


def with_ddl_types(changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """The changes, with types in place of their DDL strings. Raises like `parse_ddl_type`."""
    return [_with_ddl_type(change) for change in changes]


def _with_ddl_type(change: SchemaChange) -> SchemaChange:
    if not isinstance(change, AddColumn | UpdateColumnType) or not isinstance(change.type, str):
        return change
    name = change.column if isinstance(change.column, str) else ".".join(change.column)
    return replace(change, type=parse_ddl_type(change.type, column=name))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._next = next(self._tokens)

    def whole(self) -> tuple[DataField, ...]:
        fields = self._fields("", 0)
        if self._next.kind is not TokenKind.END:
            raise self._wrong(f"',' or the end expected, found {self._found()}")
        return fields

    def _fields(self, above: str, depth: int) -> tuple[DataField, ...]:
        fields = [self._field(above, depth)]
        while self._accepts(","):
            fields.append(self._field(above, depth))
        return tuple(fields)

    def _field(self, above: str, depth: int) -> DataField:
        name = self._name()
        path = f"{above}{name}"
        self._accepts(":")
        kind = self._type(path, depth)
        comment, default = None, None
        while self._next.kind is TokenKind.WORD:
            word = self._next.word
            if word == "COMMENT":
                self._take()
                comment = self._comment(path)
            elif word == "DEFAULT" and not above:
                self._take()
                default = stored_default(kind, self._default(), column=path)
            elif word in _OTHER_ATTRIBUTES:
                raise self._wrong(f"column {path!r} has {word}: {_OTHER_ATTRIBUTES[word]}")
            else:
                kind = self._nullability(kind, path)
        return DataField(id=0, name=name, type=kind, description=comment or None, default_value=default)

    def _name(self) -> str:
        token = self._take()
        if token.kind is TokenKind.NAME:
            return token.text[1:-1].replace("``", "`")
        if token.kind is not TokenKind.WORD:
            raise self._wrong(f"the name of a column expected, found {self._found(token)}")
        return token.text

    def _default(self) -> str:
        """The text of a default, up to the next attribute or column: `stored_default` refuses what is no constant."""
        first = last = self._take()
        depth = int(first.text == "(")
        while self._next.kind is not TokenKind.END and (depth or not self._ends_default()):
            last = self._take()
            depth += (last.text == "(") - (last.text == ")")
        return self._text[first.start : last.end]

    def _ends_default(self) -> bool:
        return self._next.text in (",", ")") or self._next.word in _ATTRIBUTES

    def _comment(self, path: str) -> str:
        token = self._take()
        if token.kind is not TokenKind.TEXT:
            raise self._wrong(f"COMMENT of column {path!r} needs a string in quotes, found {self._found(token)}")
        try:
            return token.text_value
        except ValueError as error:
            raise self._wrong(f"the comment of column {path!r} is not Unicode") from error

    def _inner(self, path: str, depth: int) -> DataType:
        """A nested type, with its nullability."""
        kind = self._type(path, depth + 1)
        return self._nullability(kind, path) if self._next.kind is TokenKind.WORD else kind

    def _nullability(self, kind: DataType, path: str) -> DataType:
        is_not = self._next.word == "NOT"
        if is_not:
            self._take()
        if self._next.word != "NULL":
            raise self._wrong(f"NOT NULL, NULL or COMMENT expected for column {path!r}, found {self._found()}")
        self._take()
        return kind.with_nullable(not is_not)

    def _type(self, path: str, depth: int) -> DataType:
        check_depth(depth)
        token = self._take()
        if token.kind is not TokenKind.WORD:
            raise self._wrong(f"the type of column {path!r} expected, found {self._found(token)}")
        match token.word:
            case "ARRAY" | "MULTISET":
                self._expect("<", path)
                element = self._inner(f"{path}.element", depth)
                kind = replace(array_of(element), root=TypeRoot(token.word))
            case "MAP":
                self._expect("<", path)
                key = self._inner(f"{path}.key", depth)
                self._expect(",", path)
                kind = map_of(key, self._inner(f"{path}.value", depth))
            case "STRUCT" | "ROW":
                self._expect("<", path)
                kind = row_of(self._fields(f"{path}.", depth + 1))
            case _:
                return self._atomic(token, path)
        self._expect(">", path)
        return kind

    def _atomic(self, token: Token, path: str) -> DataType:
        word = _OF_SPARK.get(token.word, token.word)
        digits = self._digits(path)
        zone = self._zone(path) if token.word == "TIMESTAMP" else ""
        if not digits and word in _LENGTH_NEEDED:
            raise self._wrong(
                f"column {path!r} is {token.text} without a length; write {token.text}(20), or {_LENGTH_NEEDED[word]} "
                "for any length"
            )
        written = f"{word}{digits}{zone}"
        if not digits and not zone:
            written = _WITHOUT_DIGITS.get(token.word, written)
        try:
            return parse_type(written)
        except LakelogError as error:
            raise type(error)(f"schema: column {path!r}: {error}") from error

    def _digits(self, path: str) -> str:
        if not self._accepts("("):
            return ""
        numbers = [self._number(path)]
        while self._accepts(","):
            numbers.append(self._number(path))
        self._expect(")", path)
        return f"({', '.join(numbers)})"

    def _number(self, path: str) -> str:
        token = self._take()
        if token.kind is not TokenKind.NUMBER:
            raise self._wrong(f"a number expected in the type of column {path!r}, found {self._found(token)}")
        return token.text

    def _zone(self, path: str) -> str:
        """The part of a TIMESTAMP type that names its time zone, with a blank before it."""
        for zone in _ZONES:
            first, *rest = zone.split()
            if self._next.word == first:
                self._take()
                for word in rest:
                    if self._take().word != word:
                        raise self._wrong(f"column {path!r} has TIMESTAMP {first}, expected TIMESTAMP {zone}")
                return f" {zone}"
        return ""

    def _take(self) -> Token:
        token, self._next = self._next, next(self._tokens)
        return token

    def _accepts(self, sign: str) -> bool:
        if self._next.kind is TokenKind.SIGN and self._next.text == sign:
            self._take()
            return True
        return False

    def _expect(self, sign: str, path: str) -> None:
        if not self._accepts(sign):
            raise self._wrong(f"{sign!r} expected in the type of column {path!r}, found {self._found()}")

    def _found(self, token: Token | None = None) -> str:
        token = token or self._next
        return repr(cut(self._text[token.start :])) if token.text else "the end"

    def _wrong(self, why: str) -> InvalidRequestError:
        return InvalidRequestError(f"schema {shown(self._text)} is not a list of columns: {why}; {_FORM}")
