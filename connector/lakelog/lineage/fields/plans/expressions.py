"""What the value of an expression is made from: one pass over its nodes, from the last one to the first.

An expression that is not in the tables below is a TRANSFORMATION of all its children.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: parsed JSON

from lakelog.common.quoting import cut
from lakelog.lineage.fields.field_edges import EdgeKind, Edges, all_of, along
from lakelog.lineage.fields.plans.derived import Derived, Rows, opaque
from lakelog.lineage.fields.plans.expression_text import text_of
from lakelog.lineage.fields.plans.plan_tree import Tree, id_of, simple_name

TEXT_MAX = 2_000  # of an expression
_NAMED_TEXT_MAX = 200  # of a definition that stands in place of its name
_NOTHING = Derived()
_UNCHANGED = frozenset(
    {
        "Alias",
        "AssertNotNull",
        "CheckOverflowInTableInsert",
        "CommonExpressionDef",
        "KnownNotNull",
        "KnownNullable",
        "PipeOperator",
        "PipeExpression",
        "PromotePrecision",
        "SortOrder",
        "TempResolvedColumn",
    }
)
_MASKING = frozenset({"Count", "Crc32", "Mask", "Md5", "Murmur3Hash", "Sha1", "Sha2", "XxHash64"})
_RANKS = frozenset({"CumeDist", "DenseRank", "NTile", "PercentRank", "Rank", "RowNumber"})


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
            rule = _RULES.get(name)
            if rule is not None:
                stack.append(rule(self, members, children))
            elif name in _UNCHANGED and count:
                stack.append(_unchanged(children))
            else:
                stack.append(_changed(name, members, children))
        return stack.pop()

    def edges(self, trees: Sequence[Tree], kind: EdgeKind) -> Edges:
        """The edges of conditions, keys or orders, which count for all rows."""
        return along(all_of(self.derive(tree).edges for tree in trees), kind)


def _type_of(members: dict[str, Any]) -> object:
    """The type of a node, where it is in the JSON."""
    return members.get("dataType", members)


def _unchanged(children: Sequence[Derived]) -> Derived:
    if len(children) == 1:
        return children[0]
    return _joined(children, EdgeKind.IDENTITY, ", ".join(filter(None, (child.text for child in children))))


def _changed(name: str, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A function of its children, which is not known further."""
    text = text_of(name, members, [child.text for child in children])
    return _joined(children, EdgeKind.TRANSFORMATION, cut(text, TEXT_MAX), is_masking=name in _MASKING)


def _joined(children: Sequence[Derived], kind: EdgeKind, text: str, *, is_masking: bool = False) -> Derived:
    edges = along(all_of([child.edges for child in children]), kind, is_masking=is_masking)
    return Derived(edges, text, any(child.is_opaque for child in children))


def _chosen(values: Sequence[Derived], conditions: Sequence[Derived], text: str) -> Derived:
    """One of the values, according to the conditions."""
    direct = along(all_of([value.edges for value in values]), EdgeKind.TRANSFORMATION)
    indirect = along(all_of([condition.edges for condition in conditions]), EdgeKind.CONDITIONAL)
    return Derived(all_of((direct, indirect)), text, any(one.is_opaque for one in (*values, *conditions)))


