"""The 99 queries of TPC-DS: no operator of them is opaque, and each column that is no constant has an input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakelog.spark.session import catalog_of
from tests.support.lineage.field_cases import TRUTH
from tests.support.lineage.statement_fields import fields_of_statement

QUERIES = sorted((TRUTH / "tpcds").glob("*.sql"))
IN_THE_GATE = 4  # every so many
_CONSTANT = r"'[^']*'|[\d.]+|NULL|count\(1\)"
_CONSTANT_COLUMN = re.compile(rf"(?:{_CONSTANT})(?: \| (?:{_CONSTANT}))*")
# Sums and ratios of counts of rows, the level of ROLLUP that a row has, names of carriers put together.
WITHOUT_INPUTS = {
    "q14": ["sum(number_sales)"],
    "q27": ["g_state"],
    "q36": ["lochierarchy"],
    "q66": ["ship_carriers"],
    "q70": ["lochierarchy"],
    "q86": ["lochierarchy"],
    "q90": ["am_pm_ratio"],
}


@pytest.fixture(scope="module")
def tpcds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the tables, which have no rows."""
    session = spark.newSession()
    session.sql(f"CREATE DATABASE tpcds LOCATION '{tmp_path_factory.mktemp('tpcds')}'")
    session.sql("USE tpcds")
    for name, columns in json.loads((TRUTH / "tpcds_schema.json").read_text("utf-8")).items():
        declared = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        session.sql(f"CREATE TABLE {name} ({declared}) USING parquet")
    yield session
    session.sql("DROP DATABASE tpcds CASCADE")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[] if at % IN_THE_GATE == 0 else [pytest.mark.full])
        for at, path in enumerate(QUERIES)
    ],
)
def test_each_column_of_a_query_has_its_inputs(name: str, tpcds: SparkSession) -> None:
    found = fields_of_statement(tpcds, (TRUTH / "tpcds" / f"{name}.sql").read_text("utf-8"), catalog_of)
    assert found.opaque_operators == frozenset()
    assert [one for one in found.lineage.fields if one.is_opaque] == []
    without = [one for one in found.lineage.fields if not one.edges and not _CONSTANT_COLUMN.fullmatch(one.description)]
    assert [one.name for one in without] == WITHOUT_INPUTS.get(name, [])
    assert {edge.source.dataset.namespace for one in found.lineage.fields for edge in one.edges} <= {"spark_catalog"}
