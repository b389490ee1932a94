"""Restores and rollbacks of a table: of its files, or where it has a log through log and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.common.errors import UnsupportedError

if TYPE_CHECKING:
    from lakelog.catalog.table import Table
    from lakelog.filestore.refs.restore import Restored
    from lakelog.filestore.refs.travel import SnapshotChoice


def restore(table: Table, which: SnapshotChoice, *, rewind_writers: bool, dry_run: bool) -> Restored:
    """Bring an older state back. See `Table.restore`."""
    if table.log is not None:
        raise UnsupportedError(f"table {table.name} has a log: its restore is not built yet")
    return table._files.restore(rewind_writers=rewind_writers, dry_run=dry_run, **which)
