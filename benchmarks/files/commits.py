"""Milliseconds of one commit to a table with 10,000 snapshots, beside one with 10.

Each commit adds one file to each of 4 buckets; the files are not there, for a commit never opens them. Both tables are
opened anew before they are measured, as by another process; commits to them take turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.command import run_command
from benchmarks.files.files import BUCKETS, later_entry, make_rows
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest import ENTRY_CACHE, LIST_CACHE, ManifestEntry
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows

MEASURED = 60
FEW = 10


def make_table(folder: Path) -> tuple[FileStoreTable, Sequence[ManifestEntry]]:
    """An empty table, and the files of a batch as a pattern of others."""
    options = {"bucket": str(BUCKETS), "write-only": "true"}
    schema = build_schema(make_rows(np.arange(1), 0).schema, primary_keys=["id"], options=options)
    table = FileStoreTable.create(folder, schema, LocalFileIO(sync_data=False))
    return table, write_rows(table, make_rows(np.arange(100), 0), first_sequence=lambda _: 0).entries


def commit(table: FileStoreTable, entries: Sequence[ManifestEntry], number: int) -> float:
    """Commit one batch; the seconds that it took."""
    named = [later_entry(entry, f"data-{number}-{index}.parquet", number) for index, entry in enumerate(entries)]
    started = time.perf_counter()
    append_commit(table, user="bench", identifier=number, digest=None, entries=named)
    return time.perf_counter() - started


def run(folder: Path, many: int) -> dict[str, object]:
    """The figures."""
    counts = {"few": FEW, "many": many}
    tables = {}
    for name, count in counts.items():
        table, entries = make_table(folder / name)
        for number in range(count):
            commit(table, entries, number)
        tables[name] = (FileStoreTable.open(folder / name), entries)
    ENTRY_CACHE.clear()
    LIST_CACHE.clear()
    seconds: dict[str, list[float]] = {name: [] for name in tables}
    for number in range(MEASURED):
        for name, (table, entries) in tables.items():
            seconds[name].append(commit(table, entries, many + number))
    millis = {name: median(ones) * 1_000 for name, ones in seconds.items()}
    return {
        "benchmark": "commits",
        "snapshots": many,
        f"at_{FEW}_ms": round(millis["few"], 2),
        f"at_{many}_ms": round(millis["many"], 2),
        "first_at_many_ms": round(seconds["many"][0] * 1_000, 2),
        "ratio": round(millis["many"] / millis["few"], 3),
    }


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, 50 if is_small else 10_000))


if __name__ == "__main__":
    main()
