"""A batch write and a stream by `format("lakelog")` that show their commits. Run by tests as a program.

usage: python -m tests.support.jobs.shown_commits TABLE FOLDER, with FOLDER/in the files of the stream.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.servers.spark import make_session


def main(table: str, folder: Path) -> None:
    """Write three rows, then the stream."""
    spark = make_session()
    spark.range(3).coalesce(1).write.format("lakelog").option("logging-level", "INFO").mode("append").save(table)
    rows = spark.readStream.schema("id BIGINT").json(str(folder / "in"))
    writer = rows.writeStream.format("lakelog").option("logging-level", "INFO")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(table).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
