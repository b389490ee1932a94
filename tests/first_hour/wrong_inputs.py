"""What new users type wrong in their first hour, and what the answer must name.

Each input is Python that runs in a folder with the names of `SETUP`, or the arguments of the command `lakelog`.
"""

from __future__ import annotations

from dataclasses import dataclass

SETUP = """
import datetime
import pyarrow as pa
from lakelog.catalog import *
from lakelog.filestore import FileStoreTable

catalog = Catalog("lake")
columns = pa.schema({"code": pa.string(), "city": pa.string(), "runways": pa.int32()})
rows = pa.table({"code": ["SFO"], "city": ["San Francisco"], "runways": [4]}, schema=columns)
airports = catalog.create_table("db.airports", schema=columns, primary_keys=["code"])
airports.write(rows)
days = pa.schema({"day": pa.date32(), "id": pa.int64()})
visits = catalog.create_table("db.visits", schema=days, partition_keys=["day"])
"""

SPARK_SETUP = """
from pyspark.sql import SparkSession
from lakelog.catalog import *
from lakelog.spark import *

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
catalog = Catalog("lake")
airports = catalog.load_table("db.airports")


def load():
    return spark.read.format("lakelog")


rate = spark.readStream.format("rate").load()
one = spark.createDataFrame([("SFO", "San Francisco", 4)], "code STRING, city STRING, runways INT")
"""


@dataclass(frozen=True)
class WrongInput:
    """What was typed, the error's class, and strings in its message: the thing, what was found, the way out."""

    typed: str
    error: str
    words: tuple[str, ...]


def wrong(typed: str, error: str, *words: str) -> WrongInput:
    """One wrong input."""
    return WrongInput(typed, error, words)


