"""Creates, replaces, renames, drops and lists tags.

A tag holds its snapshot's files: expiry spares them. So a tag is created only on a snapshot that is still kept by its
own file or by another tag, which is checked while a hold exists (`lakelog.filestore.metadata.snapshots.tag_holds`). A
drop deletes the tag's file first, then the files that nothing else names; files left by a drop that was cut off are
orphans, which `remove_orphan_files` deletes. Source: Paimon, `TagManager`.
"""

from __future__ import annotations

import dataclasses
import logging
from datetime import datetime, timedelta

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.file_names import check_user_name
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import read_hint
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.metadata.snapshots.tag_holds import hold
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.tags.freeing import free_files
from lakelog.filestore.refs.tags.success_files import delete_success_file, write_success_file
from lakelog.filestore.schema.paths import SUCCESS_FOLDER, TAG_PREFIX, is_tag_file

logger = logging.getLogger("lakelog.filestore")


def tags_of(table: TableStore) -> list[Tag]:
    """All tags of the table's branch, by snapshot, then by name. Raises CorruptDataError."""
    return table.snapshots.all_tags()


def tag_beside(table: TableStore, name: str, *, is_next: bool) -> Tag | None:
    """The tag of the next snapshot with one after that of the tag `name`, or before it. Raises NotFoundError."""
    at = table.snapshots.tag(name).snapshot.id
    if is_next:
        return min((tag for tag in tags_of(table) if tag.snapshot.id > at), key=_order, default=None)
    return max((tag for tag in tags_of(table) if tag.snapshot.id < at), key=_order, default=None)


def check_new_name(name: str) -> str:
    """The name, if a tag can be created with it. Raises InvalidRequestError.

    A number would be taken for a snapshot's id. Surrounding spaces are invisible in a list.
    """
    check_user_name(name, "tag")
    is_folder = not is_tag_file(f"{TAG_PREFIX}{name}")
    if name.isnumeric() or name != name.strip() or is_folder:
        what = "a number, as snapshots have" if name.isnumeric() else "surrounded by space"
        what = f"in the file of the folder {SUCCESS_FOLDER}" if is_folder else what
        raise InvalidRequestError(f"tag {shown(name)} is {what}; expected a name such as 2026-01-31 or release-5")
    return name


def write_tag(
    table: TableStore,
    name: str,
    snapshot: Snapshot,
    *,
    time_retained: timedelta | None = None,
    replace: bool = False,
    is_automatic: bool = False,
    now_millis: int | None = None,
) -> Tag:
    """Create a tag of a snapshot that is living or in another tag, or with `replace` replace an existing tag.

    With `time_retained` the tag expires that long after now. An automatic tag may have a number as its name. Raises
    InvalidRequestError for a name or a time that no tag can have, ConflictError for a tag that exists, NotFoundError
    for a missing tag to replace, and for a snapshot that has expired meanwhile.
    """
    check_user_name(name, "tag")
    if not is_automatic:
        check_new_name(name)
    if time_retained is not None and time_retained <= timedelta(0):
        raise InvalidRequestError(f"tag {name!r} cannot be kept for {time_retained}; expected a time above 0")
    older = _found(table, name) if replace else None
    now = system_millis() if now_millis is None else now_millis
    tag = Tag(
        name=name,
        snapshot=snapshot,
        create_time=None if time_retained is None else _local_time(now),
        time_retained=time_retained,
    )
    path, data = table.paths.tag(name), tag.to_json().encode()
    with hold(table.file_io, table.paths, snapshot):
        _check_is_kept(table, snapshot)
        if replace:
            table.file_io.write_bytes(path, data)
        elif not table.file_io.create_new(path, data):
            raise ConflictError(
                f"table {table.name} has a tag {name!r} already, of snapshot {table.snapshots.tagged(name).id}; "
                "replace it, or choose another name"
            )
    if older is not None and older.snapshot != snapshot:
        free_files(table, older.snapshot)
    write_success_file(table, name, now_millis=now)
    return tag


def rename_tag(table: TableStore, name: str, new_name: str) -> Tag:
    """Give a tag another name; a call continues one that was cut off.

    Raises InvalidRequestError for a name that no tag can have, NotFoundError, and ConflictError for one that exists.
    """
    check_new_name(new_name)
    if name == new_name:
        raise InvalidRequestError(f"tag {name!r} has this name already; give another one")
    made = table.snapshots.find_tag(new_name)
    tag = table.snapshots.tag(name)
    renamed = dataclasses.replace(tag, name=new_name, renamed_from=name)
    is_continued = made == renamed
    if not is_continued and not table.file_io.create_new(table.paths.tag(new_name), renamed.to_json().encode()):
        raise ConflictError(f"table {table.name} has a tag {new_name!r} already; delete it, or choose another name")
    delete_success_file(table, name)
    table.file_io.delete(table.paths.tag(name))
    write_success_file(table, new_name)
    return renamed


def drop_tag(table: TableStore, name: str) -> None:
    """Delete a tag, and the files that no snapshot, changelog, other tag or branch names. Raises NotFoundError.

    If the tag's file is damaged, or files of the tag are missing, only its own file is deleted.
    """
    dropped = _found(table, name)
    delete_success_file(table, name)
    table.file_io.delete(table.paths.tag(name))
    if dropped is not None:
        free_files(table, dropped.snapshot)


def expire_tags(table: TableStore, *, now_millis: int | None = None) -> list[str]:
    """Delete the tags whose time is over; returns their names."""
    now = _local_time(system_millis() if now_millis is None else now_millis)
    expired = [
        tag.name for tag in table.snapshots.readable_tags() if tag.expires_at is not None and tag.expires_at < now
    ]
    for name in expired:
        drop_tag(table, name)
    return expired


def _order(tag: Tag) -> tuple[int, str]:
    return tag.snapshot.id, tag.name


def _local_time(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1_000).replace(tzinfo=None)


def _found(table: TableStore, name: str) -> Tag | None:
    """The tag of a name; None if its file is damaged. Raises NotFoundError."""
    try:
        return table.snapshots.tag(name)
    except CorruptDataError:
        logger.warning("%s: the file of tag %r is damaged: the files that it named are not deleted", table.name, name)
        return None


def _check_is_kept(table: TableStore, snapshot: Snapshot) -> None:
    """Raise NotFoundError unless the snapshot is living, and not about to expire, or a tag keeps it."""
    what = "has expired, or is expiring now"
    if table.snapshots.find(snapshot.id) == snapshot:
        oldest = read_hint(table.file_io, table.paths.earliest_hint)
        if oldest is None or oldest <= snapshot.id or table.snapshots.find(oldest) is None:
            return
        what = (
            f"is before snapshot {oldest}, which {table.paths.earliest_hint} names as the oldest that an expiry keeps"
        )
    if any(tag.snapshot == snapshot for tag in tags_of(table)):
        return
    raise NotFoundError(f"snapshot {snapshot.id} of {table.name} {what}; no tag was created: name a younger one")
