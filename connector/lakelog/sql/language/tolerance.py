"""Expressions that DuckDB knows and sqlglot does not: they are left as they are written, and DuckDB reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

# What sqlglot raises for a text that it cannot read: a part that is missing is an error of Python there.
UNREADABLE = (ParseError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError)

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_ENDS = (TokenType.COMMA, TokenType.SEMICOLON, *_CLOSING)
_WORDS = """
ALIAS ASC DESC ELSE END EXCEPT FETCH FROM GROUP_BY HAVING INTERSECT JOIN LIMIT OFFSET ORDER_BY QUALIFY RETURNING SELECT
THEN UNION USING WHEN WHERE WINDOW
"""
_CLAUSES = frozenset(TokenType[word] for word in _WORDS.split())
_OPERATOR = re.compile(r"[-+*/%<>=!~@#&|^]+")  # no expression ends in front of one
_NOT_OPERATORS = ("=>", "->")  # of arguments with names, and of lambdas


class Unread(exp.Expression):
    """An expression as its text; `expressions` are the columns that it may name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class TolerantParser(DuckDBParser):
    """A parser that may leave expressions unread. A query in such an expression is none: its tables must be known."""

    is_tolerant = False

    def _parse_disjunction(self) -> exp.Expr | None:
        if not self.is_tolerant:
            return super()._parse_disjunction()
        index = self._index
        try:
            found = super()._parse_disjunction()
        except UNREADABLE:
            return self._unread(index)
        is_read = self._curr.text in _NOT_OPERATORS or not _OPERATOR.fullmatch(self._curr.text)
        return found if is_read else self._unread(index)

    def _unread(self, index: int) -> exp.Expr | None:
        """The text from a token to the end of the expression. Raises ParseError for none, and for one with a query."""
        self._retreat(index)
        first, depth = self._curr, 0
        read: list[Token] = []
        while self._curr and (depth or not self._ends()):
            depth += (self._curr.token_type in _OPENING) - (self._curr.token_type in _CLOSING)
            read.append(self._curr)
            self._advance()
        if not read or any(token.token_type is TokenType.SELECT for token in read):
            self.raise_error("an expression expected")
        text = self.sql[first.start : self._prev.end + 1]
        return self.expression(Unread(this=text, expressions=[*_columns(read)]))

    def _ends(self) -> bool:
        return self._curr.token_type in _ENDS or self._curr.token_type in _CLAUSES


def _columns(tokens: Sequence[Token]) -> Iterator[exp.Column]:
    """Each name that may be one of a column, with those of its table before it."""
    chain: list[Token] = []
    for before, token in zip([None, *tokens], [*tokens, None], strict=True):
        if token is not None and token.token_type in _NAMES:
            is_field = before is not None and before.token_type is TokenType.DOT
            if not is_field:
                yield from _column(chain)
                chain = []
            chain.append(token)
        elif token is None or token.token_type is not TokenType.DOT:
            is_call = token is not None and token.token_type is TokenType.L_PAREN and before in chain[-1:]
            yield from _column(chain[:-1] if is_call else chain)
            chain = []


def _column(chain: Sequence[Token]) -> Iterator[exp.Column]:
    names = [exp.to_identifier(one.text, quoted=one.token_type is TokenType.IDENTIFIER) for one in chain[:4]]
    for name, token in zip(names, chain, strict=False):
        name.update_positions(token)
    if names:
        yield exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(names), strict=False)))
