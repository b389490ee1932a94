"""Streams that start from a tag: its rows, then the changes behind it.

A tag keeps files, but no changes: if the log and the changelogs no longer reach back to it, the stream first gives the
difference between the tag and the oldest living snapshot, and continues there (`failOnDataLoss=false`), or does not
start.
The tag is named in the offsets while its rows are read, so that a query that is started again reads the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.read import first_changes
from lakelog.protocol.stores import LogTarget
from lakelog.streams.options.log_options import FAIL_ON_DATA_LOSS
from lakelog.streams.options.shown_state import ShownState
from lakelog.streams.phases.generations import Generations
from lakelog.streams.reading.offsets import FollowOffset, LogOffset, SnapshotOffset
from lakelog.streams.reading.packing import difference_parts
from lakelog.streams.reading.parts import Part

logger = logging.getLogger("lakelog.streams")

After = Callable[[Snapshot | None], LogOffset | FollowOffset]


class TagStart:
    """Finds the tag from which a stream starts, and where the changes after it begin."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        generations: Generations,
        after: After,
        *,
        fails_on_loss: bool,
    ) -> None:
        """Read nothing yet. `after` gives where the changes after a snapshot begin."""
        self._table = table
        self._target = target
        self._generations = generations
        self._after = after
        self._fails_on_loss = fails_on_loss

    def named(self, state: ShownState) -> tuple[Snapshot, str] | None:
        """The snapshot and the tag that the options of a stream name; None if they name a living snapshot.

        Raises NotFoundError.
        """
        if state.tag is not None:
            return self._table.snapshots.tagged(state.tag), state.tag
        if state.version is None and state.watermark is None and state.timestamp_millis is None:
            return None
        try:
            snapshot = self._table.snapshot(**state.choice)
        except NotFoundError:
            if state.timestamp_millis is None:
                raise
            return None  # before the first commit; otherwise the error of a stream says more
        if snapshot is None or self._table.snapshots.find(snapshot.id) == snapshot:
            return None
        return next((snapshot, tag.name) for tag in self._table.snapshots.all_tags() if tag.snapshot == snapshot)

    def snapshot_of(self, offset: SnapshotOffset) -> Snapshot:
        """The snapshot whose rows a query reads: that of its tag, or a living one.

        Raises InvalidRequestError if the tag was replaced, NotFoundError if it was deleted.
        """
        if offset.tag is None:
            return self._table.snapshots.get(offset.snapshot)
        tag = self._table.snapshots.find_tag(offset.tag)
        for found in (None if tag is None else tag.snapshot, self._table.snapshots.find(offset.snapshot)):
            if found is not None and found.id == offset.snapshot and found.uuid == offset.commit:
                return found
        kind = NotFoundError if tag is None else InvalidRequestError
        raise kind(
            f"the query reads the rows of tag {offset.tag!r} of table {self._table.name}, which kept snapshot "
            f"{offset.snapshot}, and was {'deleted' if tag is None else 'replaced'} before they were read: start the "
            "query with a new checkpoint location"
        )

    def goes_on_at(self, snapshot: Snapshot, tag: str) -> Snapshot:
        """The snapshot after which the changes are read: that of the tag, or the oldest possible one.

        Raises NotFoundError, which names the choices, if changes are not kept and the options do not accept that.
        """
        if self._reaches_back(snapshot):
            return snapshot
        oldest = self._oldest()
        if oldest is None:
            raise NotFoundError(f"table {self._table.name} has no snapshot behind tag {tag!r}: restore the table")
        where = "its files" if self._target is None else "neither its log nor its files"
        have = "do not have" if self._target is None else "have"
        if self._fails_on_loss:
            later = [one.name for one in self._table.snapshots.all_tags() if one.snapshot.id >= oldest.id]
            raise NotFoundError(
                f"tag {tag!r} of table {self._table.name} keeps snapshot {snapshot.id}, and {where} {have} the changes "
                f"after it any more; they begin after snapshot {oldest.id}. Start at snapshot {oldest.id} or a later "
                f"one (the tags {listed(later) or 'none'} keep such), read the tag as a batch, or read its rows, then "
                f"the difference to snapshot {oldest.id}, then the changes: option {FAIL_ON_DATA_LOSS.key}=false"
            )
        logger.warning(
            "table %s: the changes behind tag %s, which keeps snapshot %d, have expired; the stream reads the "
            "difference to snapshot %d, and the changes behind that one",
            self._table.name,
            tag,
            snapshot.id,
            oldest.id,
        )
        return oldest

    def difference(self, old: Snapshot, new_id: int) -> list[Part]:
        """What the tasks of the batch between the tag and a newer snapshot read."""
        new = self._table.snapshots.find(new_id)
        if new is None:
            raise NotFoundError(
                f"snapshot {new_id} of table {self._table.name} has expired before the query has read the difference "
                "to it; start the query with a new checkpoint location"
            )
        return [*difference_parts(self._table, old, new, is_followed=self._target is None)]

    def _reaches_back(self, snapshot: Snapshot) -> bool:
        """Whether all changes after a snapshot are in the log or in files."""
        if self._table.snapshots.find(snapshot.id) is not None:
            return True  # what its log lacks is read from the files of the later snapshots
        begin = self._after(snapshot)
        if isinstance(begin, LogOffset):
            return self._generations.is_held(begin, self._target)
        newest = self._table.snapshots.latest_id() or 0
        return snapshot.id >= newest or first_changes(self._table) <= snapshot.id + 1

    def _oldest(self) -> Snapshot | None:
        oldest = self._table.snapshots.earliest_id()
        return None if oldest is None else self._table.snapshots.find(oldest)
