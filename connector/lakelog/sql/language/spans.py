"""Places of expressions in the text of their statement, by which they are written as they were read.

What a statement changes in a part of a text, such as the name of a table, is changed in the tree, and noted as an edit
of the text beside it: a part whose place is known is written with its edits, other parts by sqlglot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakelog.common.quoting import quoted

_SPAN, _EDITS = "span", "edits"
ExprT = TypeVar("ExprT", bound=exp.Expr)


class _Shared:
    """A value that copies of a tree share."""

    def __deepcopy__(self, _: dict[int, Any]) -> Any:
        return self


class Source(_Shared):
    """A text of a statement, and the edits that all of its parts need: DuckDB does not know backticks."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.edits = [
            Edit(self, token.start, token.end + 1, quoted(token.text))
            for token in tokens
            if token.token_type is TokenType.IDENTIFIER and text[token.start] == "`"
        ]


_NO_SOURCE = Source("", ())


@dataclass(frozen=True, slots=True)
class Span(_Shared):
    """A part of a text."""

    source: Source
    start: int
    end: int  # exclusive

    def holds(self, edit: Edit) -> bool:
        """Whether an edit is one of this part."""
        return edit.source is self.source and self.start <= edit.start and edit.end <= self.end


@dataclass(frozen=True, slots=True)
class Edit(_Shared):
    """What stands in place of a part of a text."""

    source: Source
    start: int
    end: int  # exclusive
    text: str


def note_span(node: exp.Expr, span: Span) -> None:
    """Note the place of an expression."""
    node.meta[_SPAN] = span


def span_of(node: exp.Expr) -> Span | None:
    """The place of an expression; None if it is not from a text."""
    found: Span | None = node.meta.get(_SPAN)
    return found


def name_span(given: exp.Table | exp.Column) -> tuple[int, int] | None:
    """Where the parts of a name begin and end; None if it is not from a text."""
    first, last = given.parts[0].meta, given.parts[-1].meta
    return (first["start"], last["end"] + 1) if "start" in first and "end" in last else None


def source_of(node: exp.Expr) -> Source:
    """The text that a node, whose names have places, is from."""
    above: exp.Expr | None = node
    while above is not None:
        found = span_of(above)
        if found is not None:
            return found.source
        above = above.parent
    return _NO_SOURCE


def note_edits(node: exp.Expr, *edits: Edit) -> None:
    """Note edits of the text around a node, which the tree has already."""
    node.meta[_EDITS] = [*node.meta.get(_EDITS, ()), *edits]


def replaced(node: exp.Expr, made: exp.Expr, text: str) -> None:
    """Put an expression in place of one, which stands in the text as `text`."""
    span = span_of(node)
    if node.meta.get(_EDITS):
        note_edits(made, *node.meta[_EDITS])
    if span is not None:
        note_edits(made, Edit(span.source, span.start, span.end, text))
    node.replace(made)


def rebuilt(node: ExprT) -> ExprT:
    """The expression, whose own words are changed: its parts alone are written as they were read."""
    node.meta.pop(_SPAN, None)
    return node


def without_spans(node: ExprT) -> ExprT:
    """A copy that sqlglot writes, not as it was read."""
    made = node.copy()
    for one in made.walk():
        rebuilt(one)
    return made


def written(node: exp.Expr) -> str | None:
    """The text of an expression with its edits; None if it is not from a text."""
    span = span_of(node) if node._meta else None
    if span is None:
        return None
    edits = [edit for one in node.walk() if one._meta for edit in one.meta.get(_EDITS, ()) if span.holds(edit)]
    edits += (edit for edit in span.source.edits if span.holds(edit))  # of two at one place the first is taken
    parts: list[str] = []
    end = span.start
    for edit in sorted(edits, key=lambda one: (one.start, -one.end)):
        if edit.start >= end:
            parts += (span.source.text[end : edit.start], edit.text)
            end = edit.end
    return "".join([*parts, span.source.text[end : span.end]])
