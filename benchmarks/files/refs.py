"""Tags and branches: what 1,000 tags and 100 branches cost a commit, a listing and an expiry, and a branch and a merge.

Two tables with the same history take turns, one of them with tags and branches. `commit` adds a file to each of 4
buckets; `expiry` deletes the 50 oldest snapshots, as many as one expiry of a writer at most, with the data files that
compactions replaced, `expiry_of_one` the oldest one, and `first_expiry` is that of a new process. `branch` is made
of a table of 10,000,000 rows, `merge` takes the same changes of a branch into
that table and into one of a tenth of its rows; `merge_all_ms` is a merge that changes every tenth row of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.command import run_command
from benchmarks.files.files import later_entry
from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest import COLUMNS_CACHE, ENTRY_CACHE, LIST_CACHE
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system import open_system_table
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from lakelog.filestore.write.write import write_rows

BUCKETS = 4
REPEATS = 5
CHANGES = 1_000
LIMIT = 50  # snapshots that an expiry deletes at most, by the default of snapshot.expire.limit
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64())])
KEPT = 20  # snapshots of the tables before the measured commits, behind those that are tagged


def rows(ids: np.ndarray, amount: int) -> pa.Table:
    """Rows of these ids."""
    return pa.table({"id": ids, "amount": np.full(len(ids), amount)}, schema=SCHEMA)


def make_history(folder: Path, snapshots: int) -> FileStoreTable:
    """A table with so many small commits, compacted as writers do; nothing has expired."""
    options = {"bucket": str(BUCKETS), "snapshot.num-retained.min": "1000000"}
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    table = FileStoreTable.create(folder, schema, LocalFileIO(sync_data=False))
    rng = np.random.default_rng(1)
    while (table.snapshots.latest_id() or 0) < snapshots:
        table.write(rows(rng.choice(10_000, 100, replace=False), 1))
    return table


def opened(path: Path) -> FileStoreTable:
    """The table as another process sees it, which remembers nothing."""
    for cache in (COLUMNS_CACHE, ENTRY_CACHE, LIST_CACHE):
        cache.clear()
    return FileStoreTable.open(path, LocalFileIO(sync_data=False))


def millis(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long a call takes."""
    started = clock()
    run()
    return (clock() - started) * 1_000


def refer(table: FileStoreTable, tags: int, branches: int) -> None:
    """Give the oldest snapshots tags, and every so many of them a branch."""
    api = Table(table)
    for number in range(1, tags + 1):
        api.tags.create(f"tag-of-{number:05}", snapshot_id=number)
    for number in range(branches):
        api.branches.create(f"branch-{number:03}", tag=f"tag-of-{1 + number * tags // branches:05}")


def commit_millis(tables: Mapping[str, FileStoreTable], repeats: int) -> dict[str, float]:
    """The medians of commits to each of the tables, in turns, each first as often as the other.

    Their files are not there: a commit never opens them.
    """
    patterns = {
        name: write_rows(table, rows(np.arange(100), 2), first_sequence=lambda _: 0).entries
        for name, table in tables.items()
    }
    found: dict[str, list[float]] = {name: [] for name in tables}
    for number in range(repeats):
        for name, table in sorted(tables.items(), reverse=number % 2 == 1):
            named = [
                later_entry(entry, f"data-{number}-{at}.parquet", 10_000 + number)
                for at, entry in enumerate(patterns[name])
            ]
            commit = partial(append_commit, table, user="bench", identifier=number, digest=None, entries=named)
            found[name].append(millis(commit))
    return {name: median(ones[1:]) for name, ones in found.items()}


