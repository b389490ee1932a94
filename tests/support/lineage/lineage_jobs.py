"""Jobs that derive tables from tables and record it, without Spark: streams from snapshot to snapshot, statements."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.filestore.commit.batches import append_commit, batch_properties
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.origins.record import BatchLineage, ReadMode, Source, TableSource, TableVersion
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.write.table_write import Overwrite, TableWrite
from lakelog.filestore.write.write import write_rows
from lakelog.lineage.tables.found_tables import line_key


def version_of(table: Table, snapshot_id: int | None) -> TableVersion | None:
    """A living snapshot of a table as records name it."""
    if snapshot_id is None:
        return None
    return TableVersion(snapshot_id=snapshot_id, commit=table.store.snapshots.get(snapshot_id).uuid)


def read_of(
    table: Table,
    *,
    start: int | None = None,
    end: int | None = None,
    mode: ReadMode = ReadMode.STREAM,
    is_exact: bool = True,
    why: str | None = None,
) -> TableSource:
    """What a batch records that read a table from one snapshot to another."""
    key = line_key(table.store)
    return TableSource(
        table=str(table.identifier),
        uuid=key.uuid,
        branch=key.branch,
        mode=mode,
        start=version_of(table, start),
        end=version_of(table, end),
        is_exact=is_exact,
        why=why,
    )


def commit_rows(
    table: Table,
    rows: pa.Table,
    *sources: Source,
    user: str = "job",
    batch: int | None = 0,
    operation: str | None = None,
    identifier: int | None = None,
    job: str | None = None,
) -> Snapshot:
    """Commit a batch of a job, by default the user's, with its record; `batch` None is a statement."""
    store = table.store
    live = store.live_files.of(store.snapshots.latest())
    entries = write_rows(store, rows, first_sequence=live.next_sequence).entries if rows.num_rows else []
    given = identifier if identifier is not None else 0 if batch is None else batch
    record = BatchLineage(job=job or user, query_id=user, batch_id=batch, operation=operation, sources=sources)
    named = {"user": user, "identifier": given, **record.to_json()}
    snapshot = append_commit(
        store, user=user, identifier=given, digest=None, entries=entries, lineage={"batches": [named]}
    )
    assert snapshot is not None
    return snapshot


class StreamJob:
    """A job that reads tables as streams, exactly, and writes one row a batch."""

    def __init__(self, sink: Table, sources: Sequence[Table], *, user: str) -> None:
        self.sink = sink
        self.sources = sources
        self.user = user
        self.batch = 0
        self.read: dict[str, int | None] = {source.name: None for source in sources}

    def run(self, ends: Mapping[str, int] | None = None, *, rows: int = 1) -> Snapshot:
        """One batch up to these snapshots of the sources, by default their newest."""
        found: list[Source] = []
        for source in self.sources:
            newest = source.store.snapshots.latest_id()
            end = (ends or {}).get(source.name, newest)
            found.append(read_of(source, start=self.read[source.name], end=end))
            self.read[source.name] = end
        data = pa.table({"id": pa.array(range(self.batch, self.batch + rows), pa.int64())})
        snapshot = commit_rows(self.sink, data, *found, user=self.user, batch=self.batch)
        self.batch += 1
        return snapshot


def overwrite_rows(table: Table, rows: pa.Table, *sources: Source) -> Snapshot:
    """Replace all rows of a table by a statement with its record."""
    store = table.store
    write = TableWrite(store, rows, replaces=Overwrite.EVERYTHING)
    user = str(uuid.uuid4())
    record = BatchLineage(job="overwrite", operation="OVERWRITE", sources=sources)
    named = {"user": user, "identifier": 0, **record.to_json()}

    def resolve(latest: Snapshot | None) -> CommitRequest:
        users = batch_properties(store, latest, user=user, identifier=0, digest=None, clock=CommitClock())
        assert users is not None
        properties = {**users, PropertyKey.LINEAGE: json.dumps({"batches": [named]})}
        return replace(write.resolve(latest), properties=properties)

    snapshot = TableCommit(store).commit(resolve)
    assert snapshot is not None
    return snapshot
