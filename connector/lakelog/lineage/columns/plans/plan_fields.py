"""The lineage of fields of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakelog.common.quoting import cut
from lakelog.lineage.columns.field_documents import SourceTable
from lakelog.lineage.columns.field_edges import NO_EDGES, Dataset, EdgeKind, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.plans.derived import TEXT_MAX, Column, Derived, Rows, opaque
from lakelog.lineage.columns.plans.plan_tree import PlanNode, Tree, plan_of
from lakelog.lineage.columns.plans.plan_walk import PlanWalk
from lakelog.lineage.columns.plans.writes import written_by

_CONSTANTS = frozenset({"LocalRelation", "OneRowRelation", "Range"})

Leaf = Dataset | Rows  # a dataset, or the rows of another plan


@dataclass(frozen=True, slots=True)
class PlanFields:
    """The lineage of a plan, its rows, the operators in it that are opaque, and the tables of ours that it reads.

    `reads` are datasets of which no field is an input.
    """

    lineage: FieldLineage
    rows: Rows
    opaque_operators: frozenset[str]
    tables: tuple[SourceTable, ...] = ()
    reads: tuple[Dataset, ...] = ()


def fields_of_plan(tree: Tree, leaves: Mapping[int, Leaf], target: Dataset | None = None) -> PlanFields:
    """The lineage of an analyzed plan as JSON.

    `leaves` says what is read, by the id of the first column of each leaf. Raises KeyError, ValueError and the like for
    JSON that is no plan.
    """
    leaf_values = _LeafValues(leaves)
    walk = PlanWalk(leaf_values)
    written = written_by(walk, plan_of(tree))
    fields = tuple(
        OutputField(
            name=name,
            edges=value.edges,
            description=cut(value.text, TEXT_MAX),
            is_opaque=value.is_opaque,
        )
        for name, value in written.values
    )
    lineage = FieldLineage(target=target, fields=fields, dataset=written.dataset)
    return PlanFields(lineage, written.rows, frozenset(walk.unknown))


@dataclass(frozen=True, slots=True)
class _LeafValues:
    """What the columns of a leaf are made from."""

    leaves: Mapping[int, Leaf]

    def __call__(self, node: PlanNode, columns: Sequence[Column]) -> tuple[Sequence[Derived], Edges]:
        """The value of each column, and the edges of all rows."""
        found = self.leaves.get(columns[0].id) if columns else None
        if isinstance(found, Dataset):
            return [column_of_dataset(found, column.name) for column in columns], NO_EDGES
        if found is not None:
            return _values_of(found, columns), found.dataset
        is_constant = node.name in _CONSTANTS
        return [Derived(text=column.name, is_opaque=not is_constant) for column in columns], NO_EDGES


def _values_of(rows: Rows, columns: Sequence[Column]) -> Sequence[Derived]:
    """The values of rows of another plan: by id, else by position, else any of them."""
    if all(column.id in rows.columns for column in columns):
        return [rows.columns[column.id] for column in columns]
    if len(columns) == len(rows.output):
        return rows.values()
    return [opaque(rows.values(), column.name) for column in columns]


def column_of_dataset(dataset: Dataset, name: str) -> Derived:
    """A column as it is read."""
    place = SourceField(dataset, (name,))
    return Derived(frozenset([FieldEdge(place, EdgeKind.IDENTITY)]), name, place=place)
