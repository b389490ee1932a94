"""Databases of a warehouse: folders of tables; a database may be empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.io import FileEntry, is_local, is_object_store
from lakelog.warehouse.identifier import check_name
from lakelog.warehouse.system_names import check_is_free
from lakelog.warehouse.warehouse import DATABASE_MARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.catalog.system.table_opener import TableOpener
    from lakelog.warehouse.warehouse import Warehouse


def create_database(catalog: Warehouse, name: str, *, if_not_exists: bool) -> None:
    """Create a database: a file marks its folder, since an object store has no empty folders. See `Catalog`."""
    check_is_free(check_name(name, "database"))
    if catalog.database_exists(name):
        if if_not_exists:
            return
        raise InvalidRequestError(
            f"database {name!r} exists already in {catalog.warehouse}; give if_not_exists to keep it as it is"
        )
    catalog._file_io.create_new(f"{catalog._database_folder(name)}/{DATABASE_MARK}", b"{}")


def drop_database(
    catalog: TableOpener, name: str, *, cascade: bool, if_exists: bool, drop_table: Callable[[str], None]
) -> None:
    """Delete a database; `drop_table` deletes one of its tables. See `Catalog`."""
    folder, files = catalog._database_folder(check_name(name, "database")), catalog._file_io
    entries = files.list_entries(folder)
    if not entries and (is_object_store(folder) or not files.exists(folder)):
        if if_exists:
            return
        raise catalog._no_database(name)
    if is_local(folder) and Path(folder).is_symlink():
        raise InvalidRequestError(
            f"{folder} is a link to {Path(folder).resolve()}; lakelog does not delete through links: remove only the "
            "link with rm"
        )
    tables = catalog._tables_of(name)
    others = [entry for entry in entries if entry.name not in tables]
    unknown = [one.name for one in others if not _is_ours(catalog, f"{folder}/{one.name}", one)]
    if unknown:
        raise InvalidRequestError(
            f"database {name!r} holds {listed(unknown)} in {folder}, which are not tables; move or delete them"
        )
    if tables and not cascade:
        raise InvalidRequestError(
            f"database {name!r} holds the tables {listed(tables)}; drop them first, or give cascade, which deletes "
            "them too"
        )
    from lakelog.catalog.system.dropping import check_no_link

    opened = [catalog.load_table(f"{name}.{table}") for table in tables]
    for table in opened:
        check_no_link(table, "deleted")
    for table in sorted(opened, key=lambda one: one.log is None):  # tables whose Kafka may not answer come first
        drop_table(str(table.identifier))
    for entry in others:
        remove = files.delete_tree if entry.is_folder else files.delete
        remove(f"{folder}/{entry.name}")
    if not is_object_store(folder) and not files.delete_empty_dir(folder):
        raise ConflictError(
            f"database {name!r} got new files in {folder} while it was dropped; drop it again, or keep it"
        )


def _is_ours(catalog: Warehouse, path: str, entry: FileEntry) -> bool:
    """Whether an entry of a database is its mark file, an empty folder, or a remainder of a drop that was cut off."""
    from lakelog.catalog.system.dropping import is_left_of_drop

    if not entry.is_folder:
        return entry.name == DATABASE_MARK
    return is_left_of_drop(entry.name) or not catalog._file_io.list_names(path)
