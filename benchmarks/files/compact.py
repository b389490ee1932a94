"""Megabytes a second of a full compaction, beside pyarrow reading and writing the same files as plain Parquet.

A table of 7 columns and one bucket: a large run, then four younger ones that overwrite a fifth of its keys each. Both
read the same files with page checksums, and write with the same compression. The compaction commits nothing.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.command import run_command
from benchmarks.files.files import make_rows
from benchmarks.measuring import in_turns, measured, median_wall_s
from lakelog.filestore.compact.bucket_work import BucketWork, due_work, pick_unit
from lakelog.filestore.compact.result import discard_result
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable

REPEATS = 5
YOUNGER_RUNS = 4
OVERWRITTEN_SHARE = 5  # one key in so many


def make_table(folder: Path, rows: int) -> FileStoreTable:
    """One bucket with a large run and younger ones."""
    options = {"bucket": "1", "write-only": "true"}
    schema = build_schema(make_rows(np.arange(1), 0).schema, primary_keys=["id"], options=options)
    table = FileStoreTable.create(folder / "t", schema)
    table.write(make_rows(np.arange(rows), 0))
    table.compact(full=True)
    rng = np.random.default_rng(5)
    for run in range(YOUNGER_RUNS):
        table.write(make_rows(np.unique(rng.integers(0, rows, rows // OVERWRITTEN_SHARE)), run + 1))
    return table


def compact_once(table: FileStoreTable, work: BucketWork) -> None:
    """Merge the bucket, and delete what came of it."""
    result = compact_bucket(table, work)
    assert result is not None
    discard_result(table, result)


def rewrite_plain(paths: list[str], folder: Path) -> None:
    """Read each file whole, write it elsewhere."""
    for number, path in enumerate(paths):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            rows = file.read()
        pq.write_table(
            rows,
            folder / f"{number}.parquet",
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_page_checksum=True,
        )


def run(folder: Path, rows: int) -> dict[str, object]:
    """The figures."""
    table = make_table(folder, rows)
    everything = partial(pick_unit, table, is_full=True)
    (work,) = due_work(table, table.snapshots.latest(), None, lambda _, files, __: everything(files))
    files = [file for run in work.unit.inputs for file in run.files]
    paths = [table.data_path(work.bucket, file) for file in files]
    megabytes = sum(file.file_size_bytes for file in files) / (1 << 20)
    found = in_turns(
        {
            "plain": lambda: measured(partial(rewrite_plain, paths, folder)),
            "compaction": lambda: measured(partial(compact_once, table, work)),
        },
        repeats=REPEATS,
    )
    seconds = {name: median_wall_s(measures) for name, measures in found.items()}
    return {
        "benchmark": "compact",
        "rows": sum(file.row_count for file in files),
        "megabytes": round(megabytes),
        "plain_mb_per_s": round(megabytes / seconds["plain"]),
        "compaction_mb_per_s": round(megabytes / seconds["compaction"]),
        "ratio": round(seconds["plain"] / seconds["compaction"], 3),
    }


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, 50_000 if is_small else 4_000_000))


if __name__ == "__main__":
    main()
