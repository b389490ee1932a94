"""How errors of ours reach a user through Spark: their sentence first, their class to be had."""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import handle_worker_exception

from lakelog.catalog import (
    Catalog,
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    OptionError,
    Table,
    UnknownOutcomeError,
)
from lakelog.spark import error_of, write_stream
from lakelog.spark.failures import ERROR_MODULES, sentence_first
from tests.support.examples import rest_in_full

ROOT = Path(__file__).parent.parent.parent
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(tmp_path / "lake")
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table.write(pa.table({"id": [1], "v": ["a"]}, schema=SCHEMA))
    return table


def carried(error: BaseException, kind: type[LakelogError]) -> LakelogError:
    """The error of ours in one of Spark's, which has its sentence before any frame of a traceback."""
    found = error_of(error)
    assert type(found) is kind
    before_frames = str(error).split("Traceback (most recent call last)")[0]
    assert str(found).split(";")[0] in before_frames
    return found


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_traceback_begins_with_the_sentence_and_keeps_its_causes() -> None:
    def fail() -> None:
        with sentence_first(), sentence_first():
            try:
                raise OSError("no such file")
            except OSError as error:
                raise NotFoundError("there is no table: check the path") from error

    with pytest.raises(NotFoundError) as caught:
        fail()
    text = text_of(caught.value)
    assert text.startswith("lakelog.common.errors.NotFoundError: there is no table: check the path\n")
    assert text.count("there is no table: check the path") == 3  # first, the line that raised it, and the error itself
    assert "OSError: no such file" in text


def test_a_hidden_cause_stays_hidden() -> None:
    def fail() -> None:
        with sentence_first():
            try:
                raise OSError("secret")
            except OSError:
                raise UnknownOutcomeError("lost", commit_uuid="u") from None

    with pytest.raises(UnknownOutcomeError) as caught:
        fail()
    assert text_of(caught.value).startswith("lakelog.common.errors.UnknownOutcomeError: lost\n")
    assert "OSError: secret" not in text_of(caught.value)


def test_an_error_of_others_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")
    with pytest.raises(KeyError) as caught, sentence_first():
        raise KeyError("x")
    assert error_of(caught.value) is None
    assert os.environ["SPARK_SIMPLIFIED_TRACEBACK"] == "1"


def test_a_worker_that_simplifies_tracebacks_reports_the_sentence_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")
    reported = io.BytesIO()
    try:
        with sentence_first():
            raise NotFoundError("there is no table")
    except NotFoundError as error:
        handle_worker_exception(error, reported)
    assert reported.getvalue()[8:].startswith(b"lakelog.common.errors.NotFoundError: there is no table\n")


def test_an_error_of_ours_is_its_own() -> None:
    error = NotFoundError("x")
    assert error_of(error) is error


@pytest.mark.parametrize(
    "text",
    [
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create: lakelog.common.errors.NotFoundError: no table\n SQLSTATE: 38000",
        "[STREAM_FAILED] Reason: lakelog.common.errors.NotFoundError: no table SQLSTATE: 39000 SQLSTATE: XXKST",
        "terminated: Traceback\nlakelog.common.errors.NotFoundError: no table\n\n=== Streaming Query ===\nIdentifier",
    ],
)
def test_the_message_ends_before_what_spark_adds(text: str) -> None:
    found = error_of(RuntimeError(text))
    assert isinstance(found, NotFoundError)
    assert str(found) == "no table"


