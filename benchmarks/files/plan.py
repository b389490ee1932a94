"""Milliseconds of planning reads of a table with many files, beside fastavro's own decoding of the same manifests.

The table has days as partitions, ten buckets each, one commit a day, manifests merged as commits merge them. `full` is
a plan of all files, `day` of a hundredth of them by a filter on the partition, `key` of a two-hundredth by key and
partition. `cold`: nothing is remembered of the table, the process is warm. `warm`: planned again. Medians; `cpu` is
processor time.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fastavro
import pyarrow as pa

from benchmarks.command import print_summary
from benchmarks.measuring import Measure, in_turns, measured, median_cpu_s, median_wall_s
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.encoding.binary_row import serialize_row
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource, SimpleStats
from lakelog.filestore.metadata.manifests.manifest import (
    COLUMNS_CACHE,
    ENTRY_CACHE,
    LIST_CACHE,
    FileKind,
    ManifestEntry,
)
from lakelog.filestore.predicate import parse_where
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.table import FileStoreTable

DAYS = 100
BUCKETS = 10
REPEATS = 5
KEYS_A_FILE = 1_000
SCHEMA = pa.schema(
    [
        pa.field("day", pa.int32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("amount", pa.int64()),
        pa.field("name", pa.string()),
    ]
)


def make_table(folder: Path, files: int) -> FileStoreTable:
    """A table of many files that are named only: a plan never opens them."""
    options = {"bucket": str(BUCKETS), "write-only": "true"}
    schema = build_schema(SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options=options)
    table = FileStoreTable.create(folder / "t", schema)
    names = FileNames()
    for day in range(DAYS):
        entries = [
            _entry(table, day, bucket, number, names.data_file("parquet", prefix="data-"))
            for bucket in range(BUCKETS)
            for number in range(files // DAYS // BUCKETS)
        ]
        append_commit(table, user="bench", identifier=day, digest=None, entries=entries)
    return table


def _entry(table: FileStoreTable, day: int, bucket: int, number: int, name: str) -> ManifestEntry:
    first = number * KEYS_A_FILE
    low, high = (serialize_row(table.key_types, [key]) for key in (first, first + KEYS_A_FILE - 1))
    kinds = [field.type for field in table.schema.fields]
    file = DataFileMeta(
        file_name=name,
        file_size_bytes=1 << 20,
        row_count=KEYS_A_FILE,
        min_key=low,
        max_key=high,
        key_stats=SimpleStats(min_values=low, max_values=high, null_counts=(0,)),
        value_stats=SimpleStats(
            min_values=serialize_row(kinds, [day, first, number * 7_919 % 10_007, f"name-{number:06}-aaaaa"]),
            max_values=serialize_row(kinds, [day, first + KEYS_A_FILE - 1, 1 << 40, f"name-{number:06}-zzzzz"]),
            null_counts=(0, 0, 0, 0),
        ),
        min_sequence_number=first,
        max_sequence_number=first + KEYS_A_FILE - 1,
        schema_id=0,
        level=5,
        creation_time_millis=None,  # no commit asks for a file whose age is not known
        delete_row_count=0,
        file_source=FileSource.COMPACT,
    )
    partition = serialize_row([field.type for field in table.schema.partition_fields], [day])
    return ManifestEntry(kind=FileKind.ADD, partition=partition, bucket=bucket, total_buckets=BUCKETS, file=file)


def manifest_names(table: FileStoreTable) -> list[str]:
    """The manifests of the newest snapshot."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return [manifest.file_name for name in lists for manifest in table.manifests.read_list(name)]


def decode_plainly(table: FileStoreTable, names: list[str]) -> None:
    """The floor: every record of the manifests by fastavro, and nothing else."""
    for name in names:
        list(fastavro.reader(io.BytesIO(table.file_io.read_bytes(table.paths.manifest(name)))))


def plan_anew(path: str, where: str | None, *, expected: int) -> None:
    """A plan by a process that remembers nothing of the table."""
    for cache in (COLUMNS_CACHE, ENTRY_CACHE, LIST_CACHE):
        cache.clear()
    plan_again(FileStoreTable.open(path), where, expected=expected)


def plan_again(table: FileStoreTable, where: str | None, *, expected: int) -> None:
    """A plan; ends the benchmark when it has not as many files as it must."""
    planned = plan_splits(table, table.snapshots.latest(), where=None if where is None else parse_where(where))
    found = sum(len(split.files) for split in planned.splits)
    if found != expected:
        sys.exit(f"the plan for {where} has {found} files, expected {expected}")


def run(folder: Path, files: int, repeats: int) -> dict[str, object]:
    """The figures."""
    table = make_table(folder, files)
    names = manifest_names(table)
    a_day, day, key = files // DAYS, "day = 42", "id between 0 and 999 and day < 50"
    warm = FileStoreTable.open(table.path)
    plan_again(warm, None, expected=files)
    contenders: dict[str, Callable[[], Measure]] = {
        name: partial(measured, contender)
        for name, contender in {
            "fastavro": partial(decode_plainly, table, names),
            "full_cold": partial(plan_anew, table.path, None, expected=files),
            "day_cold": partial(plan_anew, table.path, day, expected=a_day),
            "full_warm": partial(plan_again, warm, None, expected=files),
            "day_warm": partial(plan_again, warm, day, expected=a_day),
            "key_warm": partial(plan_again, warm, key, expected=BUCKETS * DAYS // 2),
        }.items()
    }
    measures = in_turns(contenders, repeats=repeats)
    walls = {name: median_wall_s(ones) for name, ones in measures.items()}
    cpus = {name: median_cpu_s(ones) for name, ones in measures.items()}
    summary: dict[str, object] = {"benchmark": "plan", "files": files, "manifests": len(names)}
    summary |= {f"{name}_ms": round(wall * 1_000, 1) for name, wall in walls.items()}
    summary |= {f"{name}_cpu_ms": round(cpu * 1_000) for name, cpu in cpus.items()}
    return summary | {"ratio_full_cold": round(walls["full_cold"] / walls["fastavro"], 3)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few files, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        summary = run(Path(folder), *((2_000, 1) if arguments.small else (100_000, REPEATS)))
    print_summary(summary, as_json=arguments.json)


if __name__ == "__main__":
    main()
