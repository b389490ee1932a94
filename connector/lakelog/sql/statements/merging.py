"""MERGE INTO as one query of DuckDB: a row for each action.

A clause that sees one side alone, such as WHEN NOT MATCHED, has the names of that side.

Source: Spark, `org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakelog.catalog.tables.row_actions import (
    ACTION,
    DELETE,
    INSERT,
    MARK,
    NEW,
    OLD,
    ROW,
    UPDATE,
    member,
    named_values,
)
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import quoted
from lakelog.filestore.schema import PLACE_NAMES
from lakelog.filestore.write import is_by_place
from lakelog.sql.language.dialect import BY_NAME, BY_POSITION
from lakelog.sql.language.spans import Edit, note_edits, source_of
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.selects import check_single, named, query_with
from lakelog.sql.queries.table_words import as_changed
from lakelog.sql.statements.default_values import default_expression, with_defaults
from lakelog.sql.statements.merge_sides import MergeSides, column_of, equal_sides

if TYPE_CHECKING:
    from lakelog.catalog import Table

_CASE, _THERE = f"{MARK}case", f"{MARK}there"
# (new rows, rows of the table alone): the join that gives them.
_JOINS = {(True, True): "full", (True, False): "right", (False, True): "left", (False, False): "inner"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    """One action, None to do nothing.

    `holds` is its condition with the side that it needs; None as `values` takes all of the source.
    """

    action: str | None
    holds: exp.Expr
    values: Mapping[str, exp.Expr] | None


def merge_query(table: Table, tables: QueryTables, statement: exp.Expr, what: str) -> exp.Select:
    """The query. Raises InvalidRequestError for columns that the table or the source lacks."""
    target, source, whens = statement.this, statement.args["using"], statement.args["whens"].expressions
    own, other = _alias(target), _alias(source)
    given, equal = _columns(tables, source, statement), equal_sides(statement.args["on"])
    sides = MergeSides(table=table, own=own, other=other, given=given, equal=equal, what=what)
    clauses = [_clause(sides, one) for one in whens]
    kind = _JOINS[any(one.action == INSERT for one in clauses), any(_is_by_source(one) for one in whens)]
    is_placed = is_by_place(table.store)
    others = exp.select(exp.Star(), exp.alias_(exp.true(), _THERE)).from_(_unaliased(source))
    case, action = exp.Case(), exp.Case()
    for at, clause in enumerate(clauses):
        case = case.when(clause.holds, exp.Literal.number(at) if clause.action else exp.Null(), copy=False)
        action = action.when(exp.column(_CASE).eq(at), exp.Literal.string(clause.action or ""), copy=False)
    chosen = [exp.alias_(column_of(own, ROW), ROW), exp.alias_(case, _CASE)]
    for at, field in enumerate(table.schema.fields):
        if not is_placed:
            chosen.append(exp.alias_(column_of(own, field.name), member(OLD, at)))
        chosen.append(named(_new_value(sides, clauses, field.name), member(NEW, at)))
    chosen += [column_of(own, name) for name in PLACE_NAMES if is_placed]
    query = exp.Select(expressions=chosen).from_(numbered_rows(target).subquery(own))
    query = query.join(others.subquery(other), on=statement.args["on"].copy(), join_type=kind)
    outer = exp.select(exp.Star(), exp.alias_(action, ACTION)).from_(query.subquery(f"{MARK}pairs"))
    outer = outer.where(exp.column(_CASE).is_(exp.Null()).not_())
    return query_with(statement, outer)


def numbered_rows(target: exp.Table) -> exp.Select:
    """The rows of the table that a statement changes, with their numbers: several rows may join one of them."""
    number = exp.alias_(exp.Window(this=exp.RowNumber()), ROW)
    return exp.select(exp.Star(), number).from_(_unaliased(as_changed(target)))


def _new_value(sides: MergeSides, clauses: list[_Clause], name: str) -> exp.Expr:
    """The new value of a column, by the first clause that holds."""
    new = exp.Case()
    for number, clause in enumerate(clauses):
        if clause.action in (INSERT, UPDATE):
            new = new.when(_only(clauses, number), _value(sides, clause, name), copy=False)
    return new if new.args.get("ifs") else exp.Null()


def _only(clauses: list[_Clause], number: int) -> exp.Expr:
    """The condition of a clause where no earlier one holds."""
    parts = [exp.Coalesce(this=one.holds.copy(), expressions=[exp.false()]).not_() for one in clauses[:number]]
    return exp.and_(*parts, clauses[number].holds.copy())


def _is_by_source(when: exp.Expr) -> bool:
    return not when.args.get("matched") and bool(when.args.get("source"))


def _clause(sides: MergeSides, when: exp.Expr) -> _Clause:
    has_old = column_of(sides.own, ROW).is_(exp.Null()).not_()
    has_source = column_of(sides.other, _THERE).is_(exp.Null()).not_()
    side = sides.own if _is_by_source(when) else None if when.args.get("matched") else sides.other
    parts: list[exp.Expr] = [
        has_old if side != sides.other else has_old.not_(),
        has_source if side != sides.own else has_source.not_(),
    ]
    if when.args.get("condition") is not None:
        check_single(when.args["condition"], sides.what)
        parts.append(_of_side(when.args["condition"], side))
    holds, then = exp.and_(*parts), when.args["then"]
    if isinstance(then, exp.Var):
        return _Clause(action=DELETE if then.name.upper() == "DELETE" else None, holds=holds, values=None)
    action = INSERT if isinstance(then, exp.Insert) else UPDATE
    if when.args.get("matched") and action == UPDATE:
        _leave_out(sides, then)
    values = _assigned(sides, then, side, is_insert=action == INSERT)
    if values is None:
        sides.check_star()
    if values is None and when.args.get("matched"):
        _check_keys(sides)
    return _Clause(action=action, holds=holds, values=values)


def _leave_out(sides: MergeSides, then: exp.Expr) -> None:
    """Leave out a column of the primary key that is set to what ON equates with it: it keeps its value."""
    keys = {name.lower() for name in sides.table.schema.primary_keys}
    kept = [
        one
        for one in then.expressions
        if isinstance(one, exp.EQ)
        and one.this.name.lower() in keys
        and any(sides.is_own(mine, one.this.name) and other == one.expression for mine, other in sides.equal)
    ]
    if kept and len(kept) < len(then.expressions):
        then.set("expressions", [one for one in then.expressions if one not in kept])


def _check_keys(sides: MergeSides) -> None:
    """Raise InvalidRequestError for UPDATE SET * where ON does not equate the primary keys: a row would get another."""
    for key in sides.table.schema.primary_keys:
        if not sides.is_equated(key, key):
            raise InvalidRequestError(
                f"{sides.what} sets {key!r}, a column of the primary key, by which a row is found, to a value that ON "
                "does not equate with it: name the columns that are set, or delete the row, and insert it with its new "
                "key"
            )


def _assigned(sides: MergeSides, then: exp.Expr, side: str | None, *, is_insert: bool) -> dict[str, exp.Expr] | None:
    """{column: value}; None for `*`, and for an action without columns."""
    what, values, pairs = sides.what, then.args.get("expression"), list[tuple[str, exp.Expr]]()
    given = then.args.get("this" if is_insert else "expressions")
    star = next((one for one in ([given] if is_insert else given or ()) if isinstance(one, exp.Star)), None)
    if star is not None and (star.meta.get(BY_NAME) or star.meta.get(BY_POSITION)):
        names = sides.given if star.meta.get(BY_NAME) else sides.in_order()
        pairs = [(name, column_of(sides.other, one)) for name, one in zip(names, sides.given, strict=True)]
        if not is_insert:
            pairs = [one for one in pairs if not sides.is_equated(one[0], one[1].name)]
    elif star is not None or (not given and not values):
        sides.check_order(INSERT if is_insert else UPDATE, is_star=star is not None)
        return None
    elif is_insert:
        names = [one.name for one in given.expressions] if given else sides.table.schema.field_names
        each = [] if values is None else values.expressions if isinstance(values, exp.Tuple) else [values]
        if len(names) != len(each):
            raise InvalidRequestError(f"{what}: INSERT fills {len(names)} columns and has {len(each)} values")
        pairs = list(zip(names, each, strict=True))
    else:
        pairs = [(one.this.name, one.expression) for one in then.expressions]
    found: dict[str, exp.Expr] = {}
    for name, value in pairs:
        if name.lower() in {one.lower() for one in found}:
            raise InvalidRequestError(f"{what} gives column {name!r} two values")
        check_single(value, what)
        found[name] = value
    schema = sides.table.schema
    named = named_values(schema.fields, found, keys=() if is_insert else schema.primary_keys, what=what)
    return {name: _of_side(value, side) for name, value in with_defaults(schema.fields, named).items()}


def _value(sides: MergeSides, clause: _Clause, name: str) -> exp.Expr:
    if clause.values is None:
        return sides.column(name)
    if name in clause.values:
        return clause.values[name].copy()
    if clause.action == INSERT:
        return default_expression(sides.table.schema.field(name))
    return column_of(sides.own, name)


def _of_side(given: exp.Expr, side: str | None) -> exp.Expr:
    """The expression, whose names without a table are those of the side."""
    made = given.copy()
    holder = exp.Paren(this=made)
    for column in list(holder.find_all(exp.Column)):
        if side is not None and not column.args.get("table") and column.find_ancestor(exp.Query) is None:
            column.set("table", exp.to_identifier(side, quoted=True))
            start = column.this.meta["start"]
            note_edits(column, Edit(source_of(column), start, start, f"{quoted(side)}."))
    return holder


def _columns(tables: QueryTables, source: exp.Expr, statement: exp.Expr) -> list[str]:
    query = query_with(statement, exp.select(exp.Star()).from_(_unaliased(source)).limit(0))
    return list(tables.run(query).column_names)


def _alias(given: exp.Expr) -> str:
    name = given.alias or given.name
    if not name:
        raise UnsupportedError("the source of MERGE needs a name: USING (...) AS source")
    return name


def _unaliased(given: exp.Expr) -> exp.Expr:
    made = given.copy()
    if isinstance(made, exp.Subquery):
        alias = made.args.get("alias")
        if alias is not None and alias.columns:
            return made
        made.set("alias", exp.TableAlias(this=exp.to_identifier("rows")))
    return made
