"""The commits of UPDATE, DELETE and MERGE record the snapshots of the tables that they have read."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Any: the arguments of what is wrapped

import pytest
from pyspark.sql import SparkSession

from lakelog.spark.catalog_plugin.row_changes import RowChanges
from tests.spark.catalog_plugin.test_writes import sources_of
from tests.support.examples import pairs_in_full, rest_in_full

pytestmark = pytest.mark.integration

BY_BUCKET = "(id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2', 'write-only' = 'true')"
ON_DRIVER = "(id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('write-mode' = 'change-log', 'bucket' = '2')"
BY_PLACE = "(id BIGINT, v STRING)"
KINDS = {"bucket": BY_BUCKET, "driver": ON_DRIVER, "place": BY_PLACE}
TABLES = pytest.mark.parametrize("columns", KINDS.values(), ids=KINDS)
CHANGES = {
    "delete": "DELETE FROM lake.db.t WHERE id IN (SELECT id FROM lake.db.a)",
    "merge": "MERGE INTO lake.db.t t USING lake.db.a s ON t.id = s.id WHEN MATCHED THEN DELETE",
}


def make(session: SparkSession, columns: str = BY_BUCKET) -> None:
    """The table t with the rows 1 to 4; a and b, each with two commits, whose second row is 2."""
    session.sql(f"CREATE TABLE lake.db.t {columns}")
    session.sql("INSERT INTO lake.db.t VALUES (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x')")
    for name in ("a", "b"):
        session.sql(f"CREATE TABLE lake.db.{name} (id BIGINT, v STRING)")
        session.sql(f"INSERT INTO lake.db.{name} VALUES (1, '{name}1')")
        session.sql(f"INSERT INTO lake.db.{name} VALUES (2, '{name}2')")


def rows(session: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.table("lake.db.t").collect())


@TABLES
def test_the_tables_of_subqueries_are_sources(session: SparkSession, tmp_path: Path, columns: str) -> None:
    make(session, columns)
    session.sql(
        "UPDATE lake.db.t SET v = (SELECT max(v) FROM lake.db.b) WHERE id IN (SELECT id FROM lake.db.a VERSION AS OF 1)"
    )
    assert rows(session) == [(1, "b2"), (2, "x"), (3, "x"), (4, "x")]
    assert sources_of(tmp_path, "db.t") == {("db.a", 1), ("db.b", 2)}
    session.sql("DELETE FROM lake.db.t t WHERE EXISTS (SELECT 1 FROM lake.db.b s WHERE s.id = t.id)")
    assert rows(session) == [(3, "x"), (4, "x")]
    assert sources_of(tmp_path, "db.t") == {("db.b", 2)}
    session.sql(
        "MERGE INTO lake.db.t t USING lake.db.a s ON t.id = s.id + 2"
        " WHEN MATCHED AND s.v > (SELECT min(v) FROM lake.db.a) AND s.id IN (SELECT id FROM lake.db.b) THEN DELETE"
    )
    assert rows(session) == [(3, "x")]
    assert sources_of(tmp_path, "db.t") == {("db.a", 2), ("db.b", 2)}


@pytest.mark.parametrize("columns", rest_in_full(KINDS.values(), 1), ids=KINDS)
def test_the_changed_table_itself_is_no_source(session: SparkSession, tmp_path: Path, columns: str) -> None:
    make(session, columns)
    session.sql("UPDATE lake.db.t SET v = 'y' WHERE id = (SELECT max(id) FROM lake.db.t)")
    assert sources_of(tmp_path, "db.t") == set()
    session.sql("DELETE FROM lake.db.t WHERE id = (SELECT min(id) FROM lake.db.t)")
    assert sources_of(tmp_path, "db.t") == set()
    assert rows(session) == [(2, "x"), (3, "x"), (4, "y")]


def test_a_table_with_a_log_records_them_too(session: SparkSession, tmp_path: Path, bootstrap_servers: str) -> None:
    log = f"'log.system' = 'kafka', 'log.kafka.bootstrap.servers' = '{bootstrap_servers}'"
    make(session, BY_BUCKET.replace("'bucket' =", f"{log}, 'bucket' ="))
    session.sql("DELETE FROM lake.db.t WHERE id IN (SELECT id FROM lake.db.a)")
    assert rows(session) == [(3, "x"), (4, "x")]
    assert sources_of(tmp_path, "db.t") == {("db.a", 2)}


@pytest.mark.parametrize(("kind", "change"), pairs_in_full(KINDS, CHANGES))
def test_the_recorded_snapshot_is_the_one_that_was_read(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, change: str
) -> None:
    columns, statement = KINDS[kind], CHANGES[change]
    make(session, columns)
    name = "by_bucket" if columns is BY_BUCKET else "on_driver"
    once = getattr(RowChanges, name)
    commits = iter([("a", 3, "late")])

    def behind_a_commit(changes: RowChanges, actions: Any) -> Any:
        for table, number, text in commits:  # after the analysis of the statement
            session.sql(f"INSERT INTO lake.db.{table} VALUES ({number}, '{text}')")
        return once(changes, actions)

    monkeypatch.setattr(RowChanges, name, behind_a_commit)
    session.sql(statement)
    was_read = 3 not in [row[0] for row in rows(session)]
    assert sources_of(tmp_path, "db.t") == {("db.a", 3 if was_read else 2)}


@TABLES
def test_a_statement_that_is_computed_again_records_what_it_has_read_last(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    make(session, columns)
    name = "by_bucket" if columns is BY_BUCKET else "on_driver"
    once = getattr(RowChanges, name)
    commits = iter(["a", "t"])
    calls = []

    def before_commits(changes: RowChanges, actions: Any) -> Any:
        found = once(changes, actions)
        calls.append(name)
        for table in commits:  # the first one is overtaken
            session.sql(f"INSERT INTO lake.db.{table} VALUES (9, 'late')")
        return found

    monkeypatch.setattr(RowChanges, name, before_commits)
    session.sql("DELETE FROM lake.db.t WHERE id IN (SELECT id FROM lake.db.a)")
    assert len(calls) == 2
    assert rows(session) == [(3, "x"), (4, "x")]
    assert sources_of(tmp_path, "db.t") == {("db.a", 3)}
