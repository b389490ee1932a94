"""The snapshots that tags keep, and those that are held while a tag is created.

A tag may be created while an expiry runs, which lists the tags once and deletes files afterwards. So both first
announce what they do. The expiry writes the hint of the oldest snapshot that will stay, `EARLIEST`, then lists the
tags. The creation of a tag writes a hold, a copy of the snapshot in `tag/.hold-<uuid>.tmp`, then reads the hint: either
it finds that its snapshot is about to expire and gives up, or the expiry finds the hold, or the tag that follows.

A hold of a process that was killed keeps its files until `remove_orphan_files` deletes it, after a day.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.errors import NotFoundError
from lakelog.filestore.io.fileio import FileEntry, FileIO
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.tag_cache import cached_tag
from lakelog.filestore.schema.paths import TAG_PREFIX, TablePaths, is_tag_file

_PREFIX = ".hold-"
_SUFFIX = ".tmp"
_LISTINGS_MAX = 100
_FOLDERS_MAX = 16
_OWN_PREFIXES = ("lakelog-", ".")


@contextmanager
def hold(file_io: FileIO, paths: TablePaths, snapshot: Snapshot) -> Iterator[None]:
    """Hold the files of a snapshot in this block: an expiry that begins in it spares them."""
    path = f"{paths.tag_dir}/{_PREFIX}{uuid.uuid4()}{_SUFFIX}"
    file_io.write_bytes(path, snapshot.to_json().encode())
    try:
        yield
    finally:
        file_io.delete(path)


StateFiles = tuple[str, str, str | None, str | None]


def state_files(snapshot: Snapshot) -> StateFiles:
    """The names that determine all files of a state: equal for a snapshot, its tags, and its copies in branches."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return (*lists, snapshot.index_manifest, snapshot.statistics)


class KeptByTags:
    """The snapshot that each tag keeps, by the tag's name, and that each hold keeps, by the name of its file."""

    def __init__(self, by_name: Mapping[str, Snapshot]) -> None:
        self.by_name = by_name

    @cached_property
    def own(self) -> tuple[Snapshot, ...]:
        """The snapshots of lakelog's own tags, and of the holds of tags that are being created."""
        return tuple(snapshot for name, snapshot in self.by_name.items() if name.startswith(_OWN_PREFIXES))

    @cached_property
    def of_users(self) -> tuple[Snapshot, ...]:
        """The snapshots of all other tags, by number."""
        others = (snapshot for name, snapshot in self.by_name.items() if not name.startswith(_OWN_PREFIXES))
        return tuple(sorted(others, key=lambda snapshot: snapshot.id))

    @cached_property
    def ids_of_users(self) -> tuple[int, ...]:
        """The numbers of these."""
        return tuple(snapshot.id for snapshot in self.of_users)

    @cached_property
    def states_of_users(self) -> frozenset[StateFiles]:
        """The states of these."""
        return frozenset(map(state_files, self.of_users))


_listed: BoundedCache[str, tuple[list[FileEntry], KeptByTags]] = BoundedCache(_FOLDERS_MAX)  # by folder


def kept_by_tags(file_io: FileIO, paths: TablePaths, *, holds_after_millis: int | None = None) -> KeptByTags:
    """What tags and holds keep. The folder is listed with the time and size of each file, at each call.

    Holds that were last changed before `holds_after_millis` are left out. Raises CorruptDataError for a damaged tag.
    """
    snapshots = SnapshotManager(file_io, paths)
    kept: dict[str, Snapshot] = {}
    for attempt in range(_LISTINGS_MAX):
        holds = _holds(file_io, paths, holds_after_millis)  # before the tags: a hold ends when its tag exists
        entries = file_io.list_entries(paths.tag_dir)
        if not kept and not holds and (known := _known(paths.tag_dir, entries)) is not None:
            return known
        tags = [entry for entry in entries if is_tag_file(entry.name)]
        found = {entry.name: snapshots.listed_tag(entry) for entry in tags}
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
    made = KeptByTags(kept)
    if not holds and all(cached_tag(f"{paths.tag_dir}/{entry.name}", entry) is not None for entry in tags):
        _listed.put(paths.tag_dir, (entries, made))
    return made


def _known(folder: str, entries: list[FileEntry]) -> KeptByTags | None:
    """What the same listing found in a folder; None unless its tags are so old that a later change shows."""
    held = _listed.get(folder)
    return held[1] if held is not None and held[0] == entries else None


def _holds(file_io: FileIO, paths: TablePaths, after_millis: int | None) -> list[str]:
    found = [name for name in file_io.list_names(paths.tag_dir) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    if not found or after_millis is None:
        return found
    young = {entry.name for entry in file_io.list_entries(paths.tag_dir) if entry.modified_millis >= after_millis}
    return [name for name in found if name in young]
