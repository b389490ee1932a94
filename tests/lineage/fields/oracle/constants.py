"""The values that a query compares columns with: rows that have them pass its conditions."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import duckdb
from sqlglot import exp

Value = int | float | str | datetime.date | None

_IN_MAX = 3  # so many values of a long IN: more would be rare in small tables
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_STEPS: dict[type[exp.Binary], tuple[int, ...]] = {
    exp.GT: (1,),
    exp.GTE: (0, 1),
    exp.LT: (-1,),
    exp.LTE: (0, -1),
    exp.EQ: (0,),
    exp.NEQ: (0, 1),
}
_MIRRORED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


@dataclass(slots=True)
class Constants:
    """By the name of a column: the values that it is compared with, differences to others, and columns beside it."""

    values: dict[str, list[Value]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    equal: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def of(self, column: str) -> list[Value]:
        """The values of a column and of the columns that it is compared with, also through others."""
        found: list[Value] = []
        for name in sorted(reached(column, self.equal)):
            found += self.values.get(name, ())
        return list(dict.fromkeys(found))


def constants_of(tree: exp.Expr) -> Constants:
    """What a query compares columns with."""
    found = Constants()
    names = _aliases(tree)
    for node in tree.find_all(exp.Between, exp.In, exp.Is, exp.Like, *_STEPS):
        for column, values in _compared(node):
            for name in names.get(column, {column}):
                found.values[name].extend(values)
    for node in tree.find_all(exp.EQ, exp.LT, exp.GT):
        _note_pair(found, node.left, node.right, names)
    return found


def _aliases(tree: exp.Expr) -> dict[str, set[str]]:
    """The columns that an alias stands for, also through several sub-queries."""
    direct: dict[str, set[str]] = defaultdict(set)
    for alias in tree.find_all(exp.Alias):
        for column in alias.this.find_all(exp.Column):
            direct[alias.alias.lower()].add(column.name.lower())
    return {name: reached(name, direct) for name in direct}


def reached(name: str, steps: Mapping[str, set[str]]) -> set[str]:
    """The names that steps lead to, and the name itself."""
    todo, seen = [name], {name}
    while todo:
        new = steps.get(todo.pop(), set()) - seen
        seen |= new
        todo.extend(new)
    return seen


def _compared(node: exp.Expr) -> Iterator[tuple[str, list[Value]]]:
    """A column, and the values with which a condition is true, or nearly."""
    column = _only_column(node.this)
    if isinstance(node, exp.Between) and column:
        low, high = _evaluated(node.args["low"]), _evaluated(node.args["high"])
        if low is not None and high is not None:
            yield column, [low, _middle(low, high), high]
    elif isinstance(node, exp.In) and column:
        yield column, [value for one in node.expressions[:_IN_MAX] for value in [_evaluated(one)] if value is not None]
    elif isinstance(node, exp.Is) and column and isinstance(node.expression, exp.Null):
        yield column, [None]
    elif isinstance(node, exp.Like) and column:
        pattern = str(_evaluated(node.expression) or "")
        yield column, [pattern.replace("%", "x").replace("_", "y")]
    elif isinstance(node, exp.Binary) and type(node) in _STEPS:
        yield from _of_comparison(type(node), node.left, node.right)
        yield from _of_comparison(_MIRRORED[type(node)], node.right, node.left)


def _of_comparison(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> Iterator[tuple[str, list[Value]]]:
    column, value = _only_column(left), _evaluated(right)
    if column and value is not None:
        yield column, [moved(value, by) for by in _STEPS[kind]]


def _only_column(node: exp.Expr) -> str | None:
    """The column, if an expression is made from one."""
    if node.find(exp.Query):
        return None
    names = {column.name.lower() for column in node.find_all(exp.Column)}
    return names.pop() if len(names) == 1 else None


def _evaluated(node: exp.Expr) -> Value:
    """The value of an expression without columns, by DuckDB, dates in strings as dates; None if it has columns."""
    if node.find(exp.Column, exp.Query):
        return None
    with duckdb.connect() as connection:
        ((found,),) = connection.execute(f"SELECT {node.sql(dialect='duckdb')}").fetchall()
    if isinstance(found, datetime.datetime):
        return found.date()
    date = _DATE.fullmatch(found) if isinstance(found, str) else None
    if date:
        return datetime.date(*map(int, date.groups()))
    return found if isinstance(found, int | str | datetime.date) or found is None else float(found)


def moved(value: Value, by: int) -> Value:
    """The value before or after, for numbers and dates."""
    if isinstance(value, datetime.date):
        return value + datetime.timedelta(days=by)
    return value + by if isinstance(value, int | float) else value


def _middle(low: Value, high: Value) -> Value:
    if isinstance(low, datetime.date) and isinstance(high, datetime.date):
        return low + (high - low) // 2
    if isinstance(low, int) and isinstance(high, int):
        return (low + high) // 2
    return (low + high) / 2 if isinstance(low, int | float) and isinstance(high, int | float) else low


def _note_pair(found: Constants, left: exp.Expr, right: exp.Expr, names: dict[str, set[str]]) -> None:
    """Two columns that are compared, perhaps with a number between them."""
    first, second = _only_column(left), _only_column(right)
    if first is None or second is None:
        return
    numbers = [int(one.this) for side in (left, right) for one in side.find_all(exp.Literal) if one.is_int]
    for one in names.get(first, {first}):
        for other in names.get(second, {second}):
            if one != other:
                found.equal[one].add(other)
                found.equal[other].add(one)
            if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
                found.offsets[one].update(numbers)
                found.offsets[other].update(numbers)
