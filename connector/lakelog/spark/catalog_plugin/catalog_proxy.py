"""A warehouse as a catalog of Spark.

Source: Spark, `org.apache.spark.sql.connector.catalog`: TableCatalog, SupportsNamespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any  # Any: py4j gives Java objects without types

from py4j.protocol import Py4JJavaError

from lakelog.catalog import Catalog
from lakelog.catalog.procedures.procedures import find_procedure
from lakelog.catalog.staging import NewTable, replaced_table, stage_table
from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.spark.catalog_plugin.altered_tables import altered
from lakelog.spark.catalog_plugin.changelog_proxy import AttachedChangelog
from lakelog.spark.catalog_plugin.created_tables import like, new_table
from lakelog.spark.catalog_plugin.java.java_errors import ANALYSIS, raised_in_java
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.loaded_table import STATE_KEYS, load_at, newest
from lakelog.spark.catalog_plugin.namespaces import DATABASES_DEEP, AttachedNamespaces
from lakelog.spark.catalog_plugin.partition_proxy import PartitionedTable
from lakelog.spark.catalog_plugin.procedure_proxy import DATABASE, UnboundProcedure, procedure_names
from lakelog.spark.catalog_plugin.system_proxy import SystemTableProxy
from lakelog.spark.catalog_plugin.table_proxy import AttachedTable, ReplacedTable, StagedAttachedTable
from lakelog.spark.options import TIMEZONE
from lakelog.spark.read_ways import check_attached
from lakelog.spark.session import ATTACHED, java_strings, session_zone
from lakelog.spark.source.reading.read_mark import CATALOG_PREFIX
from lakelog.streams.options.shown_state import NEWEST, ShownState
from lakelog.warehouse.system_names import names_system_table

# Options of `spark.read.changes` that Spark has put into the context of the changes.
_CHANGES_OPTIONS = frozenset(
    {
        "startingversion",
        "endingversion",
        "startingtimestamp",
        "endingtimestamp",
        "startingboundinclusive",
        "endingboundinclusive",
        "deduplicationmode",
        "computeupdates",
    }
)


class AttachedCatalog(AttachedNamespaces):
    """The databases and the tables of a warehouse."""

    interfaces = ("catalog.StagingTableCatalog", "catalog.SupportsNamespaces", "catalog.ProcedureCatalog")

    def __init__(self, jvm: Jvm, name: str, catalog: Catalog) -> None:
        super().__init__(jvm, self.text_of(name, catalog), name, catalog)
        ATTACHED[self.toString()] = catalog

    @classmethod
    def text_of(cls, name: str, catalog: Catalog) -> str:
        """The text of an attached warehouse, by which it is known."""
        return f"{CATALOG_PREFIX}{name} of {catalog.warehouse}"

    def initialize(self, name: str, options: Any) -> None:
        """Nothing: the catalog is ready when it is made."""

    def name(self) -> str:
        """The name of the catalog in SQL."""
        return self._name

    def defaultNamespace(self) -> Any:  # a Java String[]
        """No database is the current one after USE of the catalog."""
        return self.jvm.strings(())

    def capabilities(self) -> Any:  # a java.util.Set
        """What CREATE TABLE may hold."""
        return self.jvm.constants(
            "catalog.TableCatalogCapability", ("SUPPORT_TABLE_CONSTRAINT", "SUPPORT_COLUMN_DEFAULT_VALUE")
        )

    def tableStateOptionKeys(self) -> Any:  # a java.util.Set
        """The options for which Spark loads a table again."""
        return self._state_keys

    def changelogStateOptionKeys(self) -> Any:  # a java.util.Set
        """The options for which Spark loads changes again."""
        return self._state_keys

    @cached_property
    def _state_keys(self) -> Any:  # a java.util.Set
        return self.jvm.java_set(STATE_KEYS)

    def useNullableQuerySchema(self) -> bool:
        """Whether the columns of CREATE TABLE AS SELECT take null."""
        return True

    def listTables(self, namespace: Any) -> Any:  # Java: a String[]; an Identifier[]
        """The tables of a database."""
        database = self._database(namespace)
        identifier = self.jvm.connector("catalog.Identifier")
        return self.jvm.array(
            identifier, [identifier.of(namespace, name) for name in self._catalog.list_tables(database)]
        )

    def listTableSummaries(self, namespace: Any) -> Any:  # Java: a String[]; a TableSummary[]
        """The tables of a database, with their kind."""
        database = self._database(namespace)
        identifier, summary = self.jvm.connector("catalog.Identifier"), self.jvm.connector("catalog.TableSummary")
        made = [summary.of(identifier.of(namespace, name), "EXTERNAL") for name in self._catalog.list_tables(database)]
        return self.jvm.array(summary, made)

    def loadTable(self, identifier: Any, *how: Any) -> Proxy:  # Java: Identifier, and what a statement says
        """The table, at the state that the statement names or at its newest one."""
        named = NEWEST
        options: Mapping[str, str] = {}
        for one in how:
            if isinstance(one, str):
                named = ShownState(version=one)
            elif isinstance(one, int):
                named = ShownState(timestamp_millis=one // 1000)
            else:
                named, options = self._said(one, named, options)
        return self._table(identifier, named, options)

    def _said(self, said: Any, named: ShownState, options: Mapping[str, str]) -> tuple[ShownState, Mapping[str, str]]:
        """The state and the options, with what an argument of `loadTable` says."""
        kind = said.getClass().getSimpleName()
        if kind == "CaseInsensitiveStringMap":
            return named, java_strings(said.asCaseSensitiveMap())
        if kind == "TableContext" and said.timeTravel().isPresent():
            travel = said.timeTravel().get()
            if travel.getClass().getSimpleName() == "AsOfVersion":
                return ShownState(version=str(travel.version())), options
            return ShownState(timestamp_millis=int(travel.micros()) // 1000), options
        return named, options

    def _table(self, identifier: Any, named: ShownState, options: Mapping[str, str]) -> Proxy:
        name = self._full_name(identifier)
        if "/" in name:  # parquet.`/folder`, which Spark reads by itself where there is no such table
            raise self._no_table(identifier)
        zone = session_zone(self.jvm.session)
        try:
            if names_system_table(name, in_warehouse=True):
                check_attached(options, f"{self._name}.{name}")
                given = {TIMEZONE.key: zone, **self._catalog._options, **options, **named.options()}
                return SystemTableProxy(self.jvm, self._name, name, self._catalog.warehouse, given)
            loaded = load_at(self._catalog, name, named, options, zone=zone)
        except NotFoundError as error:
            raise self._not_found(identifier, name, error) from error
        kind = PartitionedTable if loaded.table.schema.partition_keys else AttachedTable
        return kind(self.jvm, f"{self._name}.{name}", loaded)

    def loadChangelog(self, identifier: Any, context: Any, options: Any) -> Proxy:  # Java: Identifier, ChangelogContext
        """The changes of a table in a range."""
        name = self._full_name(identifier)
        zone = session_zone(self.jvm.session)
        words = java_strings(options.asCaseSensitiveMap())
        given = {key: value for key, value in words.items() if key.lower() not in _CHANGES_OPTIONS}
        if not self._exists(name):
            raise self._no_table(identifier)
        loaded = load_at(self._catalog, name, NEWEST, given, zone=zone)
        return AttachedChangelog(self.jvm, f"{self._name}.{name}", loaded, context)

    def invalidateTable(self, identifier: Any) -> None:
        """Nothing: no table is held between statements."""

    def tableExists(self, identifier: Any) -> bool:  # a Java Identifier
        """Whether there is such a table."""
        return len(identifier.namespace()) == DATABASES_DEEP and self._exists(self._full_name(identifier))

    def createTable(self, identifier: Any, *columns: Any) -> Proxy:  # Java: Identifier, TableInfo or older forms
        """Create a table."""
        if len(columns) != 1:
            raise UnsupportedError(
                "this Spark creates tables in an older form than Spark 4.2: use Catalog.create_table"
            )
        return self._create(identifier, new_table(self.jvm, self._catalog, self._new_name(identifier), columns[0]))

    def _create(self, identifier: Any, made: NewTable) -> Proxy:  # a Java Identifier
        name = self._full_name(identifier)
        if self._exists(name):
            raise raised_in_java(self.jvm.java_class(f"{ANALYSIS}.TableAlreadyExistsException")(identifier))
        self._catalog.create_table(name, **made)
        return self.loadTable(identifier)

    def stageCreate(self, identifier: Any, *columns: Any) -> Proxy:  # Java: Identifier, TableInfo or older forms
        """Create a table that appears with its rows."""
        name = self._new_name(identifier)
        made = new_table(self.jvm, self._catalog, name, columns[-1], has_defaults=False)
        staged = stage_table(self._catalog, name, **made)
        return StagedAttachedTable(self.jvm, f"{self._name}.{name}", newest(staged.table), staged)

    def stageReplace(self, identifier: Any, *columns: Any) -> Proxy:
        """Give a table other rows, in one commit, which keeps its history; refused for other columns or keys."""
        name = self._new_name(identifier)
        if not self._exists(name):
            raise self._no_table(identifier)
        made = new_table(self.jvm, self._catalog, name, columns[-1], has_defaults=False)
        table = replaced_table(self._catalog, name, **made)
        return ReplacedTable(self.jvm, f"{self._name}.{name}", newest(table))

    def stageCreateOrReplace(self, identifier: Any, *columns: Any) -> Proxy:
        """Create a table that does not exist, or give one that does other rows."""
        if self._exists(self._full_name(identifier)):
            return self.stageReplace(identifier, *columns)
        return self.stageCreate(identifier, *columns)

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Proxy:  # a Java Table
        """Create a table with the columns of another, its comment, and its options if it is one of ours."""
        made = new_table(self.jvm, self._catalog, self._new_name(identifier), info)
        return self._create(identifier, like(source, made))

    def alterTable(self, identifier: Any, changes: Any) -> Proxy:  # Java: Identifier, TableChange[]
        """Change columns and options, all or none."""
        name = self._full_name(identifier)
        table, wanted = self._loaded(identifier, name), list(altered(changes))
        if wanted:  # none for DROP COLUMN IF EXISTS of a column that does not exist
            table.alter(*wanted)
        return self.loadTable(identifier)

    def dropTable(self, identifier: Any) -> bool:  # a Java Identifier
        """Delete a table with its files and its topic; whether there was one."""
        name = self._full_name(identifier)
        if not self._exists(name):
            return False
        self._catalog.drop_table(name)
        return True

    def purgeTable(self, identifier: Any) -> bool:  # a Java Identifier
        """Like DROP TABLE, which keeps nothing either."""
        return self.dropTable(identifier)

    def renameTable(self, old: Any, new: Any) -> None:  # Java Identifiers
        """Give a table another name."""
        name, parts = self._full_name(old), [*new.namespace(), new.name()]
        self._loaded(old, name)
        target = ".".join(parts[1:] if len(parts) > DATABASES_DEEP + 1 and parts[0] == self._name else parts)
        if self._exists(target):
            raise raised_in_java(self.jvm.java_class(f"{ANALYSIS}.TableAlreadyExistsException")(new))
        self._catalog.rename_table(name, target)

    def loadProcedure(self, identifier: Any) -> Proxy:  # a Java Identifier
        """A procedure of the database `sys`."""
        if list(identifier.namespace()) != [DATABASE]:
            raise NotFoundError(
                f"procedures are in the database {DATABASE}: CALL {self._name}.{DATABASE}.{identifier.name()}(...)"
            )
        return UnboundProcedure(self.jvm, self._name, self._catalog, find_procedure(str(identifier.name())))

    def listProcedures(self, namespace: Any) -> Any:  # Java: a String[]; an Identifier[]
        """The procedures, which are in the database `sys`."""
        identifier = self.jvm.connector("catalog.Identifier")
        names = procedure_names() if list(namespace) in ([DATABASE], []) else []
        return self.jvm.array(identifier, [identifier.of(self.jvm.strings([DATABASE]), name) for name in names])

    def _loaded(self, identifier: Any, name: str) -> Any:  # a Java Identifier; a Table
        try:
            return self._catalog.load_table(name)
        except NotFoundError as error:
            raise self._not_found(identifier, name, error) from error

    def _exists(self, name: str) -> bool:
        try:
            if not names_system_table(name, in_warehouse=True):
                return self._catalog.table_exists(name)
            self._catalog.system_table(name)
        except NotFoundError:
            return False
        return True

    def _not_found(self, identifier: Any, name: str, error: NotFoundError) -> Exception:  # a Java Identifier
        """The error itself where the name is there: what is missing is a tag, a branch or a snapshot of an option."""
        return error if self._exists(name) else self._no_table(identifier)

    def _no_table(self, identifier: Any) -> Py4JJavaError:  # a Java Identifier
        return raised_in_java(self.jvm.java_class(f"{ANALYSIS}.NoSuchTableException")(identifier))

    def _new_name(self, identifier: Any) -> str:  # a Java Identifier
        """`database.table` of a new table. Raises NoSuchNamespaceException for a name that is not one."""
        if len(identifier.namespace()) != DATABASES_DEEP:
            raise raised_in_java(self.jvm.java_class(f"{ANALYSIS}.NoSuchNamespaceException")(identifier.namespace()))
        return self._full_name(identifier)

    def _full_name(self, identifier: Any) -> str:  # a Java Identifier
        """`database.table`. Raises NoSuchTableException for a name without a database, or with more parts."""
        namespace = list(identifier.namespace())
        if len(namespace) != DATABASES_DEEP:
            raise self._no_table(identifier)
        return f"{namespace[0]}.{identifier.name()}"
