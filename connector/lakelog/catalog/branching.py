"""The branches of a table: made, renamed, deleted, listed and opened; see `Table.create_branch` and the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.upkeep import Age, age_millis
from lakelog.common.clock import system_millis

if TYPE_CHECKING:
    from lakelog.filestore.refs.branches import Branch
    from lakelog.filestore.refs.travel import SnapshotChoice
    from lakelog.filestore.table import FileStoreTable


def create_branch(
    files: FileStoreTable,
    name: str,
    *,
    empty: bool,
    time_retained: Age | None,
    if_not_exists: bool,
    **which: Unpack[SnapshotChoice],
) -> Branch:
    """Make a branch."""
    millis = None if time_retained is None else age_millis(time_retained, now_millis=system_millis())
    return files.create_branch(name, empty=empty, time_retained_millis=millis, if_not_exists=if_not_exists, **which)


def expire_branches(files: FileStoreTable, older_than: Age | None) -> list[str]:
    """Delete the branches whose time is over."""
    now = system_millis()
    return files.expire_branches(
        age_millis=None if older_than is None else age_millis(older_than, now_millis=now), now_millis=now
    )
