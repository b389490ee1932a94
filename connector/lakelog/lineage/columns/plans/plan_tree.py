"""Trees in the JSON of Spark: `TreeNode.toJSON` writes the nodes of a tree in pre-order, each with `num-children`.

A member of a node that holds a child has its number among the children. Expressions and plans below a member that is no
child, such as `projectList` or the plan of a sub-query, are arrays of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any  # Any: parsed JSON

Tree = Sequence[dict[str, Any]]  # the nodes of a tree in pre-order


@cache
def simple_name(class_name: str) -> str:
    """The name of a class without its package and the class around it."""
    return class_name.rstrip("$").replace("$", ".").rpartition(".")[2]


@dataclass(slots=True)
class PlanNode:
    """An operator of a plan with its children."""

    name: str
    members: dict[str, Any]
    children: list[PlanNode] = field(default_factory=list)

    def trees(self, member: str) -> list[Tree]:
        """The expressions of a member that is a sequence, an expression, or missing."""
        value = self.members.get(member)
        return list(trees_in(value)) if isinstance(value, list) else []


def plan_of(tree: Tree) -> PlanNode:
    """The operators of a plan, linked."""
    stack: list[PlanNode] = []
    for members in reversed(tree):
        node = PlanNode(simple_name(members["class"]), members)
        node.children = [stack.pop() for _ in range(members["num-children"])]
        stack.append(node)
    return stack.pop()


def is_tree(value: object) -> bool:
    """Whether a member holds one tree."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def trees_in(value: Any) -> Iterator[Tree]:
    """All outermost trees below a member."""
    if is_tree(value):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from trees_in(inner)


def id_of(members: dict[str, Any]) -> int:
    """The number of an attribute or an alias, by which expressions name it."""
    number: int = members["exprId"]["id"]
    return number


def names_in(value: object) -> list[str]:
    """A sequence of names, which Spark writes as an array, or as `[a, b]`."""
    if isinstance(value, list):
        return [str(name) for name in value]
    return str(value).removeprefix("[").removesuffix("]").split(", ") if value else []


def children_of(tree: Tree) -> list[Tree]:
    """The trees of the children of the first node."""
    found, at = [], 1
    for _ in range(tree[0]["num-children"]):
        end, left = at, 1
        while left:
            left += tree[end]["num-children"] - 1
            end += 1
        found.append(tree[at:end])
        at = end
    return found
