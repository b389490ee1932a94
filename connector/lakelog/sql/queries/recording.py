"""The lineage of what a statement writes: the tables that its queries read, and the fields of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.filestore.metadata.origins import BatchLineage
from lakelog.filestore.options import LINEAGE_CAPTURE
from lakelog.lineage.columns.field_store import with_fields
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.sources import with_lineage
from lakelog.sql.language.names import FoundName
from lakelog.sql.queries.reading import QueryTables

if TYPE_CHECKING:
    from lakelog.catalog import Table


def recording(tables: QueryTables, table: Table, fields: PlanFields, *, without: FoundName | None = None) -> Table:
    """A handle whose commit records the tables that were read, but for `without`, and the lineage of fields."""
    if not LINEAGE_CAPTURE.of(table.schema.options):
        return table
    kept = tuple(source for name, source in tables.sources.items() if name != str(without))
    found = with_fields(BatchLineage(sources=kept), table.store, fields, is_approximate=True)
    return with_lineage(table, found)
