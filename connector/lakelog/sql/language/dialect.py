"""DuckDB's SQL as sqlglot reads it, with what tables have here: named states, changes, options, statements of Spark.

    table    name [version] [changes] [WITH (key = value, ...)] | name /*+ OPTIONS('key'='value', ...) */
    version  [FOR] VERSION | TIMESTAMP | SYSTEM_VERSION | SYSTEM_TIME AS OF value | AT (VERSION | TIMESTAMP => value)
    columns  ... | WATERMARK FOR name AS expression
    changes  CHANGES FROM VERSION | TIMESTAMP value [INCLUSIVE | EXCLUSIVE] [TO VERSION | TIMESTAMP value [...]]

Queries and expressions are written as they were read, see `lakelog.sql.language.spans`.

Source: DuckDB, "SQL Introduction"; Spark, SqlBaseParser.g4, for ALTER TABLE; FLIP-188, for SYSTEM_TIME and WATERMARK.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, TypeVar  # Any: sqlglot's arguments of expressions

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parser import Parser
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.parsers.hive import HiveParser
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from lakelog.sql.language.spans import Source, Span, note_span
from lakelog.sql.language.tolerance import TolerantParser
from lakelog.sql.language.writers import ChangesClause, QueryGenerator, TableClauses, WatermarkClause, WholeGenerator

PLACE = "place"  # of a parameter, in the text of its statement
FILE = "file"  # of a table that is named by a string
BY_NAME = "by name"  # of a star of a MERGE: the columns that the source has
BY_POSITION = "by position"  # of a star of a MERGE: the columns of the source in the order of the table
_ACTIONS = (TokenType.INSERT, TokenType.UPDATE)
_BEHIND_PIVOT = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)
_HINT = "/*+"
_PAIR = re.compile(r"'([^']*)'\s*=\s*'([^']*)'")
_OPTIONS_HINT = re.compile(rf"\s*OPTIONS\s*\(\s*({_PAIR.pattern}(?:\s*,\s*{_PAIR.pattern})*)\s*\)\s*", re.IGNORECASE)
_TIMES = ("TIMESTAMP", "SYSTEM_TIME")
_VERSIONS = ("VERSION", "SYSTEM_VERSION")


# What follows the type of a column.
_TYPE = "TYPE"
_WORDS = (
    ", ) ; NOT NULL USING COLLATE COMMENT DEFAULT PRIMARY GENERATED AS FIRST AFTER CONSTRAINT UNIQUE CHECK REFERENCES"
)
_BEHIND_TYPES = frozenset(_WORDS.split())


def _parse_mark(parser: DuckDBParser) -> exp.Placeholder:
    """A `?`, with the place of its sign in the text."""
    found = parser.expression(exp.Placeholder())
    found.meta[PLACE] = parser._prev.start
    return found


Found = TypeVar("Found")


class _Parser(TolerantParser):
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        **DuckDBParser.PLACEHOLDER_PARSERS,
        TokenType.PLACEHOLDER: _parse_mark,
    }
    ALTER_PARSERS: ClassVar[dict[str, Any]] = {
        **DuckDBParser.ALTER_PARSERS,
        "CHANGE": lambda self: self._parse_change(),
    }
    ALTER_TABLE_PARTITIONS = True
    STATEMENT_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: parse for kind, parse in DuckDBParser.STATEMENT_PARSERS.items() if kind is not TokenType.SHOW
    }
    CHANGE_COLUMN_ALTER_SYNTAX = True
    _is_type_next = False
    _is_target_next = False
    _source: Source | None = None

    def reset(self) -> None:
        """Forget the text before."""
        super().reset()
        self._source = None

    def _noted(self, first: Any, found: Found) -> Found:
        """An expression, with its place in the text, which begins with a token."""
        if isinstance(found, exp.Expr):
            if self._source is None:
                self._source = Source(self.sql, self._tokens)
            note_span(found, Span(self._source, first.start, self._prev.end + 1))
        return found

    def _parse_expression(self) -> exp.Expr | None:
        first, is_query = self._curr, self._curr.token_type is TokenType.SELECT  # SELECT :name is no alias
        return self._noted(first, Parser._parse_expression(self) if is_query else super()._parse_expression())

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._noted(self._curr, super()._parse_disjunction())

    def _parse_select_query(self, *given: Any, **words: Any) -> exp.Expr | None:
        return self._noted(self._curr, super()._parse_select_query(*given, **words))

    def _parse_placeholder(self) -> exp.Expr | None:
        return self._noted(self._curr, super()._parse_placeholder())

    def _parse_statement(self) -> exp.Expr | None:
        first, found = self._curr, super()._parse_statement()
        is_duckdbs = isinstance(found, exp.Query | exp.Summarize | exp.Pivot | exp.Copy)
        return self._noted(first, found) if is_duckdbs else found

    def _parse_historical_data(self) -> exp.HistoricalData | None:
        return self._noted(self._curr, super()._parse_historical_data())

    def _parse_change(self) -> exp.Expr | None:
        """Spark's CHANGE COLUMN name name type."""
        self._is_type_next = True
        try:
            parse: Any = HiveParser._parse_alter_table_change  # it takes any parser
            found: exp.Expr | None = parse(self)
            return found
        finally:
            self._is_type_next = False

    def _parse_drop_column(self) -> exp.Drop | exp.Command | None:
        """Spark's DROP COLUMNS (a, b) as well."""
        if not self._match_text_seq("DROP", "COLUMNS"):
            return super()._parse_drop_column()
        exists = self._parse_exists()
        columns = self._parse_wrapped_csv(self._parse_field_def, optional=True)
        return self.expression(exp.Drop(kind="COLUMNS", tables=[exp.Schema(expressions=columns)], exists=exists))

    def _warn_unsupported(self) -> None:
        """Nothing: a statement that is left as text is read by `lakelog.sql.statements.calls`, or refused."""

    def _parse_table_parts_fast(self) -> None:
        """Nothing: the short way does not look at what stands behind a name."""

    def _parse_field_def(self) -> exp.Expr | None:
        if self._match_text_seq("WATERMARK", "FOR"):
            column = self._parse_id_var()
            self._match(TokenType.ALIAS)
            return self.expression(WatermarkClause(this=column, expression=self._parse_assignment()))
        column = self._parse_column_ops(self._parse_field(any_token=True))  # a field of a struct has dots
        self._is_type_next = True
        try:
            return self._parse_column_def(column)
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
        if (schema and self._is_type_next) or self._prev.text.upper() == _TYPE:
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
        return self._curr.text.upper().partition(" ")[0] in _BEHIND_TYPES  # PRIMARY KEY is one word of sqlglot

    def _parse_star(self) -> Any:  # what sqlglot sets as an argument of the action
        """BY NAME and BY POSITION of an action of a MERGE as well: a star that takes the columns of the source."""
        action = self._prev.token_type if self._prev else None
        star: exp.Expr | None = None
        for word, mark in (("NAME", BY_NAME), ("POSITION", BY_POSITION)):
            if star is None and action in _ACTIONS and self._match_text_seq("BY", word):
                star = exp.Star()
                star.meta[mark] = True
                if action is TokenType.INSERT:
                    super()._parse_star()
        star = super()._parse_star() if star is None else star
        return [star] if star and action is TokenType.UPDATE else star

    def _parse_simplified_pivot(self, is_unpivot: bool | None = None) -> exp.Pivot:
        """DuckDB's statement PIVOT or UNPIVOT, with the order of its rows as well."""
        found = super()._parse_simplified_pivot(is_unpivot)
        while self._curr.token_type in _BEHIND_PIVOT:
            parse: Any = self.QUERY_MODIFIER_PARSERS[self._curr.token_type]
            key, modifier = parse(self)
            found.set(key, modifier)
        return found

    def _parse_insert_table(self) -> exp.Expr | None:
        self._is_target_next = True
        try:
            found = super()._parse_insert_table()
        finally:
            self._is_target_next = False
        self._match_text_seq("BY", "POSITION")  # as without it
        return found

    def _parse_table_parts(self, *given: Any, **words: Any) -> exp.Table | exp.Dot | None:
        is_target, self._is_target_next = self._is_target_next, False
        is_file = self._curr.token_type is TokenType.STRING
        table = super()._parse_table_parts(*given, **words)
        if table is not None and is_file:
            table.meta[FILE] = True
        options = self._options() if is_target and isinstance(table, exp.Table) else None
        if table is not None and options is not None:
            table.set("version", self.expression(TableClauses(options=options)))
        return table

    def _parse_version(self) -> Any:  # sqlglot sets what it returns as an argument of the table
        first, index = self._curr, self._index
        version, changes, options = self._version(), self._changes(), self._options()
        if version is None and changes is None and options is None:
            return None
        clauses = TableClauses(version=version, changes=changes, options=options)
        return clauses if self._index == index else self._noted(first, clauses)  # a hint is a comment

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


class LakelogDialect(DuckDB):
    """The dialect of `lakelog.sql`."""

    class Tokenizer(DuckDB.Tokenizer):
        """Names may be in backticks, and have `$` without quotes: `orders$files`."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
        COMMANDS = Tokenizer.COMMANDS
        KEYWORDS: ClassVar[dict[str, Any]] = {**DuckDB.Tokenizer.KEYWORDS, "REFRESH": TokenType.REFRESH}

    Parser = _Parser
    Generator: Any = QueryGenerator


class WholeDialect(LakelogDialect):
    """The dialect as it is written with all words that statements of tables may have, which DuckDB does not know."""

    Generator: Any = WholeGenerator
