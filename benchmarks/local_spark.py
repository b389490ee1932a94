"""The Spark session of all benchmarks: two cores in this process. It knows nothing of lakelog, so peers use it too."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def start_session(name: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """Spark on two cores, with more settings than those of all benchmarks if some are given."""
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in {**SETTINGS, **(more or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
