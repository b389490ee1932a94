"""Reads of a snapshot: Spark's own Parquet scan and the merge in Python give the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.filestore.table import FileStoreTable
from lakelog.spark import attach, detach
from tests.support.tables.paimon_tables import unpack

TYPES = {
    "id": pa.int64(),
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "small": pa.int16(),
    "whole": pa.int32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "price": pa.decimal128(7, 2),
    "sum": pa.decimal128(16, 3),
    "huge": pa.decimal128(38, 10),
    "millis": pa.timestamp("ms"),
    "micros": pa.timestamp("us"),
    "moment": pa.timestamp("ms", tz="UTC"),
    "instant": pa.timestamp("us", tz="UTC"),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=name != "id") for name, kind in TYPES.items()])
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_000)
ROWS = pa.Table.from_pylist(
    [
        {"id": 1},
        {
            "id": 2,
            "flag": True,
            "tiny": -128,
            "small": -(1 << 15),
            "whole": -(1 << 31),
            "real": float("inf"),
            "double": -0.0,
            "text": "",
            "raw": b"\x00\xff",
            "day": date(1, 1, 1),
            "price": Decimal("-99999.99"),
            "sum": Decimal("-9999999999999.999"),
            "huge": Decimal("-" + "9" * 28 + "." + "9" * 10),
            "millis": FIRST,
            "micros": FIRST,
            "moment": FIRST.replace(tzinfo=UTC),
            "instant": FIRST.replace(tzinfo=UTC),
        },
        {
            "id": 3,
            "flag": False,
            "tiny": 127,
            "small": (1 << 15) - 1,
            "whole": (1 << 31) - 1,
            "real": -1.5,
            "double": 1e308,
            "text": "日本 😀\x00",
            "raw": b"",
            "day": date(9999, 12, 31),
            "price": Decimal("0.01"),
            "sum": Decimal("0.001"),
            "huge": Decimal("0.0000000001"),
            "millis": LAST,
            "micros": LAST,
            "moment": LAST.replace(tzinfo=UTC),
            "instant": LAST.replace(tzinfo=UTC),
        },
    ],
    schema=SCHEMA,
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


def make(catalog: Catalog, name: str = "db.t", schema: pa.Schema = SCHEMA, **options: str) -> Table:
    return catalog.create_table(name, schema=schema, primary_keys=["id"], options={"bucket": "2", **options})


def plan_of(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


def rows_in_order(rows: DataFrame) -> list[dict[str, object]]:
    found: list[dict[str, object]] = rows.toArrow().sort_by("id").to_pylist()
    return found


def test_a_compacted_table_is_read_by_sparks_own_scan_with_every_value(spark: SparkSession, catalog: Catalog) -> None:
    table = make(catalog)
    table.store.write(ROWS)
    table.store.compact(full=True)

    found = lakelog.spark.read(spark, table)

    assert "PythonMapInArrow" not in plan_of(found)
    assert "MapInArrow" not in plan_of(found)
    assert rows_in_order(found) == ROWS.to_pylist()


def test_a_read_of_files_asks_the_jvm_for_no_settings_one_by_one(
    spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    table.store.write(ROWS)
    table.store.compact(full=True)
    lakelog.spark.read(spark, table)  # a session's first read may have to choose its workers' Python
    send, asked = GatewayClient.send_command, 0

    def counted(self: GatewayClient, command: str, *args: object, **named: object) -> object:
        nonlocal asked
        asked += not command.startswith("m\nd\n")  # of an object that Python has dropped
        return send(self, command, *args, **named)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    lakelog.spark.read(spark, table.path, columns=["id"], where="id = 1")
    assert 0 < asked < 50


def test_files_that_overlap_are_merged_beside_those_that_do_not(spark: SparkSession, catalog: Catalog) -> None:
    table = make(catalog)
    table.store.write(ROWS)
    table.store.compact(full=True)
    changed = ROWS.slice(1, 1).set_column(7, SCHEMA.field("text"), pa.array(["new"]))
    table.store.write(changed)

    found = lakelog.spark.read(spark, table)

    assert "MapInArrow" in plan_of(found)
    assert rows_in_order(found) == [ROWS.to_pylist()[0], *changed.to_pylist(), ROWS.to_pylist()[2]]


def test_spark_knows_the_size_of_files_that_are_merged(spark: SparkSession, catalog: Catalog) -> None:
    table = make(catalog)
    table.store.write(ROWS)
    table.store.write(ROWS)
    size_bytes = sum(entry.file.file_size_bytes for entry in table.store.live_files.of(table.snapshot()).entries())

    found = lakelog.spark.read(spark, table)

    assert "MapInArrow" in plan_of(found)
    known_bytes = found._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert size_bytes * 0.99 < known_bytes <= size_bytes
    assert rows_in_order(found) == ROWS.to_pylist()


def test_columns_and_filters_mean_the_same_in_both_ways(spark: SparkSession, catalog: Catalog) -> None:
    table = make(catalog)
    table.store.write(ROWS)
    compacted = table.store.compact(full=True)
    assert compacted is not None
    table.store.write(ROWS)
    choice = {"columns": ["text", "id"], "where": "whole < 0 OR day > DATE '2000-01-01'"}

    raw = lakelog.spark.read(spark, table, snapshot_id=compacted.id, **choice)  # type: ignore[arg-type]  # columns and where
    merged = lakelog.spark.read(spark, table, **choice)  # type: ignore[arg-type]  # the same

    assert rows_in_order(raw) == rows_in_order(merged) == [{"text": "", "id": 2}, {"text": "日本 😀\x00", "id": 3}]


def test_a_dataframe_keeps_the_snapshot_it_was_made_of(spark: SparkSession, catalog: Catalog) -> None:
    table = make(catalog)
    table.store.write(ROWS.slice(0, 1))
    found = lakelog.spark.read(spark, table)
    table.store.write(ROWS)

    assert found.count() == 1


def test_a_table_without_snapshots_has_no_rows(spark: SparkSession, catalog: Catalog) -> None:
    found = lakelog.spark.read(spark, make(catalog), columns=["id", "text"])

    assert found.columns == ["id", "text"]
    assert found.count() == 0


def test_columns_that_differ_by_case_are_not_left_to_spark(spark: SparkSession, catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32()), ("V", pa.int32())])
    table = make(catalog, schema=schema)
    table.store.write(pa.table([[1], [2], [3]], schema=schema))
    table.store.compact(full=True)

    assert "MapInArrow" in plan_of(lakelog.spark.read(spark, table, columns=["id", "V"]))


def test_a_flipped_bit_is_an_error_and_never_a_wrong_value(spark: SparkSession, catalog: Catalog) -> None:
    table = make(catalog, **{"file.compression": "none"})
    table.store.write(ROWS)
    snapshot = table.store.compact(full=True)
    for entry in table.store.live_files.of(snapshot).entries():
        path = Path(table.store.data_path(entry.bucket_id, entry.file))
        content = bytearray(path.read_bytes())
        footer_bytes = int.from_bytes(content[-8:-4], "little")
        at = content.rfind("日本".encode(), 0, len(content) - 8 - footer_bytes)  # in the page; statistics come before
        if at >= 0:
            content[at] ^= 1
            path.write_bytes(content)

    with pytest.raises(Py4JJavaError, match=r"(?i)crc|checksum"):
        lakelog.spark.read(spark, table).collect()


def test_files_that_flink_wrote_are_read_alike_in_both_ways(spark: SparkSession, tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("pk_basic", tmp_path) / "db.db" / "pk_basic")

    for snapshot_id in (1, 2, 3, 4):
        found = rows_in_order(lakelog.spark.read(spark, table.path, snapshot_id=snapshot_id))
        assert found == table.to_arrow(snapshot_id=snapshot_id).sort_by("id").to_pylist()


@pytest.mark.parametrize("name", ["lake[1]", "lake{a,b}", "a\\b", "l*ke?"])
def test_a_path_with_signs_of_a_pattern_is_that_path_alone(
    spark: SparkSession, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    table = make(Catalog(tmp_path / name))
    table.store.write(ROWS)
    table.store.compact(full=True)
    for neighbour in ("lake1", "lakea", "lakeb", "ab", "lake!"):  # what the signs would match
        shutil.copytree(tmp_path / name, tmp_path / neighbour)
    lake = f"lake_{name.encode().hex()}"
    attach(spark, lake, tmp_path / name)
    request.addfinalizer(partial(detach, spark, lake))  # the sessions of later tests would have it

    found, attached = lakelog.spark.read(spark, table), spark.table(f"{lake}.db.t")
    assert rows_in_order(found) == rows_in_order(attached) == ROWS.to_pylist()
    assert "MapInArrow" not in plan_of(found)

    for file in Path(table.path).rglob("data-*.parquet"):
        file.unlink()
    reads: list[Callable[[], DataFrame]] = [
        lambda: lakelog.spark.read(spark, table),
        lambda: spark.table(f"{lake}.db.t"),
    ]
    for read in reads:
        with pytest.raises((PySparkException, Py4JJavaError), match=r"PATH_NOT_FOUND|data-.* is missing"):
            read().collect()
