"""Batches with lineage records, committed to real tables without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any  # Any: the values of rows

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.origins.record import BatchLineage, ReadMode, Source, TableSource, TableVersion
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.table import FileStoreTable

LINEAGE_ON = {"table-lineage": "true", "data-lineage": "true"}


def make_sink(catalog: Catalog, name: str = "db.t") -> Table:
    """A table of one column."""
    return catalog.create_table(name, schema=pa.schema({"id": pa.int64()}), options={"bucket": "1"})


def system_rows(catalog: Catalog, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a system table, in order; all columns without any."""
    return sorted_rows(catalog.system_table(f"sys.{name}").to_arrow(columns=columns or None))


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def files_of(table: Table | FileStoreTable) -> FileStoreTable:
    return table if isinstance(table, FileStoreTable) else table.store


def table_source(
    table: str = "db.a", *, end: int | None = 5, start: int | None = None, mode: ReadMode = ReadMode.STREAM
) -> TableSource:
    return TableSource(
        table=table,
        uuid=f"uuid-of-{table}",
        mode=mode,
        start=None if start is None else TableVersion(snapshot_id=start, commit=f"commit-{start}"),
        end=None if end is None else TableVersion(snapshot_id=end, commit=f"commit-{end}"),
        is_exact=end is not None,
        why=None if end is not None else "the log is ahead of the snapshots",
    )


def lineage(batch_id: int | None = 0, *sources: Source, job: str | None = "job", run: str = "run-1") -> BatchLineage:
    return BatchLineage(job=job, query_id="query-1", run_id=run, batch_id=batch_id, sources=sources)


def entry(user: str, identifier: int, of_batch: BatchLineage) -> dict[str, object]:
    return {"user": user, "identifier": identifier, **of_batch.to_json()}


def commit_batch(table: Table | FileStoreTable, user: str, identifier: int, *entries: Mapping[str, object]) -> Snapshot:
    """Commit a batch without rows; its snapshot records the entries."""
    snapshot = append_commit(
        files_of(table), user=user, identifier=identifier, digest=None, entries=[], lineage={"batches": list(entries)}
    )
    assert snapshot is not None
    return snapshot


def commit_job(table: Table | FileStoreTable, batch_id: int, *sources: Source, job: str = "job") -> Snapshot:
    """Commit a micro-batch of a job, whose user is the job's name."""
    return commit_batch(table, job, batch_id, entry(job, batch_id, lineage(batch_id, *sources, job=job)))


def commit_text(table: Table | FileStoreTable, text: str) -> Snapshot:
    """Commit a snapshot whose lineage is this text."""
    request = CommitRequest(
        commit_user="other", commit_identifier=3, kind=CommitKind.APPEND, properties={PropertyKey.LINEAGE: text}
    )
    snapshot = TableCommit(files_of(table)).commit(lambda _: request)
    assert snapshot is not None
    return snapshot


def lineage_text(*entries: Mapping[str, object]) -> str:
    return json.dumps({"batches": list(entries)})
