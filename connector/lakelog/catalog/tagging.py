"""Tags of a table: `Table.create_tag` and the other verbs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.options import parse_duration_millis
from lakelog.common.quoting import shown
from lakelog.filestore.refs.auto_tags import default_kept
from lakelog.filestore.refs.tags import write_tag

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tag_file import Tag
    from lakelog.filestore.refs.travel import SnapshotChoice
    from lakelog.filestore.table import FileStoreTable

Kept = timedelta | str


def create_tag(
    files: FileStoreTable, name: str, *, time_retained: Kept | None, replaces: bool, **which: Unpack[SnapshotChoice]
) -> Tag:
    """Create or replace a tag of the chosen snapshot. See `Table.create_tag`."""
    branch = files.on_branch(which.pop("branch", None))
    snapshot = branch.snapshot(**which)
    if snapshot is None:
        raise NotFoundError(f"{files.name} has no snapshot yet, so tag {shown(name)} would keep nothing: write first")
    kept = default_kept(files.schema.options) if time_retained is None else kept_for(time_retained)
    return write_tag(branch, name, snapshot, time_retained=kept, replace=replaces)


def kept_for(time_retained: Kept | None) -> timedelta | None:
    """The time that a tag is kept; None for ever. Raises InvalidRequestError."""
    if time_retained is None or isinstance(time_retained, timedelta):
        return time_retained
    try:
        return timedelta(milliseconds=parse_duration_millis(time_retained))
    except (AttributeError, OverflowError, ValueError) as error:
        raise InvalidRequestError(
            f"time_retained (--time-retained) is {shown(time_retained)}: {error}; expected a timedelta or a form "
            "such as '30 d'"
        ) from error