def _case_when(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    pairs = len(children) // 2 * 2
    conditions, values = children[:pairs:2], [*children[1:pairs:2], *children[pairs:]]
    return _chosen(values, conditions, text_of("CaseWhen", members, [child.text for child in children]))


def _if(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    return _chosen(children[1:], children[:1], text_of("If", members, [child.text for child in children]))


def _coalesce(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    return _chosen(children, children, text_of("coalesce", members, [child.text for child in children]))


def _aggregate(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """An aggregate function, and the condition of its FILTER."""
    function, *conditions = children
    chosen = along(all_of([condition.edges for condition in conditions]), EdgeKind.CONDITIONAL)
    text = function.text.replace("(", "(DISTINCT ", 1) if members.get("isDistinct") else function.text
    if conditions:
        text += f" FILTER (WHERE {conditions[0].text})"
    edges = all_of((along(function.edges, EdgeKind.AGGREGATION), chosen))
    return Derived(edges, text, any(child.is_opaque for child in children))


def _pivoted(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    chooser, value = children
    return _chosen([value], [chooser], text_of("PivotFirst", members, [value.text, chooser.text]))


def _window(_: Scope, _members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A function over a window: partition and order are no part of the value."""
    function, window = children
    edges = all_of((function.edges, along(window.edges, EdgeKind.WINDOW)))
    return Derived(edges, f"{function.text} OVER ({window.text})", function.is_opaque or window.is_opaque)


def _window_spec(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    keys = len(members.get("partitionSpec") or ())
    orders = len(members.get("orderSpec") or ())
    partition = ", ".join(child.text for child in children[:keys])
    order = ", ".join(child.text for child in children[keys : keys + orders])
    clauses = (("PARTITION BY ", partition), ("ORDER BY ", order))
    return _joined(children, EdgeKind.IDENTITY, " ".join(word + text for word, text in clauses if text))


def _rank(_: Scope, members: dict[str, Any], _children: Sequence[Derived]) -> Derived:
    """A place in a window. Its children are the order, which the window has, too."""
    return Derived(text=text_of(simple_name(members["class"]), members, []))


def _struct(_: Scope, _members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A struct of names and values in turn."""
    names, values = [child.text.strip("'") for child in children[::2]], children[1::2]
    text = f"struct({', '.join(f'{value.text} AS {name}' for name, value in zip(names, values, strict=False))})"
    built = _joined(values, EdgeKind.TRANSFORMATION, text)
    return Derived(built.edges, text, built.is_opaque, dict(zip(names, values, strict=False)))


def _struct_field(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    name = members.get("name")
    return children[0].member(str(name)) if name is not None else _changed("GetStructField", members, children)


def _array_fields(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A field of each struct in an array."""
    return children[0].member(str(members["field"]["name"]))


def _element(_: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """An element of an array or a map; by a constant key it has the place of the whole."""
    found = _changed(simple_name(members["class"]), members, children)
    whole, *keys = children
    is_fixed = not any(key.edges or key.is_opaque for key in keys)
    return Derived(found.edges, found.text, found.is_opaque, place=whole.place if is_fixed else None)


def _variable(_: Scope, members: dict[str, Any], _children: Sequence[Derived]) -> Derived:
    """The argument of a lambda: the function around it has what it stands for."""
    return Derived(text=str(members["name"]))


def _outer(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    """A name of the query around a sub-query."""
    if scope.outer is None:
        return opaque(scope.columns.values(), "outer")
    return scope.outer.derive(members.get("e") or members["namedExpression"])


def _scalar_subquery(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    rows = _subquery(scope, members)
    value = rows.values()[0] if rows.output else _NOTHING
    return Derived(value.edges, f"(SELECT {value.text})", value.is_opaque)


def _list_query(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    values = _subquery(scope, members).values()
    return _joined(values, EdgeKind.IDENTITY, f"(SELECT {', '.join(value.text for value in values)})")


def _exists(scope: Scope, members: dict[str, Any], _: Sequence[Derived]) -> Derived:
    """Whether there are rows: their columns are not used."""
    _subquery(scope, members)
    return Derived(text="EXISTS (SELECT ...)")


def _subquery(scope: Scope, members: dict[str, Any]) -> Rows:
    rows = scope.walk(members["plan"], scope)
    scope.dataset.add(rows.dataset)
    return rows


def _defined(scope: Scope, _: dict[str, Any], children: Sequence[Derived]) -> Derived:
    scope.common.append(children[0])
    return children[0]


def _with(scope: Scope, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    for _ in members.get("defs") or ():
        scope.common.pop()
    return children[0]


def _common(scope: Scope, _: dict[str, Any], _children: Sequence[Derived]) -> Derived:
    """A reference to a definition of the `With` around it. The JSON does not say to which one."""
    if len(scope.common) == 1:
        return scope.common[0]
    return _joined(scope.common, EdgeKind.IDENTITY, " | ".join(dict.fromkeys(one.text for one in scope.common)))


_Rule = Callable[[Scope, dict[str, Any], Sequence[Derived]], Derived]
_RULES: dict[str, _Rule] = {
    "AggregateExpression": _aggregate,
    "CaseWhen": _case_when,
    "Coalesce": _coalesce,
    "CommonExpressionDef": _defined,
    "CommonExpressionRef": _common,
    "CreateNamedStruct": _struct,
    "ElementAt": _element,
    "Exists": _exists,
    "GetArrayItem": _element,
    "GetArrayStructFields": _array_fields,
    "GetMapValue": _element,
    "GetStructField": _struct_field,
    "If": _if,
    "ListQuery": _list_query,
    "NamedLambdaVariable": _variable,
    "NullIfResult": _if,
    "OuterReference": _outer,
    "OuterScopeReference": _outer,
    "PivotFirst": _pivoted,
    "ScalarSubquery": _scalar_subquery,
    "WindowExpression": _window,
    "WindowSpecDefinition": _window_spec,
    "With": _with,
} | dict.fromkeys(_RANKS, _rank)
