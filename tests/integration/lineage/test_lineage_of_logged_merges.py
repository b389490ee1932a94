"""A table with a log shows what its branch brought: the branch's sources, at the versions that it has read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.filestore.metadata.origins.record import BatchLineage
from lakelog.lineage import consistent_snapshots, upstream
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, read_of
from tests.support.logs.local_writer import LocalWriter
from tests.support.tables.small_tables import SCHEMA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


def grow(table: Table, times: int = 1) -> None:
    for number in range(times):
        table.write(pa.table({"id": pa.array([number], pa.int64())}))


def run(table: Table, source: Table, batch: int, start: int | None, end: int) -> None:
    """A batch of the stream `one` into a table with a log."""
    lineage = BatchLineage(job="one", query_id="one", batch_id=batch, sources=[read_of(source, start=start, end=end)])
    rows = pa.table([pa.array([batch], pa.int64()), pa.array([batch], pa.int32())], schema=SCHEMA)
    LocalWriter(open_table(table.path), "one", lineage=lineage.to_json()).write(batch, rows, None)


def forked(catalog: Catalog) -> tuple[Table, Table, StreamJob]:
    """A source at 3, a table with a log at 1 whose branch is at 2, and a job that goes into another table, at 1."""
    plain = {"bucket": "1", "write-only": "true"}
    source, beside = (catalog.create_table(f"db.{name}", schema="id BIGINT", options=plain) for name in "sb")
    options = {"bucket": "2", "log.system": "kafka", "write-only": "true"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    grow(source, 3)
    two = StreamJob(beside, [source], user="two")
    two.run({"db.s": 1})
    run(table, source, 0, None, 1)
    table.branches.create("b")
    rows = pa.table([pa.array([1], pa.int64()), pa.array([7], pa.int32())], schema=SCHEMA)
    commit_rows(table.branch("b"), rows, read_of(source, start=1, end=2), user="one", batch=1)
    return source, table, two


def ids(catalog: Catalog) -> dict[str, int]:
    return dict(consistent_snapshots(catalog, ["db.t", "db.b"]))


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("fast_forward", {}),
        ("replace_newer", {"force": True, "renew_log": True}),
        ("replace_main", {"force": True}),
        pytest.param("replace_newer", {"force": True}, marks=pytest.mark.full),
        pytest.param("replace_main", {"force": True, "renew_log": True}, marks=pytest.mark.full),
    ],
)
def test_a_branch_that_is_taken_as_a_whole_shows_what_it_showed(
    catalog: Catalog, verb: str, options: Mapping[str, int]
) -> None:
    source, table, two = forked(catalog)
    two.run({"db.s": 2})
    if verb != "fast_forward":
        run(table, source, 1, 1, 3)  # gives way

    getattr(table.branches, verb)("b", **options)

    newest = table.store.snapshots.latest_id()
    assert newest is not None
    assert ids(catalog) == {"db.t": newest, "db.b": 2}
    grow(source)
    run(table, source, 2, 2 if verb == "fast_forward" else 3, 4)  # on from the branch, or behind what gave way
    two.run({"db.s": 4})
    found = consistent_snapshots(catalog, ["db.t", "db.b"])
    if verb == "fast_forward":
        assert dict(found) == {"db.t": newest + 1, "db.b": 3}
    else:
        assert dict(found) == {"db.t": newest, "db.b": 2}
        assert "a gap (job one read on from snapshot 3, not from snapshot 2)" in found.reasons["db.t"]


def test_a_three_way_merge_names_the_branch_and_is_mixed_until_the_table_is_where_the_branch_was(
    catalog: Catalog,
) -> None:
    source, table, two = forked(catalog)
    two.run({"db.s": 2})

    merged = table.branches.merge("b").snapshot_id

    assert merged is not None
    assert ids(catalog) == {"db.t": 1, "db.b": 1}
    rows = upstream(catalog, "db.t", merged).to_pylist()
    assert {(row["source_table"], row["source_branch"], row["source_from"], row["source_to"]) for row in rows} >= {
        ("db.t", "b", 1, 2),
        ("db.s", None, 1, 2),
    }
    table.branches.delete("b")
    run(table, source, 1, 1, 2)
    assert ids(catalog) == {"db.t": merged + 1, "db.b": 2}
