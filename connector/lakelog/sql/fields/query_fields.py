"""What the columns of a query without Spark are made from: a walk over its tree.

Names are those of the statement, as its reader has written them. What the walk does not know, such as PIVOT and the
columns of table functions, makes columns opaque: they may come from all that the query reads there. Kinds of edges are
those of queries of Spark. The walk sees no types, so the result is approximate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from lakelog.common.errors import LakelogError
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.declared_fields import source_table_of
from lakelog.lineage.columns.field_documents import SourceTable
from lakelog.lineage.columns.field_edges import NO_EDGES, Dataset, EdgeKind, Edges, all_of, along
from lakelog.lineage.columns.plans.derived import Derived, merged, opaque
from lakelog.lineage.columns.plans.plan_fields import column_of_dataset
from lakelog.sql.fields.join_fields import QueryColumns, common_columns, joins_of, lowered, unite_columns
from lakelog.sql.fields.value_fields import ValueScope
from lakelog.sql.language.names import SqlNames
from lakelog.warehouse.system_names import names_system_table

_CONSTANT = Derived(text="VALUES")
_ROUNDS_MAX = 10  # of a recursive query, until it brings nothing new


Ctes = Mapping[str, QueryColumns]


@dataclass(slots=True)
class QueryWalk:
    """A walk over the queries of a statement; `tables` are the tables of ours that were met."""

    names: SqlNames
    given: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tables: dict[Dataset, SourceTable] = field(default_factory=dict)

    def columns_of(self, query: exp.Expr, ctes: Ctes | None = None, outer: ValueScope | None = None) -> QueryColumns:
        """The columns of a query, or of a table in FROM."""
        known = self._with_ctes(query, dict(ctes or {}), outer)
        match query:
            case exp.Subquery() | exp.Paren():
                return _pivoted(query, self.columns_of(query.this, known, outer)).named(_alias_columns(query))
            case exp.SetOperation():
                return self._of_set(query, known, outer)
            case exp.Select():
                return self._of_select(query, known, outer)
            case exp.Table():
                return _pivoted(query, self._of_table(query, known)).named(_alias_columns(query))
            case exp.Values():
                return self._of_values(query, known, outer)
        return QueryColumns([])

    def scope(self, sources: Sequence[tuple[str, QueryColumns]], ctes: Ctes, outer: ValueScope | None) -> ValueScope:
        """The scope of expressions over sources, by their names."""
        columns = [(alias, dict(lowered(found.columns)), found.open_dataset) for alias, found in sources]

        def subquery(query: exp.Expr, inner: ValueScope) -> tuple[list[Derived], Edges]:
            found = self.columns_of(query, ctes, inner)
            return [value for _, value in found.columns], found.dataset

        return ValueScope(sources=columns, outer=outer, subquery=subquery)

    def _with_ctes(self, query: exp.Expr, known: dict[str, QueryColumns], outer: ValueScope | None) -> Ctes:
        found = query.args.get("with_")
        if found is None:
            return known
        for one in found.expressions:
            name, names = one.alias.lower(), _alias_columns(one)
            if found.args.get("recursive") and isinstance(one.this, exp.SetOperation):
                known[name] = self.columns_of(one.this.this, known, outer).named(names)
                for _ in range(_ROUNDS_MAX):
                    again = self.columns_of(one.this, known, outer).named(names)
                    if again == known[name]:
                        break
                    known[name] = again
            else:
                known[name] = self.columns_of(one.this, known, outer).named(names)
        return known

    def _of_set(self, query: exp.SetOperation, ctes: Ctes, outer: ValueScope | None) -> QueryColumns:
        left, right = (self.columns_of(side, ctes, outer) for side in (query.this, query.expression))
        dataset = all_of((left.dataset, right.dataset))
        both = all_of(value.edges for _, value in (*left.columns, *right.columns))
        is_distinct = query.args.get("distinct") is not False
        if isinstance(query, exp.Union):
            dataset = all_of((dataset, along(both, EdgeKind.GROUP_BY) if is_distinct else NO_EDGES))
            if query.args.get("by_name"):
                others = {name.lower(): value for name, value in right.columns}
                columns = [
                    (name, merged([value, others.pop(name.lower())]) if name.lower() in others else value)
                    for name, value in left.columns
                ]
                return QueryColumns([*columns, *((name, others[name]) for name in others)], dataset)
            pairs = zip(left.columns, right.columns, strict=False)
            columns = [(name, merged([value, other])) for (name, value), (_, other) in pairs]
            return QueryColumns(columns, dataset)
        keys = along(all_of(value.edges for _, value in left.columns), EdgeKind.GROUP_BY)
        decided = all_of((dataset, along(both, EdgeKind.JOIN), keys if is_distinct else NO_EDGES))
        return QueryColumns(left.columns, decided)

    def sources_of(
        self, query: exp.Select, ctes: Ctes, outer: ValueScope | None = None
    ) -> tuple[list[tuple[str, QueryColumns]], list[Edges]]:
        """The sources of a query by their names, and the edges of its joins."""
        sources: list[tuple[str, QueryColumns]] = []
        decided: list[Edges] = []
        for join in joins_of(query):
            source = join.this if isinstance(join, exp.Join) else join
            sources.append((_alias(source), self._joined_source(source, sources, ctes, outer)))
            if isinstance(join, exp.Join):
                decided.append(self._join_edges(join, sources, ctes, outer))
        return sources, decided

    def _of_select(self, query: exp.Select, ctes: Ctes, outer: ValueScope | None) -> QueryColumns:
        sources, decided = self.sources_of(query, ctes, outer)
        for lateral in query.args.get("laterals", ()):
            sources.append((_alias(lateral), self._generated(lateral, sources, ctes, outer)))
        scope = self.scope(sources, ctes, outer)
        scope.windows = {one.name.lower(): one for one in query.args.get("windows", ())}
        columns = self._selected(query, sources, scope)
        decided += [
            scope.edges(query.args.get("where"), EdgeKind.FILTER),
            scope.edges(query.args.get("having"), EdgeKind.FILTER),
            scope.edges(query.args.get("qualify"), EdgeKind.FILTER),
            scope.edges(query.args.get("order"), EdgeKind.SORT),
            self._group_edges(query, columns, scope),
        ]
        if query.args.get("distinct") is not None:
            decided.append(along(all_of(value.edges for _, value in columns), EdgeKind.GROUP_BY))
        below = (found.dataset for _, found in sources)
        return QueryColumns(columns, all_of((*below, *decided, *scope.met)))

    def _selected(
        self, query: exp.Select, sources: Sequence[tuple[str, QueryColumns]], scope: ValueScope
    ) -> list[tuple[str, Derived]]:
        columns: list[tuple[str, Derived]] = []
        for one in query.expressions:
            if isinstance(one, exp.Star):
                columns += _starred(one, [column for _, found in sources for column in found.columns])
            elif isinstance(one, exp.Column) and isinstance(one.this, exp.Star):
                wanted = one.table.lower()
                columns += [column for alias, found in sources if alias == wanted for column in found.columns]
            elif isinstance(one, exp.Aliases):
                value = scope.value(one)
                columns += [(name.name, value) for name in one.args["expressions"]]
            else:
                value = scope.value(one)
                columns.append((one.alias_or_name or one.sql(), value))
                scope.aliases.setdefault(columns[-1][0].lower(), value)
        return columns

    def _group_edges(self, query: exp.Select, columns: Sequence[tuple[str, Derived]], scope: ValueScope) -> Edges:
        group = query.args.get("group")
        if group is None:
            return NO_EDGES
        found: list[Edges] = []
        for one in group.iter_expressions():
            if isinstance(one, exp.Literal) and one.is_int and 0 < int(one.this) <= len(columns):
                found.append(along(columns[int(one.this) - 1][1].edges, EdgeKind.GROUP_BY))
            else:
                found.append(scope.edges(one, EdgeKind.GROUP_BY))
        if group.args.get("all"):
            keys = [one for one in query.expressions if one.find(exp.AggFunc) is None]
            found += (scope.edges(one, EdgeKind.GROUP_BY) for one in keys)
        return all_of(found)

    def _join_edges(
        self, join: exp.Join, sources: list[tuple[str, QueryColumns]], ctes: Ctes, outer: ValueScope | None
    ) -> Edges:
        scope = self.scope(sources, ctes, outer)
        edges = [scope.edges(join.args.get("on"), EdgeKind.JOIN)]
        for name in common_columns(join, sources):
            sides = (dict(lowered(found.columns)).get(name) for _, found in sources)
            edges += (along(side.edges, EdgeKind.JOIN) for side in sides if side is not None)
            unite_columns(join, sources, name)
        return all_of((*edges, *scope.met))

    def _joined_source(
        self, source: exp.Expr, before: Sequence[tuple[str, QueryColumns]], ctes: Ctes, outer: ValueScope | None
    ) -> QueryColumns:
        if isinstance(source, exp.Lateral):
            scope = self.scope(before, ctes, outer)
            if isinstance(source.this, exp.Subquery):
                return self.columns_of(source.this, ctes, scope).named(_alias_columns(source))
            return self._generated(source, before, ctes, outer)
        if isinstance(source, exp.Unnest):
            return self._generated(source, before, ctes, outer)
        return self.columns_of(source, ctes, outer)

    def _generated(
        self, source: exp.Expr, before: Sequence[tuple[str, QueryColumns]], ctes: Ctes, outer: ValueScope | None
    ) -> QueryColumns:
        """The columns of a generator: each from all its arguments."""
        scope = self.scope(before, ctes, outer)
        call = source.this if isinstance(source, exp.Lateral) else source
        edges = along(scope.value(call).edges, EdgeKind.TRANSFORMATION)
        value = Derived(edges, call.sql())
        return QueryColumns([(name, value) for name in _alias_columns(source) or [_alias(source)]])

    def _of_values(self, query: exp.Values, ctes: Ctes, outer: ValueScope | None) -> QueryColumns:
        """Constants have no inputs: only what is none is looked at, as a list may have thousands of rows."""
        scope = self.scope([], ctes, outer)
        found: dict[int, list[Derived]] = {}
        width = 0
        for row in query.expressions:
            values = row.expressions if isinstance(row, exp.Tuple) else [row]
            width = max(width, len(values))
            for at, value in enumerate(values):
                if not isinstance(value, exp.Literal | exp.Null | exp.Boolean):
                    found.setdefault(at, []).append(scope.value(value))
        columns = [(f"col{at + 1}", merged(found[at]) if at in found else _CONSTANT) for at in range(width)]
        return QueryColumns(columns).named(_alias_columns(query))

    def _of_table(self, table: exp.Table, ctes: Ctes) -> QueryColumns:
        if not isinstance(table.this, exp.Identifier):
            return QueryColumns([])
        if not table.db and table.name.lower() in ctes:
            return ctes[table.name.lower()]
        if not table.db and table.name in self.given:
            return QueryColumns([(name, Derived(text=name)) for name in self.given[table.name]])
        if self.names.is_temporary(table) or self.names.is_file(table) or self.names.frame(table) is not None:
            return QueryColumns([])  # whose columns DuckDB alone knows
        view = self.names.view(table)
        if view is not None:
            return self.columns_of(view)
        return self._read(table)

    def _read(self, table: exp.Table) -> QueryColumns:
        name = self.names.resolved(table)
        dataset = dataset_of_table(name.full)
        if names_system_table(name.full, in_warehouse=True):
            return QueryColumns([], open_dataset=dataset)
        try:
            store = name.table.store
        except LakelogError:  # the query itself has the error
            return QueryColumns([], open_dataset=dataset)
        found = self.tables[dataset] = source_table_of(store, dataset)
        return QueryColumns([(one.name, column_of_dataset(dataset, one.name)) for one in found.columns])


def _pivoted(source: exp.Expr, found: QueryColumns) -> QueryColumns:
    """The columns behind PIVOT or UNPIVOT: each from all, under names that only the engine knows."""
    if not source.args.get("pivots"):
        return found
    value = opaque([value for _, value in found.columns], source.sql())
    return replace(found, columns=[(name, value) for name, _ in found.columns])


def _starred(star: exp.Star, columns: Iterable[tuple[str, Derived]]) -> list[tuple[str, Derived]]:
    left_out = {one.name.lower() for one in star.args.get("except_") or star.args.get("except") or ()}
    return [(name, value) for name, value in columns if name.lower() not in left_out]


def _alias(source: exp.Expr) -> str:
    return str(source.alias_or_name).lower()


def _alias_columns(source: exp.Expr) -> list[str]:
    alias = source.args.get("alias")
    return [one.name for one in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
