"""Restores of a table: through its files, or with a log through log and files.

A logged restore is a batch statement with the compensating changes, see docs/rfcs/0024-statements.md. A large one, and
one that rewinds writers, ends the log, restores the files, and adds a log with a new topic: in between the table has no
log, and streams follow its files, which have the changes of the restore. Meanwhile the file `lakelog/restored-log`
holds the options of the log; the next restore finishes a call that was cut off.
Source: docs/rfcs/0037-restore-and-rollback.md.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.catalog.logs.log_life import SET_BY_LAKELOG, add_log, remove_log
from lakelog.catalog.refs.branching import check_holds_whole_batches
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.json_fields import parse_object, string_map
from lakelog.common.log_system import LOG_OPTION_PREFIXES, LOG_SYSTEM_KEY
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.snapshots import RESTORE_OPERATION
from lakelog.filestore.metadata.tables import latest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.refs import Restored, SnapshotChoice, StateDifference
    from lakelog.warehouse.handle import TableHandle

STATEMENT_BYTES_MAX = 256 << 20  # of the files that differ: a batch statement holds their rows in memory


def restore(
    table: TableHandle, which: SnapshotChoice, *, rewind_writers: bool, dry_run: bool, renew_log: bool
) -> Restored:
    """Bring an older state back. See `Table.restore`."""
    from lakelog.filestore.verbs import restore as restore_files
    from lakelog.filestore.verbs import target_of

    left = LogToAdd(table)
    if not dry_run:
        left.finish_cut_off()
    options = left.read()
    if table.log is None and options is None:
        return restore_files(table.store, rewind_writers=rewind_writers, dry_run=dry_run, **which)
    from lakelog.filestore.refs import Restored

    found = _difference(table, target_of(table.store, which))
    if table.log is not None:
        is_large = size_bytes(found) > STATEMENT_BYTES_MAX
        renews = not found.is_empty and (is_large or rewind_writers or renew_log)
        if dry_run:
            return Restored.of(found, rewinds_writers=rewind_writers, renews_log=renews)
        if renews and not renew_log:
            why = "writers are to be rewound" if rewind_writers else too_large(found)
            raise needs_new_log(table, "a restore", why)
        if not renews:
            left.delete()
            before = Restored.of(found, rewinds_writers=rewind_writers)
            return replace(before, snapshot=_stated(table, found))
        left.put()
        become(table, without_log(table))
    before = Restored.of(found, rewinds_writers=rewind_writers, renews_log=True)
    restored = restore_files(table.store, rewind_writers=rewind_writers, dry_run=dry_run, **which)
    if not dry_run:
        left.add()
    return replace(before, snapshot=restored.snapshot)


def _difference(table: TableHandle, target: Snapshot) -> StateDifference:
    """The present differences. Raises InvalidRequestError for a target that does not fit or holds a partial batch."""
    from lakelog.filestore.refs import StateDifference

    base = latest_of(table.store)
    if base is None:
        raise NotFoundError(f"table {table.name} has no snapshot yet: there is nothing to restore")
    check_holds_whole_batches(table.store, target)
    found = StateDifference(table.store, base, target)
    found.check()
    return found


def too_large(found: StateDifference) -> str:
    """A clause for messages that says how much differs, and how much a batch statement can take."""
    mebibytes = -(-size_bytes(found) // (1 << 20))
    return f"files of {mebibytes} MiB differ, of which a batch statement takes {STATEMENT_BYTES_MAX >> 20}"


def needs_new_log(table: TableHandle, what: str, why: str) -> InvalidRequestError:
    """The error of a call that would have to replace the topic of a table, which the user has not allowed."""
    return InvalidRequestError(
        f"{what} of table {table.name} needs a new log, since {why}: nothing was changed. With renew_log=True "
        "(`--renew-log`) the log is ended, the files are changed, and the table gets a log with a new topic: stop the "
        "streams that write before; those that read go on when they are started again"
    )


def size_bytes(found: StateDifference) -> int:
    """The bytes of the files that differ."""
    return sum(entry.file.file_size_bytes for entry in (*found.removed, *found.added))


def _stated(table: TableHandle, found: StateDifference) -> Snapshot | None:
    from lakelog.catalog.logs.statements import run_statement
    from lakelog.filestore.refs import restore_plan

    plan = restore_plan(table.store, found.target)
    return run_statement(table, RESTORE_OPERATION, plan, properties=found.properties())


def become(table: TableHandle, changed: TableHandle) -> None:
    """Let the user's handle be the changed table."""
    table.store = changed.store
    vars(table).pop("log", None)


def without_log(table: TableHandle) -> TableHandle:
    """End the log of the table, but keep its topic; returns the table without it."""
    return table._of(remove_log(table, keep_topic=True, skip_unreadable=False))


class LogToAdd:
    """The options of a log that was ended for a restore and will be added again: {"options": {key: value}}."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table
        self._path = f"{table.path}/lakelog/restored-log"

    def read(self) -> Mapping[str, str] | None:
        """The options; None if no restore was cut off. Raises CorruptDataError."""
        try:
            return string_map(parse_object(self._table.store.file_io.read_bytes(self._path)), "options")
        except NotFoundError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDataError(
                f"{self._path} does not hold the options of a log: {cause(error)}; delete it, and add a log with "
                "`lakelog log add`"
            ) from error

    def put(self) -> None:
        """Keep the options of the table's log."""
        ours = {LOG_SYSTEM_KEY, *(option.key for option in SET_BY_LAKELOG)}
        given = self._table.store.schema.options
        options = {key: text for key, text in given.items() if key not in ours and key.startswith(LOG_OPTION_PREFIXES)}
        self._table.store.file_io.write_bytes(self._path, json.dumps({"options": options}).encode())

    def add(self) -> None:
        """Add the log again."""
        become(self._table, self._table._of(add_log(self._table, self.read() or {})))
        self.delete()

    def delete(self) -> None:
        """Delete the file: the restore is done."""
        self._table.store.file_io.delete(self._path)

    def finish_cut_off(self) -> None:
        """Finish the interrupted end or beginning of a log, if a restore had begun it."""
        options = self.read()
        if options is None:
            return
        from lakelog.protocol.life import is_cut_off, newest_of

        table = self._table
        files = newest_of(table.store)
        if files.schema.id != table.schema.id:
            become(table, table._of(files))
        if is_cut_off(files):
            become(table, table._of(add_log(table, options)) if files.has_log else without_log(table))
