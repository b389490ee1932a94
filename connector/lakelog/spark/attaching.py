"""Attaching a warehouse to a Spark session, so that the session's own SQL names its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any  # Any: py4j gives Java objects without types
from weakref import WeakSet

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown, typed
from lakelog.spark.catalog_plugin.catalog_proxy import AttachedCatalog
from lakelog.spark.catalog_plugin.java.jvm import CONNECTOR, Jvm
from lakelog.spark.catalog_plugin.java.planned_scans import PYTHON_CLASSES
from lakelog.spark.catalog_plugin.session_sql import unwrap_session, warn_of_paimon, wrap_session
from lakelog.spark.data_source import register
from lakelog.spark.session import SESSIONS, catalog_of, catalogs_of, is_connect, unknown_spark
from lakelog.spark.source.reading.read_mark import is_attached

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SPARK = frozenset({"spark_catalog", "system", "session", "builtin"})
_CONF = "spark.sql.catalog."
# What scans and writes use of Spark's own classes, which no version promises.
_USED: dict[str, set[str]] = {
    f"{PYTHON_CLASSES}.PythonDataSourceV2": {"setReadInfo", "setShortName", "source"},
    f"{PYTHON_CLASSES}.PythonTable": {"newScanBuilder", "newWriteBuilder", "constructor of 3"},
    f"{PYTHON_CLASSES}.PythonDataSourceReadInfo": {"constructor of 2"},
    f"{PYTHON_CLASSES}.PythonBatchWriterFactory": {"constructor of 5"},
    f"{PYTHON_CLASSES}.PythonWriterCommitMessage": {"pickledMessage"},
    f"{CONNECTOR}.write.LogicalWriteInfoImpl": {"constructor of 5"},
    "org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable": {"constructor of 6"},
    "org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScan": {"copy"},
    "org.apache.spark.sql.execution.SQLExecution": {"getQueryExecution"},
}
_CHECKED: WeakSet[Any] = WeakSet()
_FOLLOWS = "_lakelog_follows"


def attach(spark: SparkSession, name: str, warehouse: str | Path | Catalog) -> None:
    """Let the SQL of a session name the tables of a warehouse as `name.database.table`.

    Afterwards `spark.sql`, `spark.table`, `df.writeTo`, `spark.readStream.table` and `spark.catalog` know the tables.
    Attaching the same warehouse again changes nothing; several warehouses may be attached under different names.
    Sessions that `spark.newSession()` makes afterwards have them too, and the session of a batch in the functions of
    `foreachBatch`, which `attach` wraps for this. The catalog is implemented in this process, by interfaces of Spark;
    the cluster needs no jar.
    Raises UnsupportedError on Spark Connect and for a Spark that lacks what this needs; InvalidRequestError for a name
    that is no identifier or that another catalog has.

    >>> attach(spark, "lake", "/tmp/lake")
    >>> spark.sql("SELECT count(*) FROM lake.db.orders").show()
    """
    _attach(spark, name, warehouse)
    SESSIONS.add(spark)


def _attach(spark: SparkSession, name: str, warehouse: str | Path | Catalog) -> None:
    _check_name(name)
    if is_connect(spark):
        raise UnsupportedError(
            "attach needs the driver of Spark in this process, and this session is of Spark Connect: read tables with "
            "spark.read.format('lakelog'), or without Spark with Catalog and Table"
        )
    catalog = warehouse if isinstance(warehouse, Catalog) else Catalog(warehouse)
    register(spark)
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    gateway.python_parameters.propagate_java_exceptions = True
    catalogs = catalogs_of(spark)
    jvm = Jvm(spark)
    _check_spark(jvm)
    found = catalogs.get(name)
    if found.isDefined():
        _check_same(found.get(), name, catalog)
        wrap_session(spark, catalog_of, follow_session)  # Spark hands out several objects for one session
        return
    if spark.conf.get(f"{_CONF}{name}", None) is not None:
        raise InvalidRequestError(f"catalog {name!r} is configured by {_CONF}{name}; attach under another name")
    catalogs.put(name, AttachedCatalog(jvm, name, catalog))
    warn_of_paimon(spark.conf.getAll)
    wrap_session(spark, catalog_of, follow_session)
    _follow_batches()


def _follow_batches() -> None:
    """Let each function of `foreachBatch` find the warehouses in the session that Spark makes for the query."""
    of_spark = DataStreamWriter.foreachBatch
    if hasattr(of_spark, _FOLLOWS):
        return

    @wraps(of_spark)
    def foreachBatch(self: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        def followed(batch: DataFrame, number: int) -> None:
            follow_session(batch.sparkSession, self._spark)
            func(batch, number)

        return of_spark(self, followed)

    setattr(foreachBatch, _FOLLOWS, True)
    DataStreamWriter.foreachBatch = foreachBatch  # type: ignore[method-assign]


def follow_session(session: SparkSession, parent: SparkSession) -> None:
    """Attach to a session what is attached to another, unless it is: Spark's sessions do not inherit catalogs."""
    for name in attached_names(parent):
        catalog = catalog_of(parent, name)
        if catalog is not None and catalog_of(session, name) is catalog:  # in an earlier batch of the query
            wrap_session(session, catalog_of, follow_session)
        elif catalog is not None:
            _attach(session, name, catalog)


