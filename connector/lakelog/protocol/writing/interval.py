"""Snapshots by interval: when the batches of a writer that are in the log alone get their snapshot.

A batch and a snapshot take turns: what is pending and the last whole batch change together. Spark does not call the
sink of a quiet stream, so a thread makes the snapshot when its time has come. Source: docs/rfcs/0049-log-first.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread

from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.options import (
    PENDING_BATCHES_MAX,
    PENDING_FILES_MAX,
    PENDING_SIZE_MAX,
    SNAPSHOT_INTERVAL,
    is_eventual,
)
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.lost_batches import LostBatchesError
from lakelog.protocol.writing.pending import PendingBatches

logger = logging.getLogger("lakelog.protocol")

ROWLESS_BYTES_MAX = 1 << 16  # of lineage that each mark repeats, since the log does not have it
RETRY_SECONDS = 10.0  # after a snapshot that the thread could not make: the store may answer next time


def given_interval(text: str, table: TableStore) -> int:
    """The interval between snapshots that a stream asks for, in milliseconds. Raises InvalidRequestError."""
    if not table.has_log or is_eventual(table.schema.options):
        what = "an eventual log, whose records decide nothing before their snapshot" if table.has_log else "no log"
        raise InvalidRequestError(
            f"snapshot_interval={text!r} is for tables with a transactional log, and table {table.name} has {what}: "
            "leave it out"
        )
    return SNAPSHOT_INTERVAL.of({SNAPSHOT_INTERVAL.key: text})


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalBounds:
    """When a snapshot is made: so long after the first batch that has none, or at so many batches, files or bytes."""

    seconds: float
    batches_max: int
    files_max: int
    bytes_max: int

    @classmethod
    def of(cls, options: Mapping[str, str], *, millis: int) -> IntervalBounds:
        """The bounds of a table with these options, and an interval of so many milliseconds."""
        return cls(
            seconds=millis / 1000,
            batches_max=PENDING_BATCHES_MAX.of(options),
            files_max=PENDING_FILES_MAX.of(options),
            bytes_max=PENDING_SIZE_MAX.of(options),
        )


@dataclass(slots=True)
class IntervalSnapshots:
    """The pending batches of one writer in this process, and the thread that makes their snapshot.

    `take` makes the snapshot of what is pending; each batch sets it, with its own view of the table. `has_listeners`
    says that a later run must know which batches the listeners may not have heard of.
    """

    bounds: IntervalBounds
    has_listeners: bool = False
    clock: Callable[[], float] = time.monotonic
    pending: PendingBatches = field(default_factory=PendingBatches)
    take: Callable[[], None] | None = None
    _turn: Condition = field(default_factory=Condition)
    _since: float | None = None  # when the first pending batch was added
    _not_before: float = 0.0
    _thread: Thread | None = None
    _is_closed: bool = False
    _lost: LostBatchesError | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], *, millis: int, has_listeners: bool = False) -> IntervalSnapshots:
        """Snapshots every so many milliseconds, or at the bounds that the options of a table give."""
        return cls(IntervalBounds.of(options, millis=millis), has_listeners=has_listeners)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """The turn of a batch. Raises LostBatchesError if the thread has found that the log has lost one."""
        with self._turn:
            if self._lost is not None:
                raise self._lost
            try:
                yield
            except BaseException:
                self.pending.is_blind = True  # what the tasks have logged is not known
                raise
            finally:
                if not self.pending:
                    self._since = None
                elif self._since is None:
                    self._since = self.clock()
                    self._watch()

    def is_due(self) -> bool:
        """Whether the snapshot of what is pending is to be made now. Call it in the turn of a batch."""
        pending, bounds = self.pending, self.bounds
        waited = 0.0 if self._since is None else self.clock() - self._since
        return bool(pending) and (
            waited >= bounds.seconds
            or len(pending.batches) >= bounds.batches_max
            or pending.file_count >= bounds.files_max
            or pending.size_bytes >= bounds.bytes_max
            or pending.rowless_bytes >= ROWLESS_BYTES_MAX
        )

    def abandon(self) -> None:
        """End the thread; what is pending stays in the log, and the next run takes it in."""
        with self._turn:
            self._is_closed = True
            self.pending.forget()
            self._since = None
            self._turn.notify_all()

    def close(self) -> None:
        """Make the snapshot of what is pending, and end the thread.

        Raises what the commit raises, and what the thread has found.
        """
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()
            if self._lost is not None:
                raise self._lost
            if self.pending:
                self._take()

    def _watch(self) -> None:
        """Wake the thread, which waits for the time of the snapshot."""
        self._is_closed = False  # a thread that was to end goes on: it looks when it has the turn again
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._run, name="lakelog-snapshots", daemon=True)
            self._thread.start()
        self._turn.notify_all()

    def _run(self) -> None:
        with self._turn:
            while not self._is_closed:
                if not self.pending or self._since is None:
                    self._turn.wait()
                    continue
                at = max(self._since + self.bounds.seconds, self._not_before)
                if (left := at - self.clock()) > 0:
                    self._turn.wait(left)
                    continue
                try:
                    self._take()
                except LostBatchesError as error:
                    self._lost = error  # the next batch raises it
                    logger.error("%s", error)  # the error itself is raised to the caller
                    return
                except LakelogError as error:
                    self._not_before = self.clock() + RETRY_SECONDS
                    logger.warning("the snapshot of batches that are in the log is made later: %s", error)

    def _take(self) -> None:
        assert self.take is not None, "a batch is pending"
        try:
            self.take()
        except BucketConflictError as error:
            logger.info("the next batch takes in what is in the log: %s", error)
        if not self.pending:
            self._since = None
