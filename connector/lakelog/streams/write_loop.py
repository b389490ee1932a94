"""The thread of a writer: it joins what callers have given, writes it, acknowledges each, and makes snapshots."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any

from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.protocol.statements import BATCH_BYTES_MAX
from lakelog.protocol.writing import IntervalBounds, LostBatchesError
from lakelog.streams.name_owner import NameTakenError
from lakelog.streams.snapshot_times import SnapshotTimes, Upkeep
from lakelog.streams.writes import CheckRows, QueuedWrite, Writes, joined_changes

logger = logging.getLogger("lakelog.streams")

_REST_SECONDS = 0.25  # without a write; then other processes need not wait for this one


class WriteLoop:
    """The writes of one writer, in the order in which they were given."""

    def __init__(
        self,
        writes: Writes,
        *,
        name: str,
        check: CheckRows,
        bounds: IntervalBounds | None,
        linger_seconds: float,
        memory_max: int,
        after_snapshot: Callable[[Snapshot], None],
    ) -> None:
        """Start the thread. `check` gives the changes of rows, `bounds` say when a snapshot is made."""
        self._name = name
        self._check_rows = check
        self._writes = writes
        self._times = SnapshotTimes(bounds)
        self._linger = linger_seconds
        self._memory_max = memory_max
        self._changed = Condition()
        self._queue: deque[QueuedWrite] = deque()
        self._queued_bytes = 0
        self._is_full = False  # a call waits for room
        self._expected = 0  # writes: so many were given beside each other
        self._called: dict[str, int] = {}  # source -> the identifier of its last call
        self._interrupted: dict[str, Exception] = {}  # source -> why a write of it was not acknowledged
        self._asked: deque[tuple[str, Future[int | None]]] = deque()
        self._flushes: deque[Future[None]] = deque()
        self._error: Exception | None = None
        self._is_closing = False
        self._upkeep = Upkeep(after_snapshot)
        self._thread = Thread(target=self._run, name=f"lakelog-writer-{name}", daemon=True)
        self._thread.start()

    def add(self, one: QueuedWrite) -> None:
        """Queue a write. Waits while `memory_max` bytes of rows wait."""
        with self._changed:
            self._check()
            while self._queue and self._queued_bytes + one.size_bytes > self._memory_max:
                if not self._is_full:
                    self._is_full = True
                    self._changed.notify_all()
                self._changed.wait()
                self._check()
            if one.identifier is not None:  # behind the wait, in which calls of other threads may overtake this one
                self._check_goes_up(one.source, one.identifier)
            self._queue.append(one)
            self._queued_bytes += one.size_bytes
            self._changed.notify_all()

    @property
    def may_wait(self) -> bool:
        """Whether so much waits already that the next write may have to wait."""
        return self._queued_bytes > self._memory_max // 2

    def last_identifier(self, source: str) -> Future[int | None]:
        """The identifier of the last write of a source that the table has, once it is known."""
        asked: Future[int | None] = Future()
        with self._changed:
            self._check()
            self._asked.append((source, asked))
            self._changed.notify_all()
        return asked

    def flush(self) -> Future[None]:
        """Done once all writes so far have ended, and have a snapshot."""
        flushed: Future[None] = Future()
        with self._changed:
            self._check()
            self._flushes.append(flushed)
            self._changed.notify_all()
        return flushed

    def close(self) -> None:
        """Flush, and end the thread. Raises what the last snapshot raises."""
        with self._changed:
            is_open = not self._is_closing and self._error is None
        try:
            if is_open:
                self.flush().result()
        finally:
            with self._changed:
                self._is_closing = True
                self._changed.notify_all()
            self._thread.join()
            try:
                self._writes.close()  # first: others may wait for the end of the turn
            finally:
                self._upkeep.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_closing:
            raise InvalidRequestError(f"writer {self._name!r} is closed")

    def _check_goes_up(self, source: str, identifier: int) -> None:
        if source in self._interrupted:
            raise InvalidRequestError(
                f"writer {self._name!r}: a write of source {source!r} was interrupted, and later ones would hide that "
                f"({self._interrupted[source]}): ask for last_identifier({source!r}), and go on behind it"
            )
        last = self._called.get(source)
        if last is not None and identifier <= last:
            raise InvalidRequestError(
                f"writer {self._name!r}: the identifiers of source {source!r} go up from write to write; found "
                f"{identifier} behind {last}"
            )
        self._called[source] = identifier

    def _run(self) -> None:
        is_resting = True
        while True:
            with self._changed:
                while not self._is_woken():
                    left = self._times.seconds_left()
                    if left is not None and left <= 0:
                        break
                    if is_resting:
                        self._changed.wait(left)
                    elif not self._changed.wait(_REST_SECONDS if left is None else min(left, _REST_SECONDS)):
                        break
                if self._is_closing and not (self._queue or self._flushes or self._asked):
                    return
                taken = self._taken()
                asked, flushes = list(self._asked), list(self._flushes) if not self._queue else []
                self._asked.clear()
                if flushes:
                    self._flushes.clear()
            is_resting = not (taken or asked or flushes)
            self._work(taken, asked, flushes, rests=is_resting)

    def _is_woken(self) -> bool:
        return bool(self._queue or self._asked or self._flushes or self._is_closing)

    def _taken(self) -> list[QueuedWrite]:
        """The writes that become one, once they have waited for others. Call it with the lock.

        The wait begins now, behind the write before: its callers are about to give the next ones.
        """
        until = time.monotonic() + self._linger
        while self._queue and not (self._is_closing or self._flushes or self._asked):
            left, are_all = until - time.monotonic(), 1 < self._expected <= len(self._queue)
            if left <= 0 or are_all or self._is_full or self._queued_bytes >= BATCH_BYTES_MAX:
                break
            self._changed.wait(left)
        taken: list[QueuedWrite] = []
        size_bytes = 0
        while self._queue and (not taken or self._queue[0].lineage == taken[0].lineage):
            if taken and size_bytes + self._queue[0].size_bytes > BATCH_BYTES_MAX:
                break
            taken.append(self._queue.popleft())
            size_bytes += taken[-1].size_bytes
        self._queued_bytes -= size_bytes
        self._is_full = False
        self._expected = len(taken) + len(self._queue)
        self._changed.notify_all()
        return taken

    def _work(
        self,
        taken: list[QueuedWrite],
        asked: list[tuple[str, Future[int | None]]],
        flushes: list[Future[None]],
        *,
        rests: bool,
    ) -> None:
        """Write, answer, and make the snapshot that is due. No error ends the thread."""
        try:
            if taken:
                self._write(taken)
            if asked:
                self._writes.begin()
                for source, future in asked:
                    self._answer(source, future)
            if flushes or self._times.is_due(self._writes):
                self._take_in(must=bool(flushes))
            for one in flushes:
                one.set_result(None)
            self._writes.pause(is_idle=rests)
            if not self._writes.pending:  # the end of a turn has made a snapshot
                self._times.end()
        except Exception as error:  # noqa: BLE001  # each caller gets it
            if isinstance(error, NameTakenError | LostBatchesError):
                self._fail(error)
            self._interrupt({one.source for one in taken if one.identifier is not None and not one.done.done()}, error)
            answers: list[Future[Any]] = [*(one.done for one in taken), *(future for _, future in asked), *flushes]
            waiting = [one for one in answers if not one.done()]
            for one in waiting:
                one.set_exception(error)
            if not waiting:
                logger.warning("writer %s goes on behind an error: %s", shown(self._name), error)

    def _write(self, taken: list[QueuedWrite]) -> None:
        """Write what several calls have given as one, and acknowledge each."""
        if any(one.identifier is not None for one in taken):
            self._writes.begin()
            self._check_known()
        known = dict(self._writes.sources)
        new = []
        for one in taken:
            if one.identifier is None or one.identifier > known.get(one.source, one.identifier - 1):
                new.append(one)
        sources = {one.source: one.identifier for one in new if one.identifier is not None}
        changes = joined_changes(new, self._check_rows)
        done = [one.done for one in taken if not one.done.done()]
        if changes is not None:
            position, snapshot = self._writes.write(changes, sources, taken[0].lineage)
            if self._writes.pending:
                self._times.begin()
            self._upkeep.begin(snapshot)
        elif done:
            self._writes.begin()
            position = self._writes.position()
        for future in done:
            future.set_result(position)

    def _check_known(self) -> None:
        if self._writes.is_forgotten:
            raise InvalidRequestError(
                f"the table may have forgotten the last identifiers of writer {self._name!r}: it has no write of it, "
                "and has dropped writers that did not write for `users.time-retained`. Look which of its rows are in "
                "the table, then go on with another name"
            )

    def _answer(self, source: str, future: Future[int | None]) -> None:
        try:
            self._check_known()
        except InvalidRequestError as error:
            future.set_exception(error)
            return
        with self._changed:
            self._interrupted.pop(source, None)
            self._called.pop(source, None)
        future.set_result(self._writes.sources.get(source))

    def _take_in(self, *, must: bool) -> None:
        """Make the snapshot of what is in the log alone; unless it `must` be made, a store may answer later."""
        try:
            snapshot = self._writes.take_in()
        except LostBatchesError:
            raise
        except LakelogError as error:
            if must:
                raise
            self._times.put_off()
            logger.warning("the snapshot of the writes of %s is made later: %s", shown(self._name), error)
            return
        self._times.end()
        self._upkeep.begin(snapshot)

    def _interrupt(self, sources: Collection[str], error: Exception) -> None:
        """Refuse the later writes of sources: else their identifiers would say that the interrupted one is there."""
        with self._changed:
            self._interrupted |= dict.fromkeys(sources, error)
            later = [one for one in self._queue if one.identifier is not None and one.source in sources]
            self._queue = deque(one for one in self._queue if one not in later)
            self._queued_bytes = sum(one.size_bytes for one in self._queue)
            self._changed.notify_all()
        for one in later:
            one.done.set_exception(error)

    def _fail(self, error: Exception) -> None:
        """Refuse every later call, and end those that wait."""
        with self._changed:
            self._error = error
            waiting = [one.done for one in self._queue]
            self._queue.clear()
            self._queued_bytes = 0
            self._changed.notify_all()
        for one in waiting:
            one.set_exception(error)
