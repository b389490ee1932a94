"""Runs `reading_job`, the query of a process of its own, and shows what it has kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

JOB_SECONDS_MAX = 240


def run_job(folder: Path, *arguments: str) -> int:
    """Run the job until it ends, or kills itself; its return code. Its output goes to `folder/job.log`."""
    command = [sys.executable, "-m", "tests.support.jobs.reading_job", str(folder), *arguments]
    with (folder / "job.log").open("ab") as log:
        job = subprocess.Popen(command, env=os.environ, stdout=log, stderr=log, start_new_session=True)
        return job.wait(JOB_SECONDS_MAX)


def tail_of_log(folder: Path) -> str:
    """The last output of jobs."""
    return (folder / "job.log").read_text(encoding="utf-8", errors="replace")[-4000:]


def kept(folder: Path) -> Counter[tuple[str, int, int]]:
    """The changes that the query has kept, with how often each came."""
    found: Counter[tuple[str, int, int]] = Counter()
    for file in sorted((folder / "out").glob("batch-*.parquet")):
        found.update((row["_row_kind"], row["id"], row["batch"]) for row in pq.ParquetFile(file).read().to_pylist())
    return found
