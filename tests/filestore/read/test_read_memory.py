"""Merging a bucket needs memory for its budget, not for the bucket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import UNSYNCED

ROWS = 1_500_000
COLUMNS = 5
BUDGET_BYTES = 8 << 20
ROOT = Path(__file__).parents[3]


def read_all(path: str) -> None:
    """Print how many rows there are, and the most bytes that Arrow held at a time."""
    table = FileStoreTable.open(path)
    planned = plan_splits(table, table.snapshots.latest())
    rows = sum(batch.num_rows for split in planned.splits for batch in read_splits(table, [split]))
    print(rows, pa.default_memory_pool().max_memory())


def test_merging_stays_near_its_budget(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), *((f"v{index}", pa.int64()) for index in range(COLUMNS))])
    options = {"bucket": "1", "write-only": "true", "file.block-size": "4 mb", "read.memory-budget": "8 mb"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema, primary_keys=["id"], options=options), UNSYNCED)
    for ids in (np.arange(ROWS), np.arange(0, ROWS, 2)):
        table.write(pa.table([ids, *(ids + index for index in range(COLUMNS))], schema=schema))
    script = f"from {__name__} import read_all; import sys; read_all(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, table.path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    rows, peak_bytes = map(int, done.stdout.split())
    assert rows == ROWS
    assert peak_bytes < 4 * BUDGET_BYTES < ROWS * COLUMNS * 8


WIDE_BUDGET_BYTES = 16 << 20
WIDE_RUNS = 10
RUN_BYTES = 4 << 20  # buffers and pages of a run's columns, however small its share of the budget is
WIDE_RUN_ROWS = 10_000
WIDE_ROW_BYTES = 1_024


def compact_all(path: str) -> None:
    """Merge all runs into one, read it, and print as `read_all`."""
    table = FileStoreTable.open(path)
    table.compact(full=True)
    rows = sum(batch.num_rows for batch in table.planned().batches())
    print(rows, pa.default_memory_pool().max_memory())


@pytest.mark.parametrize(("step", "block_size"), [("read_all", "4 mb"), ("read_all", "64 mb"), ("compact_all", "4 mb")])
def test_merging_many_runs_of_wide_rows_stays_near_its_budget(tmp_path: Path, step: str, block_size: str) -> None:
    """However many runs and row groups there are, and however large: 100 MB are merged here in 16 MB."""
    schema = pa.schema([pa.field("id", pa.int64()), ("payload", pa.binary(WIDE_ROW_BYTES))])
    options = {"bucket": "1", "write-only": "true", "file.block-size": block_size, "read.memory-budget": "16 mb"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema, primary_keys=["id"], options=options), UNSYNCED)
    rng = np.random.default_rng(0)
    for run in range(WIDE_RUNS):
        payload = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(WIDE_ROW_BYTES), WIDE_RUN_ROWS, [None, pa.py_buffer(rng.bytes(WIDE_RUN_ROWS * WIDE_ROW_BYTES))]
        )
        table.write(pa.table([np.arange(WIDE_RUN_ROWS) * WIDE_RUNS + run, payload], schema=schema))
    script = f"from {__name__} import {step}; import sys; {step}(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, table.path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    rows, peak_bytes = map(int, done.stdout.split())
    assert rows == WIDE_RUNS * WIDE_RUN_ROWS
    assert peak_bytes < 2 * WIDE_BUDGET_BYTES + WIDE_RUNS * RUN_BYTES < WIDE_RUNS * WIDE_RUN_ROWS * WIDE_ROW_BYTES