CATALOG = [
    wrong('Catalog("nowhere").list_databases()', "NotFoundError", "nowhere"),
    wrong('Catalog("gs://bucket/lake")', "UnsupportedError", "gs://", "s3://bucket/folder"),
    wrong('Catalog("s3://b/lake", options={"s3.regoin": "eu"})', "OptionError", "s3.regoin", "s3.region"),
    wrong('catalog.load_table("airports")', "InvalidRequestError", "airports", "database.table"),
    wrong('catalog.load_table("db.airport")', "NotFoundError", "db.airport", "airports"),
    wrong('catalog.load_table("nodb.airports")', "NotFoundError", "nodb"),
    wrong('catalog.list_tables("nodb")', "NotFoundError", "nodb", "db"),
    wrong('catalog.drop_table("db.airport")', "NotFoundError", "db.airport", "airports"),
    wrong('open_table("lake/db.db/airport")', "NotFoundError", "lake/db.db/airport"),
    wrong('open_table("lake/db.db/airports", branch="b1")', "NotFoundError", "b1"),
]
CREATE = [
    wrong('catalog.create_table("db.airports", schema=columns)', "InvalidRequestError", "db.airports", "if_not_exists"),
    wrong('catalog.create_table("db.a/b", schema=columns)', "InvalidRequestError", "a/b"),
    wrong('catalog.create_table("db.t", schema=columns, primary_keys=["kode"])', "InvalidRequestError", "kode", "code"),
    wrong('catalog.create_table("db.t", schema=pa.schema([]))', "InvalidRequestError", "column"),
    wrong(
        'catalog.create_table("db.t", schema=columns, primary_keys=["code"], options={"buckets": "2"})',
        "OptionError",
        "buckets",
        "bucket",
    ),
    wrong(
        'catalog.create_table("db.t", schema=columns, primary_keys=["code"], options={"bucket": "two"})',
        "OptionError",
        "bucket",
        "two",
    ),
    wrong(
        'catalog.create_table("db.t", schema=columns, primary_keys=["code"], options={"bucket": 2})',
        "OptionError",
        "bucket",
        "int 2",
        "'2'",
    ),
    wrong(
        'catalog.create_table("db.t", schema=columns, options={"log.system": "kafka", "log.consistency": "eventual"})',
        "InvalidRequestError",
        "log.consistency",
        "needs a primary key",
    ),
    wrong(
        'catalog.create_table("db.t", schema=columns, primary_keys=["code"], partition_keys=["city"])',
        "InvalidRequestError",
        "city",
        "primary key",
    ),
    wrong(
        'catalog.create_table("db.t", schema=columns, primary_keys=["code"], options={"merge-engine": "sum"})',
        "OptionError",
        "merge-engine",
        "sum",
        "aggregation",
    ),
]
WRITE = [
    wrong('airports.write("SFO")', "InvalidRequestError", "found str", "an Arrow table", "pandas"),
    wrong('airports.write(rows, row_kinds=["+X"])', "InvalidRequestError", "row_kinds", "'+X'", "+I, -U, +U, -D"),
    wrong('airports.write(rows.drop_columns(["code"]))', "InvalidRequestError", "code"),
    wrong('airports.write(rows.append_column("country", [["US"]]))', "InvalidRequestError", "country"),
    wrong(
        'airports.write(rows.set_column(2, "runways", [["four"]]))', "InvalidRequestError", "runways", "string", "INT"
    ),
    wrong('airports.write(rows, mode="append_all")', "InvalidRequestError", "append_all", "overwrite"),
    wrong('airports.write(rows, mode="overwrite", where="code = \'SFO\'")', "InvalidRequestError", "code", "partition"),
    wrong("visits.merge(rows)", "InvalidRequestError", "db.visits", "primary key", "on="),
    wrong('visits.upkeep.drop_partitions("id = 1")', "InvalidRequestError", "id", "day"),
    wrong("airports.upkeep.expire_partitions()", "InvalidRequestError", "partition"),
]
READ = [
    wrong('airports.to_arrow(columns=["kode"])', "InvalidRequestError", "kode", "code"),
    wrong('airports.to_arrow(where="kode = 1")', "InvalidRequestError", "kode", "code"),
    wrong('airports.to_arrow(where="code = ")', "InvalidRequestError", "code = "),
    wrong('airports.to_arrow(where="code = 5")', "InvalidRequestError", "code", "5"),
    wrong("airports.to_arrow(snapshot_id=99)", "NotFoundError", "99", "1"),
    wrong('airports.to_arrow(tag="t1")', "NotFoundError", "t1"),
    wrong('airports.to_arrow(timestamp="yesterday")', "InvalidRequestError", "yesterday", "2026-01-31"),
    wrong('airports.to_arrow(timestamp="1999-01-01")', "NotFoundError", "airports", "later"),
    wrong('airports.to_arrow(snapshot_id=1, tag="t1")', "InvalidRequestError", "snapshot", "tag"),
    wrong('airports.to_arrow(snapshot="1")', "InvalidRequestError", "snapshot", "snapshot_id"),
]
UPKEEP = [
    wrong('airports.upkeep.expire_snapshots(older_than="two hours")', "InvalidRequestError", "two hours", "2 h"),
    wrong("airports.upkeep.expire_snapshots(retain_max=0)", "InvalidRequestError", "retain_max", "0", "1"),
    wrong(
        'airports.upkeep.expire_snapshots(older_than="2")', "InvalidRequestError", "older_than", "without a unit", "2 d"
    ),
    wrong('airports.tags.create("noon", time_retained="30")', "InvalidRequestError", "time_retained", "30 d"),
    wrong('airports.tags.create("noon", time_retained=7)', "InvalidRequestError", "time_retained", "the int 7", "2 h"),
    wrong('airports.upkeep.remove_orphan_files(older_than="1 min")', "InvalidRequestError", "allow_young"),
    wrong("airports.upkeep.rescale(0)", "InvalidRequestError", "0"),
    wrong('airports.consumers.reset("c", 99)', "InvalidRequestError", "99"),
    wrong('airports.alter(UpdateColumnType("runways", "SMALLINT"))', "InvalidRequestError", "runways", "SMALLINT"),
    wrong('airports.alter(DropColumn("code"))', "InvalidRequestError", "code", "primary key"),
    wrong('airports.alter("ADD COLUMN note STRING")', "InvalidRequestError", "ADD COLUMN note", "AddColumn"),
    wrong('airports.alter(SetOption("bukcet", "3"))', "OptionError", "bukcet", "bucket"),
]
COMMAND_LINE = [
    wrong("table cat db.airport -w lake", "1", "db.airport", "airports"),
    wrong("table cat db.airports -w nowhere", "1", "nowhere"),
    wrong("table cat db.airports -w lake --columns kode", "1", "kode", "code"),
    wrong("table cat db.airports -w lake --where 'runways >'", "1", "runways >"),
    wrong("table cat db.airports -w lake --tag a --snapshot-id 1", "1", "--tag", "--snapshot-id"),
    wrong("table create db.t -w lake -c id", "1", "id", "BIGINT"),
    wrong("table create db.t -w lake -c 'id BIGNUM'", "1", "BIGNUM"),
    wrong("table create db.t -w lake -c 'id BIGINT' -o bucket", "1", "bucket", "KEY=VALUE"),
    wrong("log check db.airports -w lake", "1", "db.airports", "log"),
    wrong("table caat", "2", "caat"),
]
SPARK = [
    wrong('load().load("lake/db.db/airport").count()', "AnalysisException", "lake/db.db/airport", "holds no table"),
    wrong('load().option("collumns", "code").load(airports.path)', "AnalysisException", "collumns", "columns"),
    wrong('load().option("columns", "kode").load(airports.path)', "AnalysisException", "kode", "code"),
    wrong('load().option("where", "kode = 1").load(airports.path)', "AnalysisException", "kode", "code"),
    wrong('read(spark, "db.airports", catalog=catalog, columns=["kode"])', "InvalidRequestError", "kode", "code"),
    wrong('read(spark, "db.airport", catalog=catalog)', "NotFoundError", "db.airport", "airports"),
    wrong('write_stream(one, "db.airports", catalog=catalog)', "InvalidRequestError", "stream", "readStream"),
    wrong(
        'write_stream(rate, "db.airports", catalog=catalog, checkpoint_location="ck")',
        "InvalidRequestError",
        "timestamp",
        "code",
    ),
    wrong('one.drop("code").write.format("lakelog").mode("append").save(airports.path)', "AnalysisException", "code"),
]
WITHOUT_SPARK = [*CATALOG, *CREATE, *WRITE, *READ, *UPKEEP]
