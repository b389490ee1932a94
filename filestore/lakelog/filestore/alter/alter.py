"""Changes of the schema of a table: a new schema file, which only one of several racing callers creates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakelog.common.errors import ConflictError
from lakelog.common.options import Option
from lakelog.filestore.alter.schema_applying import apply_changes
from lakelog.filestore.alter.schema_changes import SchemaChange
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.commit_tries import CommitTries
from lakelog.filestore.metadata.tables.identity import check_log_is_own, check_same_table
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.schema import TableSchema

SchemaCheck = Callable[[TableSchema, TableSchema], None]
SchemaChanges = Sequence[SchemaChange] | Callable[[TableSchema], Sequence[SchemaChange]]


def alter_schema(
    table: TableStore,
    changes: SchemaChanges,
    *,
    check: SchemaCheck | None = None,
    also: Iterable[Option[object]] = (),
    also_prefixes: Iterable[str] = (),
    clock: CommitClock | None = None,
) -> TableSchema:
    """Apply changes to the newest schema of a table, and return the new newest schema.

    `changes` may be a function of the newest schema; without changes the schema stays as it is. If another process
    changes the schema first, these changes are applied after it. `check` is called each time, with the newest schema
    and the next one, and raises an error to refuse. `also` and `also_prefixes` declare options of other parts of the
    table. No data file is changed. Raises InvalidRequestError or UnsupportedError for changes that do not fit, even if
    they fitted before another process's change; ConflictError if too many races were lost.
    """
    check_log_is_own(table)
    clock = clock or CommitClock()
    check_same_table(table, None)
    tries = CommitTries(table.schema.options, clock)
    while True:
        newest = table.schemas.latest() or table.schema
        wanted = changes(newest) if callable(changes) else changes
        if callable(changes) and not wanted:
            return newest
        changed = apply_changes(newest, wanted, time_millis=clock.now_millis(), also=also, also_prefixes=also_prefixes)
        if changed == newest:
            return newest
        if check is not None:
            check(newest, changed)
        try:
            table.schemas.create(changed)
        except ConflictError:
            if table.schemas.get(changed.id) == changed:  # a client that retried has lost against its own first try
                return changed
            if tries.has_another():
                continue
            raise
        return changed
