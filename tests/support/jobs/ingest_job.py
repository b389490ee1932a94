"""An ingest as a user would write it, run as a process of its own so that it can be killed.

usage: python -m tests.support.jobs.ingest_job FOLDER TOPIC SERVERS
FOLDER holds lake/ (with the table db.t); the checkpoint goes there too. Ends when the topic is read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lakelog.catalog import Catalog
from lakelog.spark import ingest
from tests.support.servers.spark import make_session


def main(folder: Path, topic: str, servers: str) -> None:
    """Run the ingest to its end, or to the kill."""
    (folder / "job.group").write_text(str(os.getpgid(0)), encoding="utf-8")
    spark = make_session()
    query = ingest(
        spark,
        topic,
        "db.t",
        catalog=Catalog(str(folder / "lake")),
        bootstrap_servers=servers,
        checkpoint_location=folder / "checkpoint",
        on_error="dead-letter",
        max_offsets_per_trigger=300,
        available_now=True,
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