def expiry_millis(tables: Mapping[str, FileStoreTable], *, snapshots: int, steps: int) -> dict[str, float]:
    """The medians of expiries of so many snapshots each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in tables}
    for _ in range(steps):
        for name, table in tables.items():
            left = len(table.snapshots.ids()) - snapshots
            these = Retention(count_min=1, count_max=left, age_millis=1 << 50, limit=1_000_000)
            found[name].append(millis(partial(expire_snapshots, table, retention=these)))
    return {name: median(ones) for name, ones in found.items()}


def large_table(catalog: Catalog, name: str, count: int) -> Table:
    """A table of so many rows, compacted."""
    table = catalog.create_table(name, schema=SCHEMA, primary_keys=["id"], options={"bucket": str(BUCKETS)})
    for start in range(0, count, 1_000_000):
        table.write(rows(np.arange(start, min(count, start + 1_000_000)), 0))
    table.compact(full=True)
    return table


def data_bytes(table: Table) -> int:
    """The bytes of all data files."""
    return sum(file.stat().st_size for file in Path(table.path).glob("bucket-*/*"))


def merge_millis(table: Table, branch: str, changes: int, count: int) -> float:
    """A merge of a branch that changes so many rows, spread over all, and adds none, where the table changed others."""
    table.branches.create(branch)
    step = count // changes
    table.branch(branch).write(rows(np.arange(0, count, step)[:changes], 1))
    table.write(rows(np.arange(1, count, step)[:changes], 2))
    return millis(lambda: table.branches.merge(branch))


def run(folder: Path, *, is_small: bool) -> dict[str, object]:
    """The figures."""
    tags, branches, count, repeats = (30, 5, 100_000, 4) if is_small else (1_000, 100, 10_000_000, 200)
    make_history(folder / "plain", tags + KEPT)
    shutil.copytree(folder / "plain", folder / "tagged")
    refer(opened(folder / "tagged"), tags, branches)
    tables = {name: opened(folder / name) for name in ("plain", "tagged")}
    commit = commit_millis(tables, repeats)
    tagged = tables["tagged"]
    listing = [millis(lambda: (Table(tagged).tags.list(), Table(tagged).branches.list())) for _ in range(REPEATS)]
    system = [
        millis(lambda: [open_system_table(tagged, name).to_arrow() for name in ("tags", "branches")])
        for _ in range(REPEATS)
    ]
    limit = 2 if is_small else LIMIT
    first = {name: expiry_millis({name: opened(folder / name)}, snapshots=limit, steps=1)[name] for name in tables}
    running = {name: opened(folder / name) for name in tables}
    expiry = expiry_millis(running, snapshots=limit, steps=5)
    of_one = expiry_millis(running, snapshots=1, steps=7)

    catalog = Catalog(folder / "lake")
    large, tenth = (
        large_table(catalog, f"db.{name}", rows) for name, rows in (("large", count), ("tenth", count // 10))
    )
    before = data_bytes(large)
    branch = [millis(partial(large.branches.create, f"b{number}")) for number in range(REPEATS)]
    copied = data_bytes(large) - before
    changes = CHANGES if not is_small else 10
    merge = {
        name: median(merge_millis(table, f"m{at}", changes, size) for at in range(3))
        for name, table, size in (("large", large, count), ("tenth", tenth, count // 10))
    }
    return {
        "benchmark": "refs",
        "tags": tags,
        "branches": branches,
        "commit_ms": round(commit["tagged"], 2),
        "ratio_commit": round(commit["tagged"] / commit["plain"], 3),
        "list_ms": round(median(listing), 1),
        "list_system_tables_ms": round(median(system), 1),
        "expiry_ms": round(expiry["tagged"], 2),
        "ratio_expiry": round(expiry["tagged"] / expiry["plain"], 3),
        "expiry_of_one_ms": round(of_one["tagged"], 2),
        "ratio_expiry_of_one": round(of_one["tagged"] / of_one["plain"], 3),
        "first_expiry_ms": round(first["tagged"], 1),
        "first_expiry_of_none_ms": round(first["plain"], 1),
        "branch_ms": round(median(branch), 1),
        "branch_bytes_copied": copied,
        "merge_ms": round(merge["large"], 1),
        "merge_of_a_tenth_ms": round(merge["tenth"], 1),
        "merge_all_ms": round(merge_millis(large, "all", count // 10, count), 1),
    }


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, is_small=is_small))


if __name__ == "__main__":
    main()
