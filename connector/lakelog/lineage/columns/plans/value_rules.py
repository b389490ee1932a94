"""Rules of expressions that need nothing but the values of their children.

An expression without a rule is a TRANSFORMATION of all its children.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # Any: parsed JSON

from lakelog.lineage.columns.field_edges import EdgeKind, all_of, along
from lakelog.lineage.columns.plans.derived import Derived, changed, chosen, joined, unchanged
from lakelog.lineage.columns.plans.expression_text import text_of
from lakelog.lineage.columns.plans.plan_tree import simple_name
from lakelog.lineage.columns.plans.struct_rules import STRUCT_RULES

_RANKS = frozenset({"CumeDist", "DenseRank", "NTile", "PercentRank", "Rank", "RowNumber"})
UNCHANGED = frozenset(
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


def value_of(name: str, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """The value of a node."""
    rule = RULES.get(name)
    if rule is not None:
        return rule(members, children)
    return unchanged(children) if name in UNCHANGED and children else changed(name, members, children)


def _case_when(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """One of the values, according to the conditions."""
    pairs = len(children) // 2 * 2
    conditions, values = children[:pairs:2], [*children[1:pairs:2], *children[pairs:]]
    return chosen(values, conditions, text_of("CaseWhen", members, [child.text for child in children]))


def _if(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """One of two values, according to the condition."""
    return chosen(children[1:], children[:1], text_of("If", members, [child.text for child in children]))


def _coalesce(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """The first value that is not null: each is a value and a condition."""
    return chosen(children, children, text_of("coalesce", members, [child.text for child in children]))


def _aggregate(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """An aggregate function, and the condition of its FILTER."""
    function, *conditions = children
    chosen = along(all_of([condition.edges for condition in conditions]), EdgeKind.CONDITIONAL)
    text = function.text.replace("(", "(DISTINCT ", 1) if members.get("isDistinct") else function.text
    if conditions:
        text += f" FILTER (WHERE {conditions[0].text})"
    edges = all_of((along(function.edges, EdgeKind.AGGREGATION), chosen))
    return Derived(edges, text, any(child.is_opaque for child in children))


def _pivoted(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """The value where the column after FOR has one value."""
    chooser, value = children
    return chosen([value], [chooser], text_of("PivotFirst", members, [value.text, chooser.text]))


def _window(_members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A function over a window: partition and order are no part of the value."""
    function, window = children
    edges = all_of((function.edges, along(window.edges, EdgeKind.WINDOW)))
    return Derived(edges, f"{function.text} OVER ({window.text})", function.is_opaque or window.is_opaque)


def _window_spec(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """The partition and the order of a window."""
    keys = len(members.get("partitionSpec") or ())
    orders = len(members.get("orderSpec") or ())
    partition = ", ".join(child.text for child in children[:keys])
    order = ", ".join(child.text for child in children[keys : keys + orders])
    clauses = (("PARTITION BY ", partition), ("ORDER BY ", order))
    return joined(children, EdgeKind.IDENTITY, " ".join(word + text for word, text in clauses if text))


def _rank(members: dict[str, Any], _children: Sequence[Derived]) -> Derived:
    """A place in a window. Its children are the order, which the window has, too."""
    return Derived(text=text_of(simple_name(members["class"]), members, []))


def _variable(members: dict[str, Any], _children: Sequence[Derived]) -> Derived:
    """The argument of a lambda: the function around it has what it stands for."""
    return Derived(text=str(members["name"]))


RULES: dict[str, Callable[[dict[str, Any], Sequence[Derived]], Derived]] = {
    "AggregateExpression": _aggregate,
    "CaseWhen": _case_when,
    "Coalesce": _coalesce,
    "If": _if,
    "NamedLambdaVariable": _variable,
    "NullIfResult": _if,
    "PivotFirst": _pivoted,
    "WindowExpression": _window,
    "WindowSpecDefinition": _window_spec,
    **STRUCT_RULES,
} | dict.fromkeys(_RANKS, _rank)
