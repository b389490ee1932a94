"""The format in Spark: batch reads and writes, time travel, SQL, and errors at the user's call."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from tests.support.tables.small_tables import altered_by_others

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("ms", tz="UTC")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("more", pa.struct([pa.field("a", pa.int16()), pa.field("b", pa.map_(pa.string(), pa.date32()))])),
    ]
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})


def rows_of(*keys: int, name: str = "a") -> pa.Table:
    day = datetime(2024, 2, 29, 12, 30, 0, 123_000, UTC)
    row = {"name": name, "at": day, "price": None, "tags": ["x", None], "more": {"a": 7, "b": [("k", day.date())]}}
    return pa.Table.from_pylist([{"id": key, **row} for key in keys], schema=SCHEMA)


def load(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.read.format("lakelog").options(**options).load(table.path)


def names(rows: DataFrame) -> dict[int, str]:
    return {row["id"]: row["name"] for row in rows.collect()}


def test_a_read_gives_every_value_as_it_was_written(spark: SparkSession, table: Table) -> None:
    table.store.write(rows_of(1, 2, 3))

    found = load(spark, table).orderBy("id").toArrow()

    assert found.to_pylist() == rows_of(1, 2, 3).to_pylist()


def test_one_dataframe_filtered_twice_is_right_both_times(spark: SparkSession, table: Table) -> None:
    table.store.write(rows_of(*range(10)))
    rows = load(spark, table)

    assert [row["id"] for row in rows.filter("id = 3").union(rows.filter("id = 5")).collect()] == [3, 5]
    assert rows.count() == 10


def test_columns_rows_and_points_in_time_are_chosen_by_arguments(
    spark: SparkSession, catalog: Catalog, table: Table
) -> None:
    first = table.store.write(rows_of(1, 2))
    table.store.write(rows_of(2, name="b"))
    then = datetime.fromtimestamp(first.time_millis / 1000, UTC)

    def read(**what: object) -> list[tuple[object, ...]]:
        frame = lakelog.spark.read(spark, "db.t", catalog=catalog, columns=["id", "name"], **what)  # type: ignore[arg-type]  # one helper for all arguments
        return sorted(tuple(row) for row in frame.collect())

    assert read() == [(1, "a"), (2, "b")]
    assert read(where="name = 'b'") == [(2, "b")]
    assert read(snapshot_id=1) == [(1, "a"), (2, "a")]
    for timestamp in (then, then.isoformat(), first.time_millis):
        assert read(timestamp=timestamp) == [(1, "a"), (2, "a")]
    by_option = load(spark, table, **{"scan.timestamp-millis": str(first.time_millis)})
    assert names(by_option) == names(load(spark, table, **{"scan.snapshot-id": "1"})) == {1: "a", 2: "a"}


def test_the_users_own_schema_chooses_columns(spark: SparkSession, table: Table) -> None:
    table.store.write(rows_of(1))

    found = spark.read.format("lakelog").schema("name STRING, id BIGINT").load(table.path)

    assert [tuple(row) for row in found.collect()] == [("a", 1)]


def test_create_table_says_what_to_use_in_its_place(spark: SparkSession, table: Table) -> None:
    instead = (
        rf"not supported.*CREATE TEMPORARY VIEW .* OPTIONS \(path '(file:)?{table.path}'\), or lakelog\.spark\.read"
    )
    for where in (f"OPTIONS (path '{table.path}')", f"LOCATION '{table.path}'"):
        with pytest.raises(PySparkException, match=instead):
            spark.sql(f"CREATE TABLE made USING lakelog {where}")
    with pytest.raises(PySparkException, match=r"CREATE TABLE .* is not supported"):
        spark.sql("CREATE TABLE made USING lakelog")


def test_a_table_that_spark_made_of_columns_is_refused_at_each_use(spark: SparkSession, table: Table) -> None:
    """Spark asks no source when it makes one: the way out is in the error of its first use."""
    instead = r"CREATE TABLE .* is not supported.*DROP TABLE removes it"
    for where in ("", f"LOCATION '{table.path}'"):
        spark.sql(f"CREATE TABLE of_columns (id BIGINT, name STRING) USING lakelog {where}")
        try:
            for used in ("SELECT * FROM of_columns", "INSERT INTO of_columns VALUES (1, 'a')"):
                with pytest.raises(PySparkException, match=instead):
                    spark.sql(used).collect()
        finally:
            spark.sql("DROP TABLE of_columns")
    assert table.schema.field_names[0] == "id"


def test_a_view_shows_what_was_inserted_through_it_once_it_is_made_again(spark: SparkSession, table: Table) -> None:
    """As the guide says: Spark keeps the plan of the first read."""
    view = f"CREATE OR REPLACE TEMPORARY VIEW again USING lakelog OPTIONS (path '{table.path}')"
    table.store.write(rows_of(1))
    spark.sql(view)
    shown = "SELECT count(*) AS rows FROM again"
    assert spark.sql(shown).first()["rows"] == 1  # type: ignore[index]  # a count has a row
    spark.sql("INSERT INTO again SELECT 2, name, at, price, tags, more FROM again")
    assert spark.sql(shown).first()["rows"] == 1  # type: ignore[index]  # likewise
    spark.sql(view)
    assert spark.sql(shown).first()["rows"] == 2  # type: ignore[index]  # likewise


def test_sql_reads_and_writes_a_temporary_view(spark: SparkSession, table: Table) -> None:
    table.store.write(rows_of(1))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lakelog OPTIONS (path '{table.path}')")
    spark.sql("INSERT INTO v SELECT 2, name, at, price, tags, more FROM v")

    assert names(load(spark, table)) == {1: "a", 2: "a"}


def test_append_upserts_and_overwrite_replaces(spark: SparkSession, table: Table) -> None:
    for mode, keys, name in (("append", (1, 2), "a"), ("append", (2, 3), "b"), ("overwrite", (9,), "c")):
        given = spark.createDataFrame(rows_of(*keys, name=name))
        given.write.format("lakelog").mode(mode).save(table.path)
        if name == "b":
            assert names(load(spark, table)) == {1: "a", 2: "b", 3: "b"}

    assert names(load(spark, table)) == {9: "c"}
    assert [one.commit_kind for one in table.snapshots()] == [
        CommitKind.APPEND,
        CommitKind.APPEND,
        CommitKind.OVERWRITE,
    ]


DAYS = pa.schema([pa.field("day", pa.string()), pa.field("at", pa.decimal128(38, 0)), pa.field("id", pa.int64())])


@pytest.fixture
def days(catalog: Catalog) -> Table:
    """100 rows in four partitions of 25."""
    options = {"bucket": "-1"}
    table = catalog.create_table("db.days", schema=DAYS, partition_keys=["day"], options=options)
    table.store.write(
        pa.table([[f"d{number % 4}" for number in range(100)], [Decimal(7)] * 100, range(100)], schema=DAYS)
    )
    return table


def overwrite(spark: SparkSession, table: Table, *days: str, mode: str = "overwrite", **options: str) -> None:
    rows = spark.createDataFrame(pa.table([list(days), [Decimal(7)] * len(days), [-1] * len(days)], schema=DAYS))
    rows.write.format("lakelog").mode(mode).options(**options).save(table.path)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture
def dynamic(spark: SparkSession) -> Iterator[None]:
    """A session whose overwrites replace the partitions of the new rows."""
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


D1 = [number for number in range(100) if number % 4 == 1]
OTHERS = [number for number in range(100) if number % 4 != 1]


@pytest.mark.usefixtures("dynamic")
def test_the_sessions_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(
    spark: SparkSession, days: Table, table: Table
) -> None:
    overwrite(spark, days, "d1", "d9")
    assert ids(days) == [-1, -1, *OTHERS]
    overwrite(spark, days)
    assert ids(days) == [-1, -1, *OTHERS]  # no rows, no partitions
    overwrite(spark, days, "d1", partitionOverwriteMode="STATIC")  # the option wins
    assert ids(days) == [-1]
    table.store.write(rows_of(1, 2))
    spark.createDataFrame(rows_of(9)).write.format("lakelog").mode("overwrite").save(table.path)
    assert names(load(spark, table)) == {9: "a"}  # without partitions everything is replaced, as Spark does it


def test_an_overwrite_replaces_what_its_options_say(spark: SparkSession, days: Table) -> None:
    overwrite(spark, days, "d1", partitionOverwriteMode="dynamic")
    assert ids(days) == [-1, *OTHERS]
    overwrite(spark, days, "d2", replaceWhere="day IN ('d1', 'd2')")
    assert ids(days) == [-1, *(number for number in OTHERS if number % 4 != 2)]
    overwrite(spark, days, where="day < 'd2'")
    assert ids(days) == [-1, *range(3, 100, 4)]
    overwrite(spark, days, "d1")
    assert ids(days) == [-1]


def test_an_overwrite_that_says_what_cannot_be_replaced_changes_nothing(spark: SparkSession, days: Table) -> None:
    for options, message in (
        ({"replaceWhere": "day = 'd2'"}, "rows of the partition day='d1' do not meet the condition"),
        ({"where": "id = 5"}, "expected its partition columns alone; it has day"),
        ({"where": "day = 'd1'", "replaceWhere": "day = 'd1'"}, "both say what an overwrite replaces; give one"),
        ({"where": "day = 'd1'", "partitionOverwriteMode": "dynamic"}, "both say what an overwrite replaces"),
        ({"partitionOverwriteMode": "some"}, "expected static or dynamic"),
        ({"where": "day = 'd1'", "mode": "append"}, "this write adds rows"),
    ):
        with pytest.raises(PySparkException, match=message):
            overwrite(spark, days, "d1", **options)
    assert ids(days) == list(range(100))


def test_keys_of_dynamic_buckets_stay_where_an_overwrite_leaves_their_partition(
    spark: SparkSession, catalog: Catalog
) -> None:
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("day", "id", "v")])
    table = catalog.create_table(
        "db.b", schema=schema, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": "-1"}
    )
    table.store.write(pa.table([[1] * 50 + [2] * 50, [*range(100)], [0] * 100], schema=schema))
    rows = spark.createDataFrame(pa.table([[1], [0], [1]], schema=schema)).coalesce(1)
    rows.write.format("lakelog").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(table.path)
    table.store.write(pa.table([[2] * 50, [*range(50, 100)], [2] * 50], schema=schema))
    found = table.to_arrow().sort_by("id")
    assert found["v"].to_pylist() == [1, *[2] * 50]


def test_a_stream_appends_each_batch_once(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table(
        "db.s", schema=pa.schema([pa.field("value", pa.string(), nullable=False)]), primary_keys=["value"]
    )
    (tmp_path / "in").mkdir()
    for round_ in range(2):
        (tmp_path / f"in/{round_}").write_text(f"line {round_}\n")
        query = (
            spark.readStream.text(str(tmp_path / "in"))
            .writeStream.format("lakelog")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(table.path)
        )
        query.awaitTermination()

    found = [(one.commit_user, one.commit_identifier) for one in table.snapshots()]
    assert found == [(query.id, 0), (query.id, 1)]
    assert sorted(row[0] for row in load(spark, table).collect()) == ["line 0", "line 1"]


def logged(catalog: Catalog) -> Table:
    """A table whose options name a log; no broker is asked before anything is written."""
    table = catalog.create_table("db.logged", schema=SCHEMA, primary_keys=["id"])
    log = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "nowhere:1"}
    (Path(table.path) / "schema/schema-0").write_text(altered_by_others(table.schema, **log))
    return catalog.load_table("db.logged")


def test_no_stream_writes_a_table_with_a_log_by_format(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = logged(catalog)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("a")
    lines = spark.readStream.text(str(tmp_path / "in"))
    query = lines.writeStream.format("lakelog").option("checkpointLocation", str(tmp_path / "c")).start(table.path)
    with pytest.raises(PySparkException, match=r"lakelog\.spark\.write_stream"):
        query.processAllAvailable()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.snapshotid": "1"}, r"did you mean 'scan\.snapshot-id'"),
        ({"scan.snapshot-id": "x"}, "'scan.snapshot-id' has the value 'x'"),
        ({"columns": "nope"}, "column 'nope' does not exist; the columns are id, name"),
        ({"where": "nope > 1"}, "nope"),
    ],
)
def test_wrong_options_fail_at_load(spark: SparkSession, table: Table, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, table, **options)


def test_missing_tables_fail_at_load(spark: SparkSession, catalog: Catalog, table: Table, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="holds no table"):
        spark.read.format("lakelog").load(str(tmp_path / "nowhere"))
    with pytest.raises(PySparkException, match="no table is named"):
        spark.read.format("lakelog").load()
    with pytest.raises(NotFoundError, match=r"table db\.u does not exist"):
        lakelog.spark.read(spark, "db.u", catalog=catalog)
    with pytest.raises(InvalidRequestError, match="is a table's identifier"):
        lakelog.spark.read(spark, "db.t")
    with pytest.raises(NotFoundError, match="snapshot 7"):
        lakelog.spark.read(spark, table, snapshot_id=7)


def test_rows_that_do_not_fit_fail_the_write(spark: SparkSession, table: Table) -> None:
    with pytest.raises(PySparkException, match=r"lack column\(s\) id"):
        spark.range(3).withColumnRenamed("id", "name").write.format("lakelog").mode("append").save(table.path)
    nulls = spark.createDataFrame(rows_of(1)).selectExpr(
        "CAST(null AS BIGINT) AS id", "name", "at", "price", "tags", "more"
    )
    with pytest.raises(PySparkException, match="column 'id' is a primary key column"):
        nulls.write.format("lakelog").mode("append").save(table.path)
    assert list(table.snapshots()) == []


def test_rows_that_do_not_fit_fail_the_commit_and_no_task(spark: SparkSession, table: Table) -> None:
    """A task that fails is tried again by Spark, in vain: the same rows do not fit then either."""
    nulls = spark.createDataFrame(rows_of(1)).selectExpr(
        "CAST(null AS BIGINT) AS id", "name", "at", "price", "tags", "more"
    )
    spark.sparkContext.setJobGroup("unfit", "rows that do not fit")
    with pytest.raises(PySparkException, match="column 'id' is a primary key column"):
        nulls.coalesce(1).write.format("lakelog").mode("append").save(table.path)
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("unfit")]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    assert sum(stage.numFailedTasks for stage in stages if stage is not None) == 0
    assert list(table.snapshots()) == []


def test_a_table_is_made_for_the_rows_of_spark_and_keeps_their_comments(spark: SparkSession, catalog: Catalog) -> None:
    ddl = "id BIGINT NOT NULL COMMENT 'the key', s STRUCT<a: INT COMMENT 'inside'>, t TIMESTAMP"
    rows = spark.createDataFrame([], ddl)
    for name, schema in (("frame", rows), ("struct", rows.schema), ("ddl", ddl)):
        table = catalog.create_table(f"db.{name}", schema=schema, primary_keys="ID")
        assert [str(field.type) for field in table.schema.fields] == [
            "BIGINT NOT NULL",
            "ROW<a INT>",
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        ]
        assert table.schema.field("id").description == "the key"
        for read in (lakelog.spark.read(spark, table), spark.read.format("lakelog").load(table.path)):
            assert read.schema["id"].metadata == {"comment": "the key"}
            assert "'inside'" in str(read.schema.jsonValue())
    table = catalog.load_table("db.ddl")
    table.write(pa.table({"id": [1], "s": [{"a": 1}], "t": [None]}).cast(table.schema.arrow_schema))
    table.compact(full=True)
    assert lakelog.spark.read(spark, table, columns="id").schema["id"].metadata == {"comment": "the key"}


def test_rows_that_lack_nullable_columns_are_written_with_nulls(spark: SparkSession, table: Table) -> None:
    spark.sql("SELECT 1L AS ID, 'a' AS Name").write.format("lakelog").mode("append").save(table.path)
    nulls = dict.fromkeys(SCHEMA.names)
    assert table.to_arrow().to_pylist() == [{**nulls, "id": 1, "name": "a"}]


def test_a_write_adds_new_columns_with_merge_schema_alone(spark: SparkSession, table: Table) -> None:
    table.write(rows_of(1).select(["id", "name"]))
    rows = spark.sql("SELECT 2L AS id, 'b' AS name, 5 AS extra, struct(1 AS x) AS pair")
    writer = rows.write.format("lakelog").mode("append")
    with pytest.raises(PySparkException, match=r"have unknown column\(s\) extra, pair;.*mergeSchema"):
        writer.save(table.path)
    writer.option("mergeSchema", "true").save(table.path)
    added = open_table(table.path)
    assert [str(field.type) for field in added.schema.fields[-2:]] == ["INT", "ROW<x INT>"]
    assert names(load(spark, table)) == {1: "a", 2: "b"}
    assert sorted((row["id"], row["extra"]) for row in added.to_arrow().to_pylist()) == [(1, None), (2, 5)]


def test_names_in_another_case_are_other_names_where_spark_says_so(spark: SparkSession, table: Table) -> None:
    rows = spark.sql("SELECT 1L AS ID, 'a' AS name")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(PySparkException, match=r"lack column\(s\) id"):
            rows.write.format("lakelog").mode("append").save(table.path)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert list(table.snapshots()) == []


def run(rows: DataFrame, table: Table, checkpoint: Path, *, merge_schema: bool = False) -> None:
    query = lakelog.spark.write_stream(
        rows, table, checkpoint_location=checkpoint, available_now=True, merge_schema=merge_schema
    )
    query.awaitTermination()


def test_a_stream_lacks_columns_and_brings_new_ones(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0").write_text('{"ID": 1, "name": "a", "extra": 7, "_row_kind": "+U"}')
    ddl = "ID BIGINT, name STRING, extra INT COMMENT 'more', _row_kind STRING"
    rows = spark.readStream.schema(ddl).json(str(tmp_path / "in"))
    with pytest.raises(InvalidRequestError, match=r"have unknown column\(s\) extra;.*merge_schema=True of write"):
        run(rows, table, tmp_path / "c")
    run(rows.drop("extra"), table, tmp_path / "c")
    assert table.to_arrow(columns=["id", "name"]).to_pylist() == [{"id": 1, "name": "a"}]
    run(rows, table, tmp_path / "d", merge_schema=True)
    added = open_table(table.path)
    assert (added.schema.fields[-1].name, added.schema.fields[-1].description) == ("extra", "more")
    assert added.to_arrow(columns=["id", "extra"]).to_pylist() == [{"id": 1, "extra": 7}]


def test_a_session_whose_search_for_formats_failed_finds_ours_once_registered(
    spark: SparkSession, table: Table
) -> None:
    """Spark keeps the outcome of its search in the session, and says no more than that the format is not there."""
    table.store.write(rows_of(1))
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    search = getattr(getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$"), "MODULE$")
    keep = getattr(search, "dataSourceBuilders_$eq")
    found = search.dataSourceBuilders()
    unlucky = SparkSession.newSession(spark)  # not the one of a session that another test has attached
    try:
        keep(jvm.scala.Some(jvm.PythonUtils.toScalaMap({})))
        with pytest.raises(Py4JError, match="DATA_SOURCE_NOT_FOUND"):
            load(unlucky, table)
    finally:
        keep(found)
    with pytest.raises(Py4JError, match="DATA_SOURCE_NOT_FOUND"):  # also once a search would succeed
        load(unlucky, table)

    unlucky.createDataFrame([(1,)], "a INT")  # makes it the active session, as a user's own one is
    try:
        lakelog.spark.register(unlucky)
        assert names(load(unlucky, table)) == {1: "a"}
    finally:
        spark.createDataFrame([(1,)], "a INT")


def test_a_session_that_has_found_the_format_takes_a_registration(spark: SparkSession, table: Table) -> None:
    table.store.write(rows_of(1))
    lakelog.spark.register(spark)
    lakelog.spark.register(spark)
    assert names(load(spark, table)) == {1: "a"}
