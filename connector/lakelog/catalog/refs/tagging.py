"""Tags of a table: `Table.tags.create` and the other verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.durations import Duration, retained_for
from lakelog.common.errors import NotFoundError
from lakelog.common.quoting import shown
from lakelog.filestore.refs import default_kept, write_tag

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Tag
    from lakelog.filestore.refs import SnapshotChoice


def create_tag(
    files: FileStoreTable, name: str, *, time_retained: Duration | None, replaces: bool, **which: Unpack[SnapshotChoice]
) -> Tag:
    """Create or replace a tag of the chosen snapshot. See `Table.tags.create`."""
    branch = files.on_branch(which.pop("branch", None))
    snapshot = branch.snapshot(**which)
    if snapshot is None:
        raise NotFoundError(f"{files.name} has no snapshot yet, so tag {shown(name)} would keep nothing: write first")
    kept = default_kept(files.schema.options) if time_retained is None else retained_for(time_retained)
    return write_tag(branch, name, snapshot, time_retained=kept, replace=replaces)
