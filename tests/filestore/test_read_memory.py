"""Merging a bucket needs memory for its budget, not for the bucket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakelog.filestore.read import read_splits
from lakelog.filestore.scan import plan
from lakelog.filestore.schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.small_tables import UNSYNCED

ROWS = 1_500_000
COLUMNS = 5
BUDGET_BYTES = 8 << 20
ROOT = Path(__file__).parents[2]


def read_all(path: str) -> None:
    """Print how many rows there are, and the most bytes that Arrow held at a time."""
    table = FileStoreTable.open(path)
    planned = plan(table, table.snapshots.latest())
    rows = sum(
        batch.num_rows
        for split in planned.splits
        for batch in read_splits(table, [split], memory_budget_bytes=BUDGET_BYTES)
    )
    print(rows, pa.default_memory_pool().max_memory())


def test_merging_stays_near_its_budget(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), *((f"v{index}", pa.int64()) for index in range(COLUMNS))])
    options = {"bucket": "1", "write-only": "true", "file.block-size": "4 mb"}
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
