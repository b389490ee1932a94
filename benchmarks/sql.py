"""Spark's SQL over attached tables beside the same statements over plain Parquet files, in the same session.

Two tables in the manner of TPC-H, orders and their lines, were upserted: most rows are compacted, and a twentieth was
written again since, so that every bucket has rows to merge (`merged`); after a full compaction files need no merge
(`compacted`). Six queries in the manner of TPC-H's 1, 3, 6, 12, 14 and 18: `ratio` is the sum of the medians by that of
plain Parquet. `statement` is a SELECT by key of a table of 1,000 rows, `attach` another warehouse in a session that has
one. The answers are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.measuring import Measure, in_turns, measured, median_wall_s
from benchmarks.spark_runs import make_session
from lakelog.spark import attach

ORDERS = """
SELECT id AS o_id, id % 1000 AS o_customer,
  date_add(DATE'2020-01-01', CAST(pmod(hash(id), 2000) AS INT)) AS o_date,
  concat('prio ', pmod(hash(id, 1), 5)) AS o_priority, CAST(pmod(hash(id, 2), 100000) / 7 AS DECIMAL(12, 2)) AS o_total
FROM range({orders})
"""
LINES = """
SELECT id AS l_id, id DIV 4 AS l_order, CAST(pmod(hash(id), 50) + 1 AS INT) AS l_quantity,
  CAST(pmod(hash(id, 1), 100000) / 9 AS DECIMAL(12, 2)) AS l_price, CAST(pmod(hash(id, 2), 11) / 100 AS DECIMAL(4, 2))
  AS l_discount, substr('ANR', pmod(hash(id, 3), 3) + 1, 1) AS l_flag, concat('mode ', pmod(hash(id, 4), 7)) AS l_mode,
  date_add(DATE'2020-01-01', CAST(pmod(hash(id, 5), 2100) AS INT)) AS l_shipped
FROM range({lines})
"""
QUERIES = {
    "q1": "SELECT l_flag, count(*), sum(l_quantity), sum(l_price), sum(l_price * (1 - l_discount)), avg(l_discount) "
    "FROM {lines} WHERE l_shipped <= DATE'2025-06-01' GROUP BY l_flag",
    "q3": "SELECT o_id, o_date, sum(l_price * (1 - l_discount)) AS revenue FROM {orders} "
    "JOIN {lines} ON o_id = l_order WHERE o_date < DATE'2021-03-15' "
    "AND l_shipped > DATE'2021-03-15' GROUP BY o_id, o_date "
    "ORDER BY revenue DESC, o_id LIMIT 10",
    "q6": "SELECT sum(l_price * l_discount) FROM {lines} WHERE l_shipped >= DATE'2021-01-01' AND "
    "l_shipped < DATE'2022-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "q12": "SELECT l_mode, sum(CASE WHEN o_priority = 'prio 1' THEN 1 ELSE 0 END), count(*) FROM {orders} JOIN {lines} "
    "ON o_id = l_order WHERE l_mode IN ('mode 1', 'mode 4') AND l_shipped >= DATE'2022-01-01' GROUP BY l_mode",
    "q14": "SELECT 100 * sum(CASE WHEN o_priority LIKE 'prio 1%' THEN l_price ELSE 0 END) / sum(l_price) FROM {lines} "
    "JOIN {orders} ON l_order = o_id WHERE l_shipped >= DATE'2021-09-01' AND l_shipped < DATE'2021-10-01'",
    "q18": "SELECT o_customer, o_id, sum(l_quantity) AS q FROM {orders} JOIN {lines} ON o_id = l_order WHERE o_id IN "
    "(SELECT l_order FROM {lines} GROUP BY l_order HAVING sum(l_quantity) > 170) GROUP BY o_customer, o_id "
    "ORDER BY q DESC, o_id LIMIT 20",
}
TABLES = {"orders": ("o_id", ORDERS), "lines": ("l_id", LINES)}


def make(session: SparkSession, work: Path, orders: int) -> None:
    """The tables and the plain files, with the same rows."""
    counts = {"orders": orders, "lines": orders * 4}
    for name, (key, rows) in TABLES.items():
        made = session.sql(rows.format(**counts))
        made.repartition(4).write.parquet(str(work / "plain" / name))
        for kind in ("merged", "compacted"):
            table = f"bench.{kind}.{name}"
            options = f"'primary-key'='{key}', 'bucket'='4', 'write-only'='true'"
            columns = ", ".join(f"{column} {kind_of}" for column, kind_of in made.dtypes).replace(
                f"{key} bigint", f"{key} bigint not null"
            )
            session.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ({options})")
            made.writeTo(table).append()
            session.sql(f"CALL bench.sys.compact('{kind}.{name}')")
            made.where(f"pmod(hash({key}, 9), 20) = 0").writeTo(table).append()
        session.sql(f"CALL bench.sys.compact('compacted.{name}')")


def run(session: SparkSession, work: Path, orders: int, repeats: int) -> dict[str, object]:
    """The figures."""
    attach(session, "bench", work / "lake")
    make(session, work, orders)
    names = {
        "plain": {name: f"parquet.`{work}/plain/{name}`" for name in TABLES},
        **{kind: {name: f"bench.{kind}.{name}" for name in TABLES} for kind in ("merged", "compacted")},
    }
    summary: dict[str, object] = {"benchmark": "sql", "orders": orders, "lines": orders * 4}
    sums = dict.fromkeys(names, 0.0)
    for query, text in QUERIES.items():
        found = {way: session.sql(text.format(**tables)).collect() for way, tables in names.items()}
        if any(sorted(map(str, rows)) != sorted(map(str, found["plain"])) for rows in found.values()):
            sys.exit(f"{query} has other rows in {', '.join(found)}")
        ways = {way: partial(timed, session, text.format(**tables)) for way, tables in names.items()}
        for way, measures in in_turns(ways, repeats=repeats).items():
            wall = median_wall_s(measures)
            sums[way] += wall
            summary[f"{query}_{way}_ms"] = round(wall * 1_000)
    summary |= {f"ratio_{kind}": round(sums[kind] / sums["plain"], 3) for kind in ("merged", "compacted")}
    return summary | statement(session, work, repeats)


def timed(session: SparkSession, text: str) -> Measure:
    """One run of a query, to its rows."""
    return measured(lambda: session.sql(text).collect())


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
    ways = {way: partial(timed, session, text) for way, text in texts.items()}
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
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        session = make_session()
        try:
            summary = run(session, Path(folder), *((2_000, 1) if arguments.small else (500_000, 3)))
        finally:
            session.stop()
    for name, value in summary.items():
        print(f"{name:28} {value:>12}")
    if arguments.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
