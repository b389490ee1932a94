"""Copied folders: lineage belongs to the folder where a table lives, and a copy of the folder has none of it.

A copied folder has the uuid of its original until it gets an identity of its own. The original is the folder that the
table names as its place; or else the one that it was renamed to last, the one whose name the system tables use, or the
first by name. Folders are compared within one warehouse: a copied warehouse has its own lineage. A copy stays one when
its original is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.schema import MAIN_BRANCH, SchemaManager, TablePaths
from lakelog.lineage.records.sources import uuid_of
from lakelog.protocol.access import recorded_places, spot_of
from lakelog.warehouse.identifier import Identifier
from lakelog.warehouse.lineage_tables import DROPPED_TABLES, TABLE_NAMES
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables import TableStore
    from lakelog.filestore.schema import TableSchema

logger = logging.getLogger("lakelog.lineage")

Named = tuple[str, str, FileStoreTable]


class CopiedTableError(InvalidRequestError):
    """A folder is a copy of a table, with which it shares the uuid."""

    @classmethod
    def of(cls, path: str, original: str) -> CopiedTableError:
        """Build the error for the copy in a folder."""
        return cls(
            f"{path} is a copy of {original}, whose uuid it has, and lineage is that of the original; "
            f"`lakelog table new-identity {path}` gives the copy an identity of its own"
        )


def without_copies(
    tables: Iterable[Named], database: SystemDatabase
) -> Iterator[tuple[Named, CopiedTableError | None]]:
    """The tables of a warehouse, each with an error if its folder is a copy of that of another one of them."""
    found = [(_identity(table), (name, table_name, table)) for name, table_name, table in tables]
    groups: dict[str, list[Named]] = {}
    for identity, one in found:
        groups.setdefault(identity, []).append(one)
    originals = {identity: _original(group, database) for identity, group in groups.items()}
    for identity, one in found:
        original = originals[identity]
        name = _dropped_original(one[2], database) if one is original else f"{original[0]}.{original[1]}"
        yield one, None if name is None else CopiedTableError.of(one[2].path, name)


def copy_error(table: TableStore, database: SystemDatabase) -> CopiedTableError | None:
    """An error if the folder of a table, or of a branch, is a copy of another one in its warehouse."""
    main = replace(table, branch=MAIN_BRANCH, schema=_newest_schema(table))
    own = spot_of(main.path)
    for spot in _homes(main, database):
        if spot == own:
            return None
        try:
            there = FileStoreTable.open(f"{database.warehouse.rstrip('/')}/{spot}", database.file_io)
        except LakelogError:  # no table, or one whose uuid is not known
            continue
        if there.uuid == main.uuid:
            return CopiedTableError.of(main.path, there.name)
    name = _dropped_original(main, database)
    return None if name is None else CopiedTableError.of(main.path, name)


def _newest_schema(table: TableStore) -> TableSchema:
    """The schema of a table, or of the table of a branch."""
    if table.branch == MAIN_BRANCH:
        return table.schema
    return SchemaManager(table.file_io, TablePaths(table.path)).latest() or table.schema


def _identity(table: TableStore) -> str:
    try:
        return uuid_of(table)
    except LakelogError:  # which it has in common with no other one
        return table.path


def _original(group: Sequence[Named], database: SystemDatabase) -> Named:
    """The original of tables with one identity."""
    if len(group) == 1:
        return group[0]

    def rank(one: Named) -> tuple[int, str, str]:
        own, homes = spot_of(one[2].path), list(_homes(one[2], database))
        return homes.index(own) if own in homes else len(homes), one[0], one[1]

    return min(group, key=rank)


def _dropped_original(table: TableStore, database: SystemDatabase) -> str | None:
    """The name of the dropped table that a table is a copy of."""
    home = next(_recorded(table), None)
    if home is None or home == spot_of(table.path):
        return None
    rows = (row for row in database.found(DROPPED_TABLES) if row["table_uuid"] == table.uuid)
    names = (Identifier(row["database"], row["table"]) for row in rows)
    return next((str(name) for name in names if spot_of(name.path("")) == home), None)


def _recorded(table: TableStore) -> Iterator[str]:
    try:
        yield from recorded_places(table)
    except LakelogError as error:
        logger.warning("table %s: where it was is not known: %s", table.path, error)


def _homes(table: TableStore, database: SystemDatabase) -> Iterator[str]:
    """The folders in the warehouse where a table may live, the most likely first."""
    yield from _recorded(table)
    if table.uuid:
        names = (row["name"] for row in database.found(TABLE_NAMES) if row["table_uuid"] == table.uuid)
        yield from (spot_of(Identifier.parse(name).path("")) for name in names)
