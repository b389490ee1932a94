"""The snapshots that tags keep, and those that are held while a tag is created.

A tag may be created while an expiry runs, which lists the tags once and deletes files afterwards. So both first
announce what they do. The expiry writes the hint of the oldest snapshot that will stay, `EARLIEST`, then lists the
tags. The creation of a tag writes a hold, a copy of the snapshot in `tag/.hold-<uuid>.tmp`, then reads the hint: either
it finds that its snapshot is about to expire and gives up, or the expiry finds the hold, or the tag that follows.

A hold of a process that was killed keeps its files until `remove_orphan_files` deletes it, after a day.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from lakelog.common.errors import NotFoundError
from lakelog.filestore.io.fileio import FileEntry, FileIO
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.schema.paths import TAG_PREFIX, TablePaths, is_tag_file

_PREFIX = ".hold-"
_SUFFIX = ".tmp"
_LISTINGS_MAX = 100


@contextmanager
def hold(file_io: FileIO, paths: TablePaths, snapshot: Snapshot) -> Iterator[None]:
    """Hold the files of a snapshot in this block: an expiry that begins in it spares them."""
    path = f"{paths.tag_dir}/{_PREFIX}{uuid.uuid4()}{_SUFFIX}"
    file_io.write_bytes(path, snapshot.to_json().encode())
    try:
        yield
    finally:
        file_io.delete(path)


def kept_by_tags(file_io: FileIO, paths: TablePaths, *, holds_after_millis: int | None = None) -> dict[str, Snapshot]:
    """The snapshot that each tag keeps, by the tag's name, and the one that each hold keeps, by the name of its file.

    Holds that were last changed before `holds_after_millis` are left out. Raises CorruptDataError for a damaged tag.
    """
    snapshots = SnapshotManager(file_io, paths)
    kept: dict[str, Snapshot] = {}
    for attempt in range(_LISTINGS_MAX):
        holds = _holds(file_io, paths, holds_after_millis)  # before the tags: a hold ends when its tag exists
        found = {entry.name: snapshots.listed_tag(entry) for entry in _tags(file_io, paths)}
        kept |= {name.removeprefix(TAG_PREFIX): tag.snapshot for name, tag in found.items() if tag is not None}
        try:
            for name in holds:
                path = f"{paths.tag_dir}/{name}"
                kept[name] = Snapshot.from_json(file_io.read_bytes(path), path=path)
            if None not in found.values():  # otherwise a tag was deleted, or renamed: the next listing has the new name
                break
        except NotFoundError:
            if attempt + 1 == _LISTINGS_MAX:
                raise
    return kept


def _tags(file_io: FileIO, paths: TablePaths) -> list[FileEntry]:
    return [entry for entry in file_io.list_entries(paths.tag_dir) if is_tag_file(entry.name)]


def _holds(file_io: FileIO, paths: TablePaths, after_millis: int | None) -> list[str]:
    found = [name for name in file_io.list_names(paths.tag_dir) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    if not found or after_millis is None:
        return found
    young = {entry.name for entry in file_io.list_entries(paths.tag_dir) if entry.modified_millis >= after_millis}
    return [name for name in found if name in young]
