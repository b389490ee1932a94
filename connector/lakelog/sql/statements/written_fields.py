"""The lineage of the fields that a statement without Spark writes; a failed analysis fails no statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from lakelog.common.quoting import cut
from lakelog.lineage.columns.field_edges import EdgeKind, Edges, all_of
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.plans.derived import TEXT_MAX, Derived, Rows, merged, opaque
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.best_effort import known_or
from lakelog.sql.fields.join_fields import QueryColumns
from lakelog.sql.fields.query_fields import QueryWalk
from lakelog.sql.fields.value_fields import ValueScope
from lakelog.sql.language.dialect import BY_POSITION
from lakelog.sql.language.names import SqlNames
from lakelog.sql.queries.selects import joins_with

Written = tuple[Sequence[tuple[str, Derived]], Edges]


def fields_of_query(
    names: SqlNames,
    query: exp.Expr,
    *,
    columns: Sequence[str] = (),
    by_name: bool = False,
    given: Mapping[str, Sequence[str]] | None = None,
) -> PlanFields:
    """The fields that the rows of a query fill: `columns` in their order, or its own names.

    `given` are the columns of rows that stand for tables, by their names.
    """

    def written(walk: QueryWalk) -> Written:
        found = walk.columns_of(query)
        if by_name or not columns or len(columns) == len(found.columns):
            return (found.columns if by_name else found.named(columns).columns), found.dataset
        every = opaque([value for _, value in found.columns], query.sql())
        return [(name, every) for name in columns], found.dataset

    return _analysed(names, written, given)


def fields_of_changes(
    names: SqlNames, statement: exp.Expr, given: Mapping[str, Sequence[str]] | None = None
) -> PlanFields:
    """The fields that an UPDATE or MERGE assigns, and what decides about its rows, or about those of a DELETE."""

    def written(walk: QueryWalk) -> Written:
        ctes: dict[str, QueryColumns] = {}
        found = statement.args.get("with_")
        for one in () if found is None else found.expressions:
            ctes[one.alias.lower()] = walk.columns_of(one.this, ctes)
        target = walk.columns_of(statement.this)
        own = (str(statement.this.alias_or_name).lower(), target)
        if isinstance(statement, exp.Merge):
            source = walk.columns_of(statement.args["using"], ctes)
            other = (str(statement.args["using"].alias_or_name).lower(), source)
            both, alone = walk.scope([own, other], ctes, None), walk.scope([other], ctes, None)
            return _merged(statement, both, alone, target, source)
        sources, joined = walk.sources_of(exp.Select(joins=joins_with(statement)), ctes)
        scope = walk.scope([own, *sources], ctes, None)
        where = statement.args.get("where")
        values = _assigned(statement.expressions if isinstance(statement, exp.Update) else (), scope)
        chosen = scope.edges(where, EdgeKind.FILTER)
        below = (found.dataset for _, found in sources)
        return _of_target(values, target), all_of((chosen, *joined, *below, *scope.met))

    return _analysed(names, written, given)


def _analysed(
    names: SqlNames, written: Callable[[QueryWalk], Written], given: Mapping[str, Sequence[str]] | None
) -> PlanFields:
    def found() -> PlanFields:
        walk = QueryWalk(names=names, given=given or {})
        return _fields_of(walk, *written(walk))

    unknown = PlanFields(FieldLineage(fields=()), Rows([], {}), frozenset())
    return known_or("the lineage of fields of a statement is", found, lambda _: unknown)


def _fields_of(walk: QueryWalk, columns: Iterable[tuple[str, Derived]], dataset: Edges) -> PlanFields:
    fields = tuple(
        OutputField(name=name, edges=value.edges, description=cut(value.text, TEXT_MAX), is_opaque=value.is_opaque)
        for name, value in columns
    )
    lineage = FieldLineage(fields=fields, dataset=dataset)
    tables = tuple(table for _, table in sorted(walk.tables.items()))
    reads = tuple(sorted(walk.tables.keys() - set(lineage.sources())))
    return PlanFields(lineage, Rows([], {}), frozenset(), tables, reads)


def _merged(
    statement: exp.Merge, scope: ValueScope, alone: ValueScope, target: QueryColumns, source: QueryColumns
) -> Written:
    """`alone` is the scope of the source, which an INSERT sees."""
    assigned: list[tuple[str, Derived]] = []
    chosen = [scope.edges(statement.args.get("on"), EdgeKind.JOIN)]
    for when in statement.args["whens"].expressions:
        chosen.append(scope.edges(when.args.get("condition"), EdgeKind.FILTER))
        action = when.args.get("then")
        assigned += _of_action(action, alone if isinstance(action, exp.Insert) else scope, target, source)
    return _of_target(assigned, target), all_of((source.dataset, *chosen, *scope.met, *alone.met))


def _of_action(
    action: exp.Expr | None, scope: ValueScope, target: QueryColumns, source: QueryColumns
) -> Iterable[tuple[str, Derived]]:
    """What a clause of a MERGE assigns; * stands for the columns of the source that the table has."""
    by_name = {name.lower(): value for name, value in source.columns}
    every = [(name, by_name[name.lower()]) for name, _ in target.columns if name.lower() in by_name]
    if action is not None and any(one.meta.get(BY_POSITION) for one in action.find_all(exp.Star)):
        every = [(name, value) for (name, _), (_, value) in zip(target.columns, source.columns, strict=False)]
    match action:
        case exp.Update():
            given = action.expressions
            is_star = bool(given) and isinstance(given[0], exp.Star)
            return every if is_star or not given else _assigned(given, scope)
        case exp.Insert():
            if isinstance(action.this, exp.Star) or action.this is None or isinstance(action.expression, exp.Star):
                return every
            names = [one.name for one in action.this.expressions]
            values = action.expression.expressions
            return [(name, scope.value(value)) for name, value in zip(names, values, strict=False)]
    return []


def _assigned(assignments: Iterable[exp.Expr], scope: ValueScope) -> list[tuple[str, Derived]]:
    return [(one.this.name, scope.value(one.expression)) for one in assignments if isinstance(one, exp.EQ)]


def _of_target(assigned: Sequence[tuple[str, Derived]], target: QueryColumns) -> list[tuple[str, Derived]]:
    """The assigned columns in the order of the table, each with all its values; one that keeps its value is not."""
    found: list[tuple[str, Derived]] = []
    for name, own in target.columns:
        values = [value for given, value in assigned if given.lower() == name.lower()]
        values = [value for value in values if value.place is None or value.place != own.place]
        if values:
            found.append((name, merged(values)))
    return found
