"""The tags of a table."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack  # Any: values of parameters

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, ListedGroup
from lakelog.warehouse.verb import Call, verb

if TYPE_CHECKING:
    from lakelog.catalog.names.durations import Duration
    from lakelog.filestore.metadata.snapshots import Tag
    from lakelog.filestore.refs import SnapshotChoice

_ANSWER = {
    "tag": "name",
    "snapshot_id": "snapshot.id",
    "commit_time": "snapshot.time_millis",
    "record_count": "snapshot.total_record_count",
    "expires_at": "expires_at",
}
_HELP = {
    "name": "The tag's name; not a number.",
    "time_retained": "Let the tag expire when this has passed, such as 30 d.",
    "replace": "Replace a tag of this name.",
}


def _delete_each(tags: TableTags[Any], values: Mapping[str, Any]) -> None:
    """Delete the tags of a call, as Paimon does: names with commas between them."""
    for name in values["name"].split(","):
        tags.delete(name.strip())


@naming_keywords
class TableTags(ListedGroup[AnyTable, "Tag"]):
    """The tags of a table: `table.tags`. `for tag in table.tags` and `name in table.tags` use those of its own line."""

    place = "table tag"

    @verb(
        calls=(
            Call(name="create_tag", takes="tag=name, snapshot=snapshot_id, time_retained"),
            Call(name="create_tag_from_timestamp", takes="tag=name, timestamp, time_retained", needs=("timestamp",)),
            Call(name="create_tag_from_watermark", takes="tag=name, watermark, time_retained", needs=("watermark",)),
        ),
        help=_HELP,
        answer=_ANSWER,
    )
    def create(
        self,
        name: str,
        *,
        time_retained: Duration | None = None,
        replace: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Tag:
        """Give a snapshot a name. It can be read under it even after it has expired; its files are kept.

        By default it is the newest one, into which batches that wait for their snapshot are taken first; `tag`,
        `snapshot_id`, `timestamp`, `watermark` and `branch` name another. With `time_retained`, a timedelta or a
        duration such as `30 d`, the tag expires that long after now. With `replace` an existing tag of this name is
        replaced. A tag keeps the state of the writers and the log offsets, but no record of the log. Raises
        InvalidRequestError for a name that is a number or cannot be a file name, ConflictError for a tag that exists,
        NotFoundError for a snapshot that does not exist or expires meanwhile.

        >>> table.tags.create("month-end", time_retained="90 d")
        """
        from lakelog.catalog.logs.log_verbs import settle_newest
        from lakelog.catalog.refs.tagging import create_tag

        settle_newest(self._table, which)
        return create_tag(self._table.store, name, time_retained=time_retained, replaces=replace, **which)

    @verb(
        calls=(Call(name="replace_tag", takes="tag=name, snapshot=snapshot_id, time_retained"),),
        help=_HELP,
        answer=_ANSWER,
    )
    def replace(self, name: str, *, time_retained: Duration | None = None, **which: Unpack[SnapshotChoice]) -> Tag:
        """Move an existing tag to another snapshot. See `create`. Raises NotFoundError for an unknown tag.

        >>> table.tags.replace("friday", snapshot_id=3)
        """
        return self.create(name, time_retained=time_retained, replace=True, **which)

    @verb(calls=(Call(name="rename_tag", takes="tag=name, target_tag=new_name"),), help=_HELP, answer=_ANSWER)
    def rename(self, name: str, new_name: str, *, branch: str | None = None) -> Tag:
        """Give a tag another name. Raises NotFoundError for an unknown tag, ConflictError for a name that is taken.

        >>> table.tags.rename("friday", "2026-01-30")
        """
        from lakelog.filestore.refs import rename_tag

        return rename_tag(self._table.store.on_branch(branch), name, new_name)

    @verb(calls=(Call(name="delete_tag", takes="tag=name", run=_delete_each),), help=_HELP)
    def delete(self, name: str, *, branch: str | None = None) -> None:
        """Delete a tag and the files that nothing else needs. Raises NotFoundError for an unknown tag.

        >>> table.tags.delete("friday")
        """
        from lakelog.filestore.refs import drop_tag

        drop_tag(self._table.store.on_branch(branch), name)

    @verb(help=_HELP, answer=_ANSWER, nothing="no such tag")
    def get(self, name: str, *, branch: str | None = None) -> Tag:
        """One tag. Raises NotFoundError, naming the tags.

        >>> snapshot = table.tags.get("friday").snapshot
        """
        return self._table.store.on_branch(branch).snapshots.tag(name)

    @verb(help=_HELP, answer=_ANSWER, nothing="no such tag")
    def previous(self, name: str, *, branch: str | None = None) -> Tag | None:
        """The tag of the snapshot before that of a tag; None for the oldest.

        >>> before = table.tags.previous("friday")
        """
        from lakelog.filestore.refs import tag_beside

        return tag_beside(self._table.store.on_branch(branch), name, is_next=False)

    @verb(help=_HELP, answer=_ANSWER, nothing="no such tag")
    def next(self, name: str, *, branch: str | None = None) -> Tag | None:
        """The tag of the snapshot after that of a tag; None for the newest.

        >>> behind = table.tags.next("friday")
        """
        from lakelog.filestore.refs import tag_beside

        return tag_beside(self._table.store.on_branch(branch), name, is_next=True)

    @verb(calls=(Call(name="expire_tags"),), answer={"tag": ""})
    def expire(self, *, branch: str | None = None) -> builtins.list[str]:
        """Delete the tags whose time is over; returns their names. Writers also do this after commits.

        >>> gone = table.tags.expire()
        """
        from lakelog.filestore.refs import expire_tags

        return expire_tags(self._table.store.on_branch(branch))

    @verb(answer=_ANSWER)
    def list(self, *, branch: str | None = None) -> builtins.list[Tag]:
        """The tags, sorted by their snapshots.

        >>> names = [tag.name for tag in table.tags.list()]
        """
        return self._table.store.on_branch(branch).snapshots.readable_tags()

    def __contains__(self, name: str) -> bool:
        return self._table.store.snapshots.find_tag(name) is not None

    def __getitem__(self, name: str) -> Tag:
        return self.get(name)
