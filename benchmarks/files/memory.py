"""The peak memory of merging and reading a bucket of 2 GB in a process that may have 1 GB of addresses.

Rows of 1 KB that do not compress, in a large run and three younger ones that overwrite half of its keys, so that nearly
all of it must be merged. A child process with the limit reads the merged rows, then compacts the bucket, then reads
again; `peak` is the most memory and the most addresses that it had. `read.memory-budget` is 64 mb.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.command import run_command
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable

PAYLOAD_BYTES = 1_024
BUDGET = "64 mb"
LIMIT_BYTES = 1 << 30
YOUNGER_RUNS = 3
PIECE_ROWS = 100_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("run", pa.int32()), ("payload", pa.binary())])
# Arenas of the C library and stacks of pools take addresses, not memory: few are enough for a process of two cores.
# Arrow's allocator takes a gigabyte of addresses at its start; the C library's can be set to give back large blocks.
CHILD_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "POLARS_MAX_THREADS": "2",
}


def make_rows(ids: np.ndarray, run: int) -> pa.Table:
    """Rows of these ids with random bytes."""
    data = pa.py_buffer(np.random.default_rng(run).bytes(len(ids) * PAYLOAD_BYTES))
    offsets = pa.py_buffer(np.arange(0, (len(ids) + 1) * PAYLOAD_BYTES, PAYLOAD_BYTES, dtype=np.int32))
    payload = pa.Array.from_buffers(pa.binary(), len(ids), [None, offsets, data])
    return pa.table([ids, pa.array(np.full(len(ids), run, np.int32)), payload], schema=SCHEMA)


def make_table(folder: Path, size_bytes: int) -> int:
    """A bucket of about that size, in a large run and younger ones; gives the number of its keys."""
    options = {"bucket": "1", "write-only": "true", "read.memory-budget": BUDGET}
    table = FileStoreTable.create(folder, build_schema(SCHEMA, primary_keys=["id"], options=options))
    keys = size_bytes // PAYLOAD_BYTES * 2 // 3
    for start in range(0, keys, PIECE_ROWS):
        table.write(make_rows(np.arange(start, min(start + PIECE_ROWS, keys)), 0))
    table.compact(full=True)
    rng = np.random.default_rng(1)
    for run in range(1, YOUNGER_RUNS + 1):
        ids = np.sort(rng.choice(keys, keys // 2 // YOUNGER_RUNS, replace=False))
        table.write(make_rows(ids, run))
    return keys


def read_limited(folder: str) -> None:
    """The child: read, compact, read again, and print what it took."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    table = FileStoreTable.open(folder)
    found: dict[str, object] = {}
    for step in ("read", "compact", "read_compacted"):
        started = time.perf_counter()
        if step == "compact":
            table.compact(full=True)
        else:
            found[f"{step}_rows"] = sum(batch.num_rows for batch in table.planned().batches())
        found[f"{step}_s"] = round(time.perf_counter() - started, 1)
    status = Path("/proc/self/status").read_text("ascii")
    peaks = dict(line.split(":", 1) for line in status.splitlines())
    found["peak_memory_mb"] = int(peaks["VmHWM"].split()[0]) >> 10
    found["peak_addresses_mb"] = int(peaks["VmPeak"].split()[0]) >> 10
    print(json.dumps(found))


def run(folder: Path, size_bytes: int) -> dict[str, object]:
    """The figures."""
    keys = make_table(folder / "t", size_bytes)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.files.memory", "--child", str(folder / "t")],
        env={**os.environ, **CHILD_SETTINGS},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    if (found["read_rows"], found["read_compacted_rows"]) != (keys, keys):
        sys.exit(f"{found} rows were read of {keys} keys")
    bucket = sum(path.stat().st_size for path in (folder / "t").glob("bucket-0/*"))
    return {"benchmark": "memory", "bucket_mb_on_disk": bucket >> 20, "limit_mb": LIMIT_BYTES >> 20, **found}


def main() -> None:
    """Print the figures."""
    if sys.argv[1:2] == ["--child"]:
        read_limited(sys.argv[2])
        return
    run_command(__doc__, lambda folder, is_small: run(folder, (64 << 20) if is_small else (2 << 30)))


if __name__ == "__main__":
    main()
