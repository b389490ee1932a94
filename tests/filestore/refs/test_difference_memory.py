"""Differences, restores and merges need memory for their budget, not for the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.filestore.refs import create_branch
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system import diff_states
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import merge_changes, restore
from tests.support.tables.small_tables import UNSYNCED

ROWS = 1_000_000
COLUMNS = 8
BUDGET_BYTES = 16 << 20
ROOT = Path(__file__).parents[3]


def rows_of(ids: np.ndarray, added: int) -> pa.Table:
    return pa.table([ids, *(ids + index + added for index in range(COLUMNS))], schema=SCHEMA)


SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *((f"v{index}", pa.int64()) for index in range(COLUMNS))]
)


def measure(verb: str, path: str) -> None:
    """Print by how much the peak of the process grew while it did a verb, and what it found."""
    table = FileStoreTable.open(path, UNSYNCED)
    table.to_arrow(where="id < 10")  # what every reader needs
    before = peak_bytes()
    if verb == "diff":
        found = diff_states(table, 1, 2, sample=1).changed
    elif verb == "restore":
        found = restore(table, snapshot_id=1).rows_changed
    else:
        found = merge_changes(table, "b").upserted
    print(found, peak_bytes() - before)


def peak_bytes() -> int:
    """The most memory of this process; `ru_maxrss` would count that of the parent, which a new process inherits."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


# A process needs 80 to 180 MB for any number of rows, of which a merge that writes needs the most. Where one of the
# bounds is taken out, it needs 700 MB for a difference, and 250 to 380 MB for a merge.
@pytest.mark.parametrize(
    ("verb", "budgets"),
    [("diff", 10), *(pytest.param(*one, marks=pytest.mark.full) for one in (("restore", 10), ("merge", 14)))],
)
def test_memory_stays_near_the_budget(tmp_path: Path, verb: str, budgets: int) -> None:
    options = {
        "bucket": "1",
        "write-only": "true",
        "file.block-size": "4 mb",
        "read.memory-budget": "16 mb",
        "write-buffer-size": "16 mb",
    }
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA, primary_keys=["id"], options=options), UNSYNCED)
    ids = np.arange(ROWS)
    table.write(rows_of(ids, 0))
    if verb == "merge":
        create_branch(table, "b")
        table.on_branch("b").write(rows_of(ids, 1))
    else:
        table.write(rows_of(ids, 1))
    script = f"from {__name__} import measure; import sys; measure(*sys.argv[1:])"
    command = [sys.executable, "-c", script, verb, table.path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found, grown_bytes = map(int, done.stdout.split())
    assert found == ROWS
    assert grown_bytes < budgets * BUDGET_BYTES
