"""Reads as lazy polars frames: polars passes the columns and filters of a query, and only those are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import polars as pl
from polars.io.plugins import register_io_source

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.predicate.tree import Compare, Comparison, IsNull, Literal
from lakelog.filestore.read.engine_filters import joined, literal_of, membership
from lakelog.filestore.read.planned_read import PlannedRead

_COMPARISONS = {
    "Eq": Comparison.EQ,
    "NotEq": Comparison.NE,
    "Lt": Comparison.LT,
    "LtEq": Comparison.LE,
    "Gt": Comparison.GT,
    "GtEq": Comparison.GE,
}
_FLIPPED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_OPERATION = '"BinaryExpr"'
_OPERATIONS_MAX = 200
_GATHERED_ROWS = 65_536


def lazy_frame(
    fields: Sequence[DataField], planned: Callable[[Sequence[str], Predicate | None], PlannedRead]
) -> pl.LazyFrame:
    """A lazy frame over `planned`, which plans a read of some columns with a filter that only skips rows.

    The read may give more rows than the filter passes: polars applies its filter to them.
    """
    names = [field.name for field in fields]

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows_max: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = names if columns is None else columns
        needed = [] if predicate is None else predicate.meta.root_names()
        read = planned(
            [name for name in names if name in wanted or name in needed],
            None if predicate is None else predicate_of(predicate, fields),
        )
        # For the first rows of a file, polars would decode all of it.
        frames = read.frames() if rows_max is None else map(pl.DataFrame, read.batches())
        left = rows_max
        for frame in frames if predicate is None else _gathered(frames):
            rows = frame if predicate is None else frame.filter(predicate)
            # polars asks for no column where the number of rows is enough, and `select` of none has no rows.
            rows = rows.select(wanted) if wanted else pl.DataFrame(height=rows.height)
            yield rows if left is None else rows.head(left)
            left = None if left is None else max(0, left - rows.height)
            if left == 0:
                return

    empty = pl.DataFrame(to_arrow_schema(fields).empty_table())
    return register_io_source(source, schema=empty.schema, validate_schema=True)


def _gathered(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Joins small frames: a filter takes longer to start than to test the rows of a lookup."""
    held: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        held.append(frame)
        rows += frame.height
        if rows >= _GATHERED_ROWS:
            yield pl.concat(held, rechunk=False)
            held, rows = [], 0
    if held:
        yield pl.concat(held, rechunk=False)


def predicate_of(expression: pl.Expr, fields: Sequence[DataField]) -> Predicate | None:
    """A filter that passes every row which the expression passes, and maybe more; None for unknown expressions.

    Only comparisons that mean the same in polars and here are translated, and no long chains: each of their parts
    contains all parts before it.
    """
    text = expression.meta.serialize(format="json")
    if text.count(_OPERATION) > _OPERATIONS_MAX:
        return None
    by_name = {field.name: field for field in fields}
    return _predicate(expression, text, by_name)


def _predicate(node: pl.Expr, text: str, fields: dict[str, DataField]) -> Predicate | None:
    """The predicate of an expression; `text` is the expression in polars' JSON."""
    tree = json.loads(text)
    if not isinstance(tree, dict) or node.meta.is_column() or node.meta.is_literal():
        return None
    kind, content = next(iter(tree.items()))
    inputs = node.meta.pop()[::-1]
    if kind == "BinaryExpr" and content["op"] in ("And", "Or", "LogicalAnd", "LogicalOr"):
        known = [_predicate(part, part.meta.serialize(format="json"), fields) for part in inputs]
        return joined(known, is_and=content["op"].endswith("And"))
    if kind == "BinaryExpr":
        return _comparison(content["op"], inputs, fields)
    function = content.get("function") if kind == "Function" else None
    call = function.get("Boolean") if isinstance(function, dict) else None
    if call is None or not inputs[0].meta.is_column():
        return None
    field = fields.get(inputs[0].meta.output_name())
    if field is None:
        return None
    if call in ("IsNull", "IsNotNull"):
        return IsNull(column=field.name, is_negated=call == "IsNotNull")
    if isinstance(call, dict) and "IsIn" in call and len(inputs) == 2:
        return _membership(field, inputs[1])
    if isinstance(call, dict) and "IsBetween" in call and len(inputs) == 3:
        limits = [_literal(field, part) for part in inputs[1:]]
        pairs = zip((Comparison.GE, Comparison.LE), limits, strict=True)
        return joined(
            [
                None if limit is None else Compare(column=field.name, operator=operator, literal=limit)
                for operator, limit in pairs
            ],
            is_and=True,
        )
    return None


def _comparison(name: str, inputs: Sequence[pl.Expr], fields: dict[str, DataField]) -> Predicate | None:
    left, right = inputs
    if right.meta.is_column():
        left, right, name = right, left, _FLIPPED.get(name, name)
    if name not in _COMPARISONS or not left.meta.is_column():
        return None
    field = fields.get(left.meta.output_name())
    literal = None if field is None else _literal(field, right)
    if field is None or literal is None:
        return None
    return Compare(column=field.name, operator=_COMPARISONS[name], literal=literal)


def _membership(field: DataField, listed: pl.Expr) -> Predicate | None:
    if not listed.meta.is_literal():
        return None
    values = pl.select(listed).to_series()
    while isinstance(values.dtype, pl.List | pl.Array):
        values = values.explode()
    return membership(field, values.to_list())


def _literal(field: DataField, node: pl.Expr) -> Literal | None:
    if not node.meta.is_literal():
        return None
    values = pl.select(node).to_series()
    if values.len() != 1 or (isinstance(values.dtype, pl.Datetime) and values.dtype.time_unit == "ns"):
        return None
    return literal_of(field, values.item())
