"""The rows of the upsert and scan benchmarks: a base, then batches that overwrite and add keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

KEY = "id"
SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.int64(), nullable=False),
        pa.field("amount", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("batch", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("note", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)
SPARK_SCHEMA = "id BIGINT, amount BIGINT, price DOUBLE, batch BIGINT, city STRING, note STRING, at TIMESTAMP"
NEW_SHARE = 0.2
BASE_FILES = 4
CITY_COUNT = 1000
SEED = 7
FIRST_MODIFIED = 1_700_000_000
MICROS_PER_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many rows there are."""

    base_rows: int
    batch_count: int
    batch_rows: int

    @property
    def upserted_rows(self) -> int:
        """Rows of all batches."""
        return self.batch_count * self.batch_rows


FULL = Size(base_rows=4_000_000, batch_count=20, batch_rows=200_000)
FREQUENT = Size(base_rows=400_000, batch_count=60, batch_rows=2_000)
SMALL = Size(base_rows=100_000, batch_count=6, batch_rows=10_000)


@dataclass(frozen=True, slots=True)
class UpsertData:
    """The files of one run: `base` is loaded first, each file in `batches` is one micro-batch."""

    root: Path

    @property
    def base(self) -> Path:
        """The folder of base rows."""
        return self.root / "base"

    @property
    def batches(self) -> Path:
        """The folder of batches, in the order of their names and modification times."""
        return self.root / "batches"

    def merged(self) -> pl.DataFrame:
        """What the table must hold in the end: the last row of each key."""
        files = [*sorted(self.base.glob("*.parquet")), *sorted(self.batches.glob("*.parquet"))]
        rows = pl.concat([pl.read_parquet(file) for file in files])
        return rows.unique(KEY, keep="last", maintain_order=True)


def make_data(root: Path, size: Size) -> UpsertData:
    """Write the files, the same every time.

    A file has two row groups, so that both of Spark's tasks have work, in the floor too.
    """
    data = UpsertData(root)
    rng = np.random.default_rng(SEED)
    step = size.base_rows // BASE_FILES
    for number in range(BASE_FILES):
        keys = np.arange(number * step, (number + 1) * step)
        _write(data.base / f"base-{number:03d}.parquet", _rows(rng, keys, 0), number)
    for number, keys in enumerate(_keys(rng, step * BASE_FILES, size), 1):
        _write(data.batches / f"batch-{number:03d}.parquet", _rows(rng, keys, number), number)
    return data


def _keys(rng: np.random.Generator, base_rows: int, size: Size) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The keys of each batch: uniformly random ones among those that are there, and new ones, mixed."""
    known = base_rows
    new = round(size.batch_rows * NEW_SHARE)
    for _ in range(size.batch_count):
        keys = np.concatenate([rng.integers(0, known, size.batch_rows - new), np.arange(known, known + new)])
        rng.shuffle(keys)
        known += new
        yield keys


def _rows(rng: np.random.Generator, keys: np.ndarray[tuple[int], np.dtype[np.int64]], batch: int) -> pa.Table:
    count = len(keys)
    cities = np.array([f"city-{number:04d}" for number in range(CITY_COUNT)])
    timestamps = FIRST_MODIFIED * 1_000_000 + batch * MICROS_PER_MINUTE + rng.integers(0, MICROS_PER_MINUTE, count)
    columns = [
        keys,
        rng.integers(0, 1_000_000_000, count),
        rng.random(count) * 1000,
        np.full(count, batch),
        cities[rng.integers(0, CITY_COUNT, count)],
        np.char.add("note-", rng.integers(0, 10**12, count).astype("U12")),
        timestamps,
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def _write(path: Path, rows: pa.Table, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, compression="snappy", row_group_size=-(-rows.num_rows // 2))
    # Spark takes files in the order of their modification times.
    os.utime(path, (FIRST_MODIFIED + number,) * 2)
