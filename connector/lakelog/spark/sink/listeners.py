"""Listeners that are called for the batches of a sink.

A listener is called after the commit, in the driver, before Spark records the batch as done. So a batch whose process
dies between commit and call is run again, and the call comes with the replay: each batch with a snapshot is reported at
least once. Where snapshots come by interval, the next run calls for batches that a dead one has left: the mark of the
writer names them. The call is lost if the snapshot has expired by then. Listeners of a catalog are called for all
commits, see `filestore.metadata.snapshots.listeners`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from threading import Thread
from typing import Protocol, runtime_checkable

from pyspark.sql.streaming.query import StreamingQuery

from lakelog.catalog import Table
from lakelog.filestore.metadata.snapshots import CommitListener, Snapshot, notify, parse_users
from lakelog.filestore.metadata.tables import TableStore
from lakelog.spark.failures import error_of

logger = logging.getLogger("lakelog.spark")


@runtime_checkable
class EndListener(Protocol):
    """A listener that is also called at the end of its query, if `write_stream` has started the query."""

    def notify_end(self, error: BaseException | None) -> None:
        """The query has ended, with this error or without one: by itself, by `stop`, or by a failure.

        It is called in a thread of its own; the query's handle waits a while for it before it reports the end. What it
        raises is logged.
        """
        ...


def watch_end(query: StreamingQuery, listeners: Iterable[CommitListener], *, table_name: str) -> Thread | None:
    """A thread that waits for the end of a query, then calls the listeners that ask for it; None if none does.

    The thread does not keep the process alive.
    """
    asking = [listener for listener in listeners if isinstance(listener, EndListener)]
    if not asking:
        return None

    def wait() -> None:
        error: BaseException | None = None
        try:
            query.awaitTermination()
        except Exception as found:  # noqa: BLE001  # from the query, or from a gateway that ends with its Spark
            error = error_of(found) or found
        for listener in asking:
            try:
                listener.notify_end(error)
            except Exception:  # the query has ended anyway
                logger.exception("a listener of the commits of table %s failed at the end of its query", table_name)

    thread = Thread(target=wait, name="lakelog-query-end", daemon=True)
    thread.start()
    return thread


def tell_of(listeners: Sequence[CommitListener], table: Table, user: str, batches: Iterable[int]) -> None:
    """Call listeners for batches of a writer that are in the table, in their order."""
    for identifier in batches if listeners else ():
        snapshot = whole_in(table.store, user, identifier)
        if snapshot is None:
            logger.warning(
                "table %s: the snapshot of batch %d has expired before its listeners were told of it",
                table.name,
                identifier,
            )
        else:
            notify(listeners, snapshot, identifier, table_name=table.name)


def whole_in(table: TableStore, user: str, identifier: int) -> Snapshot | None:
    """The first living snapshot that holds a batch whole; None if that snapshot may have expired, or none does."""
    latest = table.snapshots.latest()
    found: Snapshot | None = None
    for snapshot in () if latest is None else table.snapshots.walk_back(latest):
        users = parse_users(snapshot.properties)
        if user in users and users[user].identifier < identifier:
            return found
        if user not in users and found is not None:
            return found
        if user in users:
            found = snapshot
    return found if found is not None and found.id == 1 else None
