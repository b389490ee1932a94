"""What Spark's Python workers import, before they are forked: tests have this folder on PYTHONPATH.

Spark starts a process for nearly each step of a Python source (it makes the source, plans a read, plans a write,
commits), and a daemon for each kind of step forks them before anything is imported: most of the processor time of a
small query is imports. Tests of the wheel and of clusters have processes of their own, as users have them.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

DAEMON = "pyspark.daemon"
DAEMONS_MAX = 12  # of one Spark: each session of it has daemons of its own, and each of them holds 100 MB then
PACKAGES = "lakelog.spark.source", "lakelog.spark.sink", "lakelog.spark.statements"
MODULES = (
    "pandas",
    "pyarrow.parquet",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "lakelog.spark.data_source",
)


def import_all() -> None:
    """Import what the workers of a lakelog table need."""
    for name in MODULES:
        import_module(name)
    for package in PACKAGES:
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)


def daemon_count() -> int:
    """How many daemons this one's Spark has."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getppid() and DAEMON in (process / "cmdline").read_text():
                count += 1
        except (OSError, IndexError):  # it has ended meanwhile
            continue
    return count


if sys.orig_argv[1:3] == ["-m", DAEMON] and find_spec("lakelog") is not None and daemon_count() <= DAEMONS_MAX:
    import_all()
