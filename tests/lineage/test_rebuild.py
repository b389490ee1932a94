"""The system tables made again from the snapshots."""

from __future__ import annotations

from lakelog.catalog import Catalog
from lakelog.lineage import feed, known_edges, rebuild
from lakelog.lineage.tables.edge_columns import FORK_OPERATION
from tests.support.lineage.lineage_records import (
    commit_batch,
    commit_job,
    entry,
    lineage,
    make_sink,
    sorted_rows,
    system_rows,
    table_source,
)

FED = ("source_job_lineage", "sink_job_lineage", "source_snapshot_lineage", "sink_snapshot_lineage", "snapshot_edges")


def _fed(catalog: Catalog) -> dict[str, list[tuple[object, ...]]]:
    return {name: system_rows(catalog, name) for name in FED}


def _fed_batch_by_batch(catalog: Catalog) -> None:
    """Two sinks of one job, parts of batches, branches, a name of two queries; fed after each commit."""
    one, other = make_sink(catalog, "db.t"), make_sink(catalog, "db.u")
    for batch in range(3):
        for table in (other, one) if batch % 2 else (one, other):
            commit_job(table, batch, table_source("db.a", start=batch, end=batch + 1), table_source("db.b", end=4))
            feed(catalog)
    part = entry("w", 0, lineage(0, table_source("db.c"), job="parts"))
    commit_batch(one, "v", 0, entry("v", 0, lineage(0, job="taker")), part)
    feed(catalog)
    commit_batch(one, "w", 0, part)
    one.branches.create("trial")
    commit_job(one.branch("trial"), 7, table_source("db.a", end=9))
    feed(catalog)
    commit_batch(
        other, "q2", 5, {**entry("q2", 0, lineage(0, table_source("db.a", end=8))), "query": "q2", "identifier": 5}
    )
    feed(catalog)


def test_a_rebuild_gives_the_tables_that_feeding_gave(catalog: Catalog) -> None:
    _fed_batch_by_batch(catalog)
    before = _fed(catalog)
    catalog.drop_database("lakelog_sys", cascade=True)

    rebuilt = rebuild(catalog)

    assert _fed(catalog) == before
    of_batches = [row for row in before["snapshot_edges"] if FORK_OPERATION not in row]
    assert len(of_batches) == len(before["snapshot_edges"]) - 1
    assert (rebuilt.tables, rebuilt.edges, rebuilt.kept) == (2, len(of_batches), {})


def test_a_rebuild_on_top_of_what_was_fed_changes_nothing(catalog: Catalog) -> None:
    _fed_batch_by_batch(catalog)
    before = _fed(catalog)

    rebuild(catalog)

    assert _fed(catalog) == before


def test_what_expired_is_kept_and_reported(catalog: Catalog) -> None:
    table = make_sink(catalog)
    for batch in range(4):
        commit_job(table, batch, table_source("db.a", end=batch), table_source("db.b", end=batch))
    feed(catalog)
    before = _fed(catalog)
    known = sorted_rows(known_edges(catalog))
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    rebuilt = rebuild(catalog)

    assert rebuilt.kept == {"db.t": 3}
    assert _fed(catalog) == before
    assert sorted_rows(known_edges(catalog)) == known
