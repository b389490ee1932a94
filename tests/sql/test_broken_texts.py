"""A statement that is cut off or garbled ends in an error of lakelog, whatever is missing: never in one of Python's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lakelog.sql
from lakelog.catalog import Catalog, LakelogError
from lakelog.sql import SqlConnection
from tests.sql.test_statements import FOLDERS
from tests.support.tables.case_files import read_cases

WORDS = {"catalog": "lake", "database": "db", "db": "lake.db"}
STATEMENTS = sorted(
    {case.statement for folder in FOLDERS for path in folder.rglob("*.test") for case in read_cases(path, WORDS)}
)
EACH = 600
INTERNALS = ("traceback", "a fault of lakelog", "sqlglot")


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    made.sql("CREATE DATABASE db")
    made.sql("USE db")
    made.sql("CREATE TABLE t (id INT NOT NULL, v STRING, n BIGINT, PRIMARY KEY (id))")
    made.sql("CREATE TABLE p (id INT, d DATE, v STRING) PARTITIONED BY (d)")
    return made


def garbled(statement: str, chance: random.Random) -> str:
    """The statement up to a letter or a word, without some words, or with one of another statement."""
    words = statement.split()
    at = chance.randrange(len(words) + 1)
    match chance.randrange(4):
        case 0:
            return statement[: chance.randrange(len(statement) + 1)]
        case 1:
            return " ".join(words[:at])
        case 2:
            return " ".join(words[:at] + words[at + chance.randint(1, 3) :])
    other = chance.choice(chance.choice(STATEMENTS).split())
    return " ".join([*words[:at], other, *words[at + chance.randint(0, 1) :]])


@pytest.mark.parametrize("seed", range(5))
def test_a_garbled_statement_is_refused_in_our_words(connection: SqlConnection, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(EACH):
        text = garbled(chance.choice(STATEMENTS), chance)
        told = error_of(connection, text)
        assert not [word for word in INTERNALS if word in told.lower()], (text, told)


def error_of(connection: SqlConnection, text: str) -> str:
    """The error of lakelog that a statement ends with, empty without one. Raises AssertionError for another error."""
    try:
        connection.sql(text)
    except LakelogError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(text) from error
    return ""


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t TIMESTAMP AS OF",
        "SELECT * FROM t VERSION AS OF 0.1",
        "SELECT map(7",
        "SELECT v FROM t LATERAL VIEW posexplode(v) AS ",
        "CALL",
        "CALL lake.sys.compact(table",
        "CREATE TABLE k (a INT, b NOT NULL)",
        "CREATE SET TABLE k (a INT)",
        "CREATE TEMPORARY VIEW a",
        "ALTER TABLE t SET",
        "ALTER TABLE t ADD COLUMN a INT AFTER",
        "INSERT SELECT 1",
        "UPDATE t SET id",
        "UPDATE t SET v = 1, array(9) WHERE id = 2",
        "DELETE t WHERE id = 1",
        "MERGE INTO t USING t AS s ON WHEN MATCHED THEN DELETE",
        "DESCRIBE rollback",
        "DESCRIBE DETAIL p PARTITION (d) 'x' =",
        "SHOW TABLES IN lake.",
        "SHOW PARTITIONS p PARTITION (d =",
        "EXPLAIN",
    ],
)
def test_a_part_that_is_missing_is_an_error_of_the_text(connection: SqlConnection, text: str) -> None:
    with pytest.raises(LakelogError):
        connection.sql(text)
