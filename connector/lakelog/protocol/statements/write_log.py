"""The writes of a Python writer to a table with a log: each is a transaction in every bucket that it touches.

A write is a batch statement whose prepared commit is in its headers: each header names the parts of all buckets. So any
process that finds a write in one bucket finishes it in the others, and the first header that is logged decides that it
happens. Source: docs/rfcs/0051-writers.md.

Before its first write, and after whatever has an unknown outcome, a process takes a *turn*: it fences all buckets, asks
whether it is still the process of its name, and finishes what it finds. From then on its producers stay open, and it
looks no further: whoever else logs in a bucket fences its producer first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakelog.common.errors import (
    FencedError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.common.patience import Patience
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import StatementChanges
from lakelog.protocol.state.steps import Step, StepObserver, process_observer
from lakelog.protocol.state.table_position import TablePosition
from lakelog.protocol.state.writes import sources_of, write_name
from lakelog.protocol.statements.owned_log import NotOwnError, OwnedLog
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.statement_task import CancelledError
from lakelog.protocol.statements.write_parts import made_parts
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.writing.attempts import OldFilesError, OvertakenError
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.lost_batches import LostBatchesError
from lakelog.protocol.writing.turns import Turns

BATCH_BYTES_MAX = 32 << 20  # of rows that one write may have, or several that are joined
_THREADS_MAX = 16
_TRIES_MAX = 50  # of one write: each try begins because another process came between
_BACK_OFF_SECONDS_MAX = 1.0


@dataclass(slots=True)
class WriteLog:
    """The writes of one name, in this process.

    `opened` gives the table and its log as they are now. `check_run` raises an error if another process has the name.
    `number` is that of the last write that is in the log, `sources` are the last identifiers of its sources.
    """

    user: str
    opened: Callable[[], tuple[TableStore, LogTarget]]
    check_run: Callable[[], None]
    turns: Turns
    observe: StepObserver = field(default_factory=process_observer)
    number: int = -1
    sources: dict[str, int] = field(default_factory=dict)
    file_count: int = 0  # in no snapshot
    size_bytes: int = 0
    pending: list[str] = field(default_factory=list)  # the names of writes that no snapshot has
    is_forgotten: bool = False
    _log: OwnedLog | None = None
    _known: int = -1
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="lakelog-write")
    )

    def begin(self) -> None:
        """Take a turn unless this process has one: what earlier processes of the name have left is finished.

        Raises UnavailableError, ConflictError for a name that another process has, LostBatchesError.
        """
        self._until_done(lambda: None)

    def write(self, changes: StatementChanges, sources: Mapping[str, int]) -> TablePosition:
        """Log a write in all its buckets; returns the position that shows it. The write is in the log whole, or not.

        `sources` are the last identifiers of the sources that it goes up to.

        Raises UnknownOutcomeError where it may still get there, and like `begin`.
        """
        number: int | None = None

        def log() -> None:
            nonlocal number
            if number is not None and self.number >= number:
                return  # this turn has found it, and finished it
            number = self.number + 1
            self.observe(Step.PREPARE, self.user, number, None)
            parts = made_parts(self._owned(), self.user, number, changes, {**self.sources, **sources})
            if parts:
                self._owned().log(parts)
                self.number = self._known = number
                self.pending.append(write_name(self.user, number))
                files = [file.meta.file_size_bytes for part, _ in parts.values() for file in part.files]
                self.file_count, self.size_bytes = self.file_count + len(files), self.size_bytes + sum(files)
            self.sources |= sources  # of a write that changes nothing too: the next one that is logged has them

        self._until_done(log)
        return self.position()

    def pause(self, *, is_idle: bool) -> None:
        """Between writes: give way to those who wait, once the turn has lasted long enough or nothing is to be written.

        They find a log in which nothing waits. The producers of an idle process stay open, until others fence them.
        """
        if is_idle:
            self.turns.end()
        elif self.turns.is_over():
            try:
                self.take_in()
            finally:
                self.release()
                self.turns.end()

    def position(self) -> TablePosition:
        """What the log has of this process's writes, over the newest snapshot that it knows."""
        return self._owned().position()

    def take_in(self) -> Snapshot | None:
        """Make one snapshot of all writes that are in the log alone; None without any.

        Raises LostBatchesError where the log no longer has one of them, and like `begin`.
        """
        if not self.pending:
            return None
        table, target = self.opened() if self._log is None else (self._log.table, self._log.target)
        logged = LoggedTable.of(table, target, observe=self.observe)
        try:
            if self._log is None:
                raise NotOwnError
            self._log.take_in(self.pending)
        except NotOwnError:
            self.release()
            logged.finish(self.pending)
        self._forget_pending()
        if self._log is not None:
            behind = self._log.behind(logged.snapshots.newest())
            if behind is None:
                self.release()
            self._log = behind
        return table.snapshots.latest()

    def release(self) -> None:
        """Close the producers: the next write takes a turn."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def close(self) -> None:
        """Close the producers, and end the threads."""
        self.release()
        self.turns.end()
        self._threads.shutdown()

    def _until_done(self, work: Callable[[], None]) -> None:
        """Do the work in a turn, and again in another turn where its outcome is not known or others came between."""
        patience = Patience(60.0)
        for tries in range(_TRIES_MAX):
            try:
                if self._log is None:
                    self.turns.begin()
                    self._log = self._taken()
                    self._begin_on(self._log)
                    self.turns.began()
                    patience = Patience(self._log.target.unavailable_seconds)
                work()
            except _AGAIN as error:
                self.release()
                if tries + 1 == _TRIES_MAX:
                    raise UnknownOutcomeError(
                        f"a write of {shown(self.user)} was interrupted {_TRIES_MAX} times by other writers: {error}. "
                        "If a bucket of it was logged the next writer finishes it; ask for the last identifier of its "
                        "source"
                    ) from error
                time.sleep(random.uniform(0, min(0.01 * 2**tries, _BACK_OFF_SECONDS_MAX)))
            except UnavailableError as error:
                self.release()
                patience.bear(error)
            except BaseException:
                self.release()
                raise
            else:
                self.turns.renew()
                return

    def _owned(self) -> OwnedLog:
        assert self._log is not None, "there was a turn"
        return self._log

    def _taken(self) -> OwnedLog:
        table, target = self.opened()
        self.observe(Step.FENCE, self.user, self.number + 1, None)
        return OwnedLog.taken(
            table,
            target,
            check_run=self.check_run,
            threads=self._threads,
            observe=self.observe,
            size_bytes=BATCH_BYTES_MAX,
        )

    def _begin_on(self, log: OwnedLog) -> None:
        """Know the last write of the name. Raises LostBatchesError for less than this process has acknowledged."""
        last = log.state.users.get(self.user)
        self.number = -1 if last is None else last.identifier
        self.is_forgotten = last is None and log.state.forgotten_millis is not None
        if self.number < self._known:
            raise LostBatchesError(
                f"write {self._known} of {shown(self.user)} was acknowledged, and table {log.table.name} has its "
                f"writes up to {self.number}: its log or its folder is an older one. Nothing more is written"
            )
        self.sources = sources_of(last)
        self._forget_pending()

    def _forget_pending(self) -> None:
        """A snapshot has all writes."""
        self.pending.clear()
        self.file_count = self.size_bytes = 0


_AGAIN = (
    FencedError,
    UnknownOutcomeError,
    TransactionTimeoutError,
    StalledError,
    OldFilesError,
    OvertakenError,
    CancelledError,
    BucketConflictError,
)
