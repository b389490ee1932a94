"""What Spark tells a source in Python of a query: the reasons why `load()` reads everything.

Where one of these fails, Spark has changed: `load()` can then do better, see "What Spark reads" in the guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
UNKNOWN_SIZE = (1 << 63) - 1  # spark.sql.defaultSizeInBytes


class TenRows(DataSourceReader):
    """The ids from 0 to 9, and in each row the columns that Spark asked for; filters of an id are applied."""

    def __init__(self, schema: StructType) -> None:
        self._names = schema.names
        self._wanted: list[object] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for given in filters:
            if isinstance(given, EqualTo) and given.attribute == ("id",):
                self._wanted.append(given.value)
            else:
                yield given

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        for number in range(10):
            if all(number == wanted for wanted in self._wanted):
                row = {"id": number, "asked": ",".join(self._names)}
                yield tuple(row[name] for name in self._names)


class TenRowsSource(DataSource):
    """`TenRows` as a format."""

    @classmethod
    def name(cls) -> str:
        return "ten_rows"

    def schema(self) -> str:
        return "id BIGINT, asked STRING"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TenRows(schema)


@pytest.fixture
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    """The source's rows, with filters pushed into it."""
    spark.dataSource.register(TenRowsSource)
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield spark.read.format("ten_rows").load()
    spark.conf.set(PUSHDOWN, str(before))


@pytest.mark.full
def test_spark_still_gives_wrong_rows_where_a_source_takes_filters(rows: DataFrame) -> None:
    both = rows.filter("id = 3").union(rows.filter("id = 5"))
    assert [row.id for row in both.collect()] == [5, 5], "right is [3, 5]: Spark keeps the filters of queries apart now"
    assert rows.count() == 1, "right is 10: Spark drops the filters of the query before now"


@pytest.mark.full
def test_spark_asks_for_all_columns_but_those_that_a_users_schema_leaves_out(
    spark: SparkSession, rows: DataFrame
) -> None:
    assert rows.select("asked").limit(1).collect()[0].asked == "id,asked"

    narrow = spark.read.format("ten_rows").schema("asked STRING").load()
    assert narrow.select("asked").limit(1).collect()[0].asked == "asked"


def test_spark_plans_with_no_size_of_a_source_in_python(rows: DataFrame) -> None:
    plan = rows._jdf.queryExecution().optimizedPlan()

    assert plan.stats().sizeInBytes() == UNKNOWN_SIZE
    assert plan.stats().rowCount().isEmpty()


def test_a_reader_is_asked_for_filters_partitions_and_rows_alone() -> None:
    assert {name for name in vars(DataSourceReader) if not name.startswith("_")} == {
        "pushFilters",
        "partitions",
        "read",
    }
