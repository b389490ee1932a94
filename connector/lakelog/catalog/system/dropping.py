"""The drop of a table in steps: delete its topics, record the drop beside its lineage, delete files and lineage.

A drop that is cut off before the files are deleted leaves a table that can be dropped again. A local folder loses its
name in one step; the next drop of that name deletes what is left of the folder and the lineage. The next feed, too,
deletes what is left of the lineage.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.catalog.refs.branching import drop_topics, logs_of_branches
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.filestore.io import is_local
from lakelog.filestore.schema import TablePaths
from lakelog.protocol.access import forget_renames, is_copy, require_kafka_client
from lakelog.warehouse.identifier import Identifier

if TYPE_CHECKING:
    from lakelog.catalog.verbs.table import Table
    from lakelog.warehouse.system_database import SystemDatabase
    from lakelog.warehouse.warehouse import Warehouse

logger = logging.getLogger("lakelog.catalog")

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def is_left_of_drop(folder: str, name: str = r".+") -> bool:
    """Whether a folder of a database is a remainder of a dropped table. `name` is a pattern for the table's name.

    See LocalFileIO.delete_tree.
    """
    return re.fullmatch(rf"\.{name}-{_UUID}", folder) is not None


def drop(catalog: Warehouse, name: Identifier, table: Table, *, keep_topic: bool) -> None:
    """Delete a table. See `Catalog.drop_table`."""
    from lakelog.warehouse.system_database import SystemDatabase

    store = table.store
    is_original = not is_copy(store)
    of_branches = [] if keep_topic else logs_of_branches(table)
    if table.log is not None and is_original and not keep_topic:  # otherwise the topic belongs to the original
        require_kafka_client()
        from lakelog.protocol.life import older_logs  # needs the extra

        drop_topics([*older_logs(store, table.kafka), table.log])
    drop_topics(of_branches)
    system = SystemDatabase.of(catalog)
    has_lineage = system.note_drop(table.uuid, name.database, name.table)
    paths = TablePaths(table.path)
    # Snapshots are deleted after the files that they name, so that a half-deleted table never looks like an empty one.
    last = [folder.removeprefix(f"{table.path}/") for folder in (paths.snapshot_dir, paths.schema_dir)]
    catalog._file_io.delete_tree(table.path, last=last)
    if is_original and table.uuid:
        forget_renames(catalog._file_io, table.path, table.uuid)
    _delete_left(catalog, name)
    if has_lineage:
        _forget_dropped(catalog, system)


def finish_drop(catalog: Warehouse, name: Identifier) -> bool:
    """Delete what the drop of a missing table has left; returns whether there was anything."""
    from lakelog.warehouse.system_database import SystemDatabase

    has_left = _delete_left(catalog, name)
    system = SystemDatabase.of(catalog)
    if (name.database, name.table) not in system.unfinished_drops():
        return has_left
    return (name.database, name.table) in _forget_dropped(catalog, system) or has_left


def _delete_left(catalog: Warehouse, name: Identifier) -> bool:
    """Delete the folders that drops of a table of this name have left; returns whether there were any."""
    folder = name.path(catalog.warehouse).rpartition("/")[0]
    left = [one for one in catalog._file_io.list_names(folder) if is_left_of_drop(one, re.escape(name.table))]
    for one in left:
        catalog._file_io.delete_tree(f"{folder}/{one}")
    return bool(left)


def _forget_dropped(catalog: Warehouse, system: SystemDatabase) -> set[tuple[str, str]]:
    """Delete the lineage of dropped tables; returns their databases and names."""
    from lakelog.lineage.tables.found_tables import readable_tables

    return system.forget_dropped({found.uuid for _, _, found in readable_tables(catalog, _pass_over)})


def _pass_over(name: str, _path: str, error: LakelogError) -> None:
    logger.warning("table %s is passed over while the lineage of a dropped one is deleted: %s", name, error)


def check_no_link(table: Table, what: str) -> None:
    """Raise InvalidRequestError for a table whose folder is a link: its files and topic belong to another table."""
    if is_local(table.path) and Path(table.path).is_symlink():
        raise InvalidRequestError(
            f"{table.path} is a link to {Path(table.path).resolve()}; tables are not {what} through links: do it where "
            "the table is, or remove only the link with rm"
        )
