"""Milliseconds of the file store alone: level-0 files, merged reads beside plain Parquet, commits, plans, compaction.

A table of 7 columns and 4 buckets: one bottom run, then five level-0 runs a bucket. `plain` reads only the bottom
files, with pyarrow and page checksums: what a merged read cannot beat. Medians of the repeats; `cpu` is of all threads.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import Measure, in_turns, measured, median_cpu_s, median_wall_s
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.compact.bucket_work import BucketWork
from lakelog.filestore.compact.picking import pick_full
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.row_kinds import checked_kinds
from lakelog.filestore.write.write import write_rows
from lakelog.protocol.stores.logged_rows import staying_rows, write_level0

BUCKETS = 4
LEVEL_0_RUNS = 5
REPEATS = 5
TIMES = 10
NO_PARTITION = bytes(12)
COMMITS = 100
TWO_COLUMNS = ["id", "amount"]


def make_rows(ids: np.ndarray, seed: int) -> pa.Table:
    """Rows of these ids: numbers, strings that repeat and that do not, a timestamp, a flag."""
    rng = np.random.default_rng(seed)
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "amount": rng.integers(0, 1 << 40, count),
            "price": rng.random(count),
            "word": pa.array(rng.integers(0, 1_000, count).astype(str)),
            "name": pa.array(np.char.add("name-", rng.integers(0, 1 << 30, count).astype(str))),
            "at": pa.array(rng.integers(0, 1 << 40, count), pa.timestamp("us")),
            "flag": rng.integers(0, 2, count).astype(bool),
        }
    )


def make_table(folder: str, rows: int, level_0_rows: int) -> FileStoreTable:
    """A compacted table with younger rows on top."""
    schema = build_schema(
        make_rows(np.arange(1), 0).schema,
        primary_keys=["id"],
        options={"bucket": str(BUCKETS), "write-only": "true"},
    )
    table = FileStoreTable.create(f"{folder}/t", schema)
    table.write(make_rows(np.arange(rows), 0))
    table.compact(full=True)
    rng = np.random.default_rng(9)
    for run in range(LEVEL_0_RUNS):
        table.write(make_rows(np.unique(rng.integers(0, rows, BUCKETS * level_0_rows)), run + 1))
    return table


def read_merged(table: FileStoreTable, columns: list[str] | None) -> None:
    """Read the table."""
    for _ in table.planned(columns=columns).batches():
        pass


def read_plain(table: FileStoreTable, columns: list[str] | None) -> None:
    """Read the bottom files alone."""
    for entry in table.live_files.of(table.snapshots.latest()).entries():
        if entry.file.level > 0:
            path = table.data_path(entry.bucket_id, entry.file)
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                file.read(columns=columns or list(table.schema.field_names))


def compact_one(table: FileStoreTable) -> None:
    """Merge one bucket, and commit nothing."""
    files = table.live_files.of(table.snapshots.latest()).files(BucketId(NO_PARTITION, 0))
    unit = pick_full(runs_of(files, table.key_types), level_max=5)
    assert unit is not None
    compact_bucket(table, BucketWork(BucketId(NO_PARTITION, 0), unit))


def later_entry(entry: ManifestEntry, file_name: str, number: int) -> ManifestEntry:
    """The entry of batch `number`: a file of another name, with the rows that come after those of the batch before."""
    file = entry.file
    shift = number * (file.max_sequence_number + 1)
    numbers = (file.min_sequence_number + shift, file.max_sequence_number + shift)
    return replace(
        entry, file=replace(file, file_name=file_name, min_sequence_number=numbers[0], max_sequence_number=numbers[1])
    )


def commit_many(table: FileStoreTable, entries: Sequence[ManifestEntry], first: int) -> None:
    """Commit batches of one file a bucket. The files are not there: a commit never opens them."""
    for number in range(first, first + COMMITS):
        named = [later_entry(entry, f"data-{number}-{index}.parquet", number) for index, entry in enumerate(entries)]
        append_commit(table, user="bench", identifier=number, digest=None, entries=named)


def run(folder: Path, rows: int, level_0_rows: int) -> Iterator[dict[str, object]]:
    """One result a step."""
    table = make_table(f"{folder}/read", rows, level_0_rows)
    fresh = make_rows(np.random.default_rng(3).integers(0, rows, level_0_rows), 77)

    def prepare() -> None:
        for _ in range(TIMES):
            newest = staying_rows(table, fresh, checked_kinds(None, fresh.num_rows))
            write_level0(table, BucketId(NO_PARTITION, 0), newest, first_sequence=10**9)

    contenders: dict[str, Callable[[], object]] = {
        f"{TIMES} x level-0 file of {level_0_rows:,} rows": prepare,
        f"plain read of {rows:,} rows": partial(read_plain, table, None),
        f"merged read of {rows:,} rows": partial(read_merged, table, None),
        "plain read of 2 columns": partial(read_plain, table, TWO_COLUMNS),
        "merged read of 2 columns": partial(read_merged, table, TWO_COLUMNS),
        f"full compaction of 1 of {BUCKETS} buckets": partial(compact_one, table),
        f"{TIMES} x plan": lambda: [plan_splits(table, table.snapshots.latest()) for _ in range(TIMES)],
    }
    found = in_turns({name: partial(measured, contender) for name, contender in contenders.items()}, repeats=REPEATS)
    for name, measures in found.items():
        yield result(name, measures)
    busy = make_table(f"{folder}/commit", 100, 1)
    entries = write_rows(busy, make_rows(np.arange(100), 0), first_sequence=lambda _: 10**6).entries
    for first in range(0, 5 * COMMITS, COMMITS):
        once = measured(partial(commit_many, busy, entries, first))
        yield result(f"{COMMITS} x commit, from snapshot {first} on", [once])


def result(name: str, measures: list[Measure]) -> dict[str, object]:
    """The figures of one step."""
    wall, cpu = median_wall_s(measures), median_cpu_s(measures)
    return {"what": name, "wall_ms": round(wall * 1_000, 1), "cpu_ms": round(cpu * 1_000, 1)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few rows, to see that it runs")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = (20_000, 500) if arguments.small else (8_000_000, 50_000)
        for one in run(Path(folder), *sizes):
            if arguments.json:
                print(json.dumps(one), flush=True)
            else:
                print(f"{one['what']:58} {one['wall_ms']:>10} ms wall {one['cpu_ms']:>10} ms cpu", flush=True)


if __name__ == "__main__":
    main()
