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
from lakelog.filestore.metadata.snapshots.users import is_same_source
from lakelog.spark.capture.checkpoint import files_of_batch, parse_offset_log, parse_watermark
from lakelog.spark.sink import checkpoint_folders
from lakelog.spark.sink.alignment import MicroBatch, digest_of, identify_batch


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
    [entry] = [json.loads(line) for line in (tmp_path / "checkpoint/sources/0/0").read_text().split("\n")[1:]]
    files = [f"0 {entry['timestamp']} {(source / 'a').as_uri()}"]
    assert batch.source_digest == digest_of(['{"logOffset":0}'], files=files)
    assert is_same_source(batch.source_digest, digest_of(['{"logOffset":0}']))  # as older versions of lakelog wrote it


def test_a_checkpoint_on_another_file_system_is_read_through_hadoop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = put(tmp_path / "in", "a")
    _, (near,) = run_batches(spark, source, tmp_path / "near", identify_batch)
    monkeypatch.setattr(checkpoint_folders, "local_path", lambda location: None)
    put(source, "b")
    _, far = run_batches(spark, source, tmp_path / "far away", identify_batch)

    assert far[0].source_digest == near.source_digest
    assert len({batch.source_digest for batch in far}) == 2


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


@pytest.mark.parametrize(
    ("metadata", "watermark"), [('{"batchWatermarkMs":1700}', 1700), ('{"batchWatermarkMs":0}', None), ("{}", None)]
)
def test_an_offset_log_has_the_watermark_of_the_batch(metadata: str, watermark: int | None) -> None:
    assert parse_watermark(f"v1\n{metadata}\n5\n", path="p") == watermark


@pytest.mark.parametrize("metadata", ['{"batchWatermarkMs":"7"}', "-", "[1]"])
def test_a_watermark_that_is_no_number_names_its_file(metadata: str) -> None:
    with pytest.raises(CorruptDataError, match="p is no offset log of Spark"):
        parse_watermark(f"v1\n{metadata}\n5\n", path="p")


@pytest.mark.parametrize("text", ["", "v1", "5\n6\n"])
def test_another_file_is_no_offset_log(text: str) -> None:
    with pytest.raises(CorruptDataError, match="p is no offset log"):
        parse_offset_log(text, path="p")


def entries(*numbers: int) -> str:
    """The log of a file source with a file a number."""
    lines = [json.dumps({"path": f"file:///in/{number}", "timestamp": 7, "batchId": number}) for number in numbers]
    return "\n".join(["v1", *lines])


CHECKPOINT = {
    "offsets/0": 'v1\n{}\n{"logOffset":8}\n-\n-',
    "sources/0/9.compact": entries(*range(10)),
    "sources/0/10": entries(10),
    "sources/2/0": entries(0),
}


@pytest.mark.parametrize(
    ("batch_id", "lines", "files"),
    [
        (
            1,
            ['{"logOffset":10}', '{"db":3}', '{"logOffset":0}'],
            ["0 7 file:///in/10", "0 7 file:///in/9", "2 7 file:///in/0"],
        ),
        (1, ['{"logOffset":8}', '{"db":3}', "-"], []),
        (1, ['{"db":3}', "5", "-"], None),
        (1, ['{"logOffset":11}', "-", "-"], None),  # the checkpoint does not say what it read
        (2, ['{"logOffset":10}', "-", "-"], None),  # nor where the batch began
        (0, ["-", "-", '{"logOffset":0}'], ["2 7 file:///in/0"]),
    ],
)
def test_the_files_of_a_batch_are_those_between_the_numbers_of_two_offsets(
    batch_id: int, lines: list[str], files: list[str] | None
) -> None:
    assert files_of_batch(batch_id, lines, CHECKPOINT.get) == files


def test_a_damaged_log_of_a_file_source_is_named() -> None:
    with pytest.raises(CorruptDataError, match="sources/0/0 in the checkpoint is no log of a file source"):
        files_of_batch(0, ['{"logOffset":0}'], {"sources/0/0": 'v1\n{"path":3}'}.get)
