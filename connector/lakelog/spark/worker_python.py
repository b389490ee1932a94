"""Which Python runs the workers: the driver's, unless somebody chose another.

Without it, Spark starts `python3` from the PATH: in an environment that is not activated that is the system's Python,
which lacks pyarrow and lakelog.
"""

from __future__ import annotations

import os
import sys

from pyspark import SparkContext

WORKER_PYTHON_KEYS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def name_worker_python() -> None:
    """Set the environment of a Spark that starts later; what is set already stays."""
    if not any(os.environ.get(key) for key in WORKER_PYTHON_KEYS):
        os.environ["PYSPARK_PYTHON"] = sys.executable


def correct_worker_python(context: SparkContext) -> None:
    """Make a Spark that was started without the setting use this Python for what is sent to workers from now on."""
    is_chosen = context.getConf().get("spark.pyspark.python") or context.getConf().get("spark.pyspark.driver.python")
    if context.pythonExec == "python3" and not is_chosen:
        context.pythonExec = sys.executable
