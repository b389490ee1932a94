"""UPDATE, DELETE and MERGE against a model in plain Python, at once, and in processes that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog
from tests.support.examples import examples, rest_in_full

ROOT = Path(__file__).parents[3]
Model = dict[int, tuple[str | None, int]]
OPTIONS = {
    "key": "",
    "deletion vectors": ", 'deletion-vectors.enabled'='true'",
    "lookup": ", 'changelog-producer'='lookup'",
}


def values_of(rows: Mapping[int, tuple[str | None, int]]) -> str:
    """The rows as a source of SQL."""
    one = [f"({key}, {'NULL' if text is None else repr(text)}, {n})" for key, (text, n) in rows.items()]
    return f"(SELECT CAST(c1 AS BIGINT) AS id, c2 AS v, c3 AS n FROM VALUES {', '.join(one)} AS s(c1, c2, c3))"


def some_rows(chance: random.Random, count: int) -> Model:
    keys = chance.sample(range(30), count)
    return {key: (chance.choice(["a", "b", "cc", None]), chance.randint(-5, 5)) for key in keys}


def updated(chance: random.Random, rows: Model) -> tuple[str, Model]:
    limit = chance.randint(-5, 5)
    form = chance.randrange(3)
    if form == 0:
        new = {key: (text, n + 1) if n > limit else (text, n) for key, (text, n) in rows.items()}
        return f"UPDATE lake.db.t SET n = n + 1 WHERE n > {limit}", new
    if form == 1:
        new = {key: (f"{text}!"[-6:], n) if text is not None else (None, n) for key, (text, n) in rows.items()}
        return "UPDATE lake.db.t AS q SET v = right(concat(q.v, '!'), 6)", new
    top = max((n for _, n in rows.values()), default=None)
    new = {key: ("top", n) if n == top else (text, n) for key, (text, n) in rows.items()}
    return "UPDATE lake.db.t SET v = 'top' WHERE n = (SELECT max(n) FROM lake.db.t)", new


def deleted(chance: random.Random, rows: Model) -> tuple[str, Model]:
    limit = chance.randint(0, 29)
    form = chance.randrange(3)
    if form == 0:
        kept = {key: row for key, row in rows.items() if not (key < limit and row[0] == "a")}
        return f"DELETE FROM lake.db.t WHERE id < {limit} AND v = 'a'", kept
    if form == 1:
        kept = {key: row for key, row in rows.items() if (key * 7 + row[1]) % 5 != 0}
        return "DELETE FROM lake.db.t t WHERE pmod(t.id * 7 + t.n, 5) = 0", kept
    gone = {key for key, (_, n) in rows.items() if n == 3}
    kept = {key: row for key, row in rows.items() if key not in {key + 1 for key in gone}}
    return "DELETE FROM lake.db.t WHERE id IN (SELECT id + 1 FROM lake.db.t WHERE n = 3)", kept


def merged(chance: random.Random, rows: Model) -> tuple[str, Model]:
    source = some_rows(chance, chance.randint(1, 8))
    limit = chance.randint(-3, 3)
    new = dict(rows)
    for key, (text, n) in source.items():
        if key in rows and n < limit:
            del new[key]
        elif key in rows:
            new[key] = (text, rows[key][1] + n)
        elif n != 0:
            new[key] = (text, n)
    by_source = chance.random() < 0.5
    if by_source:
        for key, (text, n) in rows.items():
            if key not in source and n < -4:
                del new[key]
            elif key not in source:
                new[key] = (text, n - 1)
    statement = (
        f"MERGE INTO lake.db.t t USING {values_of(source)} s ON t.id = s.id "
        f"WHEN MATCHED AND s.n < {limit} THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, n = t.n + s.n "
        "WHEN NOT MATCHED AND n <> 0 THEN INSERT *"
    )
    if by_source:
        statement += (
            " WHEN NOT MATCHED BY SOURCE AND n < -4 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = n - 1"
        )
    return statement, new


def check_history(session: SparkSession, kind: str, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    rows = some_rows(chance, 12)
    session.sql(
        "CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING, n INT) "
        f"TBLPROPERTIES ('primary-key'='id', 'bucket'='2'{OPTIONS[kind]})"
    )
    session.sql(f"INSERT INTO lake.db.t SELECT * FROM {values_of(rows)}")
    for step in range(steps):
        statement, rows = chance.choice([updated, deleted, merged])(chance, rows)
        session.sql(statement)
        found = {row.id: (row.v, row.n) for row in session.table("lake.db.t").collect()}
        assert found == rows, (seed, step, statement)
    session.sql("DROP TABLE lake.db.t")


@pytest.mark.parametrize("kind", rest_in_full(OPTIONS, 1))
def test_random_statements_do_what_a_model_does(session: SparkSession, kind: str) -> None:
    check_history(session, kind, 1, examples(14))


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", OPTIONS)
def test_many_random_statements_do_what_a_model_does(session: SparkSession, kind: str) -> None:
    for seed in range(2, 8):
        check_history(session, kind, seed, 40)


def test_merges_at_once_are_both_in(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, n INT) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (1, 0)")

    def add(number: int) -> None:
        source = f"(SELECT CAST(1 AS BIGINT) AS id UNION ALL SELECT {100 + number})"
        session.sql(
            f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 7)"
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, range(6)))
    found = {row.id: row.n for row in session.table("lake.db.t").collect()}
    assert found == {1: 6, **{100 + number: 7 for number in range(6)}}


@pytest.mark.full
def test_merges_at_once_whose_source_is_the_table_lose_nothing(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, n INT) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (1, 0), (2, 0)")
    merge = (
        "MERGE INTO lake.db.t t USING (SELECT id, n + 1 AS n FROM lake.db.t WHERE id = 1) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n"
    )
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: session.sql(merge), range(6)))
    assert {row.id: row.n for row in session.table("lake.db.t").collect()} == {1: 6, 2: 0}


def test_statements_take_parameters(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    text = "it's :n, ? and \\"
    session.sql("UPDATE lake.db.t SET v = :text, n = n + :n WHERE id = :id", args={"text": text, "n": 10, "id": 1})
    session.sql("DELETE FROM lake.db.t WHERE id = ? AND v <> '?'", args=[2])
    source = "(SELECT CAST(:id AS BIGINT) AS id, :text AS v)"
    session.sql(
        f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
        args={"id": 3, "text": sf.lit("merged")},
    )
    with pytest.raises(PySparkException, match="UNBOUND_SQL_PARAMETER"):
        session.sql("UPDATE lake.db.t SET v = :text WHERE id = :missing", args={"text": "x"})
    assert sorted(session.table("lake.db.t").collect()) == [(1, text, 11), (3, "merged", 3)]


def test_a_source_with_two_rows_for_one_is_refused_and_changes_nothing(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, n INT) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (1, 0)")
    twice = "(SELECT CAST(id AS BIGINT) AS id, n FROM VALUES (1, 5), (1, 6) AS s(id, n))"
    merge = f"MERGE INTO lake.db.t t USING {twice} s ON t.id = s.id "
    with pytest.raises(PySparkException, match="several rows of the source change one row"):
        session.sql(merge + "WHEN MATCHED THEN UPDATE SET *")
    assert session.sql(merge + "WHEN MATCHED AND s.n = 6 THEN UPDATE SET *").first() is not None
    assert session.table("lake.db.t").collect() == [(1, 6)]
    session.sql(merge + "WHEN MATCHED THEN DELETE")
    assert session.table("lake.db.t").count() == 0
    with pytest.raises(PySparkException, match="insert one primary key"):
        session.sql(merge + "WHEN NOT MATCHED THEN INSERT *")


KILLED = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from lakelog.spark import attach
lake, first = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
attach(spark, "lake", lake)
spark.range(1).selectExpr("id").collect()
for number in range(first, first + 40):
    rows = f"SELECT id, CAST({number} AS BIGINT) AS n FROM range(200)"
    print("begins", number, flush=True)
    match number % 4:
        case 0: spark.sql(f"INSERT OVERWRITE lake.db.t {rows}")
        case 1: spark.sql(f"MERGE INTO lake.db.t t USING ({rows}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
        case 2: spark.sql(f"CREATE TABLE lake.db.c{number} TBLPROPERTIES ('primary-key'='id') AS {rows}")
        case 3: spark.sql("CALL lake.sys.restore(table => 'db.t', tag => 'first')")
    print("ends", number, flush=True)
"""


