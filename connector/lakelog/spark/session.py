"""What lakelog needs from the Spark session: how many cores it has, and which Python runs its workers.

The workers run the driver's Python, unless the session names another.

Otherwise Spark starts `python3` from the PATH: if the environment is not activated, that is the system's Python, which
lacks pyarrow and lakelog.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession

from lakelog.common.allocation import PURGE_DELAY_KEY, PURGE_DELAY_MILLIS
from lakelog.common.errors import OptionError
from lakelog.logstore.client_settings import is_secret
from lakelog.protocol.access import CALL_PREFIX, call_settings

CONNECT_CORES = 2
FORMAT = "lakelog"  # of `spark.read.format`
CASE_CONF = "spark.sql.caseSensitive"
_CONF_PREFIXES = ("spark.lakelog.log.kafka.", "spark.lakelog.kafka.")
_HIDDEN_BY_SPARK = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)  # its spark.redaction.regex
_UNNAMED = "python3"  # what PySpark starts when nothing names a Python
WORKER_PYTHON_KEYS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def name_worker_python() -> None:
    """Set the environment of a Spark that starts later; variables that are already set stay."""
    if not any(os.environ.get(key) for key in WORKER_PYTHON_KEYS):
        os.environ["PYSPARK_PYTHON"] = sys.executable


def session_of_another_python() -> SparkSession | None:
    """The Spark session that was started before lakelog was imported, with no Python named; None without one. No I/O.

    Its own search for formats runs `python3` from the PATH, which lacks lakelog if the environment is not activated,
    and ends in DATA_SOURCE_NOT_FOUND for the whole session.
    """
    session = SparkSession.getActiveSession()
    if session is None or is_connect(session) or session.sparkContext.pythonExec != _UNNAMED:
        return None
    return session


def prepare_session(session: SparkSession) -> None:
    """Set what Python workers need from now on: this Python, if Spark was started without one; our allocation."""
    if is_connect(session):  # the server is responsible for its workers
        return
    context = session.sparkContext
    context.environment.setdefault(PURGE_DELAY_KEY, PURGE_DELAY_MILLIS)
    if context.pythonExec != _UNNAMED:
        return
    settings = context.getConf()  # a copy, made entry by entry through the JVM
    if not any(settings.get(key) for key in ("spark.pyspark.python", "spark.pyspark.driver.python")):
        context.pythonExec = sys.executable


def session_kafka_settings() -> dict[str, str]:
    """The user's settings of Kafka clients in the active session; none without a session.

    They are `spark.lakelog.kafka.<setting>`, also spelled `spark.lakelog.log.kafka.<setting>` as options of tables are.
    Spark shows its settings in logs and on pages, and hides those whose names it knows to be secret. Raises OptionError
    for a secret that Spark would show.
    """
    session = SparkSession.getActiveSession()
    if session is None:
        return {}
    given = session.conf.getAll
    found: dict[str, str] = {}
    for prefix in _CONF_PREFIXES:
        found |= {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    for key in sorted(found):
        if is_secret(key) and not _HIDDEN_BY_SPARK.search(key):
            raise OptionError(
                f"Spark would show the setting spark.lakelog.kafka.{key}, which is secret, among its others; put it"
                " into a profile, and name that in spark.lakelog.kafka.profile"
            )
    return call_settings({f"{CALL_PREFIX}{key}": value for key, value in found.items()})


def start_session(master: str) -> SparkSession:
    """A Spark session for a command line: quiet, and without a web UI that listens on the network."""
    name_worker_python()
    builder = SparkSession.builder.master(master).appName("lakelog")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_zone(session: SparkSession) -> str:
    """The time zone in which the session reads times without one."""
    return str(session.conf.get("spark.sql.session.timeZone"))


def is_connect(session: SparkSession) -> bool:
    """Whether the driver is in another process: Spark Connect."""
    try:
        session.sparkContext  # noqa: B018  # Spark Connect has none
    except PySparkAttributeError:
        return True
    return False


def java_strings(java_map: Any) -> dict[str, str]:  # a java.util.Map
    """A Java map of strings in Python.

    `dict(java_map)` meets an exception of Java at its end, which PySpark examines by some 50 calls.
    """
    if java_map.isEmpty():
        return {}
    return {str(entry.getKey()): str(entry.getValue()) for entry in java_map.entrySet().toArray()}


def core_count(rows: DataFrame) -> int:
    """How many tasks Spark runs side by side."""
    if is_connect(rows.sparkSession):  # the number of cores is unknown
        return CONNECT_CORES
    return int(rows.sparkSession.sparkContext.defaultParallelism)


def is_on_cluster(session: SparkSession) -> bool:
    """Whether tasks run on other machines than the driver. False for Spark Connect, whose driver is elsewhere."""
    return not is_connect(session) and not is_local_master(session.sparkContext.master)


def is_local_master(master: str | None) -> bool:
    """Whether a master is `local` or `local[cores]`: one process has the driver and the tasks."""
    return master is not None and (master == "local" or master.startswith("local["))


def task_attempts_max(session: SparkSession) -> int:
    """How many times Spark runs a task that fails; 1 if that is unknown."""
    if is_connect(session):
        return 1
    context = session.sparkContext
    return attempts_of(context.master, context.getConf().get("spark.task.maxFailures"))


def attempts_of(master: str | None, failures_max: str | None) -> int:
    """`spark.task.maxFailures`, or on a local master the attempts in `local[cores, attempts]`."""
    if master is not None and is_local_master(master):
        given = re.fullmatch(r"local\[[^,\]]+,\s*(\d+)\s*\]", master)
        return int(given[1]) if given else 1
    return int(failures_max or 4)
