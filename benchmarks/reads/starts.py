"""Milliseconds from the start of a process to its end: the command line, a look-up from the shell, and imports.

Beside the same of DuckDB and pyiceberg, each in an environment of its own, and beside Python alone. DuckDB's look-up is
a program of one line that reads the same rows from one Parquet file; pyiceberg's command has no look-up. All take
turns; medians of wall and processor time. `ratio_<what>` is lakelog's processor time by that of the slower peer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.command import run_command
from benchmarks.measuring import Measure, in_turns
from lakelog.catalog import Catalog

ROOT = Path(__file__).resolve().parents[2]
PEERS = "pyiceberg"
REPEATS = 15
ROWS = 100_000
KEY = 77
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def make_data(folder: Path) -> None:
    """The same rows as a table and as a Parquet file."""
    rows = pa.table({"id": np.arange(ROWS), "name": [f"name {number}" for number in range(ROWS)]}, schema=SCHEMA)
    Catalog(folder / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"]).write(rows)
    pq.write_table(rows, folder / "t.parquet")


def commands(folder: Path) -> Mapping[str, Sequence[str]]:
    """What is started, by name."""
    own, peer = Path(sys.executable).parent, ROOT / ".venvs" / PEERS / "bin"
    python, other = str(own / "python"), str(peer / "python")
    select = f"SELECT name FROM lake.db.t WHERE id = {KEY}"
    duckdb = f"import duckdb; print(duckdb.sql(\"SELECT name FROM '{folder}/t.parquet' WHERE id = {KEY}\"))"
    return {
        "python": [python, "-c", "pass"],
        "lakelog_help": [str(own / "lakelog"), "--help"],
        "pyiceberg_help": [str(peer / "pyiceberg"), "--help"],
        "lakelog_lookup": [str(own / "lakelog"), "sql", "-w", str(folder / "lake"), "-e", select],
        "duckdb_lookup": [other, "-c", duckdb],
        "lakelog_import": [python, "-c", "import lakelog.catalog; lakelog.catalog.Catalog"],
        "pyiceberg_import": [other, "-c", "import pyiceberg.catalog; pyiceberg.catalog.load_catalog"],
        "duckdb_import": [other, "-c", "import duckdb"],
    }


def run_once(name: str, command: Sequence[str]) -> Measure:
    """Start a process, and wait for its end. Ends the benchmark with its output when it fails."""
    before, begun = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - begun, os.times()
    if done.returncode or (name.endswith("_lookup") and f"name {KEY}" not in done.stdout):
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Measure(wall_s=wall_s, cpu_s=cpu_s)


def run(folder: Path, repeats: int) -> dict[str, object]:
    """The figures: medians of the repeats, after a first start of each that is not counted."""
    subprocess.run([sys.executable, ROOT / "scripts" / "setup.py", PEERS], check=True, stdout=sys.stderr)
    make_data(folder)
    contenders: dict[str, Callable[[], Measure]] = {
        name: partial(run_once, name, command) for name, command in commands(folder).items()
    }
    for contender in contenders.values():
        contender()
    found = in_turns(contenders, repeats=repeats)
    wall = {name: median(one.wall_s for one in ones) for name, ones in found.items()}
    cpu = {name: median(one.cpu_s for one in ones) for name, ones in found.items()}
    summary: dict[str, object] = {"benchmark": "starts"}
    for name in found:
        summary |= {f"{name}_ms": round(wall[name] * 1_000), f"{name}_cpu_ms": round(cpu[name] * 1_000)}
    for what in ("help", "lookup", "import"):
        peers = [cpu[name] for name in cpu if name.endswith(f"_{what}") and not name.startswith("lakelog")]
        summary[f"ratio_{what}"] = round(cpu[f"lakelog_{what}"] / max(peers), 3)
    return summary


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, 2 if is_small else REPEATS))


if __name__ == "__main__":
    main()
