"""The system tables of a warehouse in an object store, whose access is given with the catalog alone."""

from __future__ import annotations

import pytest

from lakelog.catalog import Catalog
from lakelog.lineage import feed, known_edges
from tests.support.lineage.lineage_records import (
    LINEAGE_ON,
    commit_job,
    make_sink,
    sorted_rows,
    system_rows,
    table_source,
)
from tests.support.servers.s3_server import S3Server

pytestmark = pytest.mark.integration


def test_an_expiry_feeds_before_it_deletes_in_an_object_store(s3: S3Server) -> None:
    catalog = Catalog(f"s3://{s3.new_bucket()}/lake", options={**s3.options, **LINEAGE_ON})
    table = make_sink(catalog)
    commit_job(table, 0, table_source(end=0))
    feed(catalog)
    for batch in range(1, 4):
        commit_job(table, batch, table_source(end=batch))
    before = sorted_rows(known_edges(catalog))

    assert table.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)

    assert sorted_rows(known_edges(catalog)) == before
    assert len(system_rows(catalog, "snapshot_edges")) == 4
