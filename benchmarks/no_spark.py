"""Rows a second of upserts and of merged reads without Spark, beside pypaimon and delta-rs.

4,000,000 base rows, then batches of 200,000 rows of which 80 % overwrite uniformly random keys, 7 columns, 4 buckets.
One process commits batch by batch, then reads all rows. lakelog compacts as it goes, which is in its time; pypaimon
does not compact, delta-rs rewrites files in its MERGE. The peers have environments of their own; all take turns.
`cpu` are rows a second of processor time, of all threads: the best measure on a machine with other work.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.command import run_command
from benchmarks.peers import timed
from benchmarks.upsert_data import FULL, KEY, SCHEMA, SMALL, Size, UpsertData, make_data
from lakelog.filestore.schema.new_schema import build_schema
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
    upsert_s, upsert_cpu_s = timed(lambda: [table.write(rows) for rows in updates])
    counts: list[int] = []
    read_s, read_cpu_s = timed(lambda: counts.append(FileStoreTable.open(folder / "t").to_arrow().num_rows))
    found = {"upsert_s": upsert_s, "upsert_cpu_s": upsert_cpu_s, "read_s": read_s, "read_cpu_s": read_cpu_s}
    return found | {"rows": counts[0]}


def run_peer(name: str, data: UpsertData, batches: int, folder: Path) -> Figures:
    """Some batches into the peer's table, then all rows of it."""
    python = ROOT / ".venvs" / name / "bin" / "python"
    script = Path(__file__).with_name("peers.py")
    command: list[str | Path] = [python, "-X", "faulthandler", script, name, str(data.root), str(folder), str(batches)]
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
    batches = {name: size.batch_count if name == "lakelog" else peer_batches for name in contenders}
    summary: dict[str, object] = {"benchmark": "no-spark", "batch_rows": size.batch_rows}
    rates: dict[str, dict[str, float]] = {}
    for name, ones in found.items():
        upserted = size.batch_rows * batches[name]
        rates[name] = {
            "upsert": median(upserted / one["upsert_s"] for one in ones),
            "upsert_cpu": median(upserted / one["upsert_cpu_s"] for one in ones),
            "read": median(one["rows"] / one["read_s"] for one in ones),
            "read_cpu": median(one["rows"] / one["read_cpu_s"] for one in ones),
        }
        summary |= {f"{name}_{what}_rows_per_s": round(rate) for what, rate in rates[name].items()}
    for peer in PEERS:
        summary |= {
            f"{what}_beside_{peer}": round(rates["lakelog"][what] / rates[peer][what], 1) for what in rates[peer]
        }
    return summary


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, SMALL if is_small else FULL))


if __name__ == "__main__":
    main()
