"""The identity of micro-batches, asked of running queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.errors import PySparkAttributeError, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.spark import alignment
from lakelog.spark.alignment import MicroBatch, digest_of, identify_batch, parse_offset_log


def run_batches(
    spark: SparkSession, source: Path, checkpoint: Path | None, look: Callable[[DataFrame, int], MicroBatch]
) -> tuple[str, list[MicroBatch]]:
    """Run a query over text files, one a batch, to its end: its id and what `look` gave for each batch."""
    seen: list[MicroBatch] = []

    def note(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        seen.append(look(batch, batch_id))

    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
    writer = lines.writeStream.trigger(availableNow=True).foreachBatch(note)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.start()
    query.awaitTermination()
    return query.id, seen


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


def test_a_batch_is_named_by_the_query_and_stays_so_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    source = put(tmp_path / "in", "a", "b")
    checkpoint = tmp_path / "check point%20#1"
    first_id, first = run_batches(spark, source, checkpoint, identify_batch)
    put(source, "c")
    second_id, second = run_batches(spark, source, checkpoint, identify_batch)

    assert first_id == second_id == json.loads((checkpoint / "metadata").read_text())["id"]
    assert [(batch.user, batch.identifier) for batch in first + second] == [(first_id, at) for at in range(3)]
    assert first[0].run == first[1].run != second[0].run
    assert len({batch.source_digest for batch in first + second}) == 3


def test_the_digest_is_of_what_the_offset_log_says_of_the_sources(spark: SparkSession, tmp_path: Path) -> None:
    source = put(tmp_path / "in", "a")
    _, (batch,) = run_batches(spark, source, tmp_path / "checkpoint", identify_batch)

    assert (tmp_path / "checkpoint/offsets/0").read_text().split("\n")[2:] == ['{"logOffset":0}']
    assert batch.source_digest == digest_of(['{"logOffset":0}'])


def test_a_checkpoint_on_another_file_system_is_read_through_hadoop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = put(tmp_path / "in", "a")
    _, (near,) = run_batches(spark, source, tmp_path / "near", identify_batch)
    monkeypatch.setattr(alignment, "local_path", lambda location: None)
    _, (far,) = run_batches(spark, source, tmp_path / "far away", identify_batch)

    assert far.source_digest == near.source_digest


def test_a_writer_name_and_a_commit_user_make_other_users(spark: SparkSession, tmp_path: Path) -> None:
    def look(batch: DataFrame, batch_id: int) -> MicroBatch:
        return identify_batch(batch, batch_id, writer_name="errors", commit_user="me")

    _, (batch,) = run_batches(spark, put(tmp_path / "in", "a"), tmp_path / "checkpoint", look)

    assert batch.user == "me/errors"


def test_a_query_without_checkpoint_location_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match="the query has no checkpoint location"):
        run_batches(spark, put(tmp_path / "in", "a"), None, identify_batch)


def test_a_dataframe_that_is_no_micro_batch_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidRequestError, match=r"pass it to writeStream\.foreachBatch"):
        identify_batch(spark.range(1), 0)


class ConnectSession:
    """A session as Spark Connect has it: it shows no context."""

    @property
    def sparkContext(self) -> object:
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "x"})


def test_on_connect_the_user_names_the_writer() -> None:
    batch = cast("DataFrame", SimpleNamespace(sparkSession=ConnectSession()))  # no server is needed to say who writes

    with pytest.raises(InvalidRequestError, match=r"on Spark Connect .* give commit_user"):
        identify_batch(batch, 3)
    micro = identify_batch(batch, 3, commit_user="me", writer_name="errors")
    assert (micro.user, micro.identifier, micro.source_digest) == ("me/errors", 3, None)


def test_an_offset_log_gives_its_source_lines() -> None:
    assert parse_offset_log('v1\n{"batchWatermarkMs":0}\n5\n-\n', path="p") == ["5", "-"]


@pytest.mark.parametrize("text", ["", "v1", "5\n6\n"])
def test_another_file_is_no_offset_log(text: str) -> None:
    with pytest.raises(CorruptDataError, match="p is no offset log"):
        parse_offset_log(text, path="p")
