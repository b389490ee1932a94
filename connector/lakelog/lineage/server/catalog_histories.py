"""What a wrong snapshot of a table has reached, as the page marks it."""

from __future__ import annotations

from lakelog.lineage.answers.catalog_fields import dataset_named
from lakelog.lineage.answers.field_taint import tainted_fields
from lakelog.lineage.answers.taint import Tainted, tainted
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_state import TableTaint
from lakelog.lineage.page.table_histories import TableHistories


class CatalogHistories(TableHistories):
    """The snapshots of tables of catalogs, and what a wrong one has reached."""

    def taints(
        self, index: FieldIndex, dataset: Dataset, field: str | None, snapshot: int
    ) -> dict[Dataset, TableTaint]:
        """What a wrong snapshot of a table, or a field that is wrong from it on, has reached.

        Reads the snapshots of the tables downstream. Raises NotFoundError.
        """
        first, *others = self._catalogs
        name = ".".join(dataset)
        if field is None:
            return _taints_of(tainted(first, name, snapshot, catalogs=others))
        found = tainted_fields(first, name, field, snapshot, catalogs=others, index=index)
        by_table: dict[str, list[Json]] = {}
        for row in found.fields.to_pylist():
            by_table.setdefault(row["table"], []).append(row)
        snapshots = _snapshots_of(found.tables)
        return {
            dataset_named(table): TableTaint(
                first=min(row["first_tainted"] for row in rows),
                last_clean=min(rows, key=lambda row: row["first_tainted"])["last_clean"],
                fields=frozenset(row["field"] for row in rows),
                snapshots=frozenset(
                    one for one in snapshots.get(table, ()) if one >= min(row["first_tainted"] for row in rows)
                ),
            )
            for table, rows in by_table.items()
        }


def _taints_of(found: Tainted) -> dict[Dataset, TableTaint]:
    snapshots = _snapshots_of(found)
    return {
        dataset_named(row["table"]): TableTaint(
            first=row["first_tainted"],
            last_clean=row["last_clean"],
            snapshots=frozenset(snapshots.get(row["table"], ())),
        )
        for row in found.tables.to_pylist()
    }


def _snapshots_of(found: Tainted) -> dict[str, list[int]]:
    by_table: dict[str, list[int]] = {}
    for row in found.snapshots.to_pylist():
        by_table.setdefault(row["table"], []).append(row["snapshot_id"])
    return by_table
