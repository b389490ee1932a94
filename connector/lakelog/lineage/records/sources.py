"""Tables and their snapshots as sources of a batch, opened or declared by name.

A program declares sources when no plan shows them: `db.a@12` is snapshot 12 of a table, `db.b` some state. A name is
that of a table in a warehouse; a name with a slash is the table's folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cause, shown
from lakelog.filestore.metadata.origins import BatchLineage, ReadMode, Source, TableSource, TableVersion, UnknownSource
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore, identity_of
from lakelog.filestore.schema import BRANCH_INFIX, MAIN_BRANCH
from lakelog.lineage.records.best_effort import known_or
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.warehouse import Warehouse, open_store

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable

AnyTable = TypeVar("AnyTable", bound=TableHandle)

NO_SOURCES = "none"
NUMBER_MARK = "@"  # between a source and the number of its snapshot


def uuid_of(table: TableStore) -> str:
    """What identifies a table in lineage: its uuid, or for a table of another engine its creation time."""
    return table.uuid or identity_of(table).partition(BRANCH_INFIX)[0]


def source_of_table(table: TableStore, *, mode: ReadMode) -> TableSource:
    """A table, or a branch of it, as a source from which nothing is read yet."""
    is_main = table.branch == MAIN_BRANCH
    return TableSource(
        table=table.name.partition(BRANCH_INFIX)[0],
        uuid=uuid_of(table),
        path=table.path,
        branch=None if is_main else table.branch,
        mode=mode,
    )


def version_of(snapshot: Snapshot | None) -> TableVersion | None:
    """A snapshot, and the commit that made it; None for the empty table."""
    return None if snapshot is None else TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid)


def state_read(table: TableStore, snapshot: Snapshot | None) -> TableSource:
    """A batch read of one state of a table; None is the empty table. A state with the log behind it has no version."""
    source = source_of_table(table, mode=ReadMode.BATCH)
    if snapshot is not None and snapshot.is_in_memory:
        named = snapshot if snapshot.id else None
        return replace(source, end=version_of(named), why="a fresh read, which has the log behind the snapshot too")
    return replace(source, end=version_of(snapshot), is_exact=True)


def with_lineage(table: AnyTable, lineage: BatchLineage) -> AnyTable:
    """A handle of the table whose writes and statements record this lineage."""
    return table._of(replace(table.store, lineage=lineage.to_json()))


def parse_sources(text: str) -> tuple[str, ...]:
    """The names in an option, separated by commas; `none` means no source. Raises ValueError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"expected names such as db.a@12 with commas, or {NO_SOURCES!r}")
    try:
        return () if names == [NO_SOURCES] else checked_sources(names)
    except InvalidRequestError as error:
        raise ValueError(str(error)) from error


def declared_sources(names: Iterable[str], warehouse: str) -> tuple[Source, ...]:
    """The declared sources; a missing one becomes unknown, with a warning in the log: it does not fail the job."""

    def found(name: str) -> Source:
        def unknown(error: Exception) -> Source:
            return UnknownSource(why=f"{name} was declared: {cause(error)}")

        return known_or(f"the declared source {name} is", lambda: declared_source(name, warehouse), unknown)

    return tuple(map(found, names))


def checked_sources(names: Iterable[str]) -> tuple[str, ...]:
    """The names. Raises InvalidRequestError for one that cannot name a table and a snapshot."""
    found = tuple(names)
    for name in found:
        table, number = _parts_of(name)
        if not table.strip() or (number is None and NUMBER_MARK in table.rpartition("/")[2]):
            raise InvalidRequestError(
                f"the source {shown(name)} is not a table and a snapshot: write db.table@12, or db.table where the "
                "snapshot is not known"
            )
    return found


def declared_table(name: str, warehouse: str) -> FileStoreTable:
    """The table, or the branch, of a declared source. Raises NotFoundError, and what opening a table raises."""
    text, _ = _parts_of(name)
    return open_store(text) if "/" in text else Warehouse(warehouse).store(text)


def declared_number(name: str) -> int | None:
    """The number of the snapshot that a declared source names; None without one."""
    return _parts_of(name)[1]


def declared_source(name: str, warehouse: str) -> Source:
    """A declared source. Raises NotFoundError, and what opening a table raises."""
    _, number = _parts_of(name)
    table = declared_table(name, warehouse)
    source = source_of_table(table, mode=ReadMode.BATCH)
    if number is None:
        return replace(source, why="declared without a snapshot")
    return replace(source, end=version_of(table.snapshots.get(number)), is_exact=True)


def _parts_of(name: str) -> tuple[str, int | None]:
    """The table and the snapshot's number."""
    table, mark, number = name.rpartition(NUMBER_MARK)
    is_numbered = bool(mark) and number.isascii() and number.isdigit()
    return (table, int(number)) if is_numbered else (name, None)
