"""Streams of Spark on a table whose log lacks changes: writes without tracking, and rows of another engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.write.write import write_rows
from lakelog.spark import LakelogSink, write_stream
from tests.support.logs.promises import read_headers
from tests.support.tables.foreign_engine import foreign_snapshot
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


def rows_of(batch: int) -> pa.Table:
    return pa.table([pa.array([batch, 100]), pa.array([batch] * 2, pa.int32())], schema=SCHEMA)


def run(spark: SparkSession, table: Table, folder: Path, batch: int, *, change_tracking: bool | None = None) -> None:
    """A run of one job, whose source has got one more file."""
    (folder / "source").mkdir(exist_ok=True)
    pq.write_table(rows_of(batch), folder / "source" / f"{batch}.parquet")
    source = spark.readStream.schema("id BIGINT, batch INT").parquet(str(folder / "source"))
    query = write_stream(
        source,
        open_table(table.path),
        checkpoint_location=folder / "job",
        available_now=True,
        change_tracking=change_tracking,
    )
    query.awaitTermination()


def test_a_stream_without_tracking_and_one_behind_another_engines_rows_write_on(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "log.system": "kafka"}
    )
    run(spark, table, tmp_path, 0)
    run(spark, table, tmp_path, 1, change_tracking=False)
    files = open_table(table.path).store
    live = files.live_files.of(files.snapshots.latest())
    foreign = write_rows(files, rows_of(7), first_sequence=live.next_sequence).entries
    foreign_snapshot(files, CommitKind.APPEND, entries=foreign)
    run(spark, table, tmp_path, 2)

    rows = open_table(table.path).to_arrow().to_pylist()
    assert {row["id"]: row["batch"] for row in rows} == {0: 0, 1: 1, 7: 7, 2: 2, 100: 2}
    assert [header.mark for _, header in read_headers(table)] == [None, "untracked", "break", None]


def test_a_table_without_a_log_has_no_tracking_to_switch_off(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    with pytest.raises(InvalidRequestError, match="has no log, and change_tracking=False is for one"):
        LakelogSink(table, change_tracking=False)
