"""The tags of a table."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, ListedGroup

if TYPE_CHECKING:
    from lakelog.catalog.names.durations import Duration
    from lakelog.filestore.metadata.snapshots import Tag
    from lakelog.filestore.refs import SnapshotChoice


@naming_keywords
class TableTags(ListedGroup[AnyTable, "Tag"]):
    """The tags of a table: `table.tags`. `for tag in table.tags` and `name in table.tags` use those of its own line."""

    def create(
        self,
        name: str,
        *,
        time_retained: Duration | None = None,
        replace: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Tag:
        """Give a snapshot a name, under which it can be read even after it has expired; its files are kept.

        By default it is the newest one; `snapshot_id`, `timestamp`, `watermark`, `tag` and `branch` name another. With
        `time_retained`, a timedelta or a duration such as `30 d`, the tag expires that long after now. With `replace`
        an existing tag of this name is replaced. A tag keeps the state of the writers and the log offsets, but no
        record of the log. Raises InvalidRequestError for a name that is a number or cannot be a file name,
        ConflictError for a tag that exists, NotFoundError for a snapshot that does not exist or expires meanwhile.

        >>> table.tags.create("month-end", time_retained="90 d")
        """
        from lakelog.catalog.refs.tagging import create_tag

        return create_tag(self._table.store, name, time_retained=time_retained, replaces=replace, **which)

    def replace(self, name: str, *, time_retained: Duration | None = None, **which: Unpack[SnapshotChoice]) -> Tag:
        """Move an existing tag to another snapshot, see `create`. Raises NotFoundError for an unknown tag.

        >>> table.tags.replace("friday", snapshot_id=3)
        """
        return self.create(name, time_retained=time_retained, replace=True, **which)

    def rename(self, name: str, new_name: str, *, branch: str | None = None) -> Tag:
        """Give a tag another name. Raises NotFoundError for an unknown tag, ConflictError for a name that is taken.

        >>> table.tags.rename("friday", "2026-01-30")
        """
        from lakelog.filestore.refs import rename_tag

        return rename_tag(self._table.store.on_branch(branch), name, new_name)

    def delete(self, name: str, *, branch: str | None = None) -> None:
        """Delete a tag and the files that nothing else needs. Raises NotFoundError for an unknown tag.

        >>> table.tags.delete("friday")
        """
        from lakelog.filestore.refs import drop_tag

        drop_tag(self._table.store.on_branch(branch), name)

    def get(self, name: str, *, branch: str | None = None) -> Tag:
        """One tag. Raises NotFoundError, naming the tags.

        >>> snapshot = table.tags.get("friday").snapshot
        """
        return self._table.store.on_branch(branch).snapshots.tag(name)

    def previous(self, name: str, *, branch: str | None = None) -> Tag | None:
        """The tag of the largest snapshot before that of the tag `name`; None for the oldest.

        >>> before = table.tags.previous("friday")
        """
        from lakelog.filestore.refs import previous_tag

        return previous_tag(self._table.store.on_branch(branch), name)

    def next(self, name: str, *, branch: str | None = None) -> Tag | None:
        """The tag of the smallest snapshot after that of the tag `name`; None for the newest.

        >>> behind = table.tags.next("friday")
        """
        from lakelog.filestore.refs import next_tag

        return next_tag(self._table.store.on_branch(branch), name)

    def expire(self, *, branch: str | None = None) -> builtins.list[str]:
        """Delete the tags whose `time_retained` is over; returns their names. Writers also do this after commits.

        >>> gone = table.tags.expire()
        """
        from lakelog.filestore.refs import expire_tags

        return expire_tags(self._table.store.on_branch(branch))

    def list(self, *, branch: str | None = None) -> builtins.list[Tag]:
        """The tags of the table or of a branch, sorted by their snapshots.

        >>> names = [tag.name for tag in table.tags.list()]
        """
        return self._table.store.on_branch(branch).snapshots.readable_tags()

    def __contains__(self, name: str) -> bool:
        return self._table.store.snapshots.find_tag(name) is not None

    def __getitem__(self, name: str) -> Tag:
        return self.get(name)
