"""The tables of one warehouse folder: found and opened. `lakelog.catalog.Catalog` makes and changes them too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.catalog.columns.session_defaults import call_defaults, without_call_defaults
from lakelog.catalog.names.identifier import Identifier
from lakelog.catalog.names.system_names import STORED_DATABASE, SYSTEM_DATABASE, check_is_table, split_name
from lakelog.catalog.system.lineage_options import lineage_options, switched_on, without_lineage_options
from lakelog.catalog.verbs.table import Table
from lakelog.common.clock import system_millis
from lakelog.common.errors import (
    NotFoundError,
)
from lakelog.common.quoting import listed
from lakelog.filestore.io.location import Location
from lakelog.filestore.io.path_forms import DATABASE_SUFFIX, is_local, is_object_store
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.client_settings import SERVERS
from lakelog.protocol.access.kafka_profiles import call_settings, without_call_settings

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.listeners import ListenersOf

_NAMES_SHOWN = 5


class Warehouse:
    """The databases and tables of a warehouse folder, `<warehouse>/<database>.db/<table>`, with the access to them."""

    def __init__(
        self,
        warehouse: str | Path,
        bootstrap_servers: str | None = None,
        *,
        options: Mapping[str, str] | None = None,
        listeners_of: ListenersOf | None = None,
        now_millis: Callable[[], int] = system_millis,
    ) -> None:
        """A catalog of the warehouse; does no I/O.

        `bootstrap_servers` are the Kafka brokers for the logs of new tables; by default those in the environment
        variable LAKELOG_KAFKA_BOOTSTRAP_SERVERS, else the embedded broker of this folder, when it is local.
        `options` are settings of the access to an object store or HDFS (`s3.*`, `hadoop.*`) and to Kafka (`kafka.*`,
        settings of its clients, or `kafka.profile`), and folders outside of tables that may be read
        (`lakelog.external-paths`); they are never shown or stored. `table-storage.<option>` are the options of new
        tables that do not name them (FLIP-188). `table-lineage` and `data-lineage` switch the tables of lineage.
        `listeners_of` gives for the name of a table, `db.t` or `db.t$branch_b`, what each commit is told to that
        handles of this catalog make in this process (None: nothing), see `CommitListener`.
        """
        self._kafka = call_settings(options or {})
        self._defaults = call_defaults(options or {})
        self.lineage_options = lineage_options(options or {})
        self._options = without_lineage_options(without_call_defaults(without_call_settings(options or {})))
        location = Location.of(warehouse, self._options)
        self.warehouse = location.path
        self._file_io = location.file_io
        if bootstrap_servers and self._kafka:
            self._kafka.setdefault(SERVERS, bootstrap_servers)
        self._bootstrap_servers = bootstrap_servers or self._kafka.get(SERVERS)
        self._listeners_of = listeners_of
        self._now_millis = now_millis

    def table(self, identifier: str, *, is_to_be_mended: bool = False) -> Table:
        """Open a table, or with `database.table$branch_<name>` a branch of it.

        Raises NotFoundError, naming the tables of its database. Raises OptionError for a table with settings of Kafka
        clients that no table may hold, unless it `is_to_be_mended` by an alter that removes them.
        """
        parts = split_name(identifier)
        check_is_table(identifier, parts)
        if parts.branch is not None:
            return self.table(parts.table, is_to_be_mended=is_to_be_mended).branch(parts.branch)
        name = Identifier.parse(identifier)
        path = name.path(self.warehouse)
        if not self._exists(path):
            near = self._tables_of(name.database)
            if not near:
                self._check_warehouse(self._file_io.list_names(self.warehouse))
            there = (
                f"database {name.database!r} has {listed(near)}" if near else f"there is no database {name.database!r}"
            )
            raise NotFoundError(f"table {identifier} does not exist in {self.warehouse}; {there}")
        store = FileStoreTable.open(path, self._file_io, options=self._options)
        switches = switched_on(self.lineage_options)
        if self._listeners_of is not None or switches:
            store = replace(store, listeners_of=self._listeners_of, lineage_options=switches)
        return Table(
            store,
            identifier=name,
            kafka=self._kafka,
            bootstrap_servers=self._bootstrap_servers,
            is_to_be_mended=is_to_be_mended,
        )

    def list_databases(self) -> list[str]:
        """The databases that hold a table, in order, and `sys` once lineage was fed, whose tables it shows.

        Raises NotFoundError for a folder that is not a warehouse.
        """
        folders = self._file_io.list_names(self.warehouse)
        self._check_warehouse(folders)
        names = [name.removesuffix(DATABASE_SUFFIX) for name in folders if name.endswith(DATABASE_SUFFIX)]
        return sorted(SYSTEM_DATABASE if name == STORED_DATABASE else name for name in names if self._tables_of(name))

    def _check_warehouse(self, names: Sequence[str]) -> None:
        """Raise NotFoundError unless a folder with these names in it is a warehouse, or may become one.

        An object store has no empty folders: an empty warehouse and a wrong path cannot be distinguished there.
        """
        shown = sorted(name for name in names if not name.startswith("."))
        if any(name.endswith(DATABASE_SUFFIX) for name in shown):
            return
        if shown:
            some = listed(shown, names_max=_NAMES_SHOWN)
            raise NotFoundError(
                f"{self.warehouse} is not a warehouse: it holds {some} and no database, a folder such as "
                f"db{DATABASE_SUFFIX}; name the folder that holds the databases"
            )
        if not is_object_store(self.warehouse) and not self._is_folder():
            raise NotFoundError(
                f"the warehouse {self.warehouse} does not exist; check its path, or create a table, which makes it"
            )

    def _is_folder(self) -> bool:
        return Path(self.warehouse).is_dir() if is_local(self.warehouse) else self._file_io.exists(self.warehouse)

    def _tables_of(self, database: str) -> list[str]:
        folder = f"{self.warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"
        names = (name for name in self._file_io.list_names(folder) if not name.startswith("."))
        return sorted(name for name in names if self._exists(f"{folder}/{name}"))

    def _exists(self, path: str) -> bool:
        return bool(SchemaManager(self._file_io, TablePaths(path)).list_ids())
