"""Row filters from Spark SQL text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import sqlglot
from sqlglot import exp

from lakelog.common.errors import InvalidRequestError
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
)

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: Comparison.EQ,
    exp.NEQ: Comparison.NE,
    exp.LT: Comparison.LT,
    exp.LTE: Comparison.LE,
    exp.GT: Comparison.GT,
    exp.GTE: Comparison.GE,
}
_NEGATED = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.GE: Comparison.LT,
    Comparison.GT: Comparison.LE,
    Comparison.LE: Comparison.GT,
}
_FLIPPED = {
    Comparison.LT: Comparison.GT,
    Comparison.GT: Comparison.LT,
    Comparison.LE: Comparison.GE,
    Comparison.GE: Comparison.LE,
}
_MOMENTS = {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"}
_NUMBERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
_FORMS = "=, <>, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS NULL, AND, OR and NOT over columns and literals"


def parse(text: str, *, zone: str) -> Predicate:
    """The filter that `text` says. Raises InvalidRequestError, quoting what is not understood."""
    try:
        parsed = sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidRequestError(f"the filter {text!r} is not a SQL condition; use {_FORMS}") from error
    return _Reader(text, zone).condition(parsed, negated=False)


class _Reader:
    def __init__(self, text: str, zone: str) -> None:
        self._text = text
        self._zone = zone

    def condition(self, node: exp.Expr, *, negated: bool) -> Predicate:
        """The tree of a condition, or of its negation: De Morgan's laws hold with nulls too."""
        if isinstance(node, exp.Paren):
            return self.condition(node.this, negated=negated)
        if isinstance(node, exp.Not):
            return self.condition(node.this, negated=not negated)
        if isinstance(node, exp.And | exp.Or):
            parts = tuple(self.condition(side, negated=negated) for side in (node.left, node.right))
            return And(parts=parts) if isinstance(node, exp.And) != negated else Or(parts=parts)
        if type(node) in _COMPARISONS:
            return self._compare(node, _COMPARISONS[type(node)], negated)
        forms: dict[type[exp.Expr], Callable[[exp.Expr, bool], Predicate]] = {
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.Like: self._like,
            exp.Escape: self._like,
            exp.NullSafeEQ: self._null_safe,
            exp.Column: self._flag,
            exp.Boolean: self._constant,
            exp.Null: self._constant,
        }
        if type(node) not in forms:
            raise self._refused(node)
        return forms[type(node)](node, negated)

    def _compare(self, node: exp.Expr, operator: Comparison, negated: bool) -> Predicate:
        left, right = _bare(node.args["this"]), _bare(node.args["expression"])
        if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
        operator = _NEGATED[operator] if negated else operator
        return Compare(column=self._column(left), operator=operator, literal=self._literal(right))

    def _between(self, node: exp.Expr, negated: bool) -> Predicate:
        column = self._column(_bare(node.this))
        low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
        if negated:
            below = Compare(column=column, operator=Comparison.LT, literal=low)
            return Or(parts=(below, Compare(column=column, operator=Comparison.GT, literal=high)))
        least = Compare(column=column, operator=Comparison.GE, literal=low)
        return And(parts=(least, Compare(column=column, operator=Comparison.LE, literal=high)))

    def _in(self, node: exp.Expr, negated: bool) -> Predicate:
        if not node.expressions or node.args.get("query") is not None:
            raise self._refused(node)
        literals = tuple(self._literal(item) for item in node.expressions)
        return In(column=self._column(_bare(node.this)), literals=literals, is_negated=negated)

    def _is(self, node: exp.Expr, negated: bool) -> Predicate:
        column, what = self._column(_bare(node.this)), node.expression
        if isinstance(what, exp.Null):
            return IsNull(column=column, is_negated=negated)
        if not isinstance(what, exp.Boolean):
            raise self._refused(node)
        holds = Compare(column=column, operator=Comparison.EQ, literal=_boolean(bool(what.this) != negated))
        # IS answers false for a null, never null: that counts under another NOT.
        is_null = IsNull(column=column, is_negated=not negated)
        return Or(parts=(holds, is_null)) if negated else And(parts=(holds, is_null))

    def _like(self, node: exp.Expr, negated: bool) -> Predicate:
        escape = "\\"
        if isinstance(node, exp.Escape):
            escape, node = str(node.expression.this), node.this
        pattern = _bare(node.expression)
        if not isinstance(node, exp.Like) or not pattern.is_string or len(escape) != 1:
            raise self._refused(node)
        is_negated = negated != bool(node.args.get("negate"))
        return Like(
            column=self._column(_bare(node.this)), pattern=str(pattern.this), escape=escape, is_negated=is_negated
        )

    def _null_safe(self, node: exp.Expr, negated: bool) -> Predicate:
        left, right = _bare(node.args["this"]), _bare(node.args["expression"])
        if not isinstance(left, exp.Column):
            left, right = right, left
        column, literal = self._column(left), self._literal(right)
        if literal.value is None:
            return IsNull(column=column, is_negated=negated)
        if negated:
            other = Compare(column=column, operator=Comparison.NE, literal=literal)
            return Or(parts=(other, IsNull(column=column, is_negated=False)))
        equal = Compare(column=column, operator=Comparison.EQ, literal=literal)
        return And(parts=(equal, IsNull(column=column, is_negated=True)))

    def _flag(self, node: exp.Expr, negated: bool) -> Predicate:
        return Compare(column=self._column(node), operator=Comparison.EQ, literal=_boolean(not negated))

    def _constant(self, node: exp.Expr, negated: bool) -> Predicate:
        return Constant(value=bool(node.this) != negated if isinstance(node, exp.Boolean) else None)

    def _column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Column):
            raise self._refused(node)
        if node.table:
            raise InvalidRequestError(
                f"the filter {self._text!r} names {node.sql(dialect='spark')}; filters take whole columns without a "
                "table name (a dot in a column's name needs backticks)"
            )
        return str(node.name)

    def _literal(self, given: exp.Expr) -> Literal:
        node = _bare(given)
        if isinstance(node, exp.Null):
            return Literal(kind=LiteralKind.NULL, value=None)
        if isinstance(node, exp.Boolean):
            return _boolean(bool(node.this))
        if isinstance(node, exp.HexString):
            return Literal(kind=LiteralKind.BYTES, value=bytes.fromhex(str(node.this)))
        if isinstance(node, exp.Concat) and all(part.is_string for part in node.expressions):
            return Literal(
                kind=LiteralKind.TEXT, value="".join(part.this for part in node.expressions), zone=self._zone
            )
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            return self._cast(node)
        if isinstance(node, exp.Neg) or (isinstance(node, exp.Literal) and not node.is_string):
            return self._number(node)
        if isinstance(node, exp.Literal):
            return Literal(kind=LiteralKind.TEXT, value=str(node.this), zone=self._zone)
        raise self._refused(node)

    def _cast(self, node: exp.Cast) -> Literal:
        word = node.to.this.value if isinstance(node.to.this, exp.DataType.Type) else str(node.to)
        if word in _NUMBERS:
            return self._number(node.this)
        if word in _MOMENTS and node.this.is_string:
            text = str(node.this.this)
            return Literal(kind=LiteralKind.MOMENT, value=text[:10] if word == "DATE" else text, zone=self._zone)
        raise self._refused(node)

    def _number(self, node: exp.Expr) -> Literal:
        inner, sign = _bare(node), 1
        while isinstance(inner, exp.Neg):
            inner, sign = _bare(inner.this), -sign
        if isinstance(inner, exp.Cast):
            inner = inner.this
        try:
            return Literal(kind=LiteralKind.NUMBER, value=Decimal(str(inner.this)) * sign)
        except InvalidOperation as error:
            raise self._refused(node) from error

    def _refused(self, node: exp.Expr) -> InvalidRequestError:
        return InvalidRequestError(
            f"the filter {self._text!r} holds {node.sql(dialect='spark')!r}, which filters cannot hold; use {_FORMS}"
        )


def _bare(node: exp.Expr) -> exp.Expr:
    """The expression without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _boolean(value: bool) -> Literal:
    return Literal(kind=LiteralKind.BOOLEAN, value=value)
