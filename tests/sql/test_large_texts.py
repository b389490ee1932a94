"""Texts have bounds, each with its error; long lists are planned at once, and an interrupt is heard meanwhile."""

from __future__ import annotations

import gc
import resource
import sys
import time
from pathlib import Path
from threading import Timer

import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
from lakelog.sql import SqlConnection
from lakelog.sql.language.parsing import split_statements

NUMBERS = ", ".join(map(str, range(2, 100_002)))
WORDS = ", ".join(f"'{word}'" for word in ["xy   ", "2026-01-02", *range(100_000)])
DAYS = ", ".join(["'2026-01-02'", "NULL"] * 1_000)


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    made.sql("CREATE DATABASE db")
    made.sql("USE db")
    made.sql("CREATE TABLE t (id INT NOT NULL, v STRING, c CHAR(4), d DATE, r FLOAT, PRIMARY KEY (id))")
    made.sql("INSERT INTO t VALUES (1, 'a', 'xy', DATE '2026-01-01', 1), (2, '7', 'zz', DATE '2026-01-02', 2)")
    return made


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (f"id IN ({NUMBERS})", [2]),
        (f"id NOT IN ({NUMBERS})", [1]),
        (f"id NOT IN ({NUMBERS}, NULL)", []),
        (f"r IN ({NUMBERS})", [2]),
        (f"v IN ({WORDS})", [2]),
        (f"c IN ({WORDS})", []),  # a CHAR is as it is stored: its spaces count
        (f"d IN ({DAYS})", [2]),
        (f"id = ? OR id IN ({NUMBERS})", [1, 2]),
        (f"id IN (SELECT id FROM t WHERE id IN ({NUMBERS}))", [2]),
        (f"concat(c, '') IN ({DAYS}) OR length('IN ({NUMBERS})') = {len(NUMBERS) + 5} AND id = 1", [1]),
    ],
    ids=lambda given: str(given)[:20],
)
def test_a_long_list_means_what_a_short_one_means(connection: SqlConnection, condition: str, ids: list[int]) -> None:
    given = [1] if "?" in condition else None
    assert sorted(connection.sql(f"SELECT id FROM t WHERE {condition}", given)["id"].to_pylist()) == ids


def test_a_list_of_100000_values_is_planned_in_two_seconds_and_a_gigabyte(connection: SqlConnection) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    connection.sql(f"SELECT id FROM t WHERE id IN ({NUMBERS})")
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KB


@pytest.mark.parametrize(
    ("statement", "stored"),
    [
        (f"UPDATE t SET v = 'new' WHERE id IN ({NUMBERS})", {1: "a", 2: "new"}),
        (f"DELETE FROM t WHERE id IN ({NUMBERS})", {1: "a"}),
        (f"INSERT INTO t (id, v) SELECT id + 9, 'new' FROM t WHERE id IN ({NUMBERS})", {1: "a", 2: "7", 11: "new"}),
        (
            f"MERGE INTO t USING (SELECT 7 AS id) AS s ON t.id = s.id WHEN NOT MATCHED AND s.id IN ({NUMBERS}) "
            "THEN INSERT (id) VALUES (s.id)",
            {1: "a", 2: "7", 7: None},
        ),
    ],
    ids=lambda given: str(given)[:12],
)
def test_a_statement_takes_a_long_list(connection: SqlConnection, statement: str, stored: dict[int, str]) -> None:
    plan = connection.sql(f"EXPLAIN {statement}")["plan"].to_pylist()
    assert sum("Scan lake.db.t" in line for line in plan) == 1
    connection.sql(statement)
    assert {row["id"]: row["v"] for row in connection.sql("SELECT id, v FROM t").to_pylist()} == stored


def test_a_script_is_split_with_its_long_lists() -> None:
    statements = [f"SELECT 1 IN ({NUMBERS})", "SELECT ';'", f"DELETE FROM t WHERE id IN ({NUMBERS}) AND v IN ({WORDS})"]
    assert split_statements(";\n".join(statements)) == statements


LEVELS = [("(", ")"), ("abs(", ")"), ("CASE WHEN true THEN (", ") END"), ("(SELECT ", ")"), ("CAST(", " AS INT)")]


@pytest.mark.parametrize(("begins", "ends"), LEVELS)
def test_200_levels_are_read_and_more_are_refused(connection: SqlConnection, begins: str, ends: str) -> None:
    limit = sys.getrecursionlimit()
    found = connection.sql(f"SELECT {begins * 200} 1 {ends * 200} AS found")
    assert found["found"].to_pylist() == [1]
    with pytest.raises(InvalidRequestError, match="nested too deeply: at most 200 levels"):
        connection.sql(f"SELECT {begins * 201} 1 {ends * 201} AS found")
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT " + "(" * 10_000_000, "nested too deeply: at most 200 levels"),
        ("SELECT " + "NOT " * 20_000 + "true", "nested too deeply"),
        ("SELECT " + "- " * 5_000 + "1", "nested too deeply"),
        ("SELECT " + "[" * 100 + "]" * 100, "cannot be Arrow data"),
        ("SELECT " + "9" * 10_000_000, "a number has more than 400 digits"),
        ("SELECT '" + "9" * (16 << 20) + "'", r"has 16,777,225 characters: at most 16,777,216 are read"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_too_large_is_refused_at_once(connection: SqlConnection, text: str, message: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequestError, match=message):
        connection.sql(text)
    assert time.process_time() - began < 5


def test_digits_in_a_string_are_no_number(connection: SqlConnection) -> None:
    digits = "9" * 1_000
    assert connection.sql(f"SELECT '{digits}' AS found")["found"].to_pylist() == [digits]
    assert connection.sql("SELECT length('" + "(" * 300 + "') AS found").to_pylist() == [{"found": 300}]


# Hypothesis leaves a callback of the garbage collector in the process; Python reports an exception dropped in there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("after", [0.2, 1, 3])
def test_an_interrupt_is_heard_while_a_statement_is_planned(connection: SqlConnection, after: float) -> None:
    rows = ", ".join(f"({at}, 'v{at}')" for at in range(9, 200_000))
    heard: list[float] = []

    def interrupt() -> None:
        heard.append(time.monotonic())
        connection.interrupt()

    timer = Timer(after, interrupt)
    timer.start()
    with pytest.raises(InvalidRequestError, match="the statement was interrupted"):
        connection.sql(f"INSERT INTO t (id, v) VALUES {rows}")
    assert time.monotonic() - heard[0] < 1
    assert connection.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]  # the next statement runs


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_reaches_a_callback_of_the_garbage_collector_is_heard(connection: SqlConnection) -> None:
    """Python drops an exception that is raised in such a callback."""
    dropped: list[bool] = []

    def collecting(_phase: str, _info: dict[str, int]) -> None:
        if not dropped:
            try:
                connection.interrupt()
                for _ in range(1_000):  # the exception is raised in here
                    pass
            except BaseException:
                dropped.append(True)
                raise

    rows = ", ".join(f"({at}, 'v{at}')" for at in range(9, 200_000))
    gc.callbacks.append(collecting)
    began = time.process_time()
    try:
        with pytest.raises(InvalidRequestError, match="the statement was interrupted"):
            connection.sql(f"INSERT INTO t (id, v) VALUES {rows}")
    finally:
        gc.callbacks.remove(collecting)
    assert dropped == [True]
    assert time.process_time() - began < 5  # 20 without a second exception
    assert connection.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]
