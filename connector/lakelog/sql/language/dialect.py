"""Spark's SQL as sqlglot reads it, with what tables have here: named states, changes, options.

    table    name [version] [changes] [WITH (key = value, ...)] | name /*+ OPTIONS('key'='value', ...) */
    version  [FOR] VERSION | TIMESTAMP | SYSTEM_VERSION | SYSTEM_TIME AS OF value
    columns  ... | WATERMARK FOR name AS expression
    changes  CHANGES FROM VERSION | TIMESTAMP value [INCLUSIVE | EXCLUSIVE] [TO VERSION | TIMESTAMP value [...]]

Source: Spark, SqlBaseParser.g4; FLIP-188, for SYSTEM_TIME and WATERMARK.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar  # Any: sqlglot's arguments of expressions

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

PLACE = "place"  # of a parameter, in the text of its statement
LISTED = "list"  # the list of values that a parameter stands for, see `lakelog.sql.language.bounds`
_HINT = "/*+"
_PAIR = re.compile(r"'([^']*)'\s*=\s*'([^']*)'")
_OPTIONS_HINT = re.compile(rf"\s*OPTIONS\s*\(\s*({_PAIR.pattern}(?:\s*,\s*{_PAIR.pattern})*)\s*\)\s*", re.IGNORECASE)
_TIMES = ("TIMESTAMP", "SYSTEM_TIME")
_VERSIONS = ("VERSION", "SYSTEM_VERSION")


# What follows the type of a column.
_WORDS = ", ) ; NOT NULL COMMENT DEFAULT PRIMARY GENERATED AS FIRST AFTER CONSTRAINT UNIQUE CHECK REFERENCES"
_BEHIND_TYPES = frozenset(_WORDS.split())


class TableClauses(exp.Expression):
    """What a statement says behind the name of a table."""

    arg_types: ClassVar[dict[str, bool]] = {"version": False, "changes": False, "options": False}


class ChangesClause(exp.Expression):
    """A range of changes. `this` is VERSION or TIMESTAMP; `expression` is the first end, `to` the last one."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "excludes_first": False,
        "to": False,
        "excludes_last": False,
    }


