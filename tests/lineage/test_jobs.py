"""The jobs of a warehouse: listed, ended, deleted."""

from __future__ import annotations

import pytest

from lakelog.catalog import Catalog, InvalidRequestError, NotFoundError, Table
from lakelog.filestore.metadata.origins.record import ForeignSource
from lakelog.lineage import delete_job, end_job, feed, jobs, known_edges, rebuild
from tests.support.lineage.lineage_records import commit_job, make_sink, system_rows, table_source

OF_JOBS = ("source_job_lineage", "sink_job_lineage")
OF_SNAPSHOTS = ("source_snapshot_lineage", "sink_snapshot_lineage")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table with two batches of a job, and one of another job."""
    made = make_sink(catalog)
    for batch in range(2):
        commit_job(made, batch, table_source("db.a", end=batch), ForeignSource(format="kafka", name="orders"))
    commit_job(made, 0, table_source("db.b"), job="other")
    return made


@pytest.mark.parametrize("is_fed", [True, False])
def test_jobs_are_listed_with_what_they_read_and_write(catalog: Catalog, table: Table, is_fed: bool) -> None:
    if is_fed:
        feed(catalog)

    found = {job.name: job for job in jobs(catalog)}

    assert found.keys() == {"job", "other"}
    assert found["job"].sources == ("db.a", "kafka:orders")
    assert found["job"].sinks == (str(table.identifier),)
    assert (found["job"].batches, found["job"].last_barrier_id, found["job"].has_ended) == (2, 1, False)
    assert found["job"].query_ids == ("query-1",)


def test_an_ended_job_leaves_the_tables_of_jobs_and_keeps_its_snapshots(catalog: Catalog, table: Table) -> None:
    feed(catalog)
    before = known_edges(catalog).num_rows

    end_job(catalog, "job")

    for name in OF_JOBS:
        assert {row[0] for row in system_rows(catalog, name, "job")} == {"other"}
    assert known_edges(catalog).num_rows == before
    assert [(job.name, job.has_ended) for job in jobs(catalog)] == [("job", True), ("other", False)]


def test_a_job_that_commits_after_its_end_is_back(catalog: Catalog, table: Table) -> None:
    feed(catalog)
    end_job(catalog, "job")
    last = commit_job(table, 2, table_source("db.a", end=7))
    feed(catalog)

    found = catalog.system_table("sys.sink_job_lineage").to_arrow(where="job = 'job'")

    assert found["create_time"].cast("int64").to_pylist() == [last.time_millis]
    assert [job.has_ended for job in jobs(catalog)] == [False, False]


@pytest.mark.parametrize("is_fed", [True, False])
def test_a_deleted_job_has_no_lineage_any_more(catalog: Catalog, table: Table, is_fed: bool) -> None:
    feed(catalog)
    if not is_fed:
        commit_job(table, 2, table_source("db.a", end=7))

    delete_job(catalog, "job")
    feed(catalog)
    rebuild(catalog)

    for name in (*OF_JOBS, *OF_SNAPSHOTS, "snapshot_edges"):
        assert {row[0] for row in system_rows(catalog, name, "job")} == {"other"}
    assert {*known_edges(catalog)["job"].to_pylist()} == {"other"}
    delete_job(catalog, "job")


def test_what_a_deleted_job_commits_later_is_recorded(catalog: Catalog, table: Table) -> None:
    feed(catalog)
    delete_job(catalog, "job")
    commit_job(table, 2, table_source("db.a", end=7))
    feed(catalog)

    assert system_rows(catalog, "sink_snapshot_lineage", "job", "barrier_id") == [("job", 2), ("other", 0)]


def test_an_unknown_job_is_not_found(catalog: Catalog, table: Table) -> None:
    feed(catalog)
    for act in (end_job, delete_job):
        with pytest.raises(
            NotFoundError, match=f"job 'jobb' has written no table of {catalog.warehouse}; did you mean 'job'"
        ):
            act(catalog, "jobb")


def test_without_lineage_no_job_is_ended(catalog: Catalog, table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="no lineage is recorded"):
        end_job(Catalog(catalog.warehouse), "job")
