"""Statements of Spark's SQL on an attached warehouse, against rows that were worked out by hand.

The expected rows follow from what Spark, Delta, Iceberg and Paimon document. The files are in `cases/`, one per topic;
those in `cases/full/` go into the corners of a topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakelog.spark
from tests.support.tables.case_files import ERROR, Case, read_cases, shown_value

FOLDER = Path(__file__).parent / "cases"
CATALOG = "lake"
# What a sentence for a user does not hold.
INTERNALS = ("py4j", "traceback", "a fault of lakelog", "org.apache.", "__lakelog")


# The other files run in the gate without Spark, see `tests/sql/test_statements.py`.
IN_GATE = ("alter", "changes", "create", "delete", "errors", "insert", "merge", "select", "time_travel", "update")


def files() -> Iterator[object]:
    """Every file as a parameter of a test."""
    for path in sorted(FOLDER.glob("*.test")):
        yield pytest.param(path, id=path.stem, marks=[] if path.stem in IN_GATE else [pytest.mark.full])
    for path in sorted(FOLDER.glob("full/*.test")):
        yield pytest.param(path, id=f"full-{path.stem}", marks=pytest.mark.full)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session of its own with an empty warehouse."""
    made = spark.newSession()
    lakelog.spark.attach(made, CATALOG, tmp_path)
    yield made
    lakelog.spark.detach(made, CATALOG)


@pytest.mark.parametrize("path", [*files()])
def test_statements_give_the_rows_that_were_worked_out_by_hand(session: SparkSession, path: Path) -> None:
    words = {"catalog": CATALOG, "database": path.stem, "db": f"{CATALOG}.{path.stem}"}
    session.sql(f"CREATE DATABASE {words['db']}")
    session.sql(f"USE {words['db']}")
    failed: list[str] = []
    for case in read_cases(path, words):
        wrong = difference(session, case)
        if wrong is not None:
            place = f"{path.relative_to(FOLDER)}:{case.line}"
            failed.append(f"{place}: {case.about}\n{case.statement}\n{wrong}")
    assert not failed, "\n\n".join([f"{len(failed)} statements of {path.name}", *failed])


def difference(session: SparkSession, case: Case) -> str | None:
    """What is wrong with what a statement gives; None if nothing is."""
    try:
        found = session.sql(case.statement).collect()
    except PySparkException as error:
        return wrong_error(case, error)
    except Exception as error:  # noqa: BLE001  # another kind of exception is what is wrong
        return f"expected: {case.wants} {case.text}\nfound an exception that is not of Spark: {error!r}"[:1000]
    return case.difference([tuple(map(shown_value, row)) for row in found])


def wrong_error(case: Case, error: PySparkException) -> str | None:
    """What is wrong with an error; None if it is expected, and a sentence for a user."""
    message = str(error).strip()
    first = message.partition("\n")[0]
    if case.wants != ERROR or case.text not in message:
        return f"expected: {case.wants} {case.text}\nfound the error: {message[:600]}"
    bad = [word for word in INTERNALS if word in first.lower()]
    return f"the error {first!r} holds {', '.join(bad)}" if bad or " " not in first.strip() else None
