"""The walk over a plan: the rows of each operator from those of its children.

The children come before their operator, without recursion: plans of long programs are deep. What a plan names across
its branches is kept by number: the definitions of CTEs, and the rows of a recursive CTE so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.lineage.columns.field_edges import NO_EDGES, Edges, all_of
from lakelog.lineage.columns.plans.derived import Column, Derived, Rows, RowsUnderWay, merged
from lakelog.lineage.columns.plans.expressions import Scope
from lakelog.lineage.columns.plans.operators import OPERATORS, PlanStep, column_of, opaque_rows
from lakelog.lineage.columns.plans.plan_tree import PlanNode, Tree, plan_of
from lakelog.lineage.records.best_effort import known_or

LeafValues = Callable[[PlanNode, Sequence[Column]], tuple[Sequence[Derived], Edges]]
_LOOP = "UnionLoop"


@dataclass(slots=True)
class PlanWalk:
    """One analysis of a plan.

    `leaf_values` says what the columns of an operator without children are made from, and which edges count for all its
    rows.
    """

    leaf_values: LeafValues
    unknown: set[str] = field(default_factory=set)  # names of operators that the walk does not know
    _definitions: dict[int, Rows] = field(default_factory=dict)
    _loops: dict[int, Rows] = field(default_factory=dict)

    def rows_of_tree(self, tree: Tree, outer: Scope | None = None) -> Rows:
        """The rows of a plan as JSON; `outer` is the query around it."""
        return self.rows_of(plan_of(tree), outer)

    def rows_of(self, root: PlanNode, outer: Scope | None = None) -> Rows:
        """The rows of an operator."""
        todo: list[tuple[PlanNode, bool]] = [(root, False)]
        done: list[Rows] = []
        while todo:
            node, is_ready = todo.pop()
            if not is_ready and node.children and node.name != _LOOP:
                todo.append((node, True))
                todo.extend((child, False) for child in reversed(node.children))
                continue
            count = len(node.children) if is_ready else 0
            inputs = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(self._rows(node, inputs, outer))
        return done.pop()

    def _rows(self, node: PlanNode, inputs: Sequence[Rows], outer: Scope | None) -> Rows:
        special = SPECIAL.get(node.name)
        if special is not None:
            return special(self, node, inputs, outer)
        if not node.children:
            return self._leaf(node)
        step = PlanStep(node, inputs, self.scope(inputs, outer))
        operator = OPERATORS.get(node.name)
        if operator is None:
            self.unknown.add(node.name)
            return opaque_rows(step)

        def not_understood(_: Exception) -> Rows:
            self.unknown.add(node.name)
            return opaque_rows(step)

        return known_or(f"the lineage of fields through {node.name} is", lambda: operator(step), not_understood)

    def scope(self, inputs: Sequence[Rows], outer: Scope | None = None) -> Scope:
        """What names mean above these rows."""
        if len(inputs) == 1:
            columns: Mapping[int, Derived] = inputs[0].columns
        else:
            columns = {number: value for rows in inputs for number, value in rows.columns.items()}
        return Scope(columns, self.rows_of_tree, outer)

    def _leaf(self, node: PlanNode) -> Rows:
        columns = columns_of(node)
        found = RowsUnderWay()
        values, dataset = self.leaf_values(node, columns)
        for column, value in zip(columns, values, strict=True):
            found.add(column, value)
        return found.rows(dataset)

    def _define(self, node: PlanNode, inputs: Sequence[Rows], _: Scope | None) -> Rows:
        """The rows of a CTE."""
        self._definitions[node.members["id"]] = inputs[0]
        return inputs[0]

    def _with_definitions(self, _: PlanNode, inputs: Sequence[Rows], _outer: Scope | None) -> Rows:
        """The edges of a definition count where it is used."""
        return inputs[-1]

    def _definition(self, node: PlanNode, _: Sequence[Rows], _outer: Scope | None) -> Rows:
        """The rows of a CTE where it is used."""
        found = self._definitions[node.members["cteId"]]
        return _renamed(found, columns_of(node), with_dataset=True)

    def _loop_so_far(self, node: PlanNode, _: Sequence[Rows], _outer: Scope | None) -> Rows:
        """The rows of a recursive CTE so far, in its recursive part."""
        return _renamed(self._loops[node.members["loopId"]], columns_of(node), with_dataset=False)

    def _loop(self, node: PlanNode, _: Sequence[Rows], outer: Scope | None) -> Rows:
        """A recursive CTE: its recursive part is followed until it brings nothing new."""
        anchor, recursion = node.children
        first = self.rows_of(anchor, outer)
        ids = [member["id"] for member in node.members["outputAttrIds"]]
        columns = [Column(number, column.name) for number, column in zip(ids, first.output, strict=True)]
        found = _renamed(first, columns, with_dataset=True)
        while True:
            self._loops[node.members["id"]] = found
            again = self.rows_of(recursion, outer)
            under_way = RowsUnderWay()
            for column, *values in zip(columns, found.values(), again.values(), strict=True):
                under_way.add(column, merged([value for value in values if value.edges] or values[:1]))
            grown = under_way.rows(all_of((found.dataset, again.dataset)))
            if [value.edges for value in grown.values()] == [value.edges for value in found.values()]:
                return Rows(found.output, found.columns, grown.dataset)
            found = grown


def columns_of(node: PlanNode) -> list[Column]:
    """The output of an operator, where it declares one."""
    return [column_of(tree) for tree in node.trees("output")]


def _renamed(rows: Rows, columns: Sequence[Column], *, with_dataset: bool) -> Rows:
    """The same rows with other ids."""
    values = dict(zip([column.id for column in columns], rows.values(), strict=True))
    return Rows(columns, values, rows.dataset if with_dataset else NO_EDGES)


SPECIAL: dict[str, Callable[[PlanWalk, PlanNode, Sequence[Rows], Scope | None], Rows]] = {
    "CTERelationDef": PlanWalk._define,
    "CTERelationRef": PlanWalk._definition,
    "UnionLoop": PlanWalk._loop,
    "UnionLoopRef": PlanWalk._loop_so_far,
    "WithCTE": PlanWalk._with_definitions,
}