def run_in_session(
    spark: SparkSession,
    catalogs: Mapping[str, Catalog],
    text: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None,
    *,
    catalog: str,
    database: str | None,
) -> pa.Table:
    """The rows of a statement in Spark's own SQL, with `catalog` and `database` as the current ones.

    Those of the session stay what they were. Raises InvalidRequestError for what is no SparkSession, and as `attach`
    and Spark.
    """
    if not isinstance(spark, SparkSession):
        raise InvalidRequestError(f"engine is {typed(spark)}; expected a SparkSession, or None for DuckDB")
    for name, attached in catalogs.items():
        attach(spark, name, attached)
    before = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    spark.catalog.setCurrentCatalog(catalog)
    try:
        if database is not None:
            spark.catalog.setCurrentDatabase(database)
        given: Any = parameters if isinstance(parameters, Mapping) or parameters is None else list(parameters)
        return spark.sql(text, args=given).toArrow()
    finally:
        spark.catalog.setCurrentCatalog(before[0])
        spark.catalog.setCurrentDatabase(before[1])


def detach(spark: SparkSession, name: str) -> None:
    """Forget an attached warehouse; its tables stay. Raises InvalidRequestError for a name that is not attached.

    >>> detach(spark, "lake")
    """
    catalogs = catalogs_of(spark)
    found = catalogs.get(name)
    if not found.isDefined() or not is_attached(found.get()):
        attached = ", ".join(attached_names(spark)) or "none"
        raise InvalidRequestError(f"no warehouse is attached as {shown(name)}; attached are: {attached}")
    if str(spark._jsparkSession.sessionState().catalogManager().currentCatalog().name()) == name:
        spark.catalog.setCurrentCatalog("spark_catalog")
    catalogs.remove(name)
    if not attached_names(spark):
        SESSIONS.discard(spark)
        unwrap_session(spark)


def attached_names(spark: SparkSession) -> list[str]:
    """The names under which warehouses are attached to a session, sorted."""
    return sorted(name for name, catalog in _items(catalogs_of(spark)) if is_attached(catalog))


def _items(catalogs: Any) -> Iterator[tuple[str, Any]]:  # a Scala map
    entries = catalogs.iterator()
    while entries.hasNext():
        entry = entries.next()
        yield str(entry._1()), entry._2()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name.lower() in _OF_SPARK:
        raise InvalidRequestError(
            f"{shown(name)} is not a name for a catalog: expected letters, digits and _, not one of "
            f"{', '.join(sorted(_OF_SPARK))}"
        )


def _check_same(found: Any, name: str, catalog: Catalog) -> None:  # a Java CatalogPlugin
    text = str(found.toString())
    if text != AttachedCatalog.text_of(name, catalog):
        raise InvalidRequestError(
            f"{name!r} is the name of another catalog of this session already, {text}; attach under another name, or "
            f"call lakelog.spark.detach(spark, {name!r}) before"
        )


def _check_spark(jvm: Jvm) -> None:
    """Raise UnsupportedError unless the classes of Spark that scans and writes use are as in Spark 4.2 and 4.3."""
    if jvm.gateway in _CHECKED:
        return
    for name, wanted in _USED.items():
        try:
            found = jvm.java_class("org.apache.spark.util.Utils").classForName(name, True, True)
            names = {str(method.getName()) for method in found.getMethods()} | {
                f"constructor of {one.getParameterCount()}" for one in found.getConstructors()
            }
            missing = sorted(wanted - names)
        except Exception as error:
            raise unknown_spark(jvm.session, f"has no class {name}") from error
        if missing:
            raise unknown_spark(jvm.session, f"has a class {name} without {', '.join(missing)}")
    _CHECKED.add(jvm.gateway)
