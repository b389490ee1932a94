"""A warehouse with a table that cannot be read: the lineage of the others is known, and the table is named."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, CorruptDataError, LakelogError, Table
from lakelog.filestore.metadata.origins.record import ReadMode, Source
from lakelog.lineage import (
    consistent_snapshots,
    downstream,
    feed,
    jobs,
    known_edges,
    table_graph,
    tainted,
    unreadable_tables,
    upstream,
)
from lakelog.lineage.records.sources import source_of_table, version_of
from tests.support.lineage.lineage_records import commit_job, make_sink

Damage = Callable[[Table], None]


def no_snapshot(table: Table) -> None:
    Path(table.path, "snapshot", "snapshot-1").write_text("{", encoding="utf-8")


def no_schema_file(table: Table) -> None:
    Path(table.path, "schema", "schema-0").write_text("{", encoding="utf-8")


def no_schema(table: Table) -> None:
    shutil.rmtree(Path(table.path, "schema"))


DAMAGES: dict[str, Damage] = {"snapshot": no_snapshot, "schema file": no_schema_file, "no schema": no_schema}
damaged = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


@pytest.fixture
def tables(catalog: Catalog) -> dict[str, Table]:
    """Job `left` makes db.b of db.a, `right` makes db.c of db.a, `after` makes db.d of db.c."""
    found = {name: make_sink(catalog, f"db.{name}") for name in "abcd"}
    commit_job(found["a"], 0, job="first")
    for job, source, sink in (("left", "a", "b"), ("right", "a", "c"), ("after", "c", "d")):
        commit_job(found[sink], 0, stream_of(found[source]), job=job)
    return found


def stream_of(table: Table) -> Source:
    source = source_of_table(table.store, mode=ReadMode.STREAM)
    return replace(source, end=version_of(table.store.snapshots.get(1)), is_exact=True)


@damaged
def test_edges_and_jobs_of_the_other_tables_are_known_and_the_table_is_named(
    catalog: Catalog, tables: dict[str, Table], damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    damage(tables["b"])
    with caplog.at_level(logging.WARNING, logger="lakelog.lineage"), unreadable_tables() as unreadable:
        found = known_edges(catalog)
        listed = jobs(catalog)

    assert sorted(filter(None, found["source_table"].to_pylist())) == ["db.a", "db.c"]
    assert [job.name for job in listed if job.sources] == ["after", "right"]
    assert [(one.name, one.path) for one in unreadable] == [("db.b", tables["b"].path)]
    assert isinstance(unreadable[0].error, CorruptDataError)
    assert "the lineage of db.b is missing, since the table cannot be read" in caplog.text


@damaged
def test_questions_about_other_tables_are_answered(catalog: Catalog, tables: dict[str, Table], damage: Damage) -> None:
    damage(tables["b"])

    assert upstream(catalog, "db.d", 1)["sink_table"].to_pylist() == ["db.d", "db.c"]
    assert downstream(catalog, "db.a", 1)["sink_table"].to_pylist() == ["db.c", "db.d"]
    assert tainted(catalog, "db.a", 1).tables["table"].to_pylist() == ["db.a", "db.c", "db.d"]
    assert {node.name for node in table_graph(catalog, "db.a").nodes} == {"db.a", "db.c", "db.d"}
    assert dict(consistent_snapshots(catalog, ["db.a", "db.d"])) == {"db.a": 1, "db.d": 1}


@damaged
def test_a_question_about_the_table_itself_raises(catalog: Catalog, tables: dict[str, Table], damage: Damage) -> None:
    damage(tables["b"])
    for ask in (upstream, downstream, tainted, table_graph):
        with pytest.raises(LakelogError):
            ask(catalog, "db.b", 1)


def test_what_was_fed_of_a_damaged_table_stays_known(catalog: Catalog, tables: dict[str, Table]) -> None:
    feed(catalog)
    no_schema_file(tables["b"])
    with unreadable_tables() as unreadable:
        found = tainted(catalog, "db.a", 1)

    assert sorted(found.tables["table"].to_pylist()) == ["db.a", "db.b", "db.c", "db.d"]
    assert [one.name for one in unreadable] == ["db.b"]


@damaged
def test_a_feed_takes_the_others_and_raises(catalog: Catalog, tables: dict[str, Table], damage: Damage) -> None:
    damage(tables["b"])
    with pytest.raises(CorruptDataError):
        feed(catalog)
    shutil.rmtree(tables["b"].path)

    rows = catalog.system_table("sys.sink_job_lineage").to_arrow()
    assert sorted(rows["table"].to_pylist()) == ["a", "c", "d"]


def test_a_branch_that_cannot_be_read_is_named_and_its_table_is_known(
    catalog: Catalog, tables: dict[str, Table]
) -> None:
    tables["b"].branches.create("trial")
    commit_job(tables["b"].branch("trial"), 1, stream_of(tables["a"]), job="trial")
    Path(tables["b"].path, "branch", "branch-trial", "snapshot", "snapshot-2").write_text("{", encoding="utf-8")
    with unreadable_tables() as unreadable:
        found = upstream(catalog, "db.b", 1)

    assert found["job"].to_pylist() == ["left"]
    assert [one.name for one in unreadable] == ["db.b$branch_trial"]
