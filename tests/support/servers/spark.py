"""The Spark session of the tests: two cores, a small heap, nothing that listens beyond this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

import lakelog.spark  # noqa: F401  - names this Python as the workers' before Spark starts
from tests.support.servers.spark_archive import SHARE_DAEMONS_VARIABLE


def make_session(master: str = "local[2]", jars: Sequence[Path] = ()) -> SparkSession:
    """Start Spark in this process, with more jars, or give the session that runs."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")  # processes of one run make tables with the same names
    scratch = tempfile.gettempdir()
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.warehouse.dir": f"{scratch}/lakelog-spark-warehouse-{worker}",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.sql.artifact.isolation.enabled": "false" if SHARE_DAEMONS_VARIABLE in os.environ else "true",
    }
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    builder = SparkSession.builder.master(master).appName("lakelog tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
