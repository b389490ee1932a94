"""The snapshots of tables, as the page lists them."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.timestamps import utc_of
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import ForeignSource, Source, TableSource, UnknownSource, readable_batches
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.schema import line_name
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_state import DatasetHistory, NoHistories
from lakelog.lineage.tables.found_tables import FoundTables
from lakelog.warehouse.warehouse import Warehouse


class TableHistories(NoHistories):
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

    def _table(self, dataset: Dataset) -> FileStoreTable | None:
        try:
            found = FoundTables(self._catalogs).named(".".join(dataset))
        except (NotFoundError, InvalidRequestError):  # a dataset that is not a table of these catalogs
            return None
        return found if isinstance(found, FileStoreTable) else None


def millis_of_snapshot(catalogs: Sequence[Warehouse], name: str, snapshot: int) -> int | None:
    """When a snapshot of a table was committed; None if it does not live."""
    try:
        found = FoundTables(catalogs).named(name).snapshots.find(snapshot)
    except (NotFoundError, InvalidRequestError):  # a dataset that is not a table of these catalogs
        return None
    return None if found is None else found.time_millis


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
