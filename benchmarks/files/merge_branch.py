"""Milliseconds of merging 10,000 changed keys of a branch into a table of 1 million rows and of 10 million.

Before each merge a branch is made of the table, which is compacted at first; both sides upsert as many keys at random,
the branch deletes some, and the table changes some of the branch's keys too: those are conflicts, whose rows of the
base are looked up. `ratio_merge` is the larger table's time by the smaller one's: a merge costs by its changes, not by
the table. `no_conflict` are merges in which no key is changed on both sides; `compacted` are those before which the
table was compacted as a whole, so that all its files differ: the branch's keys are looked up in them. Medians of the
repeats.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.command import run_command
from lakelog.filestore.refs import create_branch, delete_branch
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete, merge_changes

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64()), pa.field("word", pa.string())]
)
BUCKETS = 4
WRITTEN_AT_ONCE = 1_000_000
SHARED_PERCENT = 1  # of the changed keys, on both sides
MERGE, NO_CONFLICT, COMPACTED = "merge", "no_conflict", "compacted"


def make_table(folder: Path, rows: int) -> FileStoreTable:
    """A compacted table with the keys from 0 on."""
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": str(BUCKETS), "write-only": "true"})
    table = FileStoreTable.create(folder / f"t{rows}", schema)
    for first in range(0, rows, WRITTEN_AT_ONCE):
        table.write(rows_of(np.arange(first, min(rows, first + WRITTEN_AT_ONCE)), 0))
    table.compact(full=True)
    return table


def rows_of(ids: np.ndarray, amount: int) -> pa.Table:
    """One row a key."""
    words = pa.array([f"word {number}" for number in range(1_000)])
    return pa.table([ids, np.full(len(ids), amount), words.take(pa.array(ids % 1_000))], schema=SCHEMA)


def merge_once(table: FileStoreTable, rows: int, changes: int, number: int, kind: str) -> dict[str, float]:
    """Seconds of making a branch and of merging it."""
    rng = np.random.default_rng(number)
    name = f"b{number}"
    started = time.perf_counter()
    create_branch(table, name)
    made = time.perf_counter() - started
    ids = rng.choice(rows, 2 * changes, replace=False)
    shared = changes * SHARED_PERCENT // 100 if kind != NO_CONFLICT else 0
    branch = table.on_branch(name)
    branch.write(rows_of(ids[:changes], 2 * number + 1))
    deleted = ", ".join(map(str, ids[shared : shared + 10]))
    delete(branch, f"id IN ({deleted})")
    table.write(rows_of(ids[changes - shared : 2 * changes - shared], 2 * number + 2))
    if kind == COMPACTED:
        table.compact(full=True)
    started = time.perf_counter()
    merged = merge_changes(table, name, on_conflict="branch")
    seconds = time.perf_counter() - started
    assert merged.upserted == changes - 10, merged
    assert merged.conflict_count == shared, merged
    delete_branch(table, name)
    return {"merge": seconds, "branch": made, "rows_read": merged.rows_read}


def run(folder: Path, is_small: bool) -> dict[str, object]:
    """The figures."""
    sizes = (10_000, 100_000) if is_small else (1_000_000, 10_000_000)
    changes, repeats = (1_000, 2) if is_small else (10_000, 3)
    found: dict[str, object] = {"changes": changes}
    ratios: dict[str, list[float]] = {}
    for rows in sizes:
        table = make_table(folder, rows)
        number = 0
        for what in (MERGE, NO_CONFLICT, COMPACTED):
            times = []
            for repeat in range(repeats + 1):
                number += 1
                one = merge_once(table, rows, changes, number, what)
                times += [one] if repeat else []  # the first one imports
            millis = median(one["merge"] for one in times) * 1000
            found[f"{what}_ms_{rows}"] = round(millis, 1)
            found[f"branch_ms_{rows}"] = round(median(one["branch"] for one in times) * 1000, 1)
            found[f"rows_read_{rows}"] = int(max(one["rows_read"] for one in times))
            ratios.setdefault(what, []).append(millis)
    return found | {f"ratio_{what}": round(times[-1] / times[0], 2) for what, times in ratios.items()}


if __name__ == "__main__":
    run_command(__doc__, run)
