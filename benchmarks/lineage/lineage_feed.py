"""Feeding: how many batches a second get from the snapshots of tables into the system tables.

Four tables are written by jobs with two sources each; after every group of commits, as many as come in a second, all
tables are fed. The figure is batches by the time of the feeds alone, with their compactions and expiries.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.metadata.origins.record import BatchLineage, ReadMode, TableSource, TableVersion
from lakelog.lineage import feed, known_edges

TABLES = 4
GROUP = 100
GROUPS = 20


def run(folder: Path, *, is_small: bool) -> dict[str, object]:
    """`feed_per_s`, and the milliseconds of the last feed, when the system tables are largest."""
    catalog = Catalog(folder, options={"table-lineage": "true", "data-lineage": "true"})
    schema = pa.schema({"id": pa.int64()})
    tables = [catalog.create_table(f"db.t{at}", schema=schema, options={"bucket": "1"}) for at in range(TABLES)]
    feed(catalog)  # makes the system tables
    groups, seconds, last = 2 if is_small else GROUPS, 0.0, 0.0
    for group in range(groups):
        for at in range(GROUP):
            _commit(tables[at % TABLES], group * GROUP + at)
        began = time.perf_counter()
        fed = feed(catalog)
        last = time.perf_counter() - began
        seconds += last
        assert fed.batches == GROUP
    assert known_edges(catalog).num_rows == 2 * GROUP * groups
    return {"feed_per_s": round(GROUP * groups / seconds, 1), "feed_last_ms": round(last * 1_000, 1)}


def _commit(table: Table, batch: int) -> None:
    versions = [TableVersion(snapshot_id=batch + at, commit=f"commit-{batch + at}") for at in range(2)]
    sources = [
        TableSource(
            table=f"db.{name}",
            uuid=f"uuid-{name}",
            mode=ReadMode.STREAM,
            start=versions[0],
            end=versions[1],
            is_exact=True,
        )
        for name in ("a", "b")
    ]
    lineage = BatchLineage(job=f"job of {table.name}", query_id="q", run_id="r", batch_id=batch, sources=sources)
    entry = {"user": "q", "identifier": batch, **lineage.to_json()}
    append_commit(table.store, user="q", identifier=batch, digest=None, entries=[], lineage={"batches": [entry]})
