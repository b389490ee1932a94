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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lakelog.common.errors import (
    FencedError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.common.patience import Patience
from lakelog.common.quoting import shown
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step
from lakelog.protocol.state.writes import sources_of, write_name
from lakelog.protocol.statements.owned_log import LeftOverError, LogPorts, NotOwnError, OwnedLog, Part
from lakelog.protocol.statements.statement_task import CancelledError
from lakelog.protocol.statements.statements import finish
from lakelog.protocol.writing.attempts import OldFilesError, OvertakenError, made_on
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.lost_batches import LostBatchesError

Changes = TypeVar("Changes")
Payload = TypeVar("Payload")

_TRIES_MAX = 50  # of one write: each try begins because another process came between
_BACK_OFF_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedWrite(Generic[Changes]):
    """A write, and its number among those of its user. `sources` are the last identifiers of all sources by then.

    `has_identifiers` says that some of them are its own. Without a `lineage` it is that of the table's handle.
    """

    user: str
    number: int
    changes: Changes
    sources: Mapping[str, int]
    has_identifiers: bool
    lineage: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLog(Generic[Changes, Payload]):
    """A table and its log as they are now. `make` writes the files of a write, and gives its part in each bucket."""

    ports: LogPorts[Payload]
    make: Callable[[OwnedLog[Payload], NumberedWrite[Changes]], Mapping[int, Part[Payload]]]


class TakesTurns(Protocol):
    """The turns of processes that write one log, for speed alone. See `Turns`."""

    def begin(self) -> None: ...
    def began(self) -> None: ...
    def renew(self) -> None: ...
    def is_over(self) -> bool: ...
    def end(self) -> None: ...


@dataclass(slots=True)
class WriteLog(Generic[Changes, Payload]):
    """The writes of one name, in this process.

    `opened` gives the table and its log as they are now. `check_run` raises an error if another process has the name.
    `number` is that of the last write that is in the log, `sources` are the last identifiers of its sources, and
    `pending` the names of the writes that no snapshot has, with so many files and bytes.
    """

    user: str
    opened: Callable[[], OpenedLog[Changes, Payload]]
    check_run: Callable[[], None]
    turns: TakesTurns
    wait: Callable[[float], None] = time.sleep
    number: int = -1
    sources: dict[str, int] = field(default_factory=dict)
    file_count: int = 0
    size_bytes: int = 0
    pending: list[str] = field(default_factory=list)
    is_forgotten: bool = False
    _log: OwnedLog[Payload] | None = None
    _opened: OpenedLog[Changes, Payload] | None = None
    _known: int = -1

    def begin(self) -> None:
        """Take a turn unless this process has one: what earlier processes of the name have left is finished.

        Raises UnavailableError, ConflictError for a name that another process has, LostBatchesError.
        """
        self._until_done(lambda: None)

    def write(self, changes: Changes, sources: Mapping[str, int], lineage: Mapping[str, object] | None = None) -> None:
        """Log a write in all its buckets. It is in the log as a whole, or not at all.

        `sources` are the last identifiers of the sources that it goes up to. Raises UnknownOutcomeError where it may
        still get there, and like `begin`.
        """
        number: int | None = None

        def log() -> None:
            nonlocal number
            if number is not None and self.number >= number:
                return  # this turn has found it, and finished it
            number = self.number + 1
            opened, owned = self._mine()
            opened.ports.observe(Step.PREPARE, self.user, number, None)
            known = {**self.sources, **sources}
            write = NumberedWrite(
                user=self.user,
                number=number,
                changes=changes,
                sources=known,
                has_identifiers=bool(sources),
                lineage=lineage,
            )
            with made_on(opened.ports.files, owned.state.snapshot_id):  # in which old rows are looked up
                parts = opened.make(owned, write)
            if parts:
                owned.log(parts)
                if not self.pending:
                    owned.mark(parts)
                self.number = self._known = number
                self.pending.append(write_name(self.user, number))
                files = [file.meta.file_size_bytes for part, _ in parts.values() for file in part.files]
                self.file_count, self.size_bytes = self.file_count + len(files), self.size_bytes + sum(files)
            self.sources |= sources

        self._until_done(log)

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
                self.close()

    def position(self) -> tuple[int, dict[int, int]]:
        """The newest snapshot that this process knows, and where the log of each bucket ends."""
        _, owned = self._mine()
        return owned.state.snapshot_id, owned.offsets()

    def take_in(self) -> bool:
        """Make one snapshot of all writes that are in the log alone; False without any.

        Raises LostBatchesError where the log no longer has one of them, and like `begin`.
        """
        if not self.pending:
            return False
        ports = (self.opened() if self._opened is None else self._opened).ports
        try:
            if self._log is None:
                raise NotOwnError
            self._log.take_in(self.pending)
        except NotOwnError:
            self.release()
            finish(self.pending, ports.statements)
            self._check_kept(ports, ports.files.newest())
        self._forget_pending()
        if self._log is not None:
            behind = self._log.behind(ports.files.newest())
            if behind is None:
                self.release()
            self._log = behind
        return True

    def release(self) -> None:
        """Close the producers: the next write takes a turn."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def close(self) -> None:
        """End the turn, for which others may wait, and close the producers."""
        try:
            self.turns.end()
        finally:
            self.release()

    def _until_done(self, work: Callable[[], None]) -> None:
        """Do the work in a turn, and again in another turn where its outcome is not known or others came between."""
        patience: Patience | None = None
        for tries in range(_TRIES_MAX):
            try:
                if self._log is None:
                    self.turns.begin()
                    self._opened = self.opened()
                    patience = patience or self._opened.ports.patience()
                    self._opened.ports.observe(Step.FENCE, self.user, self.number + 1, None)
                    self._log = OwnedLog.taken(self._opened.ports, self.check_run)
                    patience.succeeded()
                    self._begin_on(self._opened.ports, self._log.state)
                    self.turns.began()
                work()
            except LeftOverError as left:  # finishing is patient by itself
                self._finish(left.names)
            except _AGAIN as error:
                self.release()
                patience = None  # Kafka has answered since it did not
                if tries + 1 == _TRIES_MAX:
                    raise UnknownOutcomeError(
                        f"a write of {shown(self.user)} was interrupted {_TRIES_MAX} times by other writers: {error}. "
                        "If a bucket of it was logged the next writer finishes it; ask for the last identifier of its "
                        "source"
                    ) from error
                self.wait(random.uniform(0, min(0.01 * 2**tries, _BACK_OFF_SECONDS_MAX)))
            except UnavailableError as error:
                self.release()
                (patience or Patience(0)).bear(error)
            except BaseException:
                self.release()
                raise
            else:
                self.turns.renew()
                return

    def _finish(self, names: Sequence[str]) -> None:
        """Finish what others have left; where more others come between, the next turn does."""
        assert self._opened is not None, "what is left was found in the log"
        with suppress(*_AGAIN):
            finish(names, self._opened.ports.statements)

    def _mine(self) -> tuple[OpenedLog[Changes, Payload], OwnedLog[Payload]]:
        assert self._opened is not None, "there was a turn"
        assert self._log is not None, "there was a turn"
        return self._opened, self._log

    def _begin_on(self, ports: LogPorts[Payload], state: TableState) -> None:
        """Know the last write of the name. Raises LostBatchesError for less than this process has acknowledged."""
        last = state.users.get(self.user)
        self.is_forgotten = last is None and state.forgotten_millis is not None
        if self.is_forgotten and not self.pending:
            self._known = -1
        self.number = self._check_kept(ports, state)
        self.sources = sources_of(last)
        self._forget_pending()

    def _check_kept(self, ports: LogPorts[Payload], state: TableState) -> int:
        """The number of the last write of the name. Raises LostBatchesError for less than what was acknowledged."""
        last = state.users.get(self.user)
        number = -1 if last is None else last.identifier
        marked = None if self.is_forgotten else ports.find_mark(self.user)
        known = max(self._known, -1 if marked is None else marked)
        if number < known:
            raise LostBatchesError(
                f"write {known} of {shown(self.user)} was acknowledged, and table {ports.table_name} has its writes up "
                f"to {number}: its log or its folder is an older one. Nothing more is written"
            )
        return number

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
