"""What each of several processes does at one table at once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int64())])
KEYS = 10  # of each writer
KEPT = Retention(count_min=2, count_max=4, age_millis=3_600_000, limit=100)


@dataclass(frozen=True, slots=True)
class CountingFileIO(LocalFileIO):
    """Counts the snapshots that others had created first."""

    events: Counter[str] = field(default_factory=Counter)

    def create_new(self, path: str, data: bytes) -> bool:
        """As the one below."""
        is_created = LocalFileIO.create_new(self, path, data)
        self.events["races lost"] += "/snapshot/" in path and not is_created
        return is_created


def keys_of(writer: int) -> list[int]:
    """The keys that only this writer writes."""
    return [writer * 1_000 + key for key in range(KEYS)]


def write(table: FileStoreTable, number: int, events: Counter[str]) -> None:
    """All keys of the writer at once, with a new number."""
    batch = events["written"] + 1
    table.write(_rows_of(number, batch))
    events["written"] = batch


def stream(table: FileStoreTable, number: int, events: Counter[str]) -> None:
    """As `write`, by a reader that gives its rows once, and takes its time."""
    batch = events["written"] + 1
    rows = _rows_of(number, batch).to_batches(max_chunksize=2)
    others_at = table.snapshots.latest_id()

    def given() -> Iterator[pa.RecordBatch]:
        for piece in rows:
            events["overtaken"] += table.snapshots.latest_id() != others_at
            yield piece

    table.write(pa.RecordBatchReader.from_batches(SCHEMA, given()))
    events["written"] = batch


def _rows_of(number: int, batch: int) -> pa.Table:
    return pa.table([pa.array(keys_of(number)), pa.array([batch] * KEYS, pa.int64())], schema=SCHEMA)


def compact(table: FileStoreTable, number: int, events: Counter[str]) -> None:
    """All runs of every bucket."""
    try:
        events["compacted"] += table.compact(full=True) is not None
    except (ConflictError, NotFoundError):
        events["conflicts"] += 1


def expire(table: FileStoreTable, number: int, events: Counter[str]) -> None:
    """All but a few snapshots."""
    events["expired"] += len(expire_snapshots(table, retention=KEPT).snapshot_ids)


def read(table: FileStoreTable, number: int, events: Counter[str]) -> None:
    """Every read shows whole writes, and none older than the read before."""
    try:
        rows = table.to_arrow().to_pydict()
    except NotFoundError:
        events["expired while it was read"] += 1
        return
    shown = dict(zip(rows["id"], rows["batch"], strict=True))
    assert len(shown) == len(rows["id"]), f"keys are there twice: {sorted(rows['id'])}"
    for writer in {key // 1_000 for key in shown}:
        batches = {shown.get(key) for key in keys_of(writer)}
        assert len(batches) == 1, f"writer {writer} is half there: {batches}"
        batch = batches.pop() or 0
        assert batch >= events[f"seen of writer {writer}"], f"writer {writer} went back to {batch}: {events}"
        events[f"seen of writer {writer}"] = batch
    events["read"] += 1


ROLES: dict[str, Callable[[FileStoreTable, int, Counter[str]], None]] = {
    "write": write,
    "stream": stream,
    "compact": compact,
    "expire": expire,
    "read": read,
}


def main(role: str, path: str, number: str, seconds: str, notes: str) -> None:
    """Do the role's work for some seconds. `notes` is where is written, and goes on, how often it did what."""
    kept = Path(notes)
    events: Counter[str] = Counter(json.loads(kept.read_text()) if kept.exists() else {})
    table = FileStoreTable.open(path, CountingFileIO(sync_data=False, events=events))
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        ROLES[role](table, int(number), events)
    kept.write_text(json.dumps(events))
