"""The lineage of the fields that a merge in Python assigns.

Of an expression only the columns that it names are known: its edges are TRANSFORMATION, and the lineage is approximate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lakelog.filestore.metadata.origins import BatchLineage
from lakelog.filestore.predicate import Predicate, resolved_columns
from lakelog.filestore.write import MergeAction, MergeClause, MergeClauses, MergedRows
from lakelog.lineage.columns.declared_fields import source_table_of
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import NO_EDGES, EdgeKind, Edges, all_of, along
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.field_store import find_document, with_fields
from lakelog.lineage.columns.plans.derived import Derived, Rows, merged
from lakelog.lineage.columns.plans.plan_fields import PlanFields, column_of_dataset
from lakelog.lineage.records.sources import with_lineage
from lakelog.warehouse.handle import TableHandle

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables import TableStore

_NAMED = re.compile(r'col\("(source|target)"\)\.struct\.field_by_name\((.+?)\)\(\)')
AnyTable = TypeVar("AnyTable", bound=TableHandle)
Sides = Mapping[str, Mapping[str, Derived]]  # "source" and "target": the columns by name


def recording_merge(
    table: AnyTable, source: PlanFields | None, names: Sequence[str], on: Sequence[str], clauses: MergeClauses
) -> AnyTable:
    """A handle whose commit records the lineage of the merge, if the handle records any.

    `source` is that of the rows of the source; None where only the record of the handle says what they are made from.
    `names` are the columns of these rows.
    """
    if table.store.lineage is None:
        return table
    record = BatchLineage.from_json(table.store.lineage)
    if source is None:
        documents = [find_document(table.store, checksum) for checksum in record.fields]
        source = next((_rows_of(one, names) for one in documents if one is not None), None)
    if source is None:
        return table
    found = fields_of_merge(table.store, source, on, clauses)
    return with_lineage(table, with_fields(record, table.store, found, is_approximate=True))


def _rows_of(document: FieldDocument, names: Sequence[str]) -> PlanFields:
    """Rows with these columns of a document."""
    fields = tuple(one for one in document.lineage.fields if one.name in names)
    lineage = replace(document.lineage, fields=fields)
    return PlanFields(lineage, Rows([], {}), frozenset(), document.sources)


def fields_of_merge(table: TableStore, source: PlanFields, on: Sequence[str], clauses: MergeClauses) -> PlanFields:
    """The lineage of the fields that the clauses assign, from that of the rows of the source."""
    own = source_table_of(table)
    sides = {
        "source": {
            one.name: Derived(one.edges, one.description or one.name, one.is_opaque) for one in source.lineage.fields
        },
        "target": {one.name: column_of_dataset(own.dataset, one.name) for one in own.columns},
    }
    joined = [along(side[name].edges, EdgeKind.JOIN) for side in sides.values() for name in on if name in side]
    decided: list[Edges] = []
    assigned: dict[str, list[Derived]] = {}
    for clause in clauses.clauses:
        decided.append(along(_edges_of(clause.condition, sides, table), EdgeKind.FILTER))
        for name, value in _values(clause, sides, table):
            assigned.setdefault(name, []).append(value)
    fields = tuple(_field(one.name, merged(assigned[one.name])) for one in own.columns if one.name in assigned)
    lineage = FieldLineage(fields=fields, dataset=all_of((source.lineage.dataset, *joined, *decided)))
    used = set(lineage.sources())
    tables = tuple(one for one in (own, *source.tables) if one.dataset in used)
    return PlanFields(lineage, Rows([], {}), frozenset(), tables)


def _field(name: str, value: Derived) -> OutputField:
    return OutputField(name=name, edges=value.edges, description=value.text, is_opaque=value.is_opaque)


def _values(clause: MergeClause, sides: Sides, table: TableStore) -> Iterator[tuple[str, Derived]]:
    if clause.action is MergeAction.DELETE:
        return
    if clause.values is None:
        names = {one.name for one in table.schema.fields}
        keys = () if clause.action is MergeAction.INSERT else table.schema.primary_keys
        yield from (one for one in sides["source"].items() if one[0] in names and one[0] not in keys)
        return
    is_own = clause.of is MergedRows.NOT_MATCHED_BY_SOURCE
    for name, value in clause.named(table).items():
        edges = along(_edges_of(value, sides, table, is_own=is_own), EdgeKind.TRANSFORMATION)
        yield name, Derived(edges, str(value))


def _edges_of(value: object, sides: Sides, table: TableStore, *, is_own: bool = False) -> Edges:
    """The edges of what a value or a condition names; none for a constant."""
    if isinstance(value, Predicate):
        names = (one.name for one in resolved_columns(value, table.schema.fields))
        return all_of(sides["target"][name].edges for name in names if name in sides["target"])
    if not hasattr(value, "meta"):  # a constant
        return NO_EDGES
    named = [sides[side].get(name) for side, name in _NAMED.findall(str(value))]
    if is_own:
        named += (sides["target"].get(name) for name in value.meta.root_names())
    return all_of(one.edges for one in named if one is not None)
