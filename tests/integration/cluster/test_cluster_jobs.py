"""Jobs on two workers that share nothing but an object store and a Kafka: every row is where it belongs.

Tasks run with speculation, so each stage may have two attempts of a task on two machines. The tests of this module look
at what three drivers left, which ran one after the other.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: what JSON gives

import pytest

from lakelog.catalog import Table
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from tests.support.logs.log_records import lose_records
from tests.support.logs.numbered_changes import Rows, merged_rows, rows_after
from tests.support.logs.promises import check_log_equals_files, log_changes
from tests.support.servers.cluster_world import LOGGED, ClusterWorld, Job
from tests.support.servers.wheel import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1800)]

ROWS, BATCHES, KEYS = 400, 6, 250
HALF = 2  # the last batch of the first half
TOTAL = ROWS * BATCHES
MERGED = 100
MANY = 20_000
RESULT_BYTES = "100000"  # of all results that the driver takes in a job
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
}
WRITE = {"rows": ROWS, "batches": BATCHES, "keys": KEYS}
SQL_MERGE = """
MERGE INTO lake.db.statements AS t USING (SELECT id, concat('merged ', id) AS name, -id AS amount FROM range(100)) AS s
ON t.id = s.id
WHEN MATCHED AND s.id % 3 = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET name = s.name, amount = s.amount
WHEN NOT MATCHED THEN INSERT (id, name, amount) VALUES (s.id, s.name, s.amount)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What the drivers answered, by the name of the answer, and what they printed."""

    answers: dict[str, Any]
    output: str


@pytest.fixture(scope="module")
def done(world: ClusterWorld) -> Done:
    """Run all jobs."""
    for name in ("changes", "statements"):
        world.make_table(f"db.{name}", LOGGED)
    world.make_table("db.upserts", {"bucket": "2", "log.system": "kafka"})
    world.make_table("db.plain", {"bucket": "2", "num-sorted-run.compaction-trigger": "3"})
    for name in ("copy", "aligned", "healed"):
        world.make_table(f"db.{name}", {"bucket": "2"})
    world.make_table("db.pieces", {"bucket": "4", "write-only": "true"})
    answers: dict[str, Any] = {}
    world_events(world).mkdir()
    events = {"enabled": "true", "compress": "false", "dir": world_events(world).as_uri()}
    conf = SPECULATION | {f"spark.eventLog.{name}": value for name, value in events.items()}

    def run(**jobs: Job) -> str:
        driver = world.start(list(jobs.values()), conf=conf)
        output = driver.wait(900)
        answers.update(zip(jobs, json.loads(output.splitlines()[-1]), strict=True))
        return output

    copies: dict[str, Job] = {
        "copy": ("copy", {"source": "db.changes", "table": "db.copy"}),
        "aligned": ("copy", {"source": "db.changes", "table": "db.aligned", "align": True}),
    }
    output = run(
        changes=("write", {**WRITE, "table": "db.changes", "until": HALF}),
        **copies,
        plain=("write", {**WRITE, "table": "db.plain"}),
        pieces=("write", {**WRITE, "table": "db.pieces"}),
        upserts=("write", {**WRITE, "table": "db.upserts", "until": HALF}),
        healed_first=("copy", {"source": "db.upserts", "table": "db.healed"}),
    )
    output += run(
        changes=("write", {**WRITE, "table": "db.changes"}),
        statements=("write", {**WRITE, "table": "db.statements"}),
        upserts=("write", {**WRITE, "table": "db.upserts"}),
        compacted=("compact", {"table": "db.pieces"}),
    )
    assert log_by_key(world.catalog.load_table("db.upserts")) == rows_of(world, "db.upserts")
    for bucket in range(2):
        lose_records(world.catalog.load_table("db.upserts"), bucket)
    output += run(
        healed=("copy", {"source": "db.upserts", "table": "db.healed"}),
        sql=("sql", {"statements": [SQL_MERGE, "SELECT count(*), sum(amount) FROM lake.db.statements"]}),
        merged=("merge", {"table": "db.changes", "rows": MERGED}),
        counted=("count", {"table": "db.changes"}),
        **{f"{name}_again": job for name, job in copies.items()},
    )
    return Done(answers=answers, output=output)


def world_events(world: ClusterWorld) -> Path:
    """Where Spark writes what each driver has done."""
    return world.cluster.drivers / "events"


def log_by_key(table: Table) -> Rows:
    """The rows that the last change of each key in a table's log leaves."""
    rows: Rows = {}
    for bucket in range(table.store.bucket_count):
        for _, _, kind, change in log_changes(table, bucket):
            ((key, name, amount),) = (tuple(row.values()) for row in change.to_pylist())
            rows.pop(key, None)
            if RowKind(kind).is_add:
                rows[key] = (name, amount)
    return rows


def rows_of(world: ClusterWorld, name: str) -> Rows:
    """The rows of a table; a key that is there twice fails."""
    found = world.catalog.load_table(name).to_arrow().to_pylist()
    rows = {row["id"]: (row["name"], row["amount"]) for row in found}
    assert len(rows) == len(found)
    return rows


def test_a_stream_with_a_log_writes_every_row_from_two_workers(world: ClusterWorld, done: Done) -> None:
    assert rows_of(world, "db.upserts") == rows_after(TOTAL, KEYS)


