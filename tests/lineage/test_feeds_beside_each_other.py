"""Several feeds of one warehouse at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lakelog.catalog import Catalog
from lakelog.lineage import feed, known_edges
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_job, make_sink, system_rows, table_source

FEEDS = 3
ROUNDS = 3


def test_feeds_at_the_same_time_record_each_batch_once(catalog: Catalog) -> None:
    tables = [make_sink(catalog, f"db.t{at}") for at in range(2)]
    for number in range(ROUNDS):
        for table in tables:
            commit_job(table, number, table_source("db.a", end=number), job=table.name)
        with ThreadPoolExecutor(FEEDS) as pool:
            feeds = [pool.submit(feed, Catalog(catalog.warehouse, options=LINEAGE_ON)) for _ in range(FEEDS)]
        assert [one.exception() for one in feeds] == [None] * FEEDS

    truth = [(table.name, number, number) for table in tables for number in range(ROUNDS)]
    assert sorted(system_rows(catalog, "snapshot_edges", "sink_table", "barrier_id", "source_to")) == truth
    assert known_edges(catalog).num_rows == len(truth)
    assert [row[2] for row in system_rows(catalog, "sink_job_lineage", "job", "database", "table")] == ["t0", "t1"]
