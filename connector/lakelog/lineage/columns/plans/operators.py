"""The operators of a plan: what the columns of each are made from. An operator that is not in `OPERATORS` is opaque."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakelog.lineage.columns.field_edges import NO_EDGES, EdgeKind, Edges, all_of, along
from lakelog.lineage.columns.plans.derived import Column, Derived, Rows, RowsUnderWay, merged, opaque
from lakelog.lineage.columns.plans.expressions import Scope
from lakelog.lineage.columns.plans.plan_tree import PlanNode, Tree, children_of, id_of, simple_name

_INSTRUCTIONS = ("matchedInstructions", "notMatchedInstructions", "notMatchedBySourceInstructions")
_OUTPUTS = ("output", "outputAttrs", "outputAttributes", "generatorOutput", "serializer")


@dataclass(slots=True)
class PlanStep:
    """An operator with the rows of its children, and what the names in its expressions mean."""

    node: PlanNode
    inputs: Sequence[Rows]
    scope: Scope

    @property
    def child(self) -> Rows:
        """The rows of the first child."""
        return self.inputs[0]

    def dataset(self, *more: Edges) -> Edges:
        """The edges of all rows: those of the children, of sub-queries in the expressions, and more."""
        return all_of((*(rows.dataset for rows in self.inputs), *self.scope.dataset, *more))

    def kept(self, *more: Edges) -> Rows:
        """The rows of the child, for an operator that changes no column."""
        dataset = self.dataset(*more)
        return self.child if dataset == self.child.dataset else Rows(self.child.output, self.child.columns, dataset)


def column_of(tree: Tree) -> Column:
    """The column that an alias or an attribute names."""
    return Column(id_of(tree[0]), str(tree[0]["name"]))


def opaque_rows(step: PlanStep) -> Rows:
    """The rows of an operator that is not known: each of its columns may be made from each column of its children."""
    named = [(column.name, rows.columns[column.id]) for rows in step.inputs for column in rows.output]
    choices = {name.lower(): value for name, value in named}
    made = replace(opaque([value for _, value in named], f"{step.node.name}(...)"), choices=choices)
    found = RowsUnderWay()
    declared = [tree for member in _OUTPUTS for tree in step.node.trees(member) if "exprId" in tree[0]]
    for tree in declared:
        found.add(column_of(tree), made)
    if not declared:
        for rows in step.inputs:
            for column in rows.output:
                found.add(column, made)
    return found.rows(step.dataset())


def _same(step: PlanStep) -> Rows:
    """The rows as they are."""
    return step.kept()


def _project(step: PlanStep) -> Rows:
    """The selected expressions."""
    return _listed(step, step.node.trees("projectList"))


def _listed(step: PlanStep, trees: Sequence[Tree], *more: Edges) -> Rows:
    """The rows of a list of named expressions."""
    found = RowsUnderWay()
    for tree in trees:
        found.add(column_of(tree), step.scope.derive(tree))
    return found.rows(step.dataset(*more))


def _filter(step: PlanStep) -> Rows:
    """The rows as they are; the condition decides about all of them."""
    edges = step.scope.edges(step.node.trees("condition"), EdgeKind.FILTER)
    return step.kept(edges)


def _sort(step: PlanStep) -> Rows:
    """The rows as they are; the order decides about all of them."""
    edges = step.scope.edges(step.node.trees("order"), EdgeKind.SORT)
    return step.kept(edges)


def _join(step: PlanStep) -> Rows:
    """The columns of both sides; the condition decides about all rows."""
    edges = step.scope.edges(step.node.trees("condition"), EdgeKind.JOIN)
    left, right = step.inputs
    kind = step.node.members.get("joinType") or {}
    name = simple_name(str(kind.get("object") or kind.get("product-class") or ""))
    if name in {"LeftSemi", "LeftAnti"}:
        return Rows(left.output, left.columns, step.dataset(edges))
    return Rows([*left.output, *right.output], {**left.columns, **right.columns}, step.dataset(edges))


def _as_of_join(step: PlanStep) -> Rows:
    """Each row with the one that is nearest to it."""
    left, right = step.inputs
    conditions = (
        tree for member in ("asOfCondition", "condition", "orderExpression") for tree in step.node.trees(member)
    )
    edges = step.scope.edges(list(conditions), EdgeKind.JOIN)
    return Rows([*left.output, *right.output], {**left.columns, **right.columns}, step.dataset(edges))


def _numbered(step: PlanStep) -> Rows:
    """The rows with numbers of their own in a column."""
    found = RowsUnderWay()
    number = column_of(step.node.trees("sequenceAttr")[0])
    found.add(number, Derived(text="row number"))
    for column in step.child.output:
        found.add(column, step.child.columns[column.id])
    return found.rows(step.dataset())


def _lateral_join(step: PlanStep) -> Rows:
    """The right side is a sub-query that names columns of the left one."""
    query = step.node.trees("right")[0][0]
    right = step.scope.walk(query["plan"], step.scope)
    edges = Scope({**step.child.columns, **right.columns}, step.scope.walk, step.scope.outer).edges(
        step.node.trees("condition"), EdgeKind.JOIN
    )
    output, columns = [*step.child.output, *right.output], {**step.child.columns, **right.columns}
    return Rows(output, columns, step.dataset(right.dataset, edges))


def _aggregate(step: PlanStep) -> Rows:
    """The selected expressions; the keys of GROUP BY decide about all rows."""
    keys = step.scope.edges(step.node.trees("groupingExpressions"), EdgeKind.GROUP_BY)
    return _listed(step, step.node.trees("aggregateExpressions"), keys)


def _window(step: PlanStep) -> Rows:
    """The columns of the child, and functions over windows."""
    found = RowsUnderWay(list(step.child.output), dict(step.child.columns))
    for tree in step.node.trees("windowExpressions"):
        found.add(column_of(tree), step.scope.derive(tree))
    return found.rows(step.dataset())


def _generate(step: PlanStep) -> Rows:
    """The columns of the child, and those of a generator, which come from its arguments."""
    found = RowsUnderWay(list(step.child.output), dict(step.child.columns))
    generator = step.node.trees("generator")[0]
    columns = [column_of(tree) for tree in step.node.trees("generatorOutput")]
    whole = step.scope.derive(generator)
    places = _stacked(step, generator, len(columns)) if simple_name(generator[0]["class"]) == "Stack" else {}
    for at, column in enumerate(columns):
        value = places.get(at, whole)
        found.add(column, Derived(along(value.edges, EdgeKind.TRANSFORMATION), whole.text, value.is_opaque))
    return found.rows(step.dataset())


def _stacked(step: PlanStep, generator: Tree, width: int) -> dict[int, Derived]:
    """What each column of `stack(n, ...)` is made from: the arguments of its place."""
    values = [step.scope.derive(tree) for tree in children_of(generator)][1:]
    return {at: merged(values[at::width]) for at in range(width) if values[at::width]}


def _expand(step: PlanStep) -> Rows:
    """Each row becomes several: ROLLUP, CUBE, GROUPING SETS and UNPIVOT."""
    projections = step.node.members.get("projections")
    if not projections:
        raise ValueError("the JSON of Expand has no projections")
    lists = [[step.scope.derive(tree) for tree in projection] for projection in projections]
    found = RowsUnderWay()
    for tree, *values in zip(step.node.trees("output"), *lists, strict=True):
        found.add(column_of(tree), merged(_without_nulls(values)))
    return found.rows(step.dataset())


def _without_nulls(values: Sequence[Derived]) -> Sequence[Derived]:
    """The values without the NULLs that stand for a column which is not in a grouping set."""
    return [value for value in values if value.edges or value.text != "NULL"] or values


def _merge_rows(step: PlanStep) -> Rows:
    """Spark's own MERGE, after the join of target and source: each instruction keeps a row, changed or not.

    Source: Spark, `org.apache.spark.sql.catalyst.plans.logical.MergeRows`.
    """
    kept: list[list[Derived]] = []
    conditions: list[Tree] = []
    for instruction in (tree for member in _INSTRUCTIONS for tree in step.node.trees(member)):
        members, children = instruction[0], children_of(instruction)
        conditions.append(children[members["condition"]])
        for member in ("output", "otherOutput"):
            places = members.get(member)
            if places:
                kept.append([step.scope.derive(children[at]) for at in places])
    found = RowsUnderWay()
    for tree, *values in zip(step.node.trees("output"), *kept, strict=True):
        found.add(column_of(tree), merged(values))
    return found.rows(step.dataset(step.scope.edges(conditions, EdgeKind.FILTER)))


def _union(step: PlanStep) -> Rows:
    """Each column from the columns at its place in all inputs."""
    return _by_position(step, step.inputs)


def _by_position(step: PlanStep, inputs: Sequence[Rows]) -> Rows:
    """One below the other; the names and ids are those of the first."""
    found = RowsUnderWay()
    for column, *values in zip(inputs[0].output, *(rows.values() for rows in inputs), strict=True):
        found.add(column, merged(values))
    return found.rows(step.dataset(*(rows.dataset for rows in inputs)))


def _distinct(step: PlanStep) -> Rows:
    """The rows as they are; all columns decide about all rows."""
    return step.kept(along(_edges_of(step.child), EdgeKind.GROUP_BY))


def _deduplicate(step: PlanStep) -> Rows:
    """The rows as they are; the columns that are compared decide about all rows."""
    return step.kept(step.scope.edges(step.node.trees("keys"), EdgeKind.GROUP_BY))


def _set_operation(step: PlanStep) -> Rows:
    """INTERSECT and EXCEPT: rows of the left side, compared with those of the right side."""
    left, right = step.inputs
    compared = along(all_of((_edges_of(left), _edges_of(right))), EdgeKind.JOIN)
    grouped = NO_EDGES if step.node.members.get("isAll") else along(_edges_of(left), EdgeKind.GROUP_BY)
    return Rows(left.output, left.columns, step.dataset(compared, grouped))


def _edges_of(rows: Rows) -> Edges:
    return all_of(value.edges for value in rows.values())


Operator = Callable[[PlanStep], Rows]
_UNCHANGED: dict[str, Operator] = dict.fromkeys(
    (
        "CollectMetrics",
        "EventTimeWatermark",
        "GlobalLimit",
        "LimitAll",
        "LocalLimit",
        "Offset",
        "PipeOperator",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SQLFunctionNode",
        "Sample",
        "SubqueryAlias",
        "Subquery",
        "Tail",
        "View",
        "WithWindowDefinition",
    ),
    _same,
)
OPERATORS: dict[str, Operator] = _UNCHANGED | {
    "Aggregate": _aggregate,
    "AsOfJoin": _as_of_join,
    "AttachDistributedSequence": _numbered,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "Distinct": _distinct,
    "Except": _set_operation,
    "Expand": _expand,
    "Filter": _filter,
    "Generate": _generate,
    "Intersect": _set_operation,
    "Join": _join,
    "LateralJoin": _lateral_join,
    "MergeRows": _merge_rows,
    "Project": _project,
    "Sort": _sort,
    "Union": _union,
    "Window": _window,
}
