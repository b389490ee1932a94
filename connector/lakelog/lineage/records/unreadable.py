"""Tables whose lineage could not be read, while that of others could.

A question about a warehouse is answered from the readable tables. The others are named by warnings in the log, and in
the list of `unreadable_tables`. A question about one of them raises its error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.common.errors import LakelogError
from lakelog.common.quoting import escaped
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.records.copies import CopiedTableError, without_copies
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.warehouse.warehouse import Warehouse

logger = logging.getLogger("lakelog.lineage")


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