class WatermarkClause(exp.Expression):
    """WATERMARK FOR column AS expression."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


def _parse_mark(parser: SparkParser) -> exp.Placeholder:
    """A `?`, with the place of its sign in the text."""
    found = parser.expression(exp.Placeholder())
    found.meta[PLACE] = parser._prev.start
    return found


class _Parser(SparkParser):
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.PLACEHOLDER_PARSERS,
        TokenType.PLACEHOLDER: _parse_mark,
    }
    _is_type_next = False
    _is_target_next = False

    def _warn_unsupported(self) -> None:
        """Nothing: a statement that is left as text is read by `lakelog.sql.statements.calls`, or refused."""

    def _parse_table_parts_fast(self) -> None:
        """Nothing: the short way does not look at what stands behind a name."""

    def _parse_field_def(self) -> exp.Expr | None:
        if self._match_text_seq("WATERMARK", "FOR"):
            column = self._parse_id_var()
            self._match(TokenType.ALIAS)
            return self.expression(WatermarkClause(this=column, expression=self._parse_assignment()))
        self._is_type_next = True
        try:
            return super()._parse_field_def()
        finally:
            self._is_type_next = False

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        """A type; that of a column as its text, which `lakelog.catalog.columns.ddl` reads: sqlglot loses digits."""
        if schema and self._is_type_next:
            self._is_type_next = False
            return self._type_text()
        return super()._parse_types(check_func, schema, allow_identifiers, with_collation)

    def _type_text(self) -> exp.DataType | None:
        first, depth = self._curr, 0
        while self._curr and (depth or not self._ends_type()):
            depth += sum(self._curr.text.count(sign) for sign in "(<") - sum(
                self._curr.text.count(sign) for sign in ")>"
            )
            self._advance()
        if self._curr is first:
            return None
        return exp.DataType(this=exp.DType.USERDEFINED, kind=self.sql[first.start : self._prev.end + 1])

    def _ends_type(self) -> bool:
        return self._curr.text.upper() in _BEHIND_TYPES

    def _parse_insert_table(self) -> exp.Expr | None:
        self._is_target_next = True
        try:
            return super()._parse_insert_table()
        finally:
            self._is_target_next = False

    def _parse_table_parts(self, *given: Any, **words: Any) -> exp.Table | exp.Dot | None:
        is_target, self._is_target_next = self._is_target_next, False
        table = super()._parse_table_parts(*given, **words)
        options = self._options() if is_target and isinstance(table, exp.Table) else None
        if table is not None and options is not None:
            table.set("version", self.expression(TableClauses(options=options)))
        return table

    def _parse_version(self) -> Any:  # sqlglot sets what it returns as an argument of the table
        version, changes, options = self._version(), self._changes(), self._options()
        if version is None and changes is None and options is None:
            return None
        return self.expression(TableClauses(version=version, changes=changes, options=options))

    def _version(self) -> exp.Version | None:
        index = self._index
        self._match(TokenType.FOR)
        for word in (*_TIMES, *_VERSIONS):
            if self._match_text_seq(word, "AS", "OF"):
                kind = "TIMESTAMP" if word in _TIMES else "VERSION"
                return self.expression(exp.Version(this=kind, expression=self._parse_bitwise(), kind="AS OF"))
        found = super()._parse_version()  # one token in sqlglot, TIMESTAMP AS OF as well
        if found is None:
            self._retreat(index)
        return found

    def _changes(self) -> ChangesClause | None:
        if not self._match_text_seq("CHANGES", "FROM"):
            return None
        kind = self._kind()
        first, excludes_first = self._end()
        to, excludes_last = None, False
        if self._match_text_seq("TO"):
            if self._kind() != kind:
                self.raise_error(f"CHANGES FROM {kind} ends with TO {kind}")
            to, excludes_last = self._end()
        return self.expression(
            ChangesClause(
                this=kind, expression=first, excludes_first=excludes_first, to=to, excludes_last=excludes_last
            )
        )

    def _kind(self) -> str:
        for words, kind in (((*_VERSIONS,), "VERSION"), ((*_TIMES,), "TIMESTAMP")):
            if any(self._match_text_seq(word) for word in words):
                return kind
        self.raise_error("VERSION or TIMESTAMP expected")
        return "VERSION"

    def _end(self) -> tuple[exp.Expr | None, bool]:
        value = self._parse_bitwise()
        excludes = bool(self._match_text_seq("EXCLUSIVE"))
        if not excludes:
            self._match_text_seq("INCLUSIVE")
        return value, excludes

    def _options(self) -> list[Any] | None:
        behind = self.sql[self._prev.end + 1 :].lstrip()
        if behind.startswith(_HINT):
            hint = _OPTIONS_HINT.fullmatch(behind[len(_HINT) : behind.index("*/")])
            if hint is None:
                self.raise_error("/*+ OPTIONS('key'='value', ...) */ expected behind a table")
            pairs = _PAIR.findall("" if hint is None else hint[1])
            return [exp.EQ(this=exp.Literal.string(key), expression=exp.Literal.string(value)) for key, value in pairs]
        if self._match_pair(TokenType.WITH, TokenType.L_PAREN, advance=False):
            self._advance()
            return list(self._parse_wrapped_csv(self._parse_assignment))
        return None


def _clauses_sql(self: SparkGenerator, given: TableClauses) -> str:
    version, changes, options = (given.args.get(name) for name in ("version", "changes", "options"))
    found = []
    if version is not None:
        found.append(f"{version.name} AS OF {self.sql(version, 'expression')}")
    if changes is not None:
        found.append(self.sql(changes))
    if options:
        found.append(f"WITH ({self.expressions(given, key='options', flat=True)})")
    return " ".join(found)


def _changes_sql(self: SparkGenerator, given: ChangesClause) -> str:
    text = f"CHANGES FROM {given.name} {self.sql(given, 'expression')}"
    if given.args["excludes_first"]:
        text += " EXCLUSIVE"
    if given.args.get("to") is not None:
        text += f" TO {given.name} {self.sql(given, 'to')}"
        if given.args["excludes_last"]:
            text += " EXCLUSIVE"
    return text


def _parameter_sql(self: SparkGenerator, given: exp.Placeholder) -> str:
    listed = given.meta.get(LISTED)
    return self.placeholder_sql(given) if listed is None else str(listed)


class _Generator(SparkGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkGenerator.TRANSFORMS,
        exp.Placeholder: _parameter_sql,
        TableClauses: _clauses_sql,
        ChangesClause: _changes_sql,
        WatermarkClause: lambda self, given: (
            f"WATERMARK FOR {self.sql(given, 'this')} AS {self.sql(given, 'expression')}"
        ),
    }


class LakelogDialect(Spark):
    """The dialect of `lakelog.sql`."""

    class Tokenizer(Spark.Tokenizer):
        """Names may have `$` without quotes: `orders$files`."""

        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    Parser = _Parser
    Generator = _Generator
