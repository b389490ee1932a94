"""Fresh reads by Spark: the newest snapshot and the log behind it, by each door, and in the lineage of what is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.spark import attach, detach, read
from tests.support.examples import rest_in_full
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

DOORS: dict[str, Callable[[SparkSession, Table], DataFrame]] = {
    "read": lambda spark, table: read(spark, table, fresh=True),
    "load": lambda spark, table: spark.read.format("lakelog").option("scan.fresh", "true").load(table.path),
    "table": lambda spark, _: spark.read.option("scan.fresh", "true").table("lake.db.t"),
    "SQL": lambda spark, _: spark.sql("SELECT * FROM lake.db.t WITH ('scan.fresh' = 'true')"),
}


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def session(spark: SparkSession, catalog: Catalog) -> Iterator[SparkSession]:
    made = spark.newSession()
    attach(made, "lake", catalog)
    yield made
    detach(made, "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Two rows in a snapshot, a change of one of them and a third row in the log alone."""
    options = {"bucket": "2", "log.system": "kafka"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    writer = LocalWriter(table, "a")
    writer.log(0, pa.table([[1, 2], [0, 0]], schema=SCHEMA))
    writer.take_in()
    writer.log(1, pa.table([[2, 3], [1, 1]], schema=SCHEMA))
    await_committed(table)
    return table


def shown(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["id"], row["batch"]) for row in rows.collect())


@pytest.mark.parametrize("door", rest_in_full(DOORS, 2))
def test_a_fresh_read_has_the_log_behind_the_snapshot(session: SparkSession, table: Table, door: str) -> None:
    rows = DOORS[door](session, table)

    assert shown(rows) == [(1, 0), (2, 1), (3, 1)]
    assert shown(rows.where("id > 1 AND batch = 1").select("id", "batch")) == [(2, 1), (3, 1)]
    assert rows.count() == 3
    assert shown(session.table("lake.db.t")) == [(1, 0), (2, 0)]


def test_what_is_made_from_a_fresh_read_names_the_table_and_no_version_of_it(
    session: SparkSession, catalog: Catalog, table: Table
) -> None:
    session.sql("CREATE TABLE lake.db.copy AS SELECT * FROM lake.db.t WITH ('scan.fresh' = 'true')")

    copy = catalog.load_table("db.copy")
    made = copy.snapshot()
    assert made is not None
    (batch,) = json.loads(made.properties["lakelog.lineage"])["batches"]
    assert copy.count() == 3
    assert [(one["table"], one["exact"], one["why"]) for one in batch["sources"]] == [
        ("db.t", False, "a fresh read, which has the log behind the snapshot too")
    ]
    assert batch["sources"][0]["uuid"] == table.uuid


def test_a_statement_has_what_waits(session: SparkSession, table: Table) -> None:
    session.sql("DELETE FROM lake.db.t WHERE batch = 1")

    assert table.to_arrow()["id"].to_pylist() == [1]


def test_what_names_other_rows_beside_it_is_refused(session: SparkSession, table: Table, tmp_path: Path) -> None:
    fresh = session.read.format("lakelog").option("scan.fresh", "true")
    stream = session.readStream.format("lakelog").option("scan.fresh", "true").load(table.path)
    with pytest.raises(PySparkException, match=r"scan\.fresh shows the newest state, and another option names other"):
        fresh.option("snapshot_id", "1").load(table.path).collect()
    with pytest.raises((PySparkException, InvalidRequestError), match="names"):
        session.sql("SELECT * FROM lake.db.t VERSION AS OF 1 WITH ('scan.fresh' = 'true')").collect()
    with pytest.raises(InvalidRequestError, match="shows the newest state"):
        read(session, table, fresh=True, snapshot_id=1)
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    with pytest.raises(PySparkException, match=r"scan\.fresh is an option of batch reads"):
        query.trigger(availableNow=True).start().awaitTermination()
