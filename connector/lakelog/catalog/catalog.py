"""A warehouse folder as a catalog."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.columns.session_defaults import with_defaults
from lakelog.catalog.logs.log_life import check_not_set_by_lakelog, with_servers
from lakelog.catalog.system.table_lineage import KEEPER
from lakelog.catalog.system.table_opener import TableOpener
from lakelog.catalog.verbs.table import Table
from lakelog.common.clock import system_millis
from lakelog.common.errors import (
    ConflictError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    OptionError,
    UnsupportedError,
)
from lakelog.common.html import html_table
from lakelog.common.quoting import listed
from lakelog.filestore.io import FolderStore, bounded_io, store_options
from lakelog.filestore.options import TABLE_PLACE, TABLE_UUID
from lakelog.filestore.schema import MAIN_BRANCH, SchemaManager, TablePaths, TableSchema, build_schema, line_name
from lakelog.logstore.client_settings import SERVERS
from lakelog.logstore.options import (
    CHANGE_TRACKING,
    LOG_SYSTEM,
    LOGSTORE_OPTIONS,
    PREFIXES,
    UNTRACKED_PARTITIONS,
    LogSystem,
    check_log_modes,
    client_config,
)
from lakelog.protocol.access import (
    CALL_PREFIX,
    call_settings,
    is_copy,
    record_place,
    record_rename,
    require_kafka_client,
    without_call_settings,
)
from lakelog.warehouse.identifier import Identifier, check_name
from lakelog.warehouse.lineage_options import lineage_options, switched_on, without_lineage_options
from lakelog.warehouse.system_names import SYSTEM_DATABASE, check_is_free, split_name
from lakelog.warehouse.warehouse import open_store

if TYPE_CHECKING:
    from lakelog.filestore.refs import SnapshotChoice
    from lakelog.filestore.system import SystemTable
    from lakelog.protocol.upkeep import Finding, HealthReport


class Catalog(TableOpener):
    """The tables of one warehouse folder, `<warehouse>/<database>.db/<table>`. It needs no Spark and no server.

    The warehouse is a local folder, or one in an S3-compatible store or in HDFS: `s3://bucket/folder`, `hdfs://...`.
    """

    def create_table(
        self,
        identifier: str,
        *,
        schema: object,
        primary_keys: str | Sequence[str] = (),
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table, and with `log.system`=`kafka` its topic, which has one partition per bucket.

        `schema` gives the columns: a pyarrow schema, DDL such as `id BIGINT NOT NULL, name STRING COMMENT 'of a buyer'`
        (see `lakelog.catalog.columns.ddl`), a polars schema, a Spark StructType, or a DataFrame of pandas, polars or
        Spark, of which only the columns are used. Comments of columns are kept. A key is one column's name, or a list
        of them. Raises InvalidRequestError when the table exists or a name, column, key or option is wrong;
        UnavailableError when Kafka does not answer. Then nothing was created. `if_not_exists` returns an existing table
        unchanged: other columns or options than those asked for are logged as a warning, other keys or partition
        columns are an error.

        >>> orders = catalog.create_table("db.flights", schema="id BIGINT NOT NULL, delay INT", primary_keys="id")
        """
        name = Identifier.parse(identifier)
        check_is_free(name.database)
        path = name.path(self.warehouse)
        if self._exists(path) and not if_not_exists:
            raise self._exists_already(name)
        table_schema = self._new_schema(schema, primary_keys, partition_keys, options or {}, comment)
        if self._exists(path):
            return self._existing(name, table_schema, options or {}, if_not_exists=if_not_exists)
        make_logged = LOG_SYSTEM.of(table_schema.options) is LogSystem.KAFKA
        if make_logged:
            from lakelog.protocol.state import check_loggable

            check_loggable(table_schema, table_name=str(name))
        create = self._create_with_log if make_logged else self._create_files
        placed = replace(table_schema, options={**table_schema.options, TABLE_PLACE.key: path})
        try:
            create(name, placed)
        except ConflictError:  # another process created it meanwhile
            return self._existing(name, table_schema, options or {}, if_not_exists=if_not_exists)
        return self.load_table(identifier)

    def system_table(
        self, name: str, *, after: int | None = None, up_to: int | None = None, **which: Unpack[SnapshotChoice]
    ) -> SystemTable:
        """A system table by its full name: `db.t$files`, `db.t$branch_b$files`, or a system table of the warehouse.

        Those of the warehouse are `sys.tables`, `sys.partitions`, `sys.all_table_options`, `sys.catalog_options`, and
        those of lineage, which are empty until `lakelog.lineage.feed` was called. For the others, and the arguments,
        see `Table.system.table`. Raises NotFoundError, InvalidRequestError.

        >>> files = catalog.system_table("db.orders$files").to_arrow()
        """
        parts = split_name(name)
        if parts.system is not None:
            found = self.load_table(line_name(parts.table, parts.branch))
            return found.system.table(parts.system, after=after, up_to=up_to, **which)
        from lakelog.catalog.system.system_tables import warehouse_table

        database, _, table = name.partition(".")
        if database != SYSTEM_DATABASE or after is not None or up_to is not None or which:
            raise InvalidRequestError(
                f"{name!r} is not a system table: expected a name such as db.t$files or sys.tables, which takes no "
                "other arguments"
            )
        return warehouse_table(self, table, {**self._options, **self.lineage_options})

    def list_tables(self, database: str | None = None) -> list[str]:
        """The names of the tables in a database, sorted; for `sys`, the names of the system tables.

        Raises NotFoundError, naming the databases, and InvalidRequestError without a database.

        >>> names = catalog.list_tables("db")
        """
        if database is None:
            there = listed(self.list_databases()) or "none yet"
            raise InvalidRequestError(f"list_tables needs a database; {self.warehouse} has: {there}")
        check_name(database, "database")
        if database == SYSTEM_DATABASE:
            from lakelog.catalog.system.system_tables import SYSTEM_TABLES

            return sorted(SYSTEM_TABLES)
        tables = self._tables_of(database)
        if not tables and not self.database_exists(database):
            raise self._no_database(database)
        return tables

    def drop_table(self, identifier: str, *, if_exists: bool = False, keep_topic: bool = False) -> None:
        """Delete a table with its files, its topic and the older topics of its log; it cannot be restored.

        With `keep_topic` the topics stay for their other readers, and Kafka is not asked. Raises NotFoundError, and
        UnavailableError when a topic cannot be deleted: then all files are still there. A drop that is interrupted in
        an object store leaves a table whose reads fail: drop it again. A second drop also finishes one that was cut off
        after the table had lost its name.

        >>> catalog.drop_table("db.orders", if_exists=True)
        """
        from lakelog.catalog.system.dropping import check_no_link, drop, finish_drop

        name = Identifier.parse(identifier)
        try:
            table = self.load_table(identifier)
        except NotFoundError:
            if finish_drop(self, name) or if_exists:
                return
            raise
        check_no_link(table, "deleted")
        drop(self, name, table, keep_topic=keep_topic)

    def rename_table(self, identifier: str, new_identifier: str) -> Table:
        """Give a table another name, in its database or in another one; returns the renamed table.

        Batches that wait for their snapshot get it, then the folder is renamed in one step. Writers that opened the
        table before get ConflictError, and write nothing at the old place. Open the table by its new name, also in
        streams: they continue with their checkpoints. The topic of a log keeps its name.
        Raises NotFoundError; InvalidRequestError when the new place is not empty; UnsupportedError in an object store,
        which cannot rename a folder.

        >>> sales = catalog.rename_table("db.orders", "db.sales")
        """
        from lakelog.catalog.logs.log_verbs import settle_newest
        from lakelog.catalog.system.dropping import check_no_link

        old, new = Identifier.parse(identifier), Identifier.parse(new_identifier)
        check_is_free(new.database)
        table = self.load_table(identifier)
        check_no_link(table, "renamed")
        store = self._file_io
        if not isinstance(store, FolderStore):
            raise UnsupportedError(
                f"table {old} is in an object store, {self.warehouse}, which renames objects one by one: a reader or "
                f"writer in between would see a part of the table; create {new}, write it the rows of {old}, and drop "
                f"{old}"
            )
        target = new.path(self.warehouse)
        if self._exists(target):
            raise InvalidRequestError(
                f"table {new} exists already in {self.warehouse}; drop it, or choose another name"
            )
        is_original = not is_copy(table.store)
        if is_original:
            settle_newest(table, {})
        store.make_dirs(target.rpartition("/")[0])
        if table.uuid and is_original:
            record_rename(store, table.path, target, table.uuid)
        if not store.rename_folder(table.path, target):
            raise InvalidRequestError(
                f"table {old} cannot be renamed to {new}: {target} exists, and is not empty; move it away, or choose "
                "another name"
            )
        if is_original:
            record_place(self.load_table(new_identifier).store)
        return self.load_table(new_identifier)

    def doctor(self, *, role: str = "writer", read_only: bool = False) -> HealthReport:
        """Check the Kafka of new tables: settings, broker, transactions, clock. `Table.upkeep.doctor` checks a table's.

        It starts nothing: without named servers, and while the embedded broker does not run, there is nothing to check.

        >>> for finding in catalog.doctor(read_only=True).findings:
        ...     print(finding)
        """
        from lakelog.protocol.upkeep import HealthReport

        return HealthReport(findings=tuple(self._examine(role, may_write=not read_only)))

    def _examine(self, role: str, *, may_write: bool) -> Iterator[Finding]:
        from lakelog.catalog.logs.log_verbs import examine_kafka

        given = {SERVERS: self._bootstrap_servers} if self._bootstrap_servers else {}
        return examine_kafka(self.warehouse, given | self._kafka, role, may_write=may_write)

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database without tables. `create_table` makes a missing one by itself.

        Raises InvalidRequestError for a database that exists, and for a name that cannot be the name of a folder.

        >>> catalog.create_database("staging", if_not_exists=True)
        """
        from lakelog.catalog.system.databases import create_database

        create_database(self, name, if_not_exists=if_not_exists)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Delete a database; `cascade` deletes its tables, their files and their topics too. It cannot be restored.

        Raises NotFoundError; InvalidRequestError without `cascade` for a database that holds tables, and for one that
        holds anything other than tables; UnavailableError when a topic cannot be deleted: then its table and the tables
        without a log are complete. After an error call it again: it continues.

        >>> catalog.drop_database("db", cascade=True)
        """
        from lakelog.catalog.system.databases import drop_database

        drop_database(self, name, cascade=cascade, if_exists=if_exists, drop_table=self.drop_table)

    def _new_schema(
        self,
        columns: object,
        primary_keys: str | Sequence[str],
        partition_keys: str | Sequence[str],
        options: Mapping[str, str],
        comment: str | None,
    ) -> TableSchema:
        from lakelog.catalog.columns.new_columns import columns_of
        from lakelog.filestore.verbs import check_new_table

        for key in (*store_options(options), *(key for key in options if key.startswith(CALL_PREFIX))):
            raise OptionError(f"option {key!r} is not stored with a table: give it as Catalog(warehouse, options=...)")
        check_not_set_by_lakelog(options)
        options = with_defaults(options, self._defaults)
        schema = build_schema(
            columns_of(columns),
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            time_millis=system_millis(),
            also=LOGSTORE_OPTIONS,
            also_prefixes=PREFIXES,
        )
        check_new_table(schema)
        given = dict(schema.options) | {TABLE_UUID.key: str(uuid.uuid4())}
        client_config(given)
        check_log_modes(given, has_primary_key=bool(schema.primary_keys))
        if UNTRACKED_PARTITIONS.of(given) or not CHANGE_TRACKING.of(given):
            from lakelog.protocol.state import check_change_tracking

            check_change_tracking(schema, table_name="that is made")
        if LOG_SYSTEM.of(given) is LogSystem.KAFKA:
            given = with_servers(given, self._bootstrap_servers)
        return replace(schema, options=given)

    def _create_with_log(self, name: Identifier, schema: TableSchema) -> None:
        require_kafka_client()
        from lakelog.protocol.access import new_topic  # needs the extra

        topic = name.topic(TABLE_UUID.of(schema.options))
        with new_topic(topic, schema, self.warehouse, kafka=self._kafka) as with_topic:
            self._create_files(name, with_topic)

    def _create_files(self, name: Identifier, schema: TableSchema) -> None:
        path = name.path(self.warehouse)
        SchemaManager(bounded_io(self._file_io, path, ()), TablePaths(path)).create(schema)

    def _existing(
        self, name: Identifier, asked: TableSchema, options: Mapping[str, str], *, if_not_exists: bool
    ) -> Table:
        if not if_not_exists:
            raise self._exists_already(name)
        from lakelog.catalog.columns.existing import check_existing

        table = self.load_table(str(name))
        check_existing(table.schema, asked, options, table_name=str(name))
        return table

    def _exists_already(self, name: Identifier) -> InvalidRequestError:
        return InvalidRequestError(
            f"table {name} exists already in {self.warehouse}; drop it, choose another name, or give if_not_exists"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            from lakelog.catalog.names.guesses import missing_member

            raise missing_member(self, name)

        def __getitem__(self, name: object) -> object:
            raise TypeError(f"a Catalog has no items; a table is opened by load_table({name!r})")

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"

    def _repr_html_(self) -> str:
        """The databases and their tables, as notebooks show them. Lists folders; an error is shown in the table."""
        try:
            rows = [(name, listed(self.list_tables(name))) for name in self.list_databases()]
        except LakelogError as error:
            rows = [("", str(error))]
        return html_table(f"catalog {self.warehouse}", ("database", "tables"), rows)


def open_table(
    path_or_identifier: str | Path,
    warehouse: str | Path | None = None,
    *,
    branch: str = MAIN_BRANCH,
    options: Mapping[str, str] | None = None,
) -> Table:
    """Open a table or a branch of it, by its folder or, with `warehouse`, by its identifier.

    A branch is named by `branch`, or behind the table: `t$branch_<name>`. `options` are those of `Catalog`. Raises
    NotFoundError, and OptionError like `Catalog.load_table`.
    """
    return _opened(path_or_identifier, warehouse, branch, options or {}, is_to_be_mended=False)


def open_to_mend(path_or_identifier: str | Path, warehouse: str | Path | None, *, branch: str = MAIN_BRANCH) -> Table:
    """Like `open_table`, but also opens a table with forbidden settings of Kafka clients, to alter it."""
    return _opened(path_or_identifier, warehouse, branch, {}, is_to_be_mended=True)


def _opened(
    place: str | Path, warehouse: str | Path | None, branch: str, options: Mapping[str, str], *, is_to_be_mended: bool
) -> Table:
    if warehouse is not None:
        found = Catalog(warehouse, options=options)._opened(str(place), is_to_be_mended=is_to_be_mended)
        if branch == MAIN_BRANCH or split_name(str(place)).branch is not None:
            return found
        place = found.path
    kafka = call_settings(options)  # raises before anything is opened
    store = open_store(place, branch=branch, options=without_lineage_options(without_call_settings(options)))
    store = store.in_catalog(KEEPER, lineage_options=switched_on(lineage_options(options)))
    return Table(store, kafka=kafka, is_to_be_mended=is_to_be_mended)
