"""What is missing is named: a table by Spark's own error, a tag, branch or snapshot of a table by ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog
from lakelog.common.errors import NotFoundError
from lakelog.spark import attach, detach, error_of

_Door = Callable[[SparkSession], object]


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with the table `lake.db.t`."""
    catalog = Catalog(tmp_path / "lake")
    catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()})).write(pa.table({"id": [1]}))
    made = spark.newSession()
    attach(made, "lake", catalog)
    yield made
    detach(made, "lake")


# A statement, and the name that is missing.
OF_A_TABLE: dict[str, tuple[_Door, str]] = {
    "WITH branch": (lambda spark: spark.sql("SELECT * FROM lake.db.t WITH ('branch' = 'nix')"), "nix"),
    "WITH tag": (lambda spark: spark.sql("SELECT * FROM lake.db.t WITH ('tag' = 'nix')"), "nix"),
    "WITH snapshot": (lambda spark: spark.sql("SELECT * FROM lake.db.t WITH ('snapshot_id' = '77')"), "77"),
    "VERSION": (lambda spark: spark.sql("SELECT * FROM lake.db.t VERSION AS OF 'nix'"), "nix"),
    "TIMESTAMP": (lambda spark: spark.sql("SELECT * FROM lake.db.t TIMESTAMP AS OF '1999-01-01'"), "1999"),
    "option": (lambda spark: spark.read.option("tag", "nix").table("lake.db.t"), "nix"),
    "UPDATE": (
        lambda spark: spark.sql("UPDATE lake.db.t SET id = (SELECT max(id) FROM lake.db.t VERSION AS OF 'nix')"),
        "nix",
    ),
    "write": (lambda spark: spark.range(1).writeTo("lake.db.t").option("branch", "nix").append(), "nix"),
    "CHANGES": (
        lambda spark: spark.sql("SELECT * FROM lake.db.t CHANGES FROM VERSION 1 WITH ('branch' = 'nix')"),
        "nix",
    ),
}
TABLES = ["lake.db.nix", "lake.nix.t", "lake.db.`nix$files`", "lake.db.`nix$branch_b`", "lake.sys.nix"]
PARTS = ["lake.db.`t$nix`", "lake.db.`t$branch_nix`", "lake.db.`t$branch_nix$files`"]


@pytest.mark.parametrize("door", OF_A_TABLE)
def test_what_a_table_lacks_is_named(session: SparkSession, door: str) -> None:
    run, name = OF_A_TABLE[door]
    with pytest.raises(PySparkException) as raised:
        run(session)

    error = error_of(raised.value)
    assert isinstance(error, NotFoundError)
    assert name in str(error)


@pytest.mark.parametrize("table", [*TABLES, *PARTS])
def test_a_missing_table_is_spark_s_own_error(session: SparkSession, table: str) -> None:
    for way in (session.table, lambda name: session.sql(f"ALTER TABLE {name} ADD COLUMN b INT")):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            way(table)


@pytest.mark.parametrize("table", [*TABLES, *PARTS])
def test_a_name_of_nothing_does_not_exist(session: SparkSession, table: str) -> None:
    assert not session.catalog.tableExists(table)
    session.sql(f"DROP TABLE IF EXISTS {table}")
