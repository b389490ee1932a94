"""What is asked of the Spark session: how many cores it has, and which Python runs its workers.

It is the driver's Python, unless somebody chose another.

Without it, Spark starts `python3` from the PATH: in an environment that is not activated that is the system's Python,
which lacks pyarrow and lakelog.
"""

from __future__ import annotations

import os
import sys

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession

CONNECT_CORES = 2
WORKER_PYTHON_KEYS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def name_worker_python() -> None:
    """Set the environment of a Spark that starts later; what is set already stays."""
    if not any(os.environ.get(key) for key in WORKER_PYTHON_KEYS):
        os.environ["PYSPARK_PYTHON"] = sys.executable


def prepare_session(session: SparkSession) -> None:
    """Make a Spark that was started without the setting use this Python for what is sent to workers from now on."""
    try:
        context = session.sparkContext
    except PySparkAttributeError:  # Spark Connect: the server's Python is the server's business
        return
    is_chosen = context.getConf().get("spark.pyspark.python") or context.getConf().get("spark.pyspark.driver.python")
    if context.pythonExec == "python3" and not is_chosen:
        context.pythonExec = sys.executable


def core_count(rows: DataFrame) -> int:
    """How many tasks Spark runs side by side."""
    try:
        return int(rows.sparkSession.sparkContext.defaultParallelism)
    except PySparkAttributeError:  # Spark Connect does not say
        return CONNECT_CORES
