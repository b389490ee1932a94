"""The databases of a warehouse for Spark.

Source: Spark, `org.apache.spark.sql.connector.catalog.SupportsNamespaces`.
"""

from __future__ import annotations

from typing import Any  # Any: py4j gives Java objects without types

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.spark.catalog_plugin.java.java_errors import ANALYSIS, raised_in_java
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.java.proxy import WithoutMetrics
from lakelog.spark.catalog_plugin.procedure_proxy import DATABASE
from lakelog.spark.session import java_strings

DATABASES_DEEP = 1


class AttachedNamespaces(WithoutMetrics):
    """The databases of a warehouse; a database holds no other."""

    def __init__(self, jvm: Jvm, text: str, name: str, catalog: Catalog) -> None:
        super().__init__(jvm, text)
        self._name = name
        self._catalog = catalog

    def listNamespaces(self, *parent: Any) -> Any:  # Java: a String[]; a String[][]
        """The databases; a database holds no other."""
        inside = list(parent[0]) if parent else []
        if inside:
            self._database(parent[0])
        names = [] if inside else self._catalog.list_databases()
        made = self.jvm.gateway.new_array(self.jvm.java_class("java.lang.String"), len(names), 1)
        for at, name in enumerate(names):
            made[at][0] = name
        return made

    def namespaceExists(self, namespace: Any) -> bool:  # a Java String[]
        """Whether there is such a database."""
        return len(namespace) == DATABASES_DEEP and self._catalog.database_exists(namespace[0])

    def loadNamespaceMetadata(self, namespace: Any) -> Any:  # Java: a String[]; a java.util.Map
        """The folder of a database."""
        database = self._database(namespace)
        return self.jvm.string_map({"location": f"{self._catalog.warehouse}/{database}.db"})

    def createNamespace(self, namespace: Any, metadata: Any) -> None:  # Java: a String[], a java.util.Map
        """Create a database. Raises for a location and for properties: a database has none."""
        self._check_depth(namespace)
        if self._catalog.database_exists(namespace[0]):
            raise raised_in_java(self.jvm.java_class(f"{ANALYSIS}.NamespaceAlreadyExistsException")(namespace))
        given = sorted(set(java_strings(metadata)) - {"owner"})
        if given:
            raise UnsupportedError(
                f"a database has no {', '.join(given)}: it is a folder of the warehouse; leave it out"
            )
        self._catalog.create_database(namespace[0])

    def alterNamespace(self, namespace: Any, changes: Any) -> None:  # Java NamespaceChanges
        """Refused: a database has no properties."""
        raise UnsupportedError(f"database {namespace[0]} has no properties: it is a folder of the warehouse")

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:  # a Java String[]
        """Delete a database, with `cascade` its tables too; whether there was one."""
        if not self.namespaceExists(namespace):
            return False
        if not cascade and self._catalog.list_tables(namespace[0]):
            raise raised_in_java(self.jvm.java_class(f"{ANALYSIS}.NonEmptyNamespaceException")(namespace))
        self._catalog.drop_database(namespace[0], cascade=cascade)
        return True

    def _database(self, namespace: Any) -> str:  # a Java String[]
        """The database of a name. Raises NoSuchNamespaceException."""
        if len(namespace) != DATABASES_DEEP or not (
            self._catalog.database_exists(namespace[0]) or namespace[0] == DATABASE
        ):
            raise raised_in_java(self.jvm.java_class(f"{ANALYSIS}.NoSuchNamespaceException")(namespace))
        return str(namespace[0])

    def _check_depth(self, namespace: Any) -> None:  # a Java String[]
        if len(namespace) != DATABASES_DEEP:
            raise InvalidRequestError(
                f"{'.'.join([self._name, *namespace])} is not a database: expected {self._name}.database"
            )
