"""What Spark's Python workers import, before they are forked: the gate puts this folder on PYTHONPATH.

Spark starts a process for nearly each step of a Python source (it makes the source, plans a read, plans a write,
commits), and a daemon forks each of them before anything is imported: most of the processor time of a small query is
imports. `--full` leaves Spark's daemon as users have it.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

PACKAGES = "lakelog.spark.source", "lakelog.spark.sink"
MODULES = (
    "pandas",
    "pyarrow.parquet",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "lakelog.spark.data_source",
)

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"] and find_spec("lakelog") is not None:
    for name in MODULES:
        import_module(name)
    for package in PACKAGES:
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)
