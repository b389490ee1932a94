"""The tags of a table: their names, and the snapshots that they keep."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakelog.common.clock import system_millis
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.quoting import escaped, listed, shown
from lakelog.filestore.io.fileio import FileEntry, FileIO
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.tag_cache import cache_tag, cached_tag
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.schema.paths import TAG_PREFIX, TablePaths, is_tag_file

logger = logging.getLogger("lakelog.filestore")


class TagReader:
    """Reads the tags of one table."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def tags(self) -> list[str]:
        """The names of all tags, in order. Lists the folder."""
        names = self._file_io.list_names(self._paths.tag_dir)
        return sorted(name.removeprefix(TAG_PREFIX) for name in names if is_tag_file(name))

    def tagged(self, name: str) -> Snapshot:
        """The snapshot that a tag keeps, living or expired. Raises NotFoundError, naming the existing tags."""
        return self.tag(name).snapshot

    def tag(self, name: str) -> Tag:
        """The tag of a name. Raises NotFoundError, naming the existing tags, and CorruptDataError."""
        found = self.find_tag(name)
        if found is None:
            tags = self.tags()
            known = f"the tags are {listed(tags)}" if tags else "it has no tags"
            raise NotFoundError(
                f"table {self._paths.root} has no tag {name!r}; {known}. When the tag was not deleted, its file "
                f"{escaped(self._paths.tag(name))} was lost: restore it"
            )
        return found

    def all_tags(self) -> list[Tag]:
        """All tags, by snapshot, then by name. Raises CorruptDataError."""
        return self._tags(on_damage=None)

    def readable_tags(self) -> list[Tag]:
        """All tags, by snapshot, then by name, for lists: damaged files are named by warnings in the log."""
        return self._tags(on_damage=self._warn)

    def _tags(self, *, on_damage: Callable[[str, CorruptDataError], None] | None) -> list[Tag]:
        found: list[Tag] = []
        for entry in self._file_io.list_entries(self._paths.tag_dir):
            if not is_tag_file(entry.name):
                continue
            try:
                tag = self.listed_tag(entry)
            except CorruptDataError as error:
                if on_damage is None:
                    raise
                on_damage(entry.name.removeprefix(TAG_PREFIX), error)
                continue
            if tag is not None:
                found.append(tag)
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def _warn(self, name: str, error: CorruptDataError) -> None:
        logger.warning(
            "tag %s of table %s is damaged, and nothing expires until it is restored or deleted (tags.delete): %s",
            shown(name),
            self._paths.root,
            error,
        )

    def listed_tag(self, entry: FileEntry) -> Tag | None:
        """The tag of a file in the folder of tags, from the cache if it is there; None for a deleted one."""
        path = f"{self._paths.tag_dir}/{entry.name}"
        held = cached_tag(path, entry)
        if held is not None:
            return held
        read_millis = system_millis()
        tag = self.find_tag(entry.name.removeprefix(TAG_PREFIX))
        if tag is not None:
            cache_tag(path, entry, tag, read_millis=read_millis)
        return tag

    def find_tag(self, name: str) -> Tag | None:
        """The tag of a name, None for a missing one. Raises CorruptDataError."""
        path = self._paths.tag(name)
        if not is_tag_file(f"{TAG_PREFIX}{name}"):
            return None
        try:
            data = self._file_io.read_bytes(path)
        except NotFoundError:
            return None
        tag, named = Tag.from_json(data, path=path, name=name)
        if named != name and self._is_swapped(name, data, named):
            raise damaged(path, f"it is the file of tag {shown(named)}")
        return tag

    def _is_swapped(self, name: str, data: bytes, named: str) -> bool:
        """Whether the file of a tag is that of another tag, not one that another engine has renamed."""
        try:
            path = self._paths.tag(named)
            other = self._file_io.read_bytes(path)
        except (InvalidRequestError, NotFoundError):
            return False
        return other == data or Tag.from_json(other, path=path, name=named)[1] == name