def test_a_stream_without_a_log_writes_every_row_from_two_workers(world: ClusterWorld, done: Done) -> None:
    assert rows_of(world, "db.plain") == rows_after(TOTAL, KEYS)


@pytest.mark.parametrize("name", ["db.changes", "db.statements"])
def test_the_log_that_two_workers_wrote_is_the_files_at_every_snapshot(
    world: ClusterWorld, done: Done, name: str
) -> None:
    check_log_equals_files(world.catalog.load_table(name))


@pytest.mark.parametrize("name", ["db.copy", "db.aligned"])
def test_a_stream_that_reads_gets_the_snapshot_and_then_each_change(world: ClusterWorld, done: Done, name: str) -> None:
    assert rows_of(world, name) == rows_of(world, "db.changes")
    first, again = (sum(done.answers[f"{name.removeprefix('db.')}{run}"]) for run in ("", "_again"))
    assert first < again, "the second run read the log alone"


def test_a_stream_goes_on_in_the_files_where_kafka_has_lost_the_records(world: ClusterWorld, done: Done) -> None:
    assert sum(done.answers["healed"]) > 0
    assert rows_of(world, "db.healed") == rows_after(TOTAL, KEYS)


def test_tasks_compact_the_buckets(world: ClusterWorld, done: Done) -> None:
    buckets, before, after = done.answers["compacted"]
    assert (buckets, after) == (4, 4)
    assert before > after
    assert rows_of(world, "db.pieces") == rows_after(TOTAL, KEYS)


def test_tasks_compact_beside_a_stream(world: ClusterWorld, done: Done) -> None:
    files = [path for path in world_events(world).rglob("*") if path.is_file()]
    jobs = re.findall(r"lakelog compacts bucket (\d) of db\.plain", "".join(path.read_text("utf-8") for path in files))
    assert {*jobs} == {"0", "1"}
    snapshots = world.catalog.load_table("db.plain").snapshots()
    assert CommitKind.COMPACT in {snapshot.commit_kind for snapshot in snapshots}


@pytest.mark.parametrize("name", ["db.changes", "db.statements"])
def test_a_merge_of_a_frame_and_one_in_sql_change_the_same_rows(world: ClusterWorld, done: Done, name: str) -> None:
    assert rows_of(world, name) == merged_rows(rows_after(TOTAL, KEYS), MERGED)


def test_sql_and_a_batch_read_see_what_is_in_the_table(done: Done) -> None:
    rows = merged_rows(rows_after(TOTAL, KEYS), MERGED).values()
    wanted = [len(rows), sum(amount for _, amount in rows)]
    assert done.answers["sql"] == [wanted]
    assert done.answers["counted"] == wanted


def test_tasks_were_run_twice(done: Done) -> None:
    assert "as speculatable" in done.output


def test_what_the_driver_gets_does_not_grow_with_the_rows(world: ClusterWorld) -> None:
    for name in ("large", "large_copy"):
        world.make_table(f"db.{name}", {**LOGGED, "write-only": "true"})
    merge = SQL_MERGE.replace("db.statements", "db.large").replace("range(100)", f"range({MANY})")
    jobs: list[Job] = [
        ("write", {"table": "db.large", "rows": MANY, "batches": 2, "keys": MANY}),
        ("copy", {"source": "db.large", "table": "db.large_copy"}),
        ("compact", {"table": "db.large"}),
        ("merge", {"table": "db.large", "rows": MANY}),
        ("sql", {"statements": [merge, "SELECT count(*) FROM lake.db.large"]}),
        ("count", {"table": "db.large_copy"}),
    ]
    rows = rows_after(2 * MANY, MANY)
    conf = {"spark.driver.maxResultSize": RESULT_BYTES, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    answers = world.run(jobs, conf=conf)

    assert sum(len(name) for name, _ in rows.values()) > 2 * int(RESULT_BYTES)
    assert rows_of(world, "db.large_copy") == rows
    merged = merged_rows(merged_rows(rows, MANY), MANY)
    assert rows_of(world, "db.large") == merged
    assert answers[4] == [[len(merged)]]
    assert answers[5] == [len(rows), sum(amount for _, amount in rows.values())]


def test_the_job_of_the_guide_runs_on_the_cluster(world: ClusterWorld, tmp_path: Path) -> None:
    page = (ROOT / "docs/guide/from-laptop-to-cluster.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "job.py").write_text(f"{code}\nassert spark.sparkContext.master.startswith('spark://')\n")
    world.store.new_bucket("my-bucket")
    conf = {f"spark.executorEnv.{name}": value for name, value in world.store.environment.items()}
    given = world.settings(conf)["conf"].items()
    words = [f"--master {world.cluster.master}", *(f"--conf {name}={value}" for name, value in given), "pyspark-shell"]
    variables = {"PYSPARK_SUBMIT_ARGS": " ".join(words), "LAKELOG_KAFKA_BOOTSTRAP_SERVERS": world.servers}
    driver = world.cluster.driver(tmp_path / "job.py", variables={**world.store.environment, **variables})
    driver.wait(300)


@pytest.mark.parametrize("program", ["org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"])
def test_the_guide_starts_the_programs_of_this_cluster(program: str) -> None:
    page = (ROOT / "docs/guide/from-laptop-to-cluster.md").read_text("utf-8")
    support = (ROOT / "tests/support/servers/spark_cluster.py").read_text("utf-8")
    assert f"bin/spark-class {program}" in page
    assert f'"{program}"' in support
