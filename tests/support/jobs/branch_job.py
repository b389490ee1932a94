"""A stream into a branch, run as a process of its own so that it can be killed.

usage: python -m tests.support.jobs.branch_job FOLDER
FOLDER holds lake/ with the table db.t and its branch dev, and in/ with files of JSON; ends when they are written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lakelog.catalog import Catalog
from lakelog.spark import write_stream
from tests.support.servers.spark import make_session


def main(folder: Path) -> None:
    """Stream each file as a batch."""
    (folder / "job.group").write_text(str(os.getpgid(0)), encoding="utf-8")
    spark = make_session()
    rows = spark.readStream.schema("id BIGINT, name STRING").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    query = write_stream(
        rows,
        "db.t$branch_dev",
        catalog=Catalog(str(folder / "lake")),
        checkpoint_location=folder / "checkpoint",
        available_now=True,
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
