"""A snapshot whose put took effect while its answer was lost, in a store that stays away: Spark's user gets the error.

The error has the commit's uuid, the command finds out what became of it, and a stream that starts again asks by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main
from lakelog.spark import write_stream
from tests.support.servers.s3_proxy import Fault, Request, S3Proxy, s3_proxy
from tests.support.servers.s3_server import S3Server

COLUMNS = pa.schema([pa.field("id", pa.int64())])
FIRST = "/snapshot/snapshot-1"
SENTENCE = re.compile(
    r"it is unknown whether .*find-commit (?P<path>\S+) (?P<uuid>\S+) --snapshot-id (?P<id>\d+)", re.S
)


@dataclass(frozen=True, slots=True)
class Store:
    """A store behind a proxy, with an append-only table: rows that are written twice are there twice."""

    proxy: S3Proxy
    table: Table
    options: dict[str, str]  # which lead through the proxy

    def goes_away(self, *, takes_effect: bool = True) -> None:
        """Answer nothing more from the first snapshot's put on, which takes effect or does not."""
        gone: list[Request] = []

        def choose(request: Request) -> Fault:
            if request.method == "PUT" and request.path.endswith(FIRST) and not gone:
                gone.append(request)
                return Fault.LOSE_ANSWER if takes_effect else Fault.FAIL
            return Fault.FAIL if gone else Fault.NONE

        self.proxy.choose = choose

    def comes_back(self) -> None:
        self.proxy.choose = lambda _request: Fault.NONE

    def ids(self) -> list[int]:
        return sorted(self.table.to_arrow()["id"].to_pylist())


@pytest.fixture
def store(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for key, value in s3.environment.items():
        monkeypatch.setenv(key, value)
    catalog = Catalog(f"s3://{s3.new_bucket()}/lake", options=s3.options)
    options = {"write-only": "true", "commit.max-retries": "1"}
    table = catalog.create_table("db.t", schema=COLUMNS, options=options)
    with s3_proxy(s3.endpoint) as proxy:
        yield Store(proxy, table, {**s3.options_at(proxy.endpoint), "s3.attempts.maximum": "1"})


def find_commit(error: Exception, capsys: pytest.CaptureFixture[str]) -> tuple[str, int | None]:
    """What the command answers that the error names: the outcome, and the snapshot."""
    named = SENTENCE.search(str(error))
    assert named, str(error)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main(["table", "find-commit", named["path"], named["uuid"], "--snapshot-id", named["id"], "--json"])
    found = json.loads(capsys.readouterr().out)
    return found["outcome"], found["snapshot_id"]


@pytest.mark.full
@pytest.mark.parametrize("takes_effect", [True, False])
def test_a_batch_write_without_an_answer_is_found_out_by_its_uuid(
    spark: SparkSession, store: Store, capsys: pytest.CaptureFixture[str], takes_effect: bool
) -> None:
    writer = spark.range(3).coalesce(1).write.format("lakelog").options(**store.options).mode("append")
    store.goes_away(takes_effect=takes_effect)
    with pytest.raises((PySparkException, Py4JError)) as raised:
        writer.save(store.table.path)
    found = find_commit(raised.value, capsys)
    if takes_effect:
        assert found == ("committed", 1)
    else:
        assert found == ("not committed", None)
        store.comes_back()
        writer.save(store.table.path)
    assert store.ids() == [0, 1, 2]


@pytest.mark.full
@pytest.mark.timeout(600)  # each run starts Pythons of Spark, which take a busy machine half a minute each
@pytest.mark.parametrize("is_by_format", [True, False])
def test_a_stream_without_an_answer_says_so_and_asks_by_itself_when_it_starts_again(
    spark: SparkSession, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_by_format: bool
) -> None:
    source, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    source.mkdir()
    (source / "0").write_text("".join(json.dumps({"id": number}) + "\n" for number in range(3)))
    rows = spark.readStream.schema("id BIGINT").json(str(source))

    def run() -> None:
        if is_by_format:
            writer = rows.writeStream.format("lakelog").options(**store.options, checkpointLocation=checkpoint)
            query = writer.trigger(availableNow=True).start(store.table.path)
        else:
            catalog = Catalog(store.table.warehouse, options=store.options)
            query = write_stream(rows, "db.t", catalog=catalog, checkpoint_location=checkpoint, available_now=True)
        query.awaitTermination()

    store.goes_away()
    with pytest.raises(PySparkException) as raised:
        run()
    assert find_commit(raised.value, capsys) == ("committed", 1)
    store.comes_back()
    run()
    assert store.ids() == [0, 1, 2]
