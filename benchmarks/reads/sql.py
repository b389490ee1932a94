"""TPC-H in Spark after `attach`, and in SQL without Spark, beside plain Parquet files with the same rows.

The tables were upserted: most rows are compacted, and a twentieth was written again since, so that every bucket has
rows to merge (`merged`); after a full compaction files need no merge (`compacted`). The 22 queries of `tpch.py`:
`ratio_spark` is the sum of the medians in Spark over the merged tables by that of Spark over the plain files,
`ratio_duckdb` that of `lakelog.sql` by DuckDB's own over the same files. `statement` is a SELECT by key of a table of
1,000 rows, `attach` another warehouse in a session that has one. The answers are compared.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import median

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.command import print_summary
from benchmarks.measuring import Measure, in_turns, measured, median_wall_s
from benchmarks.reads import tpch
from benchmarks.spark_runs import make_session
from lakelog.catalog import Catalog
from lakelog.spark import attach
from lakelog.sql import connect

Rows = Sequence[Sequence[object]]
KINDS = ("merged", "compacted")
ENGINES = ("spark", "duckdb")


def make(session: SparkSession, work: Path, scale: float) -> None:
    """The tables and the plain files, with the same rows."""
    tpch.generate(work / "made", scale)
    session.sql(f"CREATE DATABASE spark_catalog.plain LOCATION '{work}/plain.db'")
    for name, keys in tpch.KEYS.items():
        made = session.read.parquet(str(work / "made" / f"{name}.parquet"))
        files = 1 if name in tpch.SMALL_TABLES else 4
        path = work / "plain" / name
        made.repartition(files).write.parquet(str(path))
        session.sql(f"CREATE TABLE spark_catalog.plain.{name} USING parquet LOCATION '{path}'")
        for kind in KINDS:
            table = f"bench.{kind}.{name}"
            options = f"'primary-key'='{','.join(keys)}', 'bucket'='{files}', 'write-only'='true'"
            session.sql(f"CREATE TABLE {table} TBLPROPERTIES ({options}) AS SELECT * FROM spark_catalog.plain.{name}")
            session.sql(f"CALL bench.sys.compact('{kind}.{name}')")
            made.where(f"pmod(hash({', '.join(keys)}, 9), 20) = 0").writeTo(table).append()
        session.sql(f"CALL bench.sys.compact('compacted.{name}')")


def run(session: SparkSession, work: Path, scale: float, repeats: int, engines: Sequence[str]) -> dict[str, object]:
    """The figures of these engines."""
    attach(session, "bench", work / "lake")
    make(session, work, scale)
    ways = {"spark_plain": in_spark(session, "spark_catalog.plain"), "duckdb_plain": in_duckdb(work / "plain")}
    for kind in KINDS:
        ways |= {f"spark_{kind}": in_spark(session, f"bench.{kind}"), f"duckdb_{kind}": in_lakelog(work / "lake", kind)}
    ways = {way: run_once for way, run_once in ways.items() if way.startswith(tuple(engines))}
    summary: dict[str, object] = {"benchmark": "sql", "scale": scale}
    sums = dict.fromkeys(ways, 0.0)
    for query, text in tpch.queries(scale).items():
        check(query, {way: run_once(text) for way, run_once in ways.items()})
        print(f"{query} has the same rows in all ways", flush=True)
        runs = {way: partial(timed, run_once, text) for way, run_once in ways.items()}
        for way, measures in in_turns(runs, repeats=repeats).items():
            wall = median_wall_s(measures)
            sums[way] += wall
            summary[f"{query}_{way}_ms"] = round(wall * 1_000)
    for engine in engines:
        by_kind = [round(sums[f"{engine}_{kind}"] / sums[f"{engine}_plain"], 3) for kind in KINDS]
        summary |= dict(zip((f"ratio_{engine}", f"ratio_{engine}_compacted"), by_kind, strict=True))
    summary |= {f"{way}_s": round(wall, 2) for way, wall in sums.items()}
    return summary | statement(session, work, repeats) if "spark" in engines else summary


def in_spark(session: SparkSession, database: str) -> Callable[[str], Rows]:
    """Runs a query in Spark over the tables of a database."""

    def run_once(text: str) -> Rows:
        session.sql(f"USE {database}")
        return session.sql(text).collect()

    return run_once


def in_duckdb(plain: Path) -> Callable[[str], Rows]:
    """Runs a query in DuckDB over the plain files."""
    connection = duckdb.connect()
    for name in tpch.KEYS:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{plain / name}/*.parquet')")
    return lambda text: rows_of(connection.sql(text).to_arrow_table())


def in_lakelog(warehouse: Path, database: str) -> Callable[[str], Rows]:
    """Runs a query in `lakelog.sql` over the tables of a database."""
    connection = connect(Catalog(warehouse))
    connection.sql(f"USE {database}")
    return lambda text: rows_of(connection.sql(text))


def rows_of(table: pa.Table) -> Rows:
    """The rows of a table."""
    return [tuple(row.values()) for row in table.to_pylist()]


def timed(run_once: Callable[[str], Rows], text: str) -> Measure:
    """One run of a query, to its rows."""
    return measured(lambda: run_once(text))


def check(query: str, found: Mapping[str, Rows]) -> None:
    """End the benchmark if two ways have other answers."""
    first, wanted = next(iter(found.items()))
    for way, rows in found.items():
        if len(rows) != len(wanted) or not all(is_same(*pair) for pair in zip(rows, wanted, strict=True)):
            sys.exit(f"{query} has other rows in {way}: {list(rows)[:3]}, {list(wanted)[:3]} in {first}")


def is_same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether two rows are the same; engines give a quotient as a decimal or as a double."""
    return all(
        math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-6)
        if isinstance(a, int | float | Decimal) and isinstance(b, int | float | Decimal)
        else a == b
        for a, b in zip(one, other, strict=True)
    )


def statement(session: SparkSession, work: Path, repeats: int) -> dict[str, object]:
    """A look-up in a small table, and what attaching costs."""
    session.sql("CREATE TABLE bench.small.t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id')")
    rows = session.range(1_000).selectExpr("id", "CAST(id AS STRING) AS v")
    rows.writeTo("bench.small.t").append()
    rows.write.parquet(str(work / "plain" / "t"))
    texts = {
        "plain": f"SELECT * FROM parquet.`{work}/plain/t` WHERE id = 7",
        "lakelog": "SELECT * FROM bench.small.t WHERE id = 7",
    }
    ways = {
        way: partial(measured, partial(lambda text: session.sql(text).collect(), text)) for way, text in texts.items()
    }
    in_turns(ways, repeats=5)
    walls = {way: median_wall_s(found) for way, found in in_turns(ways, repeats=repeats * 5).items()}
    attached = [measured(partial(attach, session, f"other{at}", work / f"other{at}")).wall_s for at in range(5)]
    return {
        "statement_plain_ms": round(walls["plain"] * 1_000, 1),
        "statement_lakelog_ms": round(walls["lakelog"] * 1_000, 1),
        "ratio_statement": round(walls["lakelog"] / walls["plain"], 3),
        "attach_ms": round(median(attached) * 1_000, 1),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--engine", choices=ENGINES, help="only this engine; both without it")
    arguments = parser.parse_args()
    engines = ENGINES if arguments.engine is None else (arguments.engine,)
    scale, repeats = (0.01, 1) if arguments.small else (1, 3)
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        session = make_session()
        try:
            summary = run(session, Path(folder), scale, repeats, engines)
        finally:
            session.stop()
    print_summary(summary, as_json=arguments.json)


if __name__ == "__main__":
    main()
