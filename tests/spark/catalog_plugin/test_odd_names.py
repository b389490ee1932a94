"""Names with signs of every kind, as a column, a key, a partition column and a member, through every door.

One table has a key, a partition, a value and a member of each name, and the expected rows were worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.sql
from lakelog.catalog import Catalog, Table
from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import quoted
from lakelog.spark import LakelogSink, attach, detach, merge, read, write, write_stream
from tests.support.examples import rest_in_full

NAMES = ["a b", "a.b", 'a"b', "a`b", "a'b", "ä中", "a%b", "a[0]", "1a", "select", "a\\b", "a/b", "a,b", "?"]
KEYS, PARTS, VALUES = ([f"{name}{end}" for name in NAMES] for end in ("", " p", " v"))
MEMBERS = "the members"
SCHEMA = pa.schema(
    [(name, pa.int32()) for name in KEYS]
    + [(name, pa.string()) for name in PARTS]
    + [(name, pa.int32()) for name in VALUES]
    + [(MEMBERS, pa.struct([(name, pa.int32()) for name in NAMES]))]
)


class World(NamedTuple):
    """A session in which the table is `lake.db.t`, with the row of `row(1)`."""

    spark: SparkSession
    catalog: Catalog
    folder: Path

    @property
    def table(self) -> Table:
        """The table."""
        return self.catalog.load_table("db.t")

    def frame(self, number: int) -> DataFrame:
        """A row as a DataFrame."""
        return self.spark.createDataFrame(row(number))


def row(number: int) -> pa.Table:
    """A row: its keys are the number, its values ten times the number, its partitions `p`."""
    values = [number] * len(KEYS) + ["p"] * len(PARTS) + [number * 10] * len(VALUES)
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, [*values, dict.fromkeys(NAMES, number)], strict=True))], schema=SCHEMA
    )


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    catalog = Catalog(tmp_path / "lake")
    made = spark.newSession()
    attach(made, "lake", catalog)
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=[*KEYS, *PARTS], partition_keys=PARTS[:2], options={"bucket": "1"}
    )
    table.write(row(1))
    made.sql("USE lake.db")
    yield World(made, catalog, tmp_path)
    detach(made, "lake")


def listed(names: list[str], form: str = "{}", *, of: Callable[[str], str] = quoted_name, by: str = ", ") -> str:
    """The names in SQL, each in a form."""
    return by.join(form.replace("{}", of(name)) for name in names)


def keys_are(number: int, of: Callable[[str], str] = quoted_name) -> str:
    """A condition on every key and partition column."""
    of_keys = listed(KEYS, f"{{}} = {number}", of=of, by=" AND ")
    return f"{of_keys} AND " + listed(PARTS, "{} = 'p'", of=of, by=" AND ")


def values_of(found: list[dict[str, object]]) -> list[int]:
    """The value of each row; every value column has it, else the answer is -1."""
    each = [{one[name] for name in VALUES} for one in found]
    return sorted(one.pop() if len(one) == 1 else -1 for one in each)  # type: ignore[misc]


def values(world: World) -> list[int]:
    """The values of the table's rows."""
    return values_of(world.table.to_arrow().to_pylist())


SET = listed(VALUES, "{} = {} + 1")
COLUMNS = f"{listed(KEYS)}, {listed(PARTS)}, {listed(VALUES)}"
CONSTANTS = ", ".join(["2"] * len(KEYS) + ["'p'"] * len(PARTS) + ["20"] * len(VALUES))
INSERT = f"INSERT INTO lake.db.t ({COLUMNS}) VALUES ({CONSTANTS})"
UPDATE = f"UPDATE lake.db.t SET {SET} WHERE {keys_are(1)}"
DELETE = f"DELETE FROM lake.db.t WHERE {keys_are(1)}"
SELECT = f"SELECT {listed(VALUES)}, {listed(NAMES, quoted_name(MEMBERS) + '.{}')} FROM lake.db.t WHERE {keys_are(1)}"
MERGE = (
    f"MERGE INTO lake.db.t t USING (SELECT * FROM lake.db.t) s ON {listed([*KEYS, *PARTS], 't.{} = s.{}', by=' AND ')} "
    f"WHEN MATCHED THEN UPDATE SET {listed(VALUES, '{} = s.{} + 1')}"
)


def stream(world: World, write: Callable[[DataFrame], None]) -> None:
    """Write a row by a stream."""
    rows = world.frame(2)
    rows.write.parquet(str(world.folder / "rows"))
    write(world.spark.readStream.schema(rows.schema).parquet(str(world.folder / "rows")))


def by_sink(world: World, rows: DataFrame) -> None:
    """Write a stream by a sink in foreachBatch."""
    sink = LakelogSink("db.t", catalog=world.catalog)
    checkpoint = str(world.folder / "checkpoint")
    query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


def by_write_stream(world: World, rows: DataFrame) -> None:
    """Write a stream by `write_stream`."""
    place = {"catalog": world.catalog, "checkpoint_location": str(world.folder / "checkpoint")}
    write_stream(rows, "db.t", available_now=True, **place).awaitTermination()  # type: ignore[arg-type]


