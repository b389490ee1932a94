"""Spark on tables in an object store, and in HDFS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.hdfs_server import Hdfs
from tests.support.servers.s3_server import SECRET_KEY, S3Server

ROOT = Path(__file__).parents[2]


def run_job(folder: Path, warehouse: str, options: dict[str, str], servers: str) -> subprocess.CompletedProcess[str]:
    """Run the job in a warehouse, and check what it found."""
    scratch = folder / "scratch"
    scratch.mkdir()
    (folder / "job").mkdir()
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.jobs.store_spark_job",
            warehouse,
            folder / "job",
            json.dumps(options),
            servers,
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    now = [[0, "from 0"], [1, "from 1"], [2, "from 2"]]
    assert found["batch"] == [[1, "one"], [2, "two"]]
    assert found["merged"] == [["from 1", 1], ["from 2", 2]]
    assert found["copied"] == found["logged"] == now
    return ended


@pytest.mark.full
@pytest.mark.integration
@pytest.mark.timeout(600)
def test_spark_writes_and_reads_in_batches_and_streams_in_hdfs(
    tmp_path: Path, hdfs: Hdfs, bootstrap_servers: str
) -> None:
    run_job(tmp_path, f"{hdfs.url}{tmp_path}/lake", {}, bootstrap_servers)


@pytest.mark.full
@pytest.mark.integration
@pytest.mark.timeout(600)
def test_spark_writes_and_reads_in_batches_and_streams_and_shows_no_keys(
    tmp_path: Path, s3: S3Server, bootstrap_servers: str
) -> None:
    ended = run_job(tmp_path, f"s3://{s3.new_bucket()}/lake", s3.options, bootstrap_servers)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if "offsets" in path.parts]
    assert [str(path) for path in written if SECRET_KEY.encode() in path.read_bytes()] == []
    assert "INFO" in ended.stderr
    shown = [line[:300] for line in (ended.stdout + ended.stderr).splitlines() if SECRET_KEY in line]
    assert shown == []
