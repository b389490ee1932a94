"""What the value of an expression is made from: one pass over its nodes, from the last one to the first.

This module has the expressions that name something: columns, sub-queries, definitions. `value_rules` has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: parsed JSON

from lakelog.lineage.columns.field_edges import EdgeKind, Edges, all_of, along
from lakelog.lineage.columns.plans.derived import Derived, Rows, joined, opaque
from lakelog.lineage.columns.plans.plan_tree import Tree, id_of, simple_name
from lakelog.lineage.columns.plans.struct_rules import name_of_field
from lakelog.lineage.columns.plans.value_rules import value_of

_NAMED_TEXT_MAX = 200  # of a definition that stands in place of its name
_NOTHING = Derived()


@dataclass(slots=True)
class Scope:
    """What the names in an expression mean: the columns of an operator's children, and of the query around it.

    `dataset` collects the edges of sub-queries that count for all rows.
    """

    columns: Mapping[int, Derived]
    walk: Callable[[Tree, Scope], Rows]  # the rows of a sub-query
    outer: Scope | None = None
    dataset: set[Edges] = field(default_factory=set)
    common: list[Derived] = field(default_factory=list)  # the definitions of the `With` around a node

    def column(self, members: dict[str, Any]) -> Derived:
        """The value of an attribute. One that no child has comes from an operator that is not known."""
        name = str(members["name"])
        found = self.columns.get(id_of(members))
        if found is None:
            return opaque(self.columns.values(), name)
        if len(found.text) <= _NAMED_TEXT_MAX:
            return found
        return Derived(found.edges, name, found.is_opaque, found.members, found.place)

    def derive(self, tree: Tree) -> Derived:
        """What an expression is made from."""
        stack: list[Derived] = []
        for at in range(len(tree) - 1, -1, -1):
            members = tree[at]
            name, count = simple_name(members["class"]), members["num-children"]
            if name == "AttributeReference":
                stack.append(self.column(members))
                continue
            if name == "Cast" and _type_of(members) == _type_of(tree[at + 1]):  # Spark adds it to the columns of views
                continue
            children = [stack.pop() for _ in range(count)]
            if name == "GetStructField":
                members = {**members, "name": name_of_field(tree, at)}
            rule = NAMING_RULES.get(name)
            stack.append(value_of(name, members, children) if rule is None else rule(self, members, children))
        return stack.pop()

    def edges(self, trees: Sequence[Tree], kind: EdgeKind) -> Edges:
        """The edges of conditions, keys or orders, which count for all rows."""
        return along(all_of(self.derive(tree).edges for tree in trees), kind)


def _type_of(members: dict[str, Any]) -> object:
    """The type of a node, where it is in the JSON."""
    return members.get("dataType", members)


def _outer(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    """A name of the query around a sub-query, the nearest that has it."""
    tree: Tree = members.get("e") or members["namedExpression"]
    ids = {id_of(one) for one in tree if simple_name(one["class"]) == "AttributeReference"}
    around = scope.outer
    while around is not None and around.outer is not None and not ids <= around.columns.keys():
        around = around.outer
    return opaque(scope.columns.values(), "outer") if around is None else around.derive(tree)


def _scalar_subquery(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    """The one value of a query."""
    rows = _subquery(scope, members)
    value = rows.values()[0] if rows.output else _NOTHING
    return Derived(value.edges, f"(SELECT {value.text})", value.is_opaque)


def _list_query(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    """The values that IN compares with."""
    values = _subquery(scope, members).values()
    return joined(values, EdgeKind.IDENTITY, f"(SELECT {', '.join(value.text for value in values)})")


def _exists(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    """Whether there are rows: their columns are not used."""
    _subquery(scope, members)
    return Derived(text="EXISTS (SELECT ...)")


def _subquery(scope: Scope, members: dict[str, Any]) -> Rows:
    rows = scope.walk(members["plan"], scope)
    scope.dataset.add(rows.dataset)
    return rows


def _defined(scope: Scope, _: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A definition of the `With` around it."""
    scope.common.append(children[0])
    return children[0]


def _with(scope: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """The value of an expression with definitions."""
    for _ in members.get("defs") or ():
        scope.common.pop()
    return children[0]


def _common(scope: Scope, _: dict[str, Any], _children: Sequence[Derived]) -> Derived:
    """A reference to a definition of the `With` around it. The JSON does not say to which one."""
    if len(scope.common) == 1:
        return scope.common[0]
    return joined(scope.common, EdgeKind.IDENTITY, " | ".join(dict.fromkeys(one.text for one in scope.common)))


NAMING_RULES: dict[str, Callable[[Scope, dict[str, Any], Sequence[Derived]], Derived]] = {
    "CommonExpressionDef": _defined,
    "CommonExpressionRef": _common,
    "Exists": _exists,
    "ListQuery": _list_query,
    "OuterReference": _outer,
    "OuterScopeReference": _outer,
    "ScalarSubquery": _scalar_subquery,
    "With": _with,
}
