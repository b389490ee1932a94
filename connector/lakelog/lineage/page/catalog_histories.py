"""The snapshots of tables, as the page lists them."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.timestamps import utc_of
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import ForeignSource, Source, TableSource, UnknownSource, readable_batches
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.schema import line_name
from lakelog.lineage.answers.catalog_fields import dataset_named, millis_of_snapshot
from lakelog.lineage.answers.field_taint import tainted_fields
from lakelog.lineage.answers.taint import Tainted, tainted
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.lines.line_graph import FoundTables
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_state import DatasetHistory, TableTaint
from lakelog.warehouse.warehouse import Warehouse


class CatalogHistories:
    """The snapshots of tables of catalogs."""

    def __init__(self, catalogs: Sequence[Warehouse]) -> None:
        """Nothing is read yet."""
        self._catalogs = catalogs

    def history(self, dataset: Dataset, *, limit: int, before: int | None) -> DatasetHistory:
        """Some living snapshots of a table, the newest first. Reads those, and the tags."""
        table = self._table(dataset)
        if table is None:
            return DatasetHistory()
        ids = [one for one in table.snapshots.ids() if before is None or one < before]
        tags: dict[int, list[str]] = {}
        for tag in table.snapshots.readable_tags():
            tags.setdefault(tag.snapshot.id, []).append(tag.name)
        found = [table.snapshots.find(one) for one in sorted(ids, reverse=True)[:limit]]
        return DatasetHistory(
            snapshots=[_snapshot(one, tags.get(one.id, [])) for one in found if one is not None],
            next=sorted(ids, reverse=True)[limit - 1] if len(ids) > limit else None,
            tags=[{"name": name, "snapshot": number} for number, names in tags.items() for name in names],
            branches=[one for one in table.branch_names() if one != table.branch][:1_000],
        )

    def millis_of(self, dataset: Dataset, snapshot: int) -> int | None:
        """When a snapshot was committed; None if it does not live."""
        return millis_of_snapshot(self._catalogs, ".".join(dataset), snapshot)

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

    def _table(self, dataset: Dataset) -> FileStoreTable | None:
        try:
            found = FoundTables(self._catalogs).named(".".join(dataset))
        except (NotFoundError, InvalidRequestError):  # a dataset that is not a table of these catalogs
            return None
        return found if isinstance(found, FileStoreTable) else None


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


def _snapshot(one: Snapshot, tags: Sequence[str]) -> Json:
    batches = readable_batches(one)
    first = batches[0].lineage if batches else None
    sources = [source for batch in batches for source in batch.lineage.sources]
    return {
        "id": one.id,
        "time": utc_of(one.time_millis, separator="T", suffix="Z"),
        "job": None if first is None else first.job,
        "operation": one.operation or (None if first is None else first.operation) or one.commit_kind.value,
        "rows": one.total_record_count,
        "sources": [_source(source) for source in sources],
        "tags": list(tags),
    }


def _source(one: Source) -> Json:
    match one:
        case TableSource():
            start, end = (None if found is None else found.snapshot_id for found in (one.start, one.end))
            return {"table": line_name(one.table, one.branch), "from": start, "to": end}
        case ForeignSource():
            name = one.format if one.name is None else f"{one.format}:{one.name}"
            return {"table": name, "from": one.start, "to": one.end}
        case UnknownSource():
            return {"table": "unknown", "from": None, "to": None}
