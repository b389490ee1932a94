"""The tables of one warehouse folder, found and opened as file stores, without their logs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

from lakelog.common.errors import CorruptDataError, LakelogError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import DATABASE_SUFFIX, Location, is_local, is_object_store
from lakelog.filestore.schema import MAIN_BRANCH, SchemaManager, TablePaths
from lakelog.warehouse.identifier import Identifier, check_name
from lakelog.warehouse.lineage_options import lineage_options, without_lineage_options
from lakelog.warehouse.system_names import STORED_DATABASE, SYSTEM_DATABASE, check_is_table, split_name

DATABASE_MARK = ".lakelog-database"  # the file that marks a created database, which may hold no table
_NAMES_SHOWN = 5
OnError = Callable[[str, str, LakelogError], None]


class Warehouse:
    """The databases and tables of a warehouse folder, `<warehouse>/<database>.db/<table>`, with access to them.

    `lakelog.catalog.Catalog` is a warehouse that opens tables with their logs, and creates and changes them.
    """

    def __init__(self, warehouse: str | Path, *, options: Mapping[str, str] | None = None) -> None:
        """The warehouse in a folder; does no I/O.

        `options` are settings of the access to an object store or HDFS (`s3.*`, `hadoop.*`), and `table-lineage` and
        `data-lineage`; they are never shown or stored.
        """
        self.lineage_options = lineage_options(options or {})
        self._options = without_lineage_options(options or {})
        location = Location.of(warehouse, self._options)
        self.warehouse = location.path
        self._file_io = location.file_io

    def store(self, identifier: str) -> FileStoreTable:
        """The files of a table, or with `database.table$branch_<name>` those of a branch.

        Raises NotFoundError, naming the tables of its database.
        """
        parts = split_name(identifier)
        check_is_table(identifier, parts)
        if parts.branch is not None:
            return self.store(parts.table).on_branch(parts.branch)
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
        return FileStoreTable.open(path, self._file_io, options=self._options)

    def table_exists(self, identifier: str) -> bool:
        """Whether there is a table, or with `database.table$branch_<name>` a branch of a table.

        Raises InvalidRequestError for a string that cannot be the name of a table.

        >>> is_there = catalog.table_exists("db.orders")
        """
        try:
            self.store(identifier)
        except NotFoundError:
            return False
        return True

    def stores(self, *, on_error: OnError | None = None) -> Iterator[tuple[str, str, FileStoreTable]]:
        """The files of all tables with their databases and names, without the system tables.

        A table that cannot be opened raises, or is passed to `on_error` with its name, its folder and the error; the
        same holds for folders with snapshots but without a schema.
        """
        listed_names: set[str] = set()
        for database in self.list_databases():
            if database == SYSTEM_DATABASE:
                continue
            for name in self._tables_of(database):  # none, if it was dropped since
                listed_names.add(f"{database}.{name}")
                try:
                    store = self.store(f"{database}.{name}")
                except NotFoundError:  # dropped since the folder was listed
                    continue
                except LakelogError as error:
                    if on_error is None:
                        raise
                    on_error(f"{database}.{name}", Identifier(database, name).path(self.warehouse), error)
                    continue
                yield database, name, store
        if on_error is None:
            return
        for name, path in self._without_schema(listed_names):
            reason = f"{path} holds snapshots and no schema file (schema/schema-N): restore that, or delete the folder"
            on_error(name, path, CorruptDataError(reason))

    def _without_schema(self, tables: Container[str]) -> Iterator[tuple[str, str]]:
        """The folders with snapshots but without a schema: the names that their tables would have, and the folders."""
        files, root = self._file_io, self.warehouse.rstrip("/")
        for folder in files.list_names(root):
            if not folder.endswith(DATABASE_SUFFIX) or folder.removesuffix(DATABASE_SUFFIX) == STORED_DATABASE:
                continue
            for name in files.list_names(f"{root}/{folder}"):
                full_name = f"{folder.removesuffix(DATABASE_SUFFIX)}.{name}"
                paths = TablePaths(f"{root}/{folder}/{name}")
                if full_name in tables or name.startswith("."):  # hidden folders are left by drops
                    continue
                if not SchemaManager(files, paths).list_ids() and files.list_names(paths.snapshot_dir):
                    yield full_name, paths.root

    def list_databases(self) -> list[str]:
        """The databases, sorted, see `database_exists`, and `sys` once lineage was fed.

        Raises NotFoundError for a folder that is not a warehouse.

        >>> names = catalog.list_databases()
        """
        folders = self._file_io.list_names(self.warehouse)
        self._check_warehouse(folders)
        names = [name.removesuffix(DATABASE_SUFFIX) for name in folders if name.endswith(DATABASE_SUFFIX)]
        return sorted(
            SYSTEM_DATABASE if name == STORED_DATABASE else name for name in names if self._has_database(name)
        )

    def database_exists(self, name: str) -> bool:
        """Whether a database exists: its folder does; in an object store, it holds a table or was created.

        Raises InvalidRequestError for a string that cannot be the name of a database.

        >>> is_there = catalog.database_exists("db")
        """
        check_name(name, "database")
        return self._has_database(STORED_DATABASE if name == SYSTEM_DATABASE else name)

    def _has_database(self, name: str) -> bool:
        folder = self._database_folder(name)
        names = self._file_io.list_names(folder)
        if not is_object_store(folder) and (names or self._file_io.exists(folder)):
            return True  # other engines make a folder and nothing in it
        return DATABASE_MARK in names or any(self._tables_among(folder, names))

    def _database_folder(self, name: str) -> str:
        return f"{self.warehouse.rstrip('/')}/{name}{DATABASE_SUFFIX}"

    def _no_database(self, name: str) -> NotFoundError:
        """The error for a database that does not exist; it names the existing ones."""
        there = listed(self.list_databases()) or "none"
        return NotFoundError(f"database {name!r} does not exist in {self.warehouse}; there are: {there}")

    def _check_warehouse(self, names: Sequence[str]) -> None:
        """Raise NotFoundError unless a folder with these names in it is a warehouse or may become one.

        An object store has no empty folders, so an empty warehouse and a wrong path cannot be distinguished there.
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
        folder = self._database_folder(database)
        return sorted(self._tables_among(folder, self._file_io.list_names(folder)))

    def _tables_among(self, folder: str, names: Sequence[str]) -> Iterator[str]:
        return (name for name in names if not name.startswith(".") and self._exists(f"{folder}/{name}"))

    def _exists(self, path: str) -> bool:
        return bool(SchemaManager(self._file_io, TablePaths(path)).list_ids())


def open_store(
    path: str | Path, *, branch: str = MAIN_BRANCH, options: Mapping[str, str] | None = None
) -> FileStoreTable:
    """The files of the table in a folder, or of a branch, which the name may include: `t$branch_<name>`.

    `options` are settings of the access to an object store or HDFS. Raises NotFoundError.
    """
    parts = split_name(str(path))
    check_is_table(str(path), parts)
    return FileStoreTable.open(parts.table, branch=parts.branch or branch, options=options)
