"""Members of a plan that Spark's JSON leaves out, asked for one by one.

`Expand.projections` is null for some plans: without it the lineage of ROLLUP and UNPIVOT would be opaque.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any  # Any: parsed JSON, and py4j gives Java objects without types

from lakelog.lineage.columns.plans.plan_tree import id_of

_EXPAND, _PROJECTIONS = "Expand", "projections"


def put_projections(tree: Any, plan: Any) -> None:  # the JSON of a plan; the Java LogicalPlan
    """Complete the JSON in place. Costs calls of py4j for each operator, if one lacks its projections."""
    lacking = {id_of(members["output"][-1][0]): members for members in _lacking(tree)}
    if not lacking:
        return
    subqueries = plan.subqueriesAll()
    for root in (plan, *(subqueries.apply(at) for at in range(subqueries.size()))):
        for node in _expands(root):
            members = lacking.get(int(node.output().last().exprId().id()))
            if members is not None:
                members[_PROJECTIONS] = [[_json_of(one) for one in _items(row)] for row in _items(node.projections())]


def _lacking(value: Any) -> Iterator[dict[str, Any]]:
    """The nodes without their projections."""
    todo = [value]
    while todo:
        found = todo.pop()
        if isinstance(found, list):
            todo.extend(found)
        elif isinstance(found, dict):
            if str(found.get("class", "")).endswith(f".{_EXPAND}") and not found.get(_PROJECTIONS):
                yield found
            todo.extend(inner for inner in found.values() if isinstance(inner, list))


def _expands(root: Any) -> Iterator[Any]:  # Java LogicalPlans
    todo = [root]
    while todo:
        node = todo.pop()
        if node.getClass().getSimpleName() == _EXPAND:
            yield node
        todo.extend(_items(node.children()))


def _items(sequence: Any) -> Iterator[Any]:  # a Scala Seq
    return (sequence.apply(at) for at in range(sequence.size()))


def _json_of(expression: Any) -> Any:  # a Java Expression
    return json.loads(expression.toJSON())