WRITES: dict[str, Callable[[World], object]] = {
    "INSERT": lambda world: world.spark.sql(INSERT),
    "writeTo": lambda world: world.frame(2).writeTo("lake.db.t").append(),
    "save": lambda world: world.frame(2).write.format("lakelog").mode("append").save(world.table.path),
    "write": lambda world: write(world.frame(2), "db.t", catalog=world.catalog),
    "merge": lambda world: (
        merge(world.frame(2), "db.t", catalog=world.catalog)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
    "write_stream": lambda world: stream(world, lambda rows: by_write_stream(world, rows)),
    "LakelogSink": lambda world: stream(world, lambda rows: by_sink(world, rows)),
    "INSERT without Spark": lambda world: lakelog.sql.connect(world.catalog).sql(INSERT),
    "Table.write": lambda world: world.table.write(row(2)),
    "Table.merge": lambda world: world.table.merge(row(2)).when_not_matched_insert_all().execute(),
}
CHANGES: dict[str, tuple[Callable[[World], object], list[int]]] = {
    "UPDATE": (lambda world: world.spark.sql(UPDATE), [11]),
    "MERGE": (lambda world: world.spark.sql(MERGE), [11]),
    "DELETE": (lambda world: world.spark.sql(DELETE), []),
    "UPDATE without Spark": (lambda world: lakelog.sql.connect(world.catalog).sql(UPDATE), [11]),
    "MERGE without Spark": (lambda world: lakelog.sql.connect(world.catalog).sql(MERGE), [11]),
    "DELETE without Spark": (lambda world: lakelog.sql.connect(world.catalog).sql(DELETE), []),
    "Table.update": (lambda world: world.table.update(dict.fromkeys(VALUES, 11), where=keys_are(1)), [11]),
    "Table.delete": (lambda world: world.table.delete(keys_are(1)), []),
    "compact": (lambda world: world.table.compact(full=True, where=listed(PARTS[:2], "{} = 'p'", by=" AND ")), [10]),
}
READS: dict[str, Callable[[World], list[dict[str, object]]]] = {
    "SELECT": lambda world: [one.asDict() for one in world.spark.sql(SELECT).collect()],
    "load": lambda world: [
        one.asDict()
        for one in world.spark.read.format("lakelog")
        .option("where", keys_are(1))
        .option("columns", listed(VALUES))
        .load(world.table.path)
        .collect()
    ],
    "read": lambda world: [
        one.asDict()
        for one in read(world.spark, "db.t", catalog=world.catalog, columns=VALUES, where=keys_are(1)).collect()
    ],
    "changes": lambda world: [
        one.asDict() for one in world.spark.table("`t$audit_log`").select(listed_columns()).collect()
    ],
    "SELECT without Spark": lambda world: lakelog.sql.connect(world.catalog).sql(SELECT).to_pylist(),
    "to_arrow": lambda world: world.table.to_arrow(columns=VALUES, where=keys_are(1)).to_pylist(),
    "to_polars": lambda world: world.table.to_polars().collect().to_dicts(),
    "to_duckdb": lambda world: (
        world.table.to_duckdb()
        .filter(keys_are(1, of=quoted))
        .project(listed(VALUES, of=quoted))
        .to_arrow_table()
        .to_pylist()
    ),
}


def listed_columns() -> list[str]:
    """The value columns for `select`."""
    return [quoted_name(name) for name in VALUES]


@pytest.mark.parametrize("door", rest_in_full(WRITES, 1))
def test_each_way_to_write_takes_every_name(world: World, door: str) -> None:
    WRITES[door](world)

    assert values(world) == [10, 20]


@pytest.mark.parametrize("door", rest_in_full(CHANGES, 0))
def test_each_way_to_change_takes_every_name(world: World, door: str) -> None:
    change, expected = CHANGES[door]
    change(world)

    assert values(world) == expected


@pytest.mark.parametrize("door", READS)
def test_each_way_to_read_takes_every_name(world: World, door: str) -> None:
    assert values_of(READS[door](world)) == [10]


@pytest.mark.parametrize("way", ["DESCRIBE EXTENDED t", "SHOW CREATE TABLE t", "SHOW PARTITIONS t"])
def test_each_way_to_describe_takes_every_name(world: World, way: str) -> None:
    shown = str(world.spark.sql(way).collect())

    assert all(name.replace("`", "``") in shown or name in shown for name in ("a b p", "a.b p"))


def test_a_table_that_spark_makes_takes_every_name(world: World) -> None:
    columns = f"{listed(KEYS, '{} INT')}, {listed(PARTS, '{} STRING')}, {listed(VALUES, '{} INT')}"
    key, partition = listed([*KEYS, *PARTS]), listed(PARTS[:2])
    world.spark.sql(f"CREATE TABLE made ({columns}, PRIMARY KEY ({key})) PARTITIONED BY ({partition})")
    world.spark.sql(f"INSERT INTO made SELECT {COLUMNS} FROM t")

    made = world.catalog.load_table("db.made")
    assert made.schema.primary_keys == (*KEYS, *PARTS)
    assert made.schema.partition_keys == tuple(PARTS[:2])
    assert values_of(made.to_arrow().to_pylist()) == [10]


@pytest.mark.parametrize("name", ["*", "^a.*$"])
def test_a_name_that_polars_takes_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="is a pattern of names"):
        Catalog(tmp_path).create_table("db.t", schema=pa.schema([(name, pa.int32())]))
