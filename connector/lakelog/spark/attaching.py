"""Attaching a warehouse to a Spark session, so that the session's own SQL names its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.spark.catalog_plugin.catalog_proxy import ATTACHED, AttachedCatalog
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.row_statements import unwrap_session, wrap_session
from lakelog.spark.data_source import register
from lakelog.spark.session import is_connect

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SPARK = frozenset({"spark_catalog", "system", "session", "builtin"})
_CONF = "spark.sql.catalog."
_CATALOGS = "catalogs"  # a private field of Spark's DefaultCatalogManager


def attach(spark: SparkSession, name: str, warehouse: str | Path | Catalog) -> None:
    """Let the SQL of a session name the tables of a warehouse as `name.database.table`.

    Afterwards `spark.sql`, `spark.table`, `df.writeTo`, `spark.readStream.table` and `spark.catalog` know the tables.
    Attaching the same warehouse again changes nothing; several warehouses may be attached under different names.
    Sessions that `spark.newSession()` makes afterwards have them too; in a `foreachBatch` function of your own call
    `attach(batch.sparkSession, ...)`. The catalog is implemented in this process, by interfaces of Spark; the cluster
    needs no jar.
    Raises UnsupportedError on Spark Connect and for a Spark that lacks what this needs; InvalidRequestError for a name
    that is no identifier or that another catalog has.

    >>> attach(spark, "lake", "/tmp/lake")
    >>> spark.sql("SELECT count(*) FROM lake.db.orders").show()
    """
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
    catalogs = _catalogs_of(spark)
    found = catalogs.get(name)
    if found.isDefined():
        _check_same(found.get(), name, catalog)
        return
    if spark.conf.get(f"{_CONF}{name}", None) is not None:
        raise InvalidRequestError(f"catalog {name!r} is configured by {_CONF}{name}; attach under another name")
    catalogs.put(name, AttachedCatalog(Jvm(spark), name, catalog))
    wrap_session(spark, catalog_of, follow_session)


def follow_session(session: SparkSession, parent: SparkSession) -> None:
    """Attach to a session what is attached to another, unless it is: Spark's sessions do not inherit catalogs."""
    for name in attached_names(parent):
        catalog = catalog_of(parent, name)
        if catalog is not None:
            attach(session, name, catalog)


def catalog_of(spark: SparkSession, name: str) -> Catalog | None:
    """The warehouse that is attached under a name; None if there is none."""
    found = _catalogs_of(spark).get(name)
    return ATTACHED.get(str(found.get().toString())) if found.isDefined() else None


def detach(spark: SparkSession, name: str) -> None:
    """Forget an attached warehouse; its tables stay. Raises InvalidRequestError for a name that is not attached.

    >>> detach(spark, "lake")
    """
    catalogs = _catalogs_of(spark)
    found = catalogs.get(name)
    if not found.isDefined() or not is_ours(found.get()):
        attached = ", ".join(attached_names(spark)) or "none"
        raise InvalidRequestError(f"no warehouse is attached as {shown(name)}; attached are: {attached}")
    if str(spark._jsparkSession.sessionState().catalogManager().currentCatalog().name()) == name:
        spark.catalog.setCurrentCatalog("spark_catalog")
    catalogs.remove(name)
    if not attached_names(spark):
        unwrap_session(spark)


def attached_names(spark: SparkSession) -> list[str]:
    """The names under which warehouses are attached to a session, sorted."""
    return sorted(name for name, catalog in _items(_catalogs_of(spark)) if is_ours(catalog))


def is_ours(catalog: Any) -> bool:  # a Java CatalogPlugin
    """Whether a catalog of Spark is an attached warehouse."""
    return str(catalog.toString()).startswith(AttachedCatalog.PREFIX)


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


def _catalogs_of(spark: SparkSession) -> Any:  # a Scala map
    """The catalogs of a session: Spark fills the map from its conf, which wants a class of the JVM for each."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    try:
        field = manager.getClass().getDeclaredField(_CATALOGS)
    except Exception as error:
        raise UnsupportedError(
            f"Spark {spark.version} keeps its catalogs where lakelog does not look: {manager.getClass().getName()} has "
            f"no {_CATALOGS!r}. Use spark.read.format('lakelog') and lakelog.spark.write, or Spark 4.2 or 4.3"
        ) from error
    field.setAccessible(True)
    return field.get(manager)
