"""The tables of warehouses as lineage finds them: those that can be read and are no copies, by name and by uuid.

A question about a warehouse is answered from the readable tables. The others are named by warnings in the log, and in
the list of `unreadable_tables`. A question about one of them raises its error.

A copied folder has the uuid of its original until it gets an identity of its own, and none of its lineage. The original
is the folder that the table names as its place; or else the one that it was renamed to last, the one whose name the
system tables use, or the first by name. Folders are compared within one warehouse: a copied warehouse has its own
lineage. A copy stays one when its original is dropped.

Lineage names a table by its uuid, in any of several catalogs. It is looked for under the name that a batch has
recorded, and if another table or none has that name, among all tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.quoting import escaped
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import LineKey, TableVersion
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import BRANCH_INFIX, MAIN_BRANCH, SchemaManager, TablePaths
from lakelog.lineage.records.sources import uuid_of
from lakelog.protocol.access import recorded_places, spot_of
from lakelog.warehouse.identifier import Identifier
from lakelog.warehouse.lineage_tables import DROPPED_TABLES, TABLE_NAMES
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.filestore.schema import TableSchema
    from lakelog.warehouse.warehouse import Warehouse

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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableTable:
    """A table, or a branch such as `db.t$branch_b`, whose lineage is missing in an answer, and why.

    `path` is the table's folder; None if it is not known.
    """

    name: str
    path: str | None
    error: LakelogError


_FOUND: ContextVar[tuple[list[UnreadableTable], ...]] = ContextVar("lakelog_unreadable", default=())
_LOGS: ContextVar[bool] = ContextVar("lakelog_unreadable_logs", default=True)


@contextmanager
def unreadable_tables(*, logs: bool = True) -> Iterator[list[UnreadableTable]]:
    """A list of the tables that questions inside the block could not read: their lineage is missing in the answers.

    Without `logs` there are no warnings in the log.

        with unreadable_tables() as unreadable:
            edges = known_edges(catalog)
    """
    found: list[UnreadableTable] = []
    lists, may_log = _FOUND.set((*_FOUND.get(), found)), _LOGS.set(_LOGS.get() and logs)
    try:
        yield found
    finally:
        _FOUND.reset(lists)
        _LOGS.reset(may_log)


def missing_lineage(name: str, error: LakelogError) -> str:
    """A sentence that says what is missing in an answer, and why."""
    if isinstance(error, CopiedTableError):
        return f"the lineage of {escaped(name)} is left out: {error}"
    return f"the lineage of {escaped(name)} is missing, since the table cannot be read: {error}"


def note_unreadable(name: str, path: str | None, error: LakelogError) -> None:
    """Record that the lineage of a table is missing in an answer; unprintable characters in its name are escaped."""
    name = escaped(name)
    if _LOGS.get():
        logger.warning("%s", missing_lineage(name, error))
    for found in _FOUND.get():
        if not any(one.name == name and path in {None, one.path} for one in found):
            found.append(UnreadableTable(name=name, path=path, error=error))


def readable_tables(
    catalog: Warehouse, note: Callable[[str, str, LakelogError], None] = note_unreadable
) -> Iterator[tuple[str, str, FileStoreTable]]:
    """The tables of a warehouse that can be opened, with their names; the others and copies are passed to `note`."""
    for (database, name, table), error in without_copies(catalog.stores(on_error=note), SystemDatabase.of(catalog)):
        if error is None:
            yield database, name, table
        else:
            note(f"{database}.{name}", table.path, error)


def check_is_read(table: TableStore, unreadable: Iterable[UnreadableTable]) -> None:
    """Raise the error of a requested table or branch if it could not be read."""
    for one in unreadable:
        if (one.name, one.path) == (escaped(table.name), table.path):
            raise one.error


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


def line_key(table: TableStore) -> LineKey:
    """The key of an opened table or branch."""
    return LineKey(uuid_of(table), None if table.branch == MAIN_BRANCH else table.branch)


class FoundTables:
    """The tables of catalogs, found by what lineage knows about them."""

    def __init__(self, catalogs: Sequence[Warehouse]) -> None:
        self._catalogs = catalogs
        self._by_uuid: dict[str, TableStore] | None = None

    def named(self, name: str) -> TableStore:
        """A table or a branch by its name, in the first catalog that has it. Raises NotFoundError."""
        first: NotFoundError | None = None
        for catalog in self._catalogs:
            try:
                return catalog.store(name)
            except NotFoundError as error:
                first = first or error
        assert first is not None, "there is no catalog"
        raise first

    def find(self, key: LineKey, name: str) -> TableStore | None:
        """A table by its key and the name that it had; None if no catalog has it."""
        return _line_of(self._main(key, name), key)

    def living_commits(self, line: LineKey) -> dict[TableVersion, int]:
        """The snapshots that live in a line, with the times of their commits; none if it is not found or not readable.

        Reads them.
        """
        try:
            table = self.by_key(line)
            found = [] if table is None else table.snapshots.living()
        except LakelogError as error:
            note_unreadable(f"the table with the uuid {line.uuid}", None, error)
            return {}
        known = (one for one in found if one.uuid is not None)
        return {TableVersion(snapshot_id=one.id, commit=one.uuid): one.time_millis for one in known}

    def _main(self, key: LineKey, name: str) -> TableStore | None:
        for catalog in self._catalogs:
            try:
                found = catalog.store(name.partition(BRANCH_INFIX)[0])
            except (InvalidRequestError, NotFoundError):  # the name of a table outside a warehouse, or of no table
                continue
            if line_key(found).uuid == key.uuid:
                return found
        return self._of_uuid(key.uuid)

    def by_key(self, key: LineKey) -> TableStore | None:
        """A table by its key alone; None if no catalog has it."""
        return _line_of(self._of_uuid(key.uuid), key)

    def _of_uuid(self, uuid: str) -> TableStore | None:
        if self._by_uuid is None:
            everything = (table for catalog in self._catalogs for _, _, table in readable_tables(catalog))
            self._by_uuid = {line_key(table).uuid: table for table in everything}
        return self._by_uuid.get(uuid)


def _line_of(table: TableStore | None, key: LineKey) -> TableStore | None:
    if table is None or key.branch is None:
        return table
    return replace(table, branch=key.branch) if key.branch in table.branch_names() else None
