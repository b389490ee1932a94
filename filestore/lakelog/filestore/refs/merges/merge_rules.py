"""How conflicts are decided: by one rule for all, or by a rule for each column. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_field
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.common.types import DataField
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.refs.states.row_equality import equal_columns
from lakelog.filestore.schema.schema import TableSchema

OTHERS = "*"


class Rule(StrEnum):
    """Which value counts if table and branch have changed it differently."""

    FAIL = "fail"
    BRANCH = "branch"
    MAIN = "main"
    SUM = "sum"
    MAX = "max"
    MIN = "min"


_OF_ROWS = (Rule.FAIL, Rule.BRANCH, Rule.MAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRules:
    """The rule for rows; with `by_column` the rules of columns, and that for rows for all others."""

    of_rows: Rule
    columns: Mapping[str, Rule] = field(default_factory=dict)
    by_column: bool = False


def parse_rules(given: str | Mapping[str, str], schema: TableSchema, *, table_name: str) -> ConflictRules:
    """Check `on_conflict`. Raises InvalidRequestError for rules and columns that do not fit."""
    if isinstance(given, str):
        return ConflictRules(of_rows=_rule(given, _OF_ROWS, "on_conflict"))
    if not schema.primary_keys:
        raise InvalidRequestError(
            f"table {table_name} has no primary key, so its rows change as a whole: give on_conflict one of "
            f"{listed(_OF_ROWS)}, not rules for columns"
        )
    rules = {name: _rule(rule, tuple(Rule), f"on_conflict of column {name!r}") for name, rule in given.items()}
    of_rows = rules.pop(OTHERS, Rule.FAIL)
    if of_rows not in _OF_ROWS:
        raise InvalidRequestError(f"on_conflict of {OTHERS!r}, all other columns, is {of_rows}; use {listed(_OF_ROWS)}")
    unknown = [name for name in rules if name not in schema.field_names or name in schema.primary_keys]
    if unknown:
        others = [name for name in schema.field_names if name not in schema.primary_keys]
        raise InvalidRequestError(
            f"on_conflict names {listed(unknown)}; expected columns of table {table_name} that are not of its key: "
            f"{listed(others)}, or {OTHERS!r} for all others"
        )
    for name, rule in rules.items():
        _check_type(schema.field(name), rule, table_name)
    return ConflictRules(of_rows=of_rows, columns=rules, by_column=True)


def _rule(text: str, allowed: Sequence[Rule], what: str) -> Rule:
    try:
        rule = Rule(text)
    except ValueError:
        rule = None
    if rule is None or rule not in allowed:
        raise InvalidRequestError(
            f"{what} is {shown(text)}; use {listed(allowed)}, or for single columns {{column: rule}}"
        )
    return rule


def _check_type(column: DataField, rule: Rule, table_name: str) -> None:
    kind = to_arrow_field(column).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if rule is Rule.SUM and not is_number:
        raise InvalidRequestError(
            f"table {table_name}, column {column.name!r}: the rule sum is for numbers, the column is {column.type}"
        )
    if rule in (Rule.MAX, Rule.MIN) and column.type.is_nested:
        raise InvalidRequestError(
            f"table {table_name}, column {column.name!r}: the rule {rule} is for values with an order, the column is "
            f"{column.type}"
        )


def merged_columns(
    base: pa.Table, main: pa.Table, branch: pa.Table, fields: Sequence[DataField], rules: ConflictRules
) -> tuple[pa.Table, np.ndarray]:
    """Rows merged column by column, place by place, and for each row whether it remains a conflict.

    A row that the base lacks is null in all columns. A column that only one side has changed gets that side's value.
    Raises InvalidRequestError for a sum that its column cannot hold.
    """
    main_changed = ~equal_columns(base, main, fields)
    branch_changed = ~equal_columns(base, branch, fields)
    differ = ~equal_columns(main, branch, fields)
    count = main.num_rows
    is_open = np.zeros(count, np.bool_)
    columns: list[pa.ChunkedArray] = []
    for at, column in enumerate(fields):
        takes_branch = branch_changed[:, at] & ~main_changed[:, at]
        both = branch_changed[:, at] & main_changed[:, at] & differ[:, at]
        rule = rules.columns.get(column.name, rules.of_rows)
        sides = [part.column(column.name) for part in (main, branch)]
        if rule is Rule.FAIL:
            is_open |= both
        elif rule is Rule.BRANCH:
            takes_branch = takes_branch | both
        elif rule is Rule.SUM:
            sides.append(_summed(column, base, main, branch, both))
        elif rule in (Rule.MAX, Rule.MIN):
            takes_branch = takes_branch | (both & _wins(column, main, branch, rule))
        places = np.arange(count) + np.where(takes_branch, count, 0)
        if rule is Rule.SUM:
            places = np.where(both, np.arange(count) + 2 * count, places)
        columns.append(pa.chunked_array([chunk for side in sides for chunk in side.chunks]).take(pa.array(places)))
    return pa.table(columns, schema=main.schema), is_open


def _wins(column: DataField, main: pa.Table, branch: pa.Table, rule: Rule) -> np.ndarray:
    """For each row whether the branch's value is the larger or the smaller one; a null is neither."""
    mine, yours = (key_frame(part, [column]).to_series() for part in (main, branch))
    is_larger = yours > mine if rule is Rule.MAX else yours < mine
    return (is_larger.fill_null(False) | (mine.is_null() & yours.is_not_null())).to_numpy()


def _summed(column: DataField, base: pa.Table, main: pa.Table, branch: pa.Table, both: np.ndarray) -> pa.ChunkedArray:
    """The table's value plus the branch's change of it, where both have changed; null counts as 0."""
    kind = to_arrow_field(column).type
    wide = kind
    if pa.types.is_integer(kind):
        wide = pa.decimal128(30, 0)  # arithmetic adds digits, of which there may be 38
    elif pa.types.is_decimal(kind):
        wide = pa.decimal256(kind.precision, kind.scale)
    mask = pa.array(both)
    values = [
        pc.if_else(mask, part.column(column.name), pa.scalar(None, kind)).combine_chunks().cast(wide)
        for part in (base, main, branch)
    ]
    is_null = pc.and_(pc.is_null(values[1]), pc.is_null(values[2]))
    was, mine, yours = (pc.fill_null(value, pa.scalar(0).cast(wide)) for value in values)
    total = pc.add(mine, pc.subtract(yours, was))
    try:
        return pa.chunked_array([pc.if_else(is_null, pa.scalar(None, total.type), total).cast(kind)])
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(
            f"column {column.name!r}: a sum of the table's and the branch's changes does not fit {column.type}: "
            f"{error}; use another rule for the column"
        ) from error