def check_kills(lake: Path, kills: int) -> None:
    """Kill a driver in the middle of statements: a table has all rows of one statement, a new table all or none."""
    chance = random.Random(3)
    catalog = Catalog(lake)
    table = catalog.create_table("db.t", schema="id BIGINT NOT NULL, n BIGINT", primary_keys="id")
    table.write(pl.DataFrame({"id": range(200), "n": [0] * 200}))
    table.tags.create("first")
    for kill in range(kills):
        first = kill * 40 + kill % 4
        command = [sys.executable, "-c", KILLED, str(lake), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as child:
            assert child.stdout is not None
            for _ in range(2 * chance.randint(0, 4) + 1):
                assert child.stdout.readline()
            time.sleep(chance.random() * 0.6)
            child.send_signal(signal.SIGKILL)
            child.communicate()
        found = Catalog(lake).load_table("db.t").to_arrow()
        assert found.num_rows == 200
        assert len(set(found["n"].to_pylist())) == 1
        for name in Catalog(lake).list_tables("db"):
            assert Catalog(lake).load_table(f"db.{name}").count() == 200, name


@pytest.mark.integration
@pytest.mark.full
def test_a_killed_driver_leaves_a_statement_whole_or_out(tmp_path: Path) -> None:
    check_kills(tmp_path, 2)


@pytest.mark.nightly
@pytest.mark.integration
@pytest.mark.timeout(3600)
def test_30_killed_drivers_leave_statements_whole_or_out(tmp_path: Path) -> None:
    check_kills(tmp_path, 30)


@pytest.mark.parametrize(
    ("key", "options"),
    [(", PRIMARY KEY (id)", ""), (", PRIMARY KEY (id)", "'bucket' = '-1'"), ("", "")],
    ids=["by bucket", "on the driver", "by place"],
)
def test_a_statement_answers_with_the_numbers_of_rows(session: SparkSession, key: str, options: str) -> None:
    properties = f"TBLPROPERTIES ({options})" if options else ""
    session.sql(f"CREATE TABLE lake.db.n (id BIGINT NOT NULL, v INT{key}) {properties}")
    session.sql("INSERT INTO lake.db.n SELECT /*+ COALESCE(1) */ id, 0 FROM range(10)")

    def answer(text: str) -> dict[str, int | None]:
        [row] = session.sql(text).collect()
        found = row.asDict()
        found.pop("snapshot_id")
        return found

    assert answer("UPDATE lake.db.n SET v = v + 1 WHERE id % 2 = 0") == {"num_affected_rows": 5}
    assert answer("DELETE FROM lake.db.n WHERE id < 3") == {"num_affected_rows": 3}
    assert answer("DELETE FROM lake.db.n WHERE id % 7 = 0") == {"num_affected_rows": 1}
    assert answer("DELETE FROM lake.db.n WHERE id = 77") == {"num_affected_rows": 0}
    assert answer(
        "MERGE INTO lake.db.n t USING (SELECT id FROM range(5, 13)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 9 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 7 "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 8) WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE"
    ) == {"num_affected_rows": 9, "num_updated_rows": 3, "num_deleted_rows": 2, "num_inserted_rows": 4}
    assert session.table("lake.db.n").count() == 8
