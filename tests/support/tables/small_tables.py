"""A small table with two buckets, and batches of a job for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.conflicts import OvertakenError
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.formats.parquet.parquet_footer import FOOTER_CACHE
from lakelog.filestore.io.bounded_files import KNOWN_FOLDERS
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest import COLUMNS_CACHE, ENTRY_CACHE, LIST_CACHE, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import DIGEST_KEY, TableSchema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int32())])
NO_WAIT = CommitClock(sleep=lambda seconds: None)
UNSYNCED = LocalFileIO(sync_data=False)


def make_table(
    folder: Path | str, file_io: FileIO = UNSYNCED, *, options: Mapping[str, str] | None = None
) -> FileStoreTable:
    """An empty table in `folder`."""
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "2", **(options or {})})
    return FileStoreTable.create(f"{folder}/t", schema, file_io)


def in_new_process(path: str, file_io: FileIO = UNSYNCED) -> FileStoreTable:
    """The table as a process sees it that remembers nothing."""
    KNOWN_FOLDERS.clear()
    COLUMNS_CACHE.clear()
    FOOTER_CACHE.clear()
    ENTRY_CACHE.clear()
    LIST_CACHE.clear()
    return FileStoreTable.open(path, file_io)


def altered_by_others(schema: TableSchema, **options: str) -> str:
    """A schema file as another engine leaves it: with more options, and without lakelog's digest."""
    given = json.loads(schema.to_json())
    del given[DIGEST_KEY]
    given["options"] |= options
    return json.dumps(given)


def rows_of(batch: int, *, count: int = 6) -> pa.Table:
    """The rows of a batch: each one overwrites half of the keys of the one before."""
    ids = [batch * count // 2 + index for index in range(count)]
    return pa.table([pa.array(ids, pa.int64()), pa.array([batch] * count, pa.int32())], schema=SCHEMA)


def prepare_batch(table: FileStoreTable, batch: int) -> list[ManifestEntry]:
    """The files of a batch, not committed."""
    live = table.live_files.of(table.snapshots.latest())
    return write_rows(table, rows_of(batch), first_sequence=live.next_sequence).entries


def commit_batch(table: FileStoreTable, batch: int, *, user: str = "job") -> Snapshot | None:
    """What a job does with a micro-batch; again after a crash."""
    entries = prepare_batch(table, batch)
    return append_commit(table, user=user, identifier=batch, digest=str(batch), entries=entries, clock=NO_WAIT)


def append_own_rows(table: FileStoreTable, batch: int, *, user: str) -> Snapshot | None:
    """Commit one row that no other user and no other batch has."""
    row = pa.table([pa.array([int(user) * 1_000 + batch], pa.int64()), pa.array([batch], pa.int32())], schema=SCHEMA)
    while True:
        live = table.live_files.of(table.snapshots.latest())
        entries = write_rows(table, row, first_sequence=live.next_sequence).entries
        try:
            return append_commit(table, user=user, identifier=batch, digest=None, entries=entries)
        except OvertakenError:
            continue


def append_anyhow(table: FileStoreTable, entries: Sequence[ManifestEntry]) -> Snapshot | None:
    """Commit files whose rows may be older than those that are there, as another engine may."""
    request = CommitRequest(
        commit_user="other", commit_identifier=BATCH_COMMIT_IDENTIFIER, kind=CommitKind.APPEND, entries=entries
    )
    return TableCommit(table, clock=NO_WAIT).commit(lambda _: request)


def committed_batches(table: FileStoreTable, user: str = "job") -> list[int]:
    """The identifiers of a user's snapshots, oldest first."""
    snapshots = (table.snapshots.get(snapshot_id) for snapshot_id in table.snapshots.ids())
    return [snapshot.commit_identifier for snapshot in snapshots if snapshot.commit_user == user]


def content(table: FileStoreTable) -> dict[int, int]:
    """The batch that wrote each id last."""
    rows = table.to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def content_after(batches: int) -> dict[int, int]:
    """What the table holds once batches 0 to `batches` - 1 are in."""
    written: dict[int, int] = {}
    for batch in range(batches):
        written |= dict.fromkeys(rows_of(batch)["id"].to_pylist(), batch)
    return written


def append_rows(table: FileStoreTable, rows: pa.Table, *, batch: int = 0) -> Snapshot | None:
    """Commit rows of a table of any columns."""
    live = table.live_files.of(table.snapshots.latest())
    entries = write_rows(table, rows, first_sequence=live.next_sequence).entries
    return append_commit(table, user="job", identifier=batch, digest=None, entries=entries, clock=NO_WAIT)
