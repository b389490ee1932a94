"""Texts as statements: sqlglot reads them, and what it drops in silence is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any  # Any: the parser of a dialect

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.errors import UnsupportedError as UnsupportedBySqlglot
from sqlglot.tokenizer_core import Token, TokenType

from lakelog.common.errors import InvalidRequestError, LakelogError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.bounds import LIST_NAME, deep_stack, scanned, too_deep
from lakelog.sql.language.dialect import PLACE, LakelogDialect, WholeDialect
from lakelog.sql.language.spans import replaced
from lakelog.sql.language.taken import check_node, check_taken
from lakelog.sql.language.tolerance import UNREADABLE
from lakelog.sql.language.writers import LISTED

_VALUES = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)
_MISSING = re.compile(r"Required keyword: .*?>(?=\.)")
_TOKEN = re.compile(r"<Token token_type: .*?, text: (.*?), line: .*?>")
_REPLACE = re.compile(r"\s*REPLACE\s+TABLE\b", re.IGNORECASE)  # which sqlglot reads behind CREATE OR alone
_NULLS = "NULLS"
# Words that are read and not written: the first two as VERSION and TIMESTAMP, BY NAME and BY POSITION as a star.
_OTHER_WORDS = ("SYSTEM_VERSION", "SYSTEM_TIME", "BY", "NAME", "POSITION", "TARGET", "CHANGE", "ENFORCED", "IF", _NULLS)


def parsed(text: str) -> list[exp.Expr]:
    """The statements of a text. Raises InvalidRequestError for what is not SQL, UnsupportedError for a dropped part."""
    text = _REPLACE.sub("CREATE OR REPLACE TABLE", text, count=1) if _REPLACE.match(text) else text
    given = scanned(text)
    with deep_stack():
        try:
            found = _read(given.text)
            if given.lists and not _have_lists(found, given.lists):
                found = _read(text)  # of which a part stays a text, with its lists
        except RecursionError as error:
            raise too_deep(text) from error
    return found


def parsed_one(text: str) -> exp.Expr:
    """The statement of a text. Raises as `parsed`, and InvalidRequestError for none or several."""
    found = parsed(text)
    if len(found) != 1:
        raise InvalidRequestError(f"{shown(text)} has {len(found)} statements: give one")
    return found[0]


def table_named(text: str) -> exp.Table:
    """The table that a text names. Raises InvalidRequestError."""
    with by_sqlglot(text):
        table = exp.to_table(text, dialect=LakelogDialect)
    check_node(table)
    return table


@contextmanager
def by_sqlglot(text: str) -> Iterator[None]:
    """Raise InvalidRequestError in place of errors of Python for what sqlglot cannot read or write."""
    try:
        yield
    except (ParseError, TokenError) as error:
        raise InvalidRequestError(f"{shown(text)} is not a statement: {_first_line(error)}") from error
    except UnsupportedBySqlglot as error:
        raise UnsupportedError(f"{shown(text)}: {_first_line(error)}") from error
    except UNREADABLE as error:
        raise InvalidRequestError(f"{shown(text)} is not a statement: a part of it is missing") from error


def _read(text: str) -> list[exp.Expr]:
    with by_sqlglot(text):
        tokens = LakelogDialect().tokenize(text)
        try:
            found = _parsed_by(tokens, text)
        except UNREADABLE:
            found = _left_unread(tokens, text)
            if not found:
                raise
    for one in found:
        for update in one.find_all(exp.Update):
            _assign_singly(text, update)
        _check_shape(text, one)
        check_taken(one)
    if not all(isinstance(one, exp.Command) for one in found):
        _check_whole(text, tokens, found)
    return found


def _parsed_by(tokens: list[Token], text: str, *, is_tolerant: bool = False) -> list[exp.Expr]:
    parser: Any = LakelogDialect().parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
    parser.is_tolerant = is_tolerant
    return [one for one in parser.parse(tokens, text) if one is not None]


def _left_unread(tokens: list[Token], text: str) -> list[exp.Expr]:
    """The statements with expressions that DuckDB alone can read; none if another part of the text is wrong."""
    try:
        found = _parsed_by(tokens, text, is_tolerant=True)
    except UNREADABLE:
        return []
    return found if all(isinstance(one, _OF_DUCKDB) or _is_of_query(one) for one in found) else []


def _is_of_query(statement: exp.Expr) -> bool:
    return isinstance(statement, exp.Create) and statement.expression is not None


_OF_DUCKDB = (exp.Query, exp.Values, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Pivot)  # it runs their parts
_NEEDED = {exp.Version: "expression", exp.Property: "value", exp.ColumnPosition: "position"}


def _assign_singly(text: str, update: exp.Update) -> None:
    """SET (a, b) = (x, y) as a = x, b = y, and (a, b) = x as a = x, b = x, as DuckDB reads it. Raises as `parsed`."""
    given = update.args.get("expressions")
    made: list[exp.Expr] = []
    for one in given if isinstance(given, list) else []:
        if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Tuple | exp.Paren):
            made.append(one)
            continue
        columns = one.this.expressions if isinstance(one.this, exp.Tuple) else [one.this.this]
        values = one.expression
        is_row = isinstance(values, exp.Tuple) or (isinstance(values, exp.Anonymous) and values.name.upper() == "ROW")
        if isinstance(values, exp.Subquery) and len(values.this.expressions) > 1:
            raise UnsupportedError(
                f"{shown(text)}: a query in SET gives one value, not {len(values.this.expressions)}; write UPDATE ... "
                "SET a = s.a, b = s.b FROM (query) AS s"
            )
        each = values.expressions if is_row else [values.copy() for _ in columns]
        if len(each) != len(columns):
            raise InvalidRequestError(f"{shown(text)}: SET has {len(columns)} columns and {len(each)} values")
        made += [exp.EQ(this=column, expression=value) for column, value in zip(columns, each, strict=True)]
    if made:
        update.set("expressions", made)


def _check_shape(text: str, statement: exp.Expr) -> None:
    """Raise InvalidRequestError for a part that the grammar needs and sqlglot does without."""
    for one in statement.find_all(*_NEEDED):
        needed = _NEEDED.get(type(one))
        if needed is not None and one.args.get(needed) is None:
            raise InvalidRequestError(f"{shown(text)} is not a statement: {one.key} lacks its {needed}")
    for one in statement.find_all(exp.Lock):
        raise UnsupportedError(f"{shown(text)}: {one.sql(dialect='postgres')} has no meaning: a query locks nothing")
    for one in statement.find_all(exp.Update):
        given = one.args.get("expressions")
        for assigned in given if isinstance(given, list) else []:
            is_pair = isinstance(assigned, exp.EQ) and isinstance(assigned.this, exp.Column | exp.Dot)
            if not is_pair and not isinstance(assigned, exp.Star):
                raise InvalidRequestError(f"{shown(text)}: {shown(assigned.sql())} is not column = value")


def _have_lists(statements: list[exp.Expr], lists: Sequence[str]) -> bool:
    """Give the parameters of lists their values; returns whether all of them are there."""
    places = {place.name: place for one in statements for place in one.find_all(exp.Placeholder)}
    names = [f"{LIST_NAME}{number}" for number in range(len(lists))]
    for name, values in zip(names, lists, strict=True):
        if name in places:
            places[name].meta[LISTED] = values
    return places.keys() >= set(names)


def bound(statement: exp.Expr, parameters: Sequence[object] | Mapping[str, object] | None) -> exp.Expr:
    """The statement with values in place of its parameters: those of `?` in the order of the text.

    Raises InvalidRequestError for a parameter without a value, and for a value without a parameter.
    """
    places = [place for place in statement.find_all(exp.Placeholder) if LISTED not in place.meta]
    marks = sorted({place.meta[PLACE] for place in places if PLACE in place.meta})
    named = parameters if isinstance(parameters, Mapping) else {}
    given = [] if isinstance(parameters, Mapping) or parameters is None else list(parameters)
    if not marks and any(place.name.isdigit() for place in places):
        named, given = {str(number): value for number, value in enumerate(given, start=1)}, []
    if len(given) < len(marks):
        raise InvalidRequestError(f"the statement has more ? than the {len(given)} values given")
    if len(given) > len(marks):
        raise InvalidRequestError(f"the statement has no parameter for {given[len(marks)]!r}")
    numbers = {mark: number for number, mark in enumerate(marks)}
    used: set[str] = set()
    for place in places:
        if PLACE in place.meta:
            value = _value_of(given[numbers[place.meta[PLACE]]])
        elif place.name in named:
            used.add(place.name)
            value = _value_of(named[place.name])
        else:
            raise InvalidRequestError(f"the parameter :{place.name} has no value")
        text = value.sql(dialect=LakelogDialect)
        replaced(place, value, f"({text})" if isinstance(value, exp.Neg) else text)
    left = sorted(set(named) - used)
    if left:
        raise InvalidRequestError(f"the statement has no parameter for {left[0]!r}")
    return statement


def _value_of(value: object) -> exp.Expr:
    if isinstance(value, bytes | bytearray):
        return exp.HexString(this=bytes(value).hex())
    if isinstance(value, float):
        return exp.cast(exp.Literal.string(repr(value)), "DOUBLE")
    if isinstance(value, Decimal):
        digits = exp.Literal(this=format(abs(value), "f"), is_string=False)
        return exp.Neg(this=digits) if value < 0 else digits
    if value is None or isinstance(value, str | bool | int | date):  # a datetime is a date
        return exp.convert(value)
    raise InvalidRequestError(f"a parameter has the value {shown(repr(value))}: expected a string, number or time")


def split_statements(text: str) -> list[str]:
    """The texts of the statements of a script, without their semicolons. Raises InvalidRequestError."""
    given = scanned(text, is_script=True)
    try:
        tokens = LakelogDialect().tokenize(given.text)
    except TokenError as error:
        raise InvalidRequestError(f"{shown(text)} does not end: {_first_line(error)}") from error
    found: list[str] = []
    begin: int | None = None
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if begin is not None:
                found.append(given.whole(given.text[begin : token.start]).strip())
            begin = None
        elif begin is None:
            begin = token.start
    if begin is not None:
        found.append(given.whole(given.text[begin:]).strip())
    return found


def is_destructive(text: str) -> bool:
    """Whether a statement drops a table or a database, or deletes all rows of a table."""
    try:
        statements = parsed(text)
    except LakelogError:  # running it says so
        return False
    return any(
        isinstance(one, exp.Drop | exp.TruncateTable) or (isinstance(one, exp.Delete) and one.args.get("where") is None)
        for one in statements
    )


def literal_of(given: exp.Expr) -> str | int:
    """The value of a literal. Raises UnsupportedError for an expression."""
    plain = given.this if isinstance(given, exp.Cast) else given
    if not isinstance(plain, exp.Literal):
        raise UnsupportedError(f"{shown(given.sql())} is not a value: a state is a number or a string")
    if plain.is_string:
        return plain.name
    if not plain.is_int:
        raise InvalidRequestError(f"{plain.name} is not a state: expected a whole number or a string")
    return int(plain.name)


def _check_whole(text: str, tokens: list[Token], found: list[exp.Expr]) -> None:
    """Raise UnsupportedError for names and values of the text that are not in what was read."""
    written = Counter[str]()
    marks = {place.meta.get(PLACE) for one in found for place in one.find_all(exp.Placeholder)}
    for token in tokens:
        if token.token_type is TokenType.PLACEHOLDER and token.start not in marks:
            raise UnsupportedError(f"{shown(text)}: a parameter has no meaning at the ? in line {token.line}")
    for one in found:
        with by_sqlglot(text):
            again = LakelogDialect().tokenize(
                one.sql(dialect=WholeDialect, comments=False, unsupported_level=sqlglot.ErrorLevel.IGNORE)
            )
        written.update(token.text.lower() for token in again)
        written.update(part.name.lower() for part in one.find_all(exp.Literal, exp.Identifier))
    for before, token, behind in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if before is not None and before.text.upper() == _NULLS:
            continue  # FIRST or LAST: the order of nulls that is Spark's anyway is not written again
        is_function = behind is not None and behind.token_type is TokenType.L_PAREN
        is_known = token.text.upper() not in _OTHER_WORDS and (
            token.token_type in _VALUES or (token.token_type is TokenType.VAR and not is_function)
        )
        if is_known and not written[token.text.lower()]:
            raise UnsupportedError(f"{shown(text)}: {token.text!r} in line {token.line} has no meaning here")


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].replace("\x1b[4m", "").replace("\x1b[0m", "")
    line = _TOKEN.sub(lambda found: "the end" if found[1] == "SENTINEL" else repr(found[1]), line)
    return _MISSING.sub("something is missing", line)
