"""One table: its files, and its log where it has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from lakelog.catalog.altering import alter_table
from lakelog.catalog.identifier import Identifier
from lakelog.filestore.alter.schema_changes import SchemaChange
from lakelog.filestore.io.path_forms import warehouse_of
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable, WriteMode
from lakelog.filestore.table_reading import Selection
from lakelog.protocol.new_identity import new_identity
from lakelog.protocol.table_log import TableLog, log_of

if TYPE_CHECKING:
    import duckdb
    import polars as pl


class Table:
    """A table of a warehouse. Reads show the newest snapshot, or the one that is asked for; they need no Kafka."""

    def __init__(
        self,
        file_store: FileStoreTable,
        *,
        identifier: Identifier | None = None,
        kafka: Mapping[str, str] | None = None,
        is_to_be_mended: bool = False,
    ) -> None:
        """Join the files of a table with the log that its options name.

        `kafka` are the user's own settings of Kafka clients. Raises OptionError for a table that holds settings which
        none may hold; with `is_to_be_mended` only where its log is asked for, so that they can be taken out.
        """
        self.file_store = file_store
        self.identifier = identifier or Identifier.of_path(file_store.path)
        self.kafka = dict(kafka or {})
        if not is_to_be_mended:
            self.log  # noqa: B018  # raises

    @cached_property
    def log(self) -> TableLog | None:
        """The table's log; None for a table without one."""
        return log_of(self.file_store.schema, self.warehouse, path=self.file_store.path, kafka=self.kafka)

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.file_store.path

    @property
    def name(self) -> str:
        """`database.table`, or the folder for a table outside of a warehouse."""
        return str(self.identifier or self.path)

    @property
    def warehouse(self) -> str:
        """The folder of the table's warehouse; the folder that holds the table where there is no warehouse."""
        return warehouse_of(self.path)

    @property
    def schema(self) -> TableSchema:
        """The newest schema."""
        return self.file_store.schema

    def snapshots(self) -> Iterator[Snapshot]:
        """The snapshots that are there, oldest first."""
        manager = self.file_store.snapshots
        return (manager.get(snapshot_id) for snapshot_id in manager.ids())

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as an Arrow table; without arguments all rows of the newest snapshot."""
        return self.file_store.to_arrow(**what)

    def to_batches(self, **what: Unpack[Selection]) -> Iterator[pa.RecordBatch]:
        """The rows piece by piece, for tables larger than memory."""
        return self.file_store.to_batches(**what)

    def changes(
        self, *, after: int | None = None, up_to: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The changes of the snapshots behind `after`, up to `up_to`, from the files alone; `_row_kind` comes first.

        With a changelog producer these are all changes with their old values, else the last change of each key. A
        change-log table without primary key tells each row as often as it was added or taken away.
        """
        return self.file_store.changes(after=after, up_to=up_to, columns=columns)

    def to_polars(self, **what: Unpack[Selection]) -> pl.LazyFrame:
        """The rows as a lazy polars frame: `collect()` reads what the query needs."""
        return self.file_store.to_polars(**what)

    def to_duckdb(self, **what: Unpack[Selection]) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, whose queries read them as a stream."""
        return self.file_store.to_duckdb(**what)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        return self.file_store.__arrow_c_stream__(requested_schema)

    def write(self, rows: pa.Table, *, mode: WriteMode = "append", kinds: pa.Array | None = None) -> Snapshot:
        """Write rows into a table without a log, in one snapshot; see `FileStoreTable.write`."""
        return self.file_store.write(rows, mode=mode, kinds=kinds)

    def alter(self, *changes: SchemaChange) -> Table:
        """Change columns, options or comments, all or none; gives the table with the newest schema then.

        See `filestore.alter.schema_changes` for what can be changed. A table with a log takes those changes under
        which its records are read right: columns are added, moved and dropped, comments and other options set. Streams
        that run go on with the schema that they started with. Raises InvalidRequestError and UnsupportedError.
        """
        schema = alter_table(self.file_store, self.warehouse, changes, kafka=self.kafka)
        return self._of(replace(self.file_store, schema=schema))

    def new_identity(self) -> Table:
        """Give the table a uuid and, where it has a log, a topic of its own; gives the table as it is then.

        For a copied folder, and for a table that has lost what it knew of its writers: see
        `lakelog.protocol.new_identity`. Raises UnavailableError when Kafka does not answer; nothing was done then.
        """
        identifier = self.identifier or Identifier("copy", self.path.rpartition("/")[2])
        return self._of(new_identity(self.file_store, topic_of=identifier.topic, kafka=self.kafka))

    def _of(self, files: FileStoreTable) -> Table:
        """This table with these files."""
        return Table(files, identifier=self.identifier, kafka=self.kafka)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, path={self.path!r})"
