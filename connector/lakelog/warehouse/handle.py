"""The handle of one table that all its verbs use: its files, and its log if it has one.

The command line reads the declarations of verbs from the classes that are built on it, and `lakelog --help` must not
wait for Arrow: what it uses is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.schema import TableSchema
    from lakelog.protocol.access import TableLog
    from lakelog.warehouse.identifier import Identifier


class TableHandle:
    """The files and the log of a table, with their names. `store` is the file store, for other parts of lakelog."""

    def __init__(
        self,
        files: FileStoreTable,
        *,
        identifier: Identifier | None = None,
        kafka: Mapping[str, str] | None = None,
        bootstrap_servers: str | None = None,
        is_to_be_mended: bool = False,
    ) -> None:
        """Join the files of a table with the log that its options name.

        `kafka` has the user's own settings of Kafka clients, `bootstrap_servers` the brokers for a log that is added.
        Raises OptionError for a table with settings that a table must not hold; with `is_to_be_mended` only when its
        log is used, so that the settings can be removed.
        """
        from lakelog.warehouse.identifier import Identifier

        self.store = files
        self.identifier = identifier or Identifier.of_path(files.path)
        self.kafka = dict(kafka or {})
        self._bootstrap_servers = bootstrap_servers
        if not is_to_be_mended:
            self.log  # noqa: B018  # raises

    @cached_property
    def log(self) -> TableLog | None:
        """The table's log; None for a table without a log, and for a branch whose schema names the table's log."""
        from lakelog.protocol.access import log_of

        if self.store.has_foreign_log:
            return None
        return log_of(self.store.schema, self.warehouse, path=self.store.path, kafka=self.kafka)

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.store.path

    @property
    def name(self) -> str:
        """`database.table`, or the folder for a table outside a warehouse; a branch has the suffix `$branch_<name>`."""
        from lakelog.filestore.schema import line_name

        return line_name(str(self.identifier or self.path), self.store.branch)

    @property
    def warehouse(self) -> str:
        """The folder of the table's warehouse; without a warehouse, the folder that holds the table."""
        from lakelog.filestore.io import warehouse_of

        return warehouse_of(self.path)

    @property
    def schema(self) -> TableSchema:
        """The schema that this table handle was opened with."""
        return self.store.schema

    @property
    def uuid(self) -> str:
        """The table's identity; a copied folder has the identity of its original until `new_identity` is called."""
        return self.store.uuid

    def branch(self, name: str) -> Self:
        """A branch as a table of its own, which is read and written like any table. Raises NotFoundError.

        What is written to the branch does not show in the table. A branch has its own columns, options, snapshots, tags
        and consumers, and shares data files with the table. `main` is the table itself.

        >>> table.branch("trial").write(rows)
        """
        return self._of(self.store.on_branch(name))

    def _of(self, files: FileStoreTable) -> Self:
        """This table with these files."""
        servers = self._bootstrap_servers
        return type(self)(files, identifier=self.identifier, kafka=self.kafka, bootstrap_servers=servers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, path={self.path!r})"

    def _repr_html_(self) -> str:
        """Name, folder and columns, as notebooks show them; no I/O."""
        return self.schema.columns_html(f"table {self.name} in {self.path}")
