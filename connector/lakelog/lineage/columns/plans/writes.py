"""The commands of a plan that write rows, and those that change rows: which field of the target has which value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakelog.lineage.columns.field_edges import EdgeKind, Edges, all_of
from lakelog.lineage.columns.plans.derived import Derived, Rows, merged
from lakelog.lineage.columns.plans.operators import column_of
from lakelog.lineage.columns.plans.plan_tree import PlanNode, Tree, children_of, id_of, names_in, simple_name
from lakelog.lineage.columns.plans.plan_walk import PlanWalk

VIEW_COLUMNS = "userSpecifiedColumns"
_CONDITIONS = ("matchedActions", "notMatchedActions", "notMatchedBySourceActions")


@dataclass(frozen=True, slots=True)
class Written:
    """The named values of a write, the edges of all rows, and the rows of the query."""

    values: Sequence[tuple[str, Derived]]
    dataset: Edges
    rows: Rows


def written_by(walk: PlanWalk, root: PlanNode) -> Written:
    """What a plan writes; for a query, its columns."""
    write = WRITES.get(root.name)
    if write is not None:
        return write(walk, root)
    rows = walk.rows_of(root)
    return _by_position(rows, [column.name for column in rows.output])


def _query(walk: PlanWalk, node: PlanNode) -> Rows:
    """The rows of the query of a command, which is its child or below a member."""
    at = node.members.get("query")
    if isinstance(at, int):
        return walk.rows_of(node.children[at])
    return walk.rows_of_tree(node.trees("query")[0])


def _by_position(rows: Rows, names: Sequence[str]) -> Written:
    values = rows.values()
    if len(names) != len(values):  # a sink that takes any columns
        names = [column.name for column in rows.output]
    return Written(list(zip(names, values, strict=True)), rows.dataset, rows)


def _files(walk: PlanWalk, node: PlanNode) -> Written:
    """The columns have names of their own."""
    return _by_position(_query(walk, node), names_in(node.members.get("outputColumnNames")))


def _table(walk: PlanWalk, node: PlanNode) -> Written:
    """The columns are those of a relation. Spark has put the query into their order."""
    relation = next(iter(node.trees("table")), None)
    output = [] if relation is None else [column_of(tree).name for tree in _output_of(relation)]
    return _by_position(_query(walk, node), output)


def _output_of(relation: Tree) -> Sequence[Tree]:
    return PlanNode("", relation[0]).trees("output")


def _view(walk: PlanWalk, node: PlanNode) -> Written:
    """A view: `lakelog.spark` puts the names that it was given into the JSON, which has none."""
    return _by_position(walk.rows_of_tree(node.trees("plan")[0]), names_in(node.members.get(VIEW_COLUMNS)))


def _created(walk: PlanWalk, node: PlanNode) -> Written:
    """The columns are those of the query."""
    return _by_position(_query(walk, node), [])


def _row_level(walk: PlanWalk, node: PlanNode) -> Written:
    """A row statement that Spark runs itself, on a table of another catalog: the query has the rows after it."""
    rows = _query(walk, node)
    target = walk.rows_of_tree(node.trees("table")[0])
    found = {column.name: value for column, value in zip(rows.output, rows.values(), strict=True)}
    values: list[tuple[str, Derived]] = []
    for column in target.output:
        kept = target.columns[column.id].edges
        value = found.get(column.name)
        if value is not None and (not value.edges or value.edges - kept):  # a column that keeps its value has no edge
            values.append((column.name, replace(value, edges=value.edges - kept)))
    return Written(values, rows.dataset, rows)


def _update(walk: PlanWalk, node: PlanNode) -> Written:
    """The assigned columns; the condition decides about the rows."""
    target = walk.rows_of(node.children[0])
    scope = walk.scope([target])
    chosen = scope.edges(node.trees("condition"), EdgeKind.FILTER)
    values = _assigned(target, [_assignment(tree) for tree in node.trees("assignments")], scope.derive)
    return Written(values, all_of((target.dataset, chosen, *scope.dataset)), target)


def _delete(walk: PlanWalk, node: PlanNode) -> Written:
    """No column is assigned; the condition decides about the rows."""
    target = walk.rows_of(node.children[0])
    scope = walk.scope([target])
    chosen = scope.edges(node.trees("condition"), EdgeKind.FILTER)
    return Written([], all_of((target.dataset, chosen, *scope.dataset)), target)


def _merge(walk: PlanWalk, node: PlanNode) -> Written:
    """The assigned columns of all clauses; the conditions decide about the rows."""
    target, source = (walk.rows_of(child) for child in node.children)
    scope = walk.scope([target, source])
    joined = scope.edges(node.trees("mergeCondition"), EdgeKind.JOIN)
    filters: list[Edges] = []
    assignments: list[tuple[int, Tree]] = []
    for action in (tree for member in _CONDITIONS for tree in node.trees(member)):
        for part in children_of(action):
            if simple_name(part[0]["class"]) == "Assignment":
                assignments.append(_assignment(part))
            else:
                filters.append(scope.edges([part], EdgeKind.FILTER))
    values = _assigned(target, assignments, scope.derive)
    return Written(values, all_of((target.dataset, source.dataset, joined, *filters, *scope.dataset)), target)


def _assigned(
    target: Rows, assignments: Sequence[tuple[int, Tree]], derive: Callable[[Tree], Derived]
) -> list[tuple[str, Derived]]:
    """The columns that are assigned, each with all its values; a column that keeps its value is not assigned."""
    found: dict[int, list[Derived]] = {}
    for number, tree in assignments:
        value = derive(tree)
        if value.place is None or value != target.columns.get(number):
            found.setdefault(number, []).append(value)
    return [(column.name, merged(found[column.id])) for column in target.output if column.id in found]


def _assignment(tree: Tree) -> tuple[int, Tree]:
    """The column that an assignment names, or of which it names a part, and the value."""
    key, value = children_of(tree)
    return next(id_of(members) for members in key if simple_name(members["class"]) == "AttributeReference"), value


WRITES: dict[str, Callable[[PlanWalk, PlanNode], Written]] = {
    "AppendData": _table,
    "CreateDataSourceTableAsSelectCommand": _files,
    "CreateHiveTableAsSelectCommand": _files,
    "CreateTableAsSelect": _created,
    "CreateViewCommand": _view,
    "DeleteFromTable": _delete,
    "InsertIntoDataSourceCommand": _created,
    "InsertIntoHadoopFsRelationCommand": _files,
    "InsertIntoHiveTable": _files,
    "InsertOnlyMerge": _table,
    "MergeIntoTable": _merge,
    "OverwriteByExpression": _table,
    "OverwritePartitionsDynamic": _table,
    "ReplaceData": _row_level,
    "ReplaceTableAsSelect": _created,
    "SaveIntoDataSourceCommand": _created,
    "UpdateTable": _update,
    "WriteDelta": _row_level,
    "WriteToDataSourceV2": _created,
    "WriteToMicroBatchDataSource": _created,
}
