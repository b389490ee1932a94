"""Streams of Spark that write and read a table while it gets other buckets: both end, start again, and lose nothing."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.catalog import Catalog, Table, open_table
from lakelog.protocol.state.moved_parts import written_parts
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.steps import Step
from lakelog.protocol.stores.table_states import newest_state
from lakelog.spark import write_stream
from tests.integration.kills.test_crash_matrix import CRASH_AT, JOB_SECONDS_MAX, KINDS, Pipeline, wait_for
from tests.support.kills.crash import Victim
from tests.support.logs.changes import TABLE_SCHEMA, make_history
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import fold_read_batches, log_changes, snapshot_rows
from tests.support.logs.rescales import check_generations
from tests.support.streams.streams import feed, keep_batch

pytestmark = pytest.mark.integration


def writing(spark: SparkSession, table: Table, folder: Path) -> StreamingQuery:
    source = spark.readStream.schema("id BIGINT, name STRING, amount BIGINT, _row_kind STRING")
    rows = source.option("maxFilesPerTrigger", "1").parquet(str(folder / "source"))
    return write_stream(rows, open_table(table.path), checkpoint_location=folder / "writer")


def reading(spark: SparkSession, table: Table, folder: Path) -> StreamingQuery:
    (folder / "out").mkdir(exist_ok=True)
    rows = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
    writer = rows.writeStream.foreachBatch(partial(keep_batch, folder / "out"))
    return writer.option("checkpointLocation", str(folder / "reader")).start()


@pytest.mark.full
def test_streams_that_run_while_a_table_is_rescaled_go_on_exactly_once(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
    table = catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)
    history = make_history(7, files=4, changes_per_file=60, keys=30)
    feed(tmp_path, history, range(1))
    writer, reader = writing(spark, table, tmp_path), reading(spark, table, tmp_path)
    feed(tmp_path, history, range(1, 2))
    writer.processAllAvailable()
    reader.processAllAvailable()

    rescaled = table.upkeep.rescale(3)

    feed(tmp_path, history, range(2, 3))
    with pytest.raises(StreamingQueryException) as stopped:
        writer.processAllAvailable()
    assert "Start it again: it continues with its checkpoint" in str(stopped.value)
    with pytest.raises(StreamingQueryException) as ended:
        reader.awaitTermination(60)
    assert "Start it again: it continues with its checkpoint" in str(ended.value)
    writer, reader = writing(spark, table, tmp_path), reading(spark, table, tmp_path)
    feed(tmp_path, history, range(3, 4))
    writer.processAllAvailable()
    reader.processAllAvailable()
    writer.stop()
    reader.stop()

    truth = Counter(history.truths[-1])
    assert fold_read_batches(tmp_path / "out") == truth
    assert Counter(tuple(row.values()) for row in rescaled.to_arrow().to_pylist()) == truth
    assert len({bucket for bucket in range(3) if log_changes(rescaled, bucket)}) == 3, "all of the new buckets are used"
    catalog.drop_table("db.t")


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["append-only", "merged"])
def test_a_batch_that_a_killed_job_left_half_way_is_finished_in_the_new_buckets(
    kind: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers, KINDS[kind])
    pipeline.feed("job", seed=11)
    plan = pipeline.plan(Step.AFTER_COMMIT, Victim.DRIVER)
    job = pipeline.start(env=plan.to_env())
    wait_for(plan.marker, job, pipeline)
    job.wait(JOB_SECONDS_MAX)

    rescaled = pipeline.table.upkeep.rescale(5)

    state = newest_state(rescaled.store, topic_id=log_of_table(rescaled).topic_id)
    (user,) = state.users
    assert [one.bucket_count for one in state.logged.moved] == [2]
    assert written_parts(state.logged, Batch(user=user, identifier=CRASH_AT, source_digest=None))
    pipeline.finish()
    truth = pipeline.histories["job"].truths[-1]
    assert snapshot_rows(pipeline.table) == truth
    assert fold_read_batches(tmp_path / "job-read") == Counter(truth)
    check_generations(pipeline.table, has_key=kind == "merged")
    assert newest_state(rescaled.store, topic_id=log_of_table(rescaled).topic_id).logged.is_whole()
    pipeline.catalog.drop_table("db.t")
