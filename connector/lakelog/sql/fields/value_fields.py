"""What the value of an expression of SQL is made from, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from lakelog.common.quoting import cut
from lakelog.lineage.columns.field_edges import NO_EDGES, Dataset, EdgeKind, Edges, all_of, along
from lakelog.lineage.columns.plans.derived import TEXT_MAX, Derived, chosen, joined, opaque
from lakelog.lineage.columns.plans.plan_fields import column_of_dataset
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.tolerance import Unread

Source = tuple[str, Mapping[str, Derived], Dataset | None]  # name, columns in lower case, the dataset of others
_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "ntile", "cume_dist"})
_MASKING = frozenset({"md5", "sha", "sha2", "hash", "count"})
_CHOOSING = frozenset({"coalesce", "ifnull"})
_PLAIN = frozenset({"lag", "lead"})  # functions of a window that take the value of one row
_NO_INPUT = frozenset({"grouping", "grouping_id"})


@dataclass(slots=True)
class ValueScope:
    """The columns that expressions see: of sources, of the selected columns before, and of the query around.

    `met` collects the edges of all rows that sub-queries bring.
    """

    sources: Sequence[Source]
    outer: ValueScope | None
    subquery: Callable[[exp.Expr, ValueScope], tuple[list[Derived], Edges]]
    aliases: dict[str, Derived] = field(default_factory=dict)
    windows: Mapping[str, exp.Expr] = field(default_factory=dict)
    met: list[Edges] = field(default_factory=list)
    _arguments: list[str] = field(default_factory=list)  # of lambdas around the expression

    def edges(self, node: exp.Expr | None, kind: EdgeKind) -> Edges:
        """The edges of an expression that decides about rows."""
        return NO_EDGES if node is None else along(self.value(node).edges, kind)

    def value(self, node: exp.Expr) -> Derived:
        """What an expression is made from."""
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Alias() | exp.Paren() | exp.Ordered() | exp.Aliases():
                return self.value(node.this)
            case exp.Dot():
                return self.value(node.this).member(node.name)
            case exp.Select() | exp.SetOperation() | exp.Subquery():
                values, dataset = self._inner(node)
                self.met.append(dataset)
                return values[0] if len(values) == 1 else joined(values, EdgeKind.TRANSFORMATION, _text(node))
            case exp.Exists():
                self.met.append(self._inner(node.this)[1])
                return Derived(text=_text(node))
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Window():
                return self._window(node)
            case exp.Filter():
                chosen = along(self.value(node.expression).edges, EdgeKind.CONDITIONAL)
                found = self.value(node.this)
                return Derived(all_of((found.edges, chosen)), _text(node), found.is_opaque)
            case exp.Lambda():
                return self._lambda(node)
            case Unread():
                return opaque(map(self.value, node.expressions), _text(node))
        return self._function(node)

    def _function(self, node: exp.Expr) -> Derived:
        name = _name(node)
        if name in _RANKS or name in _NO_INPUT:
            return Derived(text=_text(node))
        children = [self.value(one) for one in node.iter_expressions() if not isinstance(one, exp.Identifier)]
        if name in _CHOOSING:
            return chosen(children, children, _text(node))
        if name in _SPLIT:
            values, conditions = _SPLIT[name](children)
            return chosen(values, conditions, _text(node))
        is_aggregate = isinstance(node, exp.AggFunc) and name not in _PLAIN
        kind = EdgeKind.AGGREGATION if is_aggregate else EdgeKind.TRANSFORMATION
        return joined(children, kind, _text(node), is_masking=name in _MASKING)

    def _inner(self, query: exp.Expr) -> tuple[list[Derived], Edges]:
        return self.subquery(query, self)

    def _column(self, node: exp.Column) -> Derived:
        name, table = node.name.lower(), node.table.lower()
        if not table and name in self._arguments:
            return Derived(text=node.name)
        found = self._find(table, name)
        if found is not None:
            return found
        if table:  # a field of a struct
            above = self._find("", table)
            if above is not None:
                return above.member(node.name)
        seen = [value for _, columns, _ in self.sources for value in columns.values()]
        return opaque(seen, _text(node))

    def _find(self, table: str, name: str) -> Derived | None:
        for alias, columns, _ in self.sources:
            if table in {"", alias} and name in columns:
                return columns[name]
        if not table and name in self.aliases:
            return self.aliases[name]
        for alias, _, dataset in self.sources:
            if table in {"", alias} and dataset is not None:
                return column_of_dataset(dataset, name)
        return None if self.outer is None else self.outer._find(table, name)

    def _case(self, node: exp.Expr) -> Derived:
        if isinstance(node, exp.If):
            parts, conditions = [node.args.get("true"), node.args.get("false")], [node.this]
        else:
            branches = node.args.get("ifs") or []
            parts = [*(one.args.get("true") for one in branches), node.args.get("default")]
            conditions = [node.args.get("this"), *(one.this for one in branches)]
        return chosen(self._values(parts), self._values(conditions), _text(node))

    def _values(self, nodes: Iterable[exp.Expr | None]) -> list[Derived]:
        return [self.value(one) for one in nodes if one is not None]

    def _window(self, node: exp.Window) -> Derived:
        named = node.args.get("alias")
        spec = self.windows.get(named.name.lower(), node) if named is not None else node
        keys = [*(spec.args.get("partition_by") or ()), *(node.args.get("partition_by") or ())]
        order = [one.args["order"] for one in (spec, node) if one.args.get("order") is not None]
        window = along(all_of(self.value(one).edges for one in (*keys, *order)), EdgeKind.WINDOW)
        function = self.value(node.this)
        return Derived(all_of((function.edges, window)), _text(node), function.is_opaque)

    def _lambda(self, node: exp.Lambda) -> Derived:
        """The body of a lambda: its arguments stand for what the function around has."""
        names = [one.name.lower() for one in node.expressions]
        self._arguments.extend(names)
        try:
            return self.value(node.this)
        finally:
            del self._arguments[len(self._arguments) - len(names) :]


Parts = tuple[Sequence[Derived], Sequence[Derived]]  # values, and conditions


_SPLIT: Mapping[str, Callable[[Sequence[Derived]], Parts]] = {
    "nullif": lambda children: (children[:1], children),
}


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _text(node: exp.Expr) -> str:
    return cut(node.sql(dialect=LakelogDialect), TEXT_MAX)
