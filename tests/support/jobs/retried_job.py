"""A stream whose tasks fail once in each batch, each time with another error. Run by tests as a program.

usage: python -m tests.support.jobs.retried_job FOLDER, with RETRIED_JOB_FOLDER=FOLDER and
LAKELOG_STEP_OBSERVER=tests.support.jobs.retried_job:fail_once. FOLDER holds lake/ with the table db.t, and in/ with a
file for each of ERRORS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import TaskContext

from lakelog.catalog import Catalog
from lakelog.common.errors import FencedError, LakelogError, StalledError, UnavailableError, UnknownOutcomeError
from lakelog.protocol.state.steps import Step
from lakelog.spark import write_stream
from tests.support.servers.spark import make_session

FOLDER_KEY = "RETRIED_JOB_FOLDER"
ERRORS: tuple[type[LakelogError], ...] = (FencedError, UnknownOutcomeError, UnavailableError, StalledError)
_FAILS_AT: dict[type[LakelogError], Step] = {
    UnavailableError: Step.AFTER_COMMIT
}  # the others at each look, which a task takes up to four times


def fail_once(step: Step, user: str, identifier: int, bucket: int | None) -> None:
    """Fail every first attempt."""
    context = TaskContext.get()
    at = _FAILS_AT.get(ERRORS[identifier], Step.LOOK)
    if step is at and context is not None and context.attemptNumber() == 0:
        with Path(os.environ[FOLDER_KEY], "failed").open("a") as failed:
            failed.write(f"{identifier}\n")
        raise ERRORS[identifier](f"attempt 0 of batch {identifier} fails")


def main(folder: Path) -> None:
    """Stream all files into the table, one a batch."""
    spark = make_session("local[2,2]")
    rows = spark.readStream.schema("id BIGINT, name STRING, amount BIGINT").option("maxFilesPerTrigger", 1)
    query = write_stream(
        rows.json(str(folder / "in")),
        "db.t",
        catalog=Catalog(str(folder / "lake")),
        checkpoint_location=folder / "checkpoint",
        available_now=True,
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
