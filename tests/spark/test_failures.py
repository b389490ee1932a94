"""How errors of ours reach a user through Spark: their sentence first, their class to be had."""

from __future__ import annotations

import io
import os
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.util import handle_worker_exception

from lakelog.catalog import (
    Catalog,
    CorruptDataError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    Table,
    UnknownOutcomeError,
)
from lakelog.spark import error_of, write_stream
from lakelog.spark.failures import sentence_first

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