def test_a_read_that_cannot_be_planned_says_why_first(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("lakelog").load(str(tmp_path / "nope"))
    assert "holds no table" in str(carried(caught.value, NotFoundError))


def test_a_task_that_reads_a_damaged_file_says_why_first(spark: SparkSession, table: Table) -> None:
    (file,) = Path(table.path).glob("bucket-0/data-*")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(PySparkException) as caught:
        spark.read.format("lakelog").load(table.path).collect()
    assert file.name in str(carried(caught.value, CorruptDataError))


def test_a_batch_write_that_cannot_be_planned_says_why_first(spark: SparkSession, table: Table) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT 'a' AS v").write.format("lakelog").mode("append").save(table.path)
    assert "lack column(s) id" in str(carried(caught.value, InvalidRequestError))


def test_rows_that_a_task_of_a_batch_write_refuses_say_why_first(spark: SparkSession, table: Table) -> None:
    rows = spark.sql("SELECT CAST(null AS BIGINT) AS id, 'b' AS v")
    with pytest.raises(PySparkException) as caught:
        rows.write.format("lakelog").mode("append").save(table.path)
    assert "'id'" in str(carried(caught.value, InvalidRequestError))


def test_rows_that_a_task_of_a_stream_refuses_end_it_with_the_sentence(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"v": "no key"}')
    rows = spark.readStream.schema("id BIGINT, v STRING").json(str(tmp_path / "in"))
    query = write_stream(rows, table, checkpoint_location=tmp_path / "c", available_now=True)
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    found = carried(caught.value, InvalidRequestError)
    assert isinstance(caught.value.__cause__, InvalidRequestError)
    assert str(caught.value.__cause__) == str(found)
    ended = query.exception()
    assert ended is not None
    assert str(error_of(str(ended))) == str(found)


Run = Callable[[SparkSession, Table, Path], object]
DDL = "id BIGINT, v STRING"


def arriving(spark: SparkSession, folder: Path, *lines: str, ddl: str = DDL) -> DataFrame:
    """A stream of the JSON lines in a folder, to which a file with these is added."""
    source = folder / "in"
    source.mkdir(exist_ok=True)
    if lines:
        (source / f"{len(list(source.iterdir()))}.json").write_text("\n".join(lines))
    return spark.readStream.schema(ddl).json(str(source))


def streamed(rows: DataFrame, path: str, checkpoint: Path, **options: str) -> None:
    """Run a stream by `format("lakelog")` to its end."""
    writer = rows.writeStream.format("lakelog").options(checkpointLocation=str(checkpoint), **options)
    writer.trigger(availableNow=True).start(path).awaitTermination()


def written(rows: DataFrame, table: Table, checkpoint: Path) -> None:
    """Run a stream by `write_stream` to its end."""
    write_stream(rows, table, checkpoint_location=checkpoint, available_now=True).awaitTermination()


def read_stream(spark: SparkSession, path: str, folder: Path, **options: str) -> None:
    rows = spark.readStream.format("lakelog").options(**options).load(path)
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "reader"))
    writer.trigger(availableNow=True).start().awaitTermination()


def plan_again(spark: SparkSession, folder: Path) -> DataFrame:
    """Lose the offsets of batch 0, so that it has another file too when it runs again."""
    for name in ("offsets/0", "offsets/.0.crc", "commits/0", "commits/.0.crc"):
        (folder / "c" / name).unlink()
    return arriving(spark, folder, '{"id": 8}')


def write_changed_replay(spark: SparkSession, table: Table, folder: Path) -> None:
    written(arriving(spark, folder, '{"id": 7}'), table, folder / "c")
    written(plan_again(spark, folder), table, folder / "c")


def stream_changed_replay(spark: SparkSession, table: Table, folder: Path) -> None:
    streamed(arriving(spark, folder, '{"id": 7}'), table.path, folder / "c")
    streamed(plan_again(spark, folder), table.path, folder / "c")


def write_into_a_dropped_table(spark: SparkSession, table: Table, folder: Path) -> None:
    query = write_stream(arriving(spark, folder), table, checkpoint_location=folder / "c")
    Catalog(table.warehouse).drop_table("db.t")
    arriving(spark, folder, '{"id": 7}')
    query.awaitTermination(60)


def stream_into_a_renamed_table(spark: SparkSession, table: Table, folder: Path) -> None:
    writer = arriving(spark, folder, '{"id": 7}').writeStream.format("lakelog")
    query = writer.option("checkpointLocation", str(folder / "c")).start(table.path)
    query.processAllAvailable()
    Catalog(table.warehouse).rename_table("db.t", "db.u")
    arriving(spark, folder, '{"id": 8}')
    query.awaitTermination(60)


def read_another_tables_checkpoint(spark: SparkSession, table: Table, folder: Path) -> None:
    other = Catalog(folder / "other").create_table("db.o", schema=SCHEMA, primary_keys=["id"])
    other.write(pa.table({"id": [1], "v": ["a"]}, schema=SCHEMA))
    read_stream(spark, other.path, folder)
    read_stream(spark, table.path, folder)


