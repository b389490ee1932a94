"""SIGKILL of an ingest at random times, on a real broker and real Spark: the table ends exact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from tests.support.attacks.malformed import DDL, envelope, malformed, row
from tests.support.logs.foreign_topics import Record, fill, new_topic
from tests.support.logs.promises import check_log_equals_files

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

RECORDS = 1_200
KEYS = 400
BAD_EVERY = 10
JOB_SECONDS_MAX = 900
KILLS = 2
POLL_SECONDS = 0.05


def history(seed: int) -> tuple[list[Record], dict[int, str], int]:
    """Records of a topic, the table that they leave, and how many of them are bad."""
    rng = random.Random(seed)
    broken = malformed(RECORDS, seed=seed)
    records: list[Record] = []
    table: dict[int, str] = {}
    bad = 0
    for number in range(RECORDS):
        key = rng.randrange(KEYS)
        record_key = f'{{"id": {key}}}'.encode()
        if number % BAD_EVERY == 0:
            records.append((None, next(broken)))  # with a key, a delete without its old row is a good one
            bad += 1
        elif key in table and rng.random() < 0.3:
            records.append((record_key, envelope(op="d", before={"id": key, "name": ""}, after=None)))
            del table[key]
        else:
            table[key] = f"name {number}"
            records.append((record_key, row(id=key, name=table[key])))
    return records, table, bad


def commits(catalog: Catalog) -> int:
    """How many snapshots table and letters have: how far the job has come."""
    newest = [catalog.load_table(f"db.{name}").snapshot() for name in catalog.list_tables("db")]
    return sum(0 if one is None else one.id for one in newest)


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_ingest_ends_in_the_exact_table(bootstrap_servers: str, tmp_path: Path, seed: int) -> None:
    records, expected, bad = history(seed)
    topic = new_topic(bootstrap_servers)
    fill(topic, records)
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    log = {
        "bucket": "2",
        "log.system": "kafka",
        "log.changelog-mode": "all",
        "log.kafka.bootstrap.servers": bootstrap_servers,
    }
    catalog.create_table("db.t", schema=DDL, primary_keys=["id"], options=log)
    command = [sys.executable, "-m", "tests.support.jobs.ingest_job", str(tmp_path), topic.name, bootstrap_servers]
    rng = random.Random(seed)

    with (tmp_path / "job.log").open("ab") as output:
        for _ in range(KILLS):
            job = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
            _await_progress(job, catalog, rng.randint(1, 4))
            time.sleep(rng.random())  # any time of a batch
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        ended = subprocess.run(command, stdout=output, stderr=output, timeout=JOB_SECONDS_MAX, check=False)

    assert ended.returncode == 0, (tmp_path / "job.log").read_text(errors="replace")[-5_000:]
    table = catalog.load_table("db.t")
    rows = table.to_arrow()
    assert dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True)) == expected
    letters = catalog.load_table("db.t_dead_letters").to_arrow(columns=["offset", "value"])
    assert sorted(letters["offset"].to_pylist()) == list(range(0, RECORDS, BAD_EVERY))
    assert len(letters) == bad
    check_log_equals_files(table)


def _await_progress(job: subprocess.Popen[bytes], catalog: Catalog, count: int) -> None:
    """Wait until the job has made so many snapshots more, or has ended."""
    start, deadline = commits(catalog), time.monotonic() + JOB_SECONDS_MAX
    while job.poll() is None and commits(catalog) < start + count and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
