"""Rows a second of upserts and of merged reads without Spark, beside pypaimon and delta-rs.

4,000,000 base rows, then batches of 200,000 rows of which 80 % overwrite uniformly random keys, 7 columns, 4 buckets.
One process commits batch by batch, then reads all rows. lakelog compacts as it goes, which is in its time; pypaimon
does not compact, delta-rs rewrites files in its MERGE. The peers have environments of their own; all take turns.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.command import run_command
from benchmarks.upsert_data import FULL, KEY, SCHEMA, SMALL, Size, UpsertData, make_data
from lakelog.filestore.schema import build_schema
from lakelog.filestore.table import FileStoreTable

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("pypaimon", "deltalake")
REPEATS = 3
PEER_BATCHES = 5  # they take seconds each
Figures = dict[str, float]


def run_lakelog(data: UpsertData, folder: Path) -> Figures:
    """All batches into a table, then all rows of it."""
    table = FileStoreTable.create(folder / "t", build_schema(SCHEMA, primary_keys=[KEY], options={"bucket": "4"}))
    for path in sorted(data.base.glob("*.parquet")):
        table.write(pq.read_table(path))
    updates = [pq.read_table(path) for path in sorted(data.batches.glob("*.parquet"))]
    started = time.perf_counter()
    for rows in updates:
        table.write(rows)
    upsert_s = time.perf_counter() - started
    started = time.perf_counter()
    row_count = FileStoreTable.open(folder / "t").to_arrow().num_rows
    return {"upsert_s": upsert_s, "read_s": time.perf_counter() - started, "rows": row_count}


def run_peer(name: str, data: UpsertData, batches: int, folder: Path) -> Figures:
    """Some batches into the peer's table, then all rows of it."""
    python = ROOT / ".venvs" / name / "bin" / "python"
    script = Path(__file__).with_name("peers.py")
    command: list[str | Path] = [python, script, name, str(data.root), str(folder), str(batches)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=folder)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def run(folder: Path, size: Size) -> dict[str, object]:
    """The figures: medians of the repeats."""
    subprocess.run([sys.executable, ROOT / "scripts" / "setup.py", *PEERS], check=True, stdout=sys.stderr)
    data = make_data(folder / "data", size)
    peer_batches = min(PEER_BATCHES, size.batch_count)
    contenders: dict[str, Callable[[Path], Figures]] = {"lakelog": partial(run_lakelog, data)}
    contenders |= {peer: partial(run_peer, peer, data, peer_batches) for peer in PEERS}
    found: dict[str, list[Figures]] = {name: [] for name in contenders}
    for _ in range(1 if size == SMALL else REPEATS):
        for name, contender in contenders.items():
            work = folder / name
            work.mkdir()
            found[name].append(contender(work))
            shutil.rmtree(work)
    rates: dict[str, tuple[float, float]] = {}
    for name, ones in found.items():
        upserted = size.batch_rows * (size.batch_count if name == "lakelog" else peer_batches)
        rates[name] = (
            median(upserted / one["upsert_s"] for one in ones),
            median(one["rows"] / one["read_s"] for one in ones),
        )
    summary: dict[str, object] = {"benchmark": "no-spark", "batch_rows": size.batch_rows}
    for name, (upsert, read) in rates.items():
        summary[f"{name}_upsert_rows_per_s"] = round(upsert)
        summary[f"{name}_read_rows_per_s"] = round(read)
    for peer in PEERS:
        summary[f"upsert_beside_{peer}"] = round(rates["lakelog"][0] / rates[peer][0], 1)
        summary[f"read_beside_{peer}"] = round(rates["lakelog"][1] / rates[peer][1], 1)
    return summary


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, SMALL if is_small else FULL))


if __name__ == "__main__":
    main()
