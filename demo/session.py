"""The Spark session of a job: two cores, a small heap, nothing that listens beyond this machine."""

from __future__ import annotations

from pyspark.sql import SparkSession

from demo.workspace import Workspace


def make_session(name: str, workspace: Workspace) -> SparkSession:
    """Start Spark in this process."""
    settings = {
        "spark.driver.memory": "1g",
        # Half a minute of work a JVM: compiling it fast counts for more than compiling it well.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(workspace.spark_scratch / name),
        "spark.sql.warehouse.dir": str(workspace.spark_scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
    }
    builder = SparkSession.builder.master("local[2]").appName(f"lakelog demo: {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
