"""What the LSM tree costs: bytes written and bytes held, in multiples of what is needed, over many batches.

200 batches of 50,000 rows, 80 % of them updates of random keys, into a table of one bucket by `FileStoreTable.write`,
which compacts as it goes. `level_0` writes the same batches into a write-only table: the floor. Write amplification is
the bytes of all data files that were written, per byte of the floor's; space amplification is the bytes of live files,
per byte of the same rows compacted, the largest over the run; so is the number of sorted runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.command import run_command
from benchmarks.files.files import make_rows
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable

UPDATED_SHARE = 0.8
NO_PARTITION = bytes(12)
SPACE_EVERY = 20  # batches after which the compacted size is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many rows there are."""

    batch_count: int
    batch_rows: int


SMALL = Size(batch_count=20, batch_rows=2_000)
FULL = Size(batch_count=200, batch_rows=50_000)


def batches(size: Size) -> Iterator[pa.Table]:
    """Batches that update random keys and add new ones."""
    rng = np.random.default_rng(11)
    known = 0
    for number in range(size.batch_count):
        updated = int(size.batch_rows * UPDATED_SHARE) if known else 0
        old = rng.choice(known, min(updated, known), replace=False) if known else np.zeros(0, np.int64)
        new = np.arange(known, known + size.batch_rows - len(old))
        known += len(new)
        yield make_rows(np.concatenate([old, new]), number)


def make_table(folder: Path, *, is_write_only: bool) -> FileStoreTable:
    """One bucket, nothing in it."""
    options = {"bucket": "1", "write-only": str(is_write_only).lower()}
    schema = build_schema(make_rows(np.arange(1), 0).schema, primary_keys=["id"], options=options)
    return FileStoreTable.create(folder, schema)


def written_bytes(table: FileStoreTable) -> int:
    """Bytes of all data files that snapshots have added, but for those that only changed their level."""
    sizes: dict[str, int] = {}
    for number in table.snapshots.ids():
        snapshot = table.snapshots.get(number)
        for entry in table.manifests.read_entries(table.manifests.read_list(snapshot.delta_manifest_list)):
            if entry.kind is FileKind.ADD:
                sizes[entry.file.file_name] = entry.file.file_size_bytes
    return sum(sizes.values())


def live_bytes(table: FileStoreTable) -> int:
    """Bytes of the files of the newest snapshot."""
    entries = table.live_files.of(table.snapshots.latest()).entries()
    return sum(entry.file.file_size_bytes for entry in entries)


def compacted_bytes(table: FileStoreTable, folder: Path) -> int:
    """Bytes of the same rows when they are written at once."""
    once = make_table(folder, is_write_only=True)
    once.write(table.to_arrow().sort_by("id"))
    return live_bytes(once)


def run(folder: Path, size: Size) -> dict[str, object]:
    """The figures."""
    tables = {"level_0": make_table(folder / "floor", is_write_only=True)}
    tables["lakelog"] = make_table(folder / "table", is_write_only=False)
    seconds = dict.fromkeys(tables, 0.0)
    space, run_count = 1.0, 0
    for number, rows in enumerate(batches(size), 1):
        for name, table in tables.items():
            started = time.perf_counter()
            table.write(rows)
            seconds[name] += time.perf_counter() - started
        files = tables["lakelog"].live_files.of(tables["lakelog"].snapshots.latest()).files(BucketId(NO_PARTITION, 0))
        run_count = max(run_count, len(runs_of(files, tables["lakelog"].key_types)))
        if number % SPACE_EVERY == 0:
            once = compacted_bytes(tables["lakelog"], folder / f"once-{number}")
            space = max(space, live_bytes(tables["lakelog"]) / once)
    if tables["lakelog"].to_arrow().sort_by("id") != tables["level_0"].to_arrow().sort_by("id"):
        sys.exit("compacted and uncompacted tables differ")
    total = size.batch_count * size.batch_rows
    return {
        "benchmark": "amplification",
        "rows": total,
        "level_0_rows_per_s": round(total / seconds["level_0"]),
        "lakelog_rows_per_s": round(total / seconds["lakelog"]),
        "write_amplification": round(written_bytes(tables["lakelog"]) / written_bytes(tables["level_0"]), 2),
        "space_amplification": round(space, 2),
        "sorted_runs": run_count,
    }


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, SMALL if is_small else FULL))


if __name__ == "__main__":
    main()
