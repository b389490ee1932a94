"""Listeners that are called after commits, in the process that made them.

A handle of a table has a function from the table's name to its listeners. Its commits call them, whichever verb made
them: after the snapshot exists, before anything that follows, such as a compaction or an expiry. Each commit is
reported once, or never if its process dies in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

logger = logging.getLogger("lakelog.filestore")


class CommitListener(Protocol):
    """An object that is called after commits. It should not wait: the writer continues when it has returned."""

    def notify_commit_complete(self, identifier: int, snapshot_id: int, kind: str) -> None:
        """A commit is in the table: its identifier, its snapshot, and its kind, such as APPEND, OVERWRITE or COMPACT.

        The identifier is Spark's number of the batch if a stream, or a compaction beside the stream, made the commit;
        else 9223372036854775807, as in Paimon. An error of the listener is logged and changes nothing.
        """
        ...


def notify(listeners: Iterable[CommitListener], snapshot: Snapshot, identifier: int, *, table_name: str) -> None:
    """Call listeners after a commit. Their errors are logged."""
    for listener in listeners:
        try:
            listener.notify_commit_complete(identifier, snapshot.id, snapshot.commit_kind.value)
        except Exception:  # what is committed is committed
            logger.exception(
                "a listener of the commits of table %s failed at snapshot %d (%s, identifier %d), which is committed",
                table_name,
                snapshot.id,
                snapshot.commit_kind.value,
                identifier,
            )


ListenersOf = Callable[[str], Iterable[CommitListener] | None]


def notify_committed(listeners_of: ListenersOf | None, snapshot: Snapshot, *, table_name: str) -> None:
    """Call the listeners of a handle after its commit. Errors of the function that names them are logged too."""
    if listeners_of is None:
        return
    try:
        listeners = tuple(listeners_of(table_name) or ())
    except Exception:  # what is committed is committed
        logger.exception(
            "the listeners of table %s were not found at snapshot %d, which is committed", table_name, snapshot.id
        )
        return
    notify(listeners, snapshot, snapshot.commit_identifier, table_name=table_name)
