"""lakelog beside other table formats: upserts, scans behind them, lookups, changes and small commits, in one run.

With Spark: Delta and Iceberg by connectors for Spark 4.0, Paimon and Hudi by those for Spark 3.5, lakelog in Spark 4.3;
a stream of files, each a micro-batch, that Delta and Iceberg merge by the key (MERGE in `foreachBatch`), and the others
upsert. Without Spark: delta-rs and pypaimon, in
environments of their own. All get the same files, in which no batch has a key twice. Every answer is checked.
`ratio_<peer>_<what>` is the peer's time by ours: above 1 we are faster.

What is unfair: lakelog's writes are made for upserts by key, a MERGE may have any condition. Delta and delta-rs write a
change feed in addition, by which their changes are read; without it their upserts are faster. Spark 4.3 is younger than
the peers' 4.0 and 3.5, and Paimon's connector is that of its version 0.9, not 1.x. Hudi's changes are the rows of a
scan that have the last commit's time. The tables are small: what a format spends once, such as a job of Spark, weighs
more than on large ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any  # Any: figures of several kinds

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from benchmarks.command import run_command
from benchmarks.peers.peer_jars import connector_jars
from benchmarks.peers.python_peer import answer_of, timed
from benchmarks.spark_runs import LakelogRun, make_session
from benchmarks.upsert_data import KEY, SCHEMA, Size, UpsertData, make_data
from lakelog.catalog import Table
from lakelog.filestore.metadata.snapshots import CommitKind
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.spark import read

ROOT = Path(__file__).resolve().parents[2]
FULL = Size(base_rows=1_000_000, batch_count=5, batch_rows=100_000)
SMALL = Size(base_rows=20_000, batch_count=2, batch_rows=2_000)
SMALL_COMMITS, SMALL_ROWS = 10, 100
LOOKUPS = 5
REPEATS = 3
SPARK_40, SPARK_35 = "spark-kafka", "spark35"  # the environments of PySpark
SPARK_PEERS = {
    "delta": ("delta-4.0.0", SPARK_40),
    "iceberg": ("iceberg-1.10.1", SPARK_40),
    "paimon": ("paimon-0.9.0", SPARK_35),
    "hudi": ("hudi-1.0.2", SPARK_35),
}
PYTHON_PEERS = {"delta_rs": "deltalake", "pypaimon": "pypaimon"}
ENVIRONMENTS = (SPARK_40, SPARK_35, *PYTHON_PEERS.values())
Figures = dict[str, Any]


def make_files(folder: Path, size: Size) -> tuple[Path, Figures]:
    """The files of base, batches and small commits, no key twice in one, and what the steps must find."""
    data: UpsertData = make_data(folder, size)
    for path in data.batches.glob("*.parquet"):
        times = path.stat()
        pq.write_table(last_of_each_key(pq.read_table(path)), path)
        _keep_time(path, times.st_mtime)
    rng = np.random.default_rng(5)
    some = pq.read_table(sorted(data.base.glob("*.parquet"))[0])
    (folder / "small").mkdir()
    for number in range(SMALL_COMMITS):
        rows = some.take(np.sort(rng.choice(some.num_rows, SMALL_ROWS, replace=False)))
        path = folder / "small" / f"small-{number:03}.parquet"
        pq.write_table(rows.set_column(1, SCHEMA.field("amount"), pa.array([number] * SMALL_ROWS)), path)
        _keep_time(path, 1_700_000_000 + number)
    rows = _merged(data.base, data.batches)
    keys = rows[KEY].to_numpy()[rng.integers(0, rows.num_rows, LOOKUPS)].tolist()
    amounts = dict(zip(rows[KEY].to_pylist(), rows["amount"].to_pylist(), strict=True))
    last = pq.read_table(sorted(data.batches.glob("*.parquet"))[-1])
    return folder, {
        "keys": keys,
        "scan": [*answer_of(rows), pc.max(rows["price"]).as_py()],
        "lookup": [[amounts[key], 1] for key in keys],
        "changes": answer_of(last),
        "end": answer_of(_merged(data.base, data.batches, folder / "small")),
    }


def _merged(*folders: Path) -> pa.Table:
    files = [path for folder in folders for path in sorted(folder.glob("*.parquet"))]
    return last_of_each_key(pa.concat_tables([pq.read_table(path) for path in files]))


def _keep_time(path: Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds))  # Spark takes files in the order of their times


def last_of_each_key(rows: pa.Table) -> pa.Table:
    """The last row of each key, in their order: what a MERGE needs."""
    keys = rows.column(KEY).to_numpy()[::-1]
    _, firsts = np.unique(keys, return_index=True)
    return rows.take(np.sort(len(keys) - 1 - firsts))


def run_spark(session: SparkSession, data: Path, work: Path, keys: Sequence[int]) -> Figures:
    """The steps of the peers in Spark, by lakelog."""
    run = LakelogRun(session=session, work=work)
    path = run.create().path
    run.upsert(data / "base")
    found: Figures = {"upsert_s": timed(lambda: run.upsert(data / "batches"))[0]}
    answers: Figures = {}

    def scan() -> None:
        rows = read(session, run.name, catalog=run.catalog)
        answers["scan"] = list(rows.agg(sf.count("amount"), sf.sum("amount"), sf.max("price")).collect()[0])

    found["scan_s"] = median(timed(scan)[0] for _ in range(REPEATS))

    def look_up(key: int) -> None:
        rows = read(session, run.name, catalog=run.catalog, where=f"{KEY} = {key}").collect()
        answers.setdefault("lookup", []).append([rows[0]["amount"], len(rows)])

    found["lookup_s"] = median(timed(partial(look_up, key))[0] for key in keys)
    last = max(one.id for one in run.table.snapshots() if one.commit_kind is CommitKind.APPEND)

    def changes() -> None:
        rows = session.read.format("lakelog").option("incremental-between", f"{last - 1},{last}").load(path)
        answers["changes"] = list(rows.agg(sf.count("amount"), sf.sum("amount")).collect()[0])

    found["changes_s"] = median(timed(changes)[0] for _ in range(REPEATS))
    found["small_s"] = timed(lambda: run.upsert(data / "small"))[0]
    rows = read(session, run.name, catalog=run.catalog)
    answers["end"] = list(rows.agg(sf.count("amount"), sf.sum("amount")).collect()[0])
    return {**found, "answers": answers}


def run_alone(data: Path, work: Path, keys: Sequence[int]) -> Figures:
    """The steps of the peers without Spark, by lakelog."""
    table = FileStoreTable.create(work / "t", build_schema(SCHEMA, primary_keys=[KEY], options={"bucket": "4"}))
    for path in sorted((data / "base").glob("*.parquet")):
        table.write(pq.read_table(path))
    updates = [pq.read_table(path) for path in sorted((data / "batches").glob("*.parquet"))]
    found: Figures = {}
    found["upsert_s"], found["upsert_cpu_s"] = timed(lambda: [table.write(rows) for rows in updates])
    read_rows: list[pa.Table] = []
    found["scan_s"], found["scan_cpu_s"] = timed(lambda: read_rows.append(FileStoreTable.open(work / "t").to_arrow()))
    answers: Figures = {"scan": answer_of(read_rows[0])}
    looked_up = [FileStoreTable.open(work / "t").to_arrow(where=f"{KEY} = {key}") for key in keys]
    answers["lookup"] = [answer_of(rows)[::-1] for rows in looked_up]
    opened = FileStoreTable.open(work / "t")
    found["lookup_s"] = median(timed(partial(opened.to_arrow, where=f"{KEY} = {key}"))[0] for key in keys)
    newest = table.snapshots.latest_id() or 0
    last = max(one.id for one in table.snapshots.living(newest - 5) if one.commit_kind is CommitKind.APPEND)
    changes: list[pa.Table] = []
    found["changes_s"], _ = timed(lambda: changes.append(_changed(table, last)))
    answers["changes"] = answer_of(changes[0])
    return {**found, "answers": answers}


def _changed(table: FileStoreTable, snapshot_id: int) -> pa.Table:
    """The rows that a commit has written."""
    return pa.Table.from_batches(Table(table).changes(after=snapshot_id - 1, up_to=snapshot_id))


def ask_spark(name: str, data: Path, work: Path, keys: Sequence[int]) -> Figures:
    """The steps by a peer in Spark."""
    connector, environment = SPARK_PEERS[name]
    jars = ",".join(map(str, connector_jars(connector)))
    python = ROOT / ".venvs" / environment / "bin" / "python"
    return _asked(python, "spark_peer.py", [name, jars, str(data), str(work), ",".join(map(str, keys))])


def ask_python(name: str, data: Path, work: Path, keys: Sequence[int]) -> Figures:
    """The steps by a peer without Spark."""
    python = ROOT / ".venvs" / PYTHON_PEERS[name] / "bin" / "python"
    return _asked(python, "python_peer.py", [PYTHON_PEERS[name], str(data), str(work), ",".join(map(str, keys))])


def _asked(python: Path, script: str, arguments: Sequence[str]) -> Figures:
    command: list[str | Path] = [python, Path(__file__).with_name(script), *arguments]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}  # for `benchmarks.local_spark`
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT, env=environ)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def check(name: str, found: Figures, expected: Figures) -> None:
    """End the benchmark when an answer is wrong."""
    for what, answer in found["answers"].items():
        if not np.allclose(answer, expected[what][: len(answer)] if what == "scan" else expected[what], rtol=1e-12):
            sys.exit(f"{name} answers {what} with {answer}, expected {expected[what]}")


def run(folder: Path, size: Size) -> dict[str, object]:
    """The figures."""
    subprocess.run([sys.executable, ROOT / "scripts" / "setup.py", *ENVIRONMENTS], check=True, stdout=sys.stderr)
    started = time.perf_counter()
    data, expected = make_files(folder / "data", size)
    keys = expected["keys"]
    session = make_session()
    contenders: Mapping[str, Callable[[Path], Figures]] = {
        "lakelog": lambda work: run_spark(session, data, work, keys),
        **{name: partial(_ask, ask_spark, name, data, keys) for name in SPARK_PEERS},
        "lakelog_alone": lambda work: run_alone(data, work, keys),
        **{name: partial(_ask, ask_python, name, data, keys) for name in PYTHON_PEERS},
    }
    found: dict[str, Figures] = {}
    for name, contender in contenders.items():
        (folder / name).mkdir()
        found[name] = contender(folder / name)
        check(name, found[name], expected)
        if name == "lakelog":
            session.stop()
    summary: dict[str, object] = {"benchmark": "peers", "base_rows": size.base_rows, "batch_rows": size.batch_rows}
    for name, figures in found.items():
        summary |= {f"{name}_{what}": round(value, 4) for what, value in figures.items() if isinstance(value, float)}
    for peers, own in ((SPARK_PEERS, "lakelog"), (PYTHON_PEERS, "lakelog_alone")):
        for peer in peers:
            summary |= {
                f"ratio_{peer}_{what.removesuffix('_s')}": round(value / found[own][what], 3)
                for what, value in found[peer].items()
                if isinstance(value, float)
            }
    return summary | {"whole_s": round(time.perf_counter() - started, 1)}


def _ask(ask: Callable[..., Figures], name: str, data: Path, keys: Sequence[int], work: Path) -> Figures:
    return ask(name, data, work, keys)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, SMALL if is_small else FULL))


if __name__ == "__main__":
    main()
