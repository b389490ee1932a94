"""Batch reads of several tables at snapshots that were made from the same versions of their source."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
from lakelog.spark import consistent_read, read
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows

ROWS = pa.schema({"id": pa.int64()})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """`db.a` and `db.b`, made from `db.s`: `a` shows its snapshots 1, 2 and 3, `b` those 1 and 2."""
    catalog = Catalog(tmp_path)
    source, a, b = (
        catalog.create_table(f"db.{name}", schema=ROWS, options={"bucket": "1", "write-only": "true"}) for name in "sab"
    )
    fast, slow = StreamJob(a, [source], user="fast"), StreamJob(b, [source], user="slow")
    for number in (1, 2, 3):
        source.write(pa.table({"id": pa.array([number], pa.int64())}))
        fast.run({"db.s": number})
        if number < 3:
            slow.run({"db.s": number})
    return catalog


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def alone(catalog: Catalog) -> Table:
    table = catalog.create_table("db.alone", schema=ROWS)
    commit_rows(table, pa.table({"id": pa.array([1], pa.int64())}), user="hand")
    return table


def test_reads_inside_of_the_block_show_snapshots_that_go_together(spark: SparkSession, catalog: Catalog) -> None:
    with consistent_read(spark, ["db.a", "db.b"], catalog=catalog) as tables:
        inside = ids(read(spark, "db.a", catalog=catalog))
        by_path = ids(read(spark, catalog.load_table("db.a").path))

    assert (ids(tables["db.a"]), ids(tables["db.b"])) == ([0, 1], [0, 1])
    assert inside == by_path == [0, 1]
    assert dict(tables.snapshots) == {"db.a": 2, "db.b": 2}
    assert ids(read(spark, "db.a", catalog=catalog)) == [0, 1, 2]  # the newest again, behind the block


def test_a_block_is_of_a_version_of_the_source_or_of_a_time(spark: SparkSession, catalog: Catalog) -> None:
    first = next(iter(catalog.load_table("db.b").snapshots())).time_millis
    with consistent_read(spark, ["db.a", "db.b"], at={"db.s": 1}, catalog=catalog) as tables:
        assert dict(tables.snapshots) == {"db.a": 1, "db.b": 1}
    with consistent_read(spark, ["db.a", "db.b"], at=first, catalog=catalog) as tables:
        assert dict(tables.snapshots) == {"db.a": 1, "db.b": 1}


def test_a_table_that_the_block_is_not_of_is_refused(spark: SparkSession, catalog: Catalog) -> None:
    alone(catalog)
    with consistent_read(spark, ["db.a", "db.b"], catalog=catalog):
        with pytest.raises(InvalidRequestError, match=r"db\.alone is read with consistent snapshots of db\.a"):
            read(spark, "db.alone", catalog=catalog)
        with pytest.raises(InvalidRequestError, match="leave out snapshot_id"):
            read(spark, "db.a", catalog=catalog, snapshot_id=1)
        with pytest.raises(InvalidRequestError, match="leave out consistent_with"):
            read(spark, "db.a", catalog=catalog, consistent_with=["db.b"])


def test_one_read_is_consistent_with_other_tables(spark: SparkSession, catalog: Catalog) -> None:
    warehouse = catalog.warehouse
    chosen = consistent_snapshots(catalog, ["db.a", "db.b"])
    first = next(iter(catalog.load_table("db.b").snapshots())).time_millis

    assert ids(read(spark, "db.a", warehouse=warehouse, consistent_with=["db.b"])) == [0, 1]
    assert ids(read(spark, catalog.load_table("db.a"), consistent_with="db.b", timestamp=first)) == [0]
    assert ids(read(spark, "db.b", catalog=catalog, consistent_with=chosen)) == [0, 1]


def test_tables_that_never_go_together_are_an_error_with_the_reason(spark: SparkSession, catalog: Catalog) -> None:
    late = StreamJob(alone(catalog), [catalog.load_table("db.s")], user="late")
    late.run({"db.s": 3})
    with (
        pytest.raises(NotConsistentError, match=r"no consistent snapshots at snapshot 3 of db\.s"),
        consistent_read(spark, ["db.b", "db.alone"], catalog=catalog, at={"db.s": 3}),
    ):
        raise AssertionError("unreachable")
    with pytest.raises(InvalidRequestError, match="in which catalog"), consistent_read(spark, ["db.a"]):
        raise AssertionError("unreachable")


def test_the_snapshots_of_a_block_are_kept_when_it_says_so(spark: SparkSession, catalog: Catalog) -> None:
    a = catalog.load_table("db.a")
    with consistent_read(spark, ["db.a", "db.b"], catalog=catalog, keeps_snapshots=True) as tables:
        a.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
        assert ids(tables["db.a"]) == [0, 1]
    a.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")

    with pytest.raises(NotFoundError):
        tables["db.a"]