FAILURES: dict[str, tuple[Run, type[LakelogError], str]] = {
    "batch read, option": (
        lambda spark, table, _folder: spark.read.format("lakelog").option("wheer", "id = 1").load(table.path),
        OptionError,
        "unknown option 'wheer'; did you mean 'where'?",
    ),
    "batch read, snapshot": (
        lambda spark, table, _folder: (
            spark.read.format("lakelog").option("snapshot_id", "99").load(table.path).collect()
        ),
        NotFoundError,
        "99",
    ),
    "batch write, option": (
        lambda spark, table, _folder: (
            spark.sql("SELECT 2L AS id, 'b' AS v").write.format("lakelog").option("mergeschem", "true").mode("append")
        ).save(table.path),
        OptionError,
        "unknown option 'mergeschem'; did you mean 'mergeSchema'?",
    ),
    "batch write, no table": (
        lambda spark, table, _folder: (
            spark.range(1).write.format("lakelog").mode("append").save(f"{table.path}_not_there")
        ),
        NotFoundError,
        "t_not_there holds no table",
    ),
    "stream by format, option": (
        lambda spark, table, folder: streamed(arriving(spark, folder, '{"id": 7}'), table.path, folder / "c", nope="1"),
        OptionError,
        "unknown option 'nope'",
    ),
    "stream by format, no table": (
        lambda spark, table, folder: streamed(
            arriving(spark, folder, '{"id": 7}'), f"{table.path}_not_there", folder / "c"
        ),
        NotFoundError,
        "t_not_there holds no table",
    ),
    "stream by format, columns": (
        lambda spark, table, folder: streamed(
            arriving(spark, folder, '{"w": 7}', ddl="w STRING"), table.path, folder / "c"
        ),
        InvalidRequestError,
        "w",
    ),
    "stream by format, a null key": (
        lambda spark, table, folder: streamed(arriving(spark, folder, '{"v": "x"}'), table.path, folder / "c"),
        InvalidRequestError,
        "'id'",
    ),
    "stream by format, a changed replay": (
        stream_changed_replay,
        InvalidRequestError,
        "other source offsets",
    ),
    "stream by format, a renamed table": (stream_into_a_renamed_table, NotFoundError, "may have been renamed"),
    "write_stream, a changed replay": (write_changed_replay, InvalidRequestError, "other source offsets"),
    "write_stream, a dropped table": (
        write_into_a_dropped_table,
        ConflictError,
        "was dropped, renamed, or created again",
    ),
    "stream read, option": (
        lambda spark, table, folder: read_stream(spark, table.path, folder, maxrowspertriger="5"),
        OptionError,
        "did you mean 'maxRowsPerTrigger'?",
    ),
    "stream read, no table": (
        lambda spark, table, folder: read_stream(spark, f"{table.path}_not_there", folder),
        NotFoundError,
        "t_not_there holds no table",
    ),
    "stream read, another table's checkpoint": (read_another_tables_checkpoint, InvalidRequestError, "checkpoint"),
}


@pytest.mark.parametrize("case", rest_in_full(FAILURES, 10))
def test_what_goes_wrong_in_spark_says_why_first_and_carries_the_error(
    case: str, spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    run, kind, sentence = FAILURES[case]
    with pytest.raises(PySparkException) as caught:
        run(spark, table, tmp_path)
    assert sentence in str(carried(caught.value, kind))


def test_every_error_is_found_whose_module_the_driver_has_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lakelog.logstore.errors", raising=False)
    found = error_of("Reason: lakelog.logstore.errors.LogRewrittenError: records were cut off SQLSTATE: 39000")
    assert isinstance(found, NotFoundError)
    assert (type(found).__name__, str(found)) == ("LogRewrittenError", "records were cut off")


def test_the_modules_that_declare_errors_are_known() -> None:
    declaring = {
        ".".join(path.relative_to(ROOT / root).with_suffix("").parts)
        for root in ("common", "filestore", "logstore", "connector")
        for path in (ROOT / root).rglob("*.py")
        if re.search(r"^class \w+\(\w*Error\):", path.read_text("utf-8"), re.MULTILINE)
    }
    found = {name for name in declaring if any(declares_error(name, one) for one in vars(import_module(name)).values())}
    assert found == ERROR_MODULES


def declares_error(module: str, member: object) -> bool:
    return isinstance(member, type) and issubclass(member, LakelogError) and member.__module__ == module
