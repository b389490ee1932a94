"""The tables of a warehouse folder, opened with their logs. `lakelog.catalog.Catalog` also creates and changes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.catalog.columns.session_defaults import call_defaults, without_call_defaults
from lakelog.catalog.system.table_lineage import KEEPER
from lakelog.catalog.verbs.table import Table
from lakelog.logstore.client_settings import SERVERS
from lakelog.protocol.access import call_settings, without_call_settings
from lakelog.warehouse.identifier import Identifier
from lakelog.warehouse.lineage_options import switched_on
from lakelog.warehouse.system_names import split_name
from lakelog.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import ListenersOf


class TableOpener(Warehouse):
    """A warehouse whose tables are opened with their logs and with the lineage keeper of the catalog."""

    def __init__(
        self,
        warehouse: str | Path,
        bootstrap_servers: str | None = None,
        *,
        options: Mapping[str, str] | None = None,
        listeners_of: ListenersOf | None = None,
    ) -> None:
        """A catalog of the warehouse; does no I/O.

        `bootstrap_servers` names the Kafka brokers for the logs of new tables; by default those in the environment
        variable LAKELOG_KAFKA_BOOTSTRAP_SERVERS, else the embedded broker of this folder if it is local.
        `options` are settings of the access to an object store or HDFS (`s3.*`, `hadoop.*`) and to Kafka (`kafka.*`,
        settings of its clients, or `kafka.profile`), and folders outside of tables that may be read
        (`lakelog.external-paths`); they are never shown or stored. `table-storage.<option>` gives the default of an
        option for new tables (FLIP-188). `table-lineage` and `data-lineage` switch the tables of lineage.
        `listeners_of` gives the listeners of a table by its name, `db.t` or `db.t$branch_b`: they are called after each
        commit that a handle of this catalog makes in this process. None means no listeners; see `CommitListener`.
        """
        self._kafka = call_settings(options or {})
        self._defaults = call_defaults(options or {})
        super().__init__(warehouse, options=without_call_defaults(without_call_settings(options or {})))
        if bootstrap_servers and self._kafka:
            self._kafka.setdefault(SERVERS, bootstrap_servers)
        self._bootstrap_servers = bootstrap_servers or self._kafka.get(SERVERS)
        self._listeners_of = listeners_of

    def load_table(self, identifier: str) -> Table:
        """Open a table, or with `database.table$branch_<name>` a branch of it.

        Raises NotFoundError, naming the tables of its database; OptionError for a table with settings of Kafka clients
        that a table must not hold, with the command that removes them.

        >>> trial = catalog.load_table("db.orders$branch_trial")
        """
        return self._opened(identifier)

    def _opened(self, identifier: str, *, is_to_be_mended: bool = False) -> Table:
        """Like `load_table`, also for a table from which such settings are to be removed."""
        store = self.store(identifier)
        name = Identifier.parse(split_name(identifier).table)
        return self._with_log(store, name, is_to_be_mended=is_to_be_mended)

    def _with_log(self, store: FileStoreTable, name: Identifier, *, is_to_be_mended: bool) -> Table:
        """The table of an opened file store, with its log, its listeners and its lineage."""
        switches = switched_on(self.lineage_options)
        return Table(
            store.in_catalog(KEEPER, listeners_of=self._listeners_of, lineage_options=switches),
            identifier=name,
            kafka=self._kafka,
            bootstrap_servers=self._bootstrap_servers,
            is_to_be_mended=is_to_be_mended,
        )
