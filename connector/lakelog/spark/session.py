"""What lakelog needs from the Spark session: how many cores it has, and which Python runs its workers.

The workers run the driver's Python, unless the session names another.

Otherwise Spark starts `python3` from the PATH: if the environment is not activated, that is the system's Python, which
lacks pyarrow and lakelog.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types
from weakref import WeakSet

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession

from lakelog.common.allocation import PURGE_DELAY_KEY, PURGE_DELAY_MILLIS
from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.logstore.client_settings import is_secret
from lakelog.protocol.access import CALL_PREFIX, call_settings

if TYPE_CHECKING:
    from lakelog.catalog import Catalog

CONNECT_CORES = 2
_CATALOGS = "catalogs"  # a private field of Spark's DefaultCatalogManager
_NAME_PARTS = 3  # catalog.database.table
FORMAT = "lakelog"  # of `spark.read.format`
CASE_CONF = "spark.sql.caseSensitive"
TIME_CONF = "spark.sql.timeType.enabled"
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
    """Let plans have columns of the type TIME, and set this Python and our allocation for Python workers."""
    _enable_time_type(session)
    if is_connect(session):  # the server is responsible for its workers
        return
    context = session.sparkContext
    context.environment.setdefault(PURGE_DELAY_KEY, PURGE_DELAY_MILLIS)
    if context.pythonExec != _UNNAMED:
        return
    settings = context.getConf()  # a copy, made entry by entry through the JVM
    if not any(settings.get(key) for key in ("spark.pyspark.python", "spark.pyspark.driver.python")):
        context.pythonExec = sys.executable


def _enable_time_type(session: SparkSession) -> None:
    """Spark 4.3 refuses TIME in casts, literals, groupings and streams unless a setting allows it.

    A value that the user has set stays.
    """
    is_on = session.conf.get(TIME_CONF, "false") == "true"
    if not is_on and session.conf.get(TIME_CONF, "true") == "true":  # not set at all
        session.conf.set(TIME_CONF, "true")


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
        TIME_CONF: "true",
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


# The warehouses that are attached, by the texts of their catalogs in Java.
ATTACHED: dict[str, Catalog] = {}
# The sessions with attached warehouses.
SESSIONS: WeakSet[SparkSession] = WeakSet()


def catalogs_of(spark: SparkSession) -> Any:  # a Scala map
    """The catalogs of a session: Spark fills the map from its conf, which wants a class of the JVM for each."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    try:
        field = manager.getClass().getDeclaredField(_CATALOGS)
    except Exception as error:
        raise unknown_spark(spark, f"has a {manager.getClass().getName()} without {_CATALOGS!r}") from error
    field.setAccessible(True)
    return field.get(manager)


def catalog_of(spark: SparkSession, name: str) -> Catalog | None:
    """The warehouse that is attached under a name; None if there is none."""
    found = catalogs_of(spark).get(name)
    return ATTACHED.get(str(found.get().toString())) if found.isDefined() else None


def named_in(session: SparkSession | None, name: str) -> tuple[Catalog, str] | None:
    """The attached warehouse and `database.table` of a name in the SQL of a session.

    Without a session, in the SQL of all that have attached warehouses. None for a folder, and for a name that is not
    one of an attached warehouse. Raises InvalidRequestError for a name that several warehouses have.
    """
    if not ATTACHED or "/" in name or "\\" in name:
        return None
    if session is not None:
        return None if is_connect(session) else _named_in(session, name)
    found = [one for session in attached_sessions() if (one := _named_in(session, name)) is not None]
    if len(named := {f"{table} of {catalog.warehouse}" for catalog, table in found}) > 1:
        if Path(name).exists():
            return None
        raise InvalidRequestError(
            f"{name!r} has another meaning in each of several Spark sessions: {', '.join(sorted(named))}; say which "
            f"with catalog=Catalog(...) or warehouse=..."
        )
    return found[0] if found else None


def attached_sessions() -> list[SparkSession]:
    """The sessions with attached warehouses, the active one first."""
    active = SparkSession.getActiveSession()
    return sorted(SESSIONS, key=lambda session: session is not active)


def _named_in(session: SparkSession, name: str) -> tuple[Catalog, str] | None:
    parts = name.replace("`", "").split(".")
    if len(parts) < _NAME_PARTS:
        manager = session._jsparkSession.sessionState().catalogManager()
        database = [] if len(parts) > 1 else [str(part) for part in manager.currentNamespace()]
        parts = [str(manager.currentCatalog().name()), *database, *parts]
    catalog = catalog_of(session, parts[0]) if len(parts) == _NAME_PARTS else None
    return None if catalog is None else (catalog, ".".join(parts[1:]))


def unknown_spark(spark: SparkSession, why: str) -> UnsupportedError:
    """The error for a Spark whose classes are not those that `attach` uses."""
    return UnsupportedError(
        f"Spark {spark.version} {why}: attach knows Spark 4.2 and 4.3; with another one use "
        "spark.read.format('lakelog') and lakelog.spark.write"
    )
