"""Rows whose keys are changed as real ones are: the files of a git repository, and the tables of an order system.

`git`: which files each commit of Apache Paimon's repository added, modified and deleted, in the order of its main
branch, 66,146 changes of 13,007 files from 2022 to 2026. Only paths, kinds and times are in the repository of this
benchmark, in `data/paimon-history.txt.xz`: the paths, an empty line, then for each commit `@` and its time, and for
each change `A`, `M` or `D` and the number of a path. Many repositories change side by side: copies of the history whose
paths have prefixes, each a commit ahead of the one before.

`skew`: what TPC-C's new orders and payments update: one of 10 districts of a warehouse, one of its 3,000 customers and
10 of its 100,000 items in stock, customers and items by its function NURand. Many rows are districts, few keys.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.upsert_data import FIRST_MODIFIED

HISTORY = Path(__file__).parents[1] / "data" / "paimon-history.txt.xz"
KEY = "key"
KIND = "_row_kind"
SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field("change", pa.int64()),
        pa.field("amount", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("note", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)
SPARK_SCHEMA = f"{KEY} STRING, change BIGINT, amount BIGINT, price DOUBLE, note STRING, at TIMESTAMP"
DISTRICTS, CUSTOMERS, ITEMS = 10, 3_000, 100_000
ITEMS_AN_ORDER = 10
SEED = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes in order: the key of each, and which are deletes."""

    keys: pa.Array
    is_delete: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def __len__(self) -> int:
        return len(self.keys)


def git_changes(copies: int) -> Changes:
    """The history of one repository, so many times side by side."""
    paths, kinds, numbers, commits = _history()
    places = np.concatenate([commits + copy for copy in range(copies)])
    order = np.argsort(places, kind="stable")
    copy_of = np.repeat(np.arange(copies), len(numbers))[order]
    file_of = np.tile(numbers, copies)[order]
    keys = [f"repository-{copy:03}/{paths[file]}" for copy, file in zip(copy_of, file_of, strict=True)]
    return Changes(keys=pa.array(keys), is_delete=np.tile(kinds, copies)[order] == "D")


def _history() -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """The paths, and for each change its kind, the number of its path and that of its commit."""
    paths, _, changes = lzma.decompress(HISTORY.read_bytes()).decode().partition("\n\n")
    kinds, numbers, commits, commit = [], [], [], 0
    for line in changes.splitlines():
        if line[0] == "@":
            commit += 1
            continue
        kinds.append(line[0])
        numbers.append(int(line[1:]))
        commits.append(commit)
    return paths.split("\n"), np.array(kinds), np.array(numbers), np.array(commits)


def skewed_changes(count: int, warehouses: int) -> Changes:
    """So many updates of an order system."""
    rng = np.random.default_rng(SEED)
    orders = -(-count // (2 + ITEMS_AN_ORDER))
    warehouse = rng.integers(0, warehouses, orders)
    district = [f"d-{w}-{d}" for w, d in zip(warehouse, rng.integers(0, DISTRICTS, orders), strict=True)]
    customer = [f"c-{w}-{c}" for w, c in zip(warehouse, _nurand(rng, 1_023, CUSTOMERS, orders), strict=True)]
    items = _nurand(rng, 8_191, ITEMS, orders * ITEMS_AN_ORDER).reshape(orders, ITEMS_AN_ORDER)
    stock = [[f"s-{w}-{i}" for i in ones] for w, ones in zip(warehouse, items, strict=True)]
    keys = [key for one, two, more in zip(district, customer, stock, strict=True) for key in (one, two, *more)]
    return Changes(keys=pa.array(keys[:count]), is_delete=np.zeros(count, dtype=bool))


def _nurand(rng: np.random.Generator, spread: int, below: int, count: int) -> np.ndarray:
    """TPC-C's NURand over the numbers below a limit: some bits of a number are set in many of them."""
    return ((rng.integers(0, spread + 1, count) | rng.integers(0, below, count)) + 123) % below


def uniform_changes(count: int, keys: int) -> Changes:
    """So many updates of keys that are all as likely."""
    chosen = np.random.default_rng(SEED).integers(0, keys, count)
    return Changes(keys=pa.array([f"u-{key}" for key in chosen]), is_delete=np.zeros(count, dtype=bool))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFiles:
    """The changes as Parquet files, one a micro-batch, with a column for the kind of each change."""

    folder: Path
    row_count: int
    batch_count: int
    expected: dict[str, int]  # the keys that are there in the end, and their last change


def write_changes(folder: Path, changes: Changes, batch_rows: int) -> ChangeFiles:
    """Write the files, in the order of their names and times."""
    folder.mkdir(parents=True)
    batches = 0
    for number, rows in enumerate(_batches(changes, batch_rows)):
        path = folder / f"batch-{number:03}.parquet"
        pq.write_table(rows, path, compression="snappy", row_group_size=-(-rows.num_rows // 2))
        os.utime(path, (FIRST_MODIFIED + number,) * 2)  # Spark takes files in the order of their times
        batches += 1
    expected: dict[str, int] = {}
    for number, (key, is_delete) in enumerate(zip(changes.keys.to_pylist(), changes.is_delete, strict=True)):
        if is_delete:
            expected.pop(key, None)
        else:
            expected[key] = number
    return ChangeFiles(folder=folder, row_count=len(changes), batch_count=batches, expected=expected)


def _batches(changes: Changes, batch_rows: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(SEED)
    for start in range(0, len(changes), batch_rows):
        keys = changes.keys.slice(start, batch_rows)
        count = len(keys)
        columns = {
            KEY: keys,
            "change": np.arange(start, start + count),
            "amount": rng.integers(0, 1_000_000_000, count),
            "price": rng.random(count) * 1_000,
            "note": np.char.add("note-", rng.integers(0, 10**12, count).astype("U12")),
            "at": FIRST_MODIFIED * 1_000_000 + np.arange(start, start + count),
            KIND: np.where(changes.is_delete[start : start + count], "-D", "+I"),
        }
        schema = SCHEMA.append(pa.field(KIND, pa.string()))
        yield pa.table([pa.array(columns[field.name], field.type) for field in schema], schema)
