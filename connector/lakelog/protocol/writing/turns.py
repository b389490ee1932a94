"""Turns of the processes that write one log: they fence each other less often when one writes at a time.

Nothing relies on a turn but speed: a process that writes without one, or after its turn has lapsed, is right too, since
the fences decide. Without turns eight writers fence each other 400 times a write, and do not end.

| file in `lakelog/statements` | what it says |
|---|---|
| `turn-<number>` | a process has a turn, the highest number counts; the file is written again while the turn is used |
| `turn-<number>-over` | that turn is over |
| `turn-waits-<milliseconds>-<uuid>` | a process waits since then; it writes the file again while it waits |

Who waits longest is next. The folder is that of prepared commits, which each batch lists anyway: so a stream sees
without a further request whether others wait. Source: docs/rfcs/0051-writers.md.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from lakelog.common.clock import system_millis
from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.tables import TableStore

logger = logging.getLogger("lakelog.protocol")

TURN_MILLIS = 3_000  # a turn that was not renewed for so long has ended, and so has a wait
RENEW_SECONDS = 1.0
_POLL_SECONDS = 0.02
_BOUND_SECONDS_MIN = 0.3
_BOUND_TURNS = 5  # a turn lasts as long as it takes to begin so many, while others wait
_TURN = re.compile(r"turn-([0-9]+)")
_OVER = re.compile(r"turn-([0-9]+)-over")
_WAITS = re.compile(r"turn-waits-([0-9]{15})-[0-9a-f-]{36}")


def has_turns(names: Iterable[str]) -> bool:
    """Whether writers have taken turns at the table, by the names in the folder."""
    return any(_TURN.fullmatch(name) for name in names)


def is_contended(names: Iterable[str]) -> bool:
    """Whether a process waits for a turn, by the names in the folder."""
    return any(_WAITS.fullmatch(name) for name in names)


@dataclass(slots=True)
class Turns:
    """The turns of one process at the log of a table."""

    table: TableStore
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _number: int = 0  # of the turn that this process has; 0 without one
    _since: float = 0.0
    _renewed: float = 0.0
    _bound: float = _BOUND_SECONDS_MIN
    _over_since: float = 0.0
    _end_seconds: float = 0.0  # what the end of the last turn has taken

    def begin(self) -> None:
        """Wait for a turn, and have it."""
        if self._number:
            self.renew()
            return
        own, written_at, written_millis = "", 0.0, 0
        now: int | None = None  # by the clock of the store, which the file of this process tells
        try:
            while True:
                files = self._files()
                if own in files:
                    now = system_millis() + files[own] - written_millis
                if _is_free(files, now) and _is_next(files, own, now) and self._take(_newest(files) + 1, files, now):
                    return
                if not own or self.clock() - written_at > RENEW_SECONDS:
                    written_at, written_millis = self.clock(), system_millis()
                    own = own or f"turn-waits-{written_millis:015d}-{uuid.uuid4()}"
                    self.table.file_io.write_bytes(self._path(own), b"")
                self.sleep(_POLL_SECONDS)
        finally:
            if own:
                self.table.file_io.delete(self._path(own))

    def began(self) -> None:
        """The turn is used from now on: its beginning and the end of the one before are its cost, which bounds it."""
        now = self.clock()
        self._bound = max(_BOUND_SECONDS_MIN, _BOUND_TURNS * (now - self._since + self._end_seconds))
        self._since = now

    def renew(self) -> None:
        """Keep the turn."""
        if self._number and self.clock() - self._renewed >= RENEW_SECONDS:
            self.table.file_io.write_bytes(self._path(f"turn-{self._number}"), b"")
            self._renewed = self.clock()

    def is_over(self) -> bool:
        """Whether the turn has lasted long enough, and others wait. Lists the folder once a turn's length."""
        if not self._number or self.clock() - self._since < self._bound:
            return False
        self._since = self.clock()
        is_over = is_contended(self._files())
        self._over_since = self._since if is_over else 0.0
        return is_over

    def end(self) -> None:
        """Give up the turn, if there is one."""
        if self._number:
            self.table.file_io.write_bytes(self._path(f"turn-{self._number}-over"), b"")
            self._number = 0
            self._end_seconds = self.clock() - self._over_since if self._over_since else 0.0
            self._over_since = 0.0

    def _take(self, number: int, files: Mapping[str, int], now: int | None) -> bool:
        if not self.table.file_io.create_new(self._path(f"turn-{number}"), b""):
            return False
        self._number = number
        self._since = self._renewed = self.clock()
        for name in files:
            found = _TURN.fullmatch(name) or _OVER.fullmatch(name)
            is_older = found is not None and int(found[1]) < number
            if is_older or (_WAITS.fullmatch(name) and not _is_there(files[name], now)):
                self.table.file_io.delete(self._path(name))
        return True

    def _files(self) -> dict[str, int]:
        """The names in the folder -> when each was last changed."""
        return {one.name: one.modified_millis for one in self.table.file_io.list_entries(self.folder)}

    @property
    def folder(self) -> str:
        """The folder of the files."""
        return f"{self.table.paths.own_root}/lakelog/statements"

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"


@contextmanager
def in_turn(table: TableStore) -> Iterator[Sequence[str]]:
    """What is done takes its turn beside writers at work; gives the names in the folder. One listing without writers.

    A statement needs it: a busy writer would fence it again and again.
    """
    turns = Turns(table)
    names = table.file_io.list_names(turns.folder)
    number = _newest(names)
    if not is_contended(names) and (not number or f"turn-{number}-over" in names):
        yield names
        return
    turns.begin()
    is_done = Event()
    renewing = Thread(target=_keep, args=(turns, is_done), name="lakelog-turn", daemon=True)
    renewing.start()
    try:
        yield table.file_io.list_names(turns.folder)
    finally:
        is_done.set()
        renewing.join()
        turns.end()


def _keep(turns: Turns, is_done: Event) -> None:
    """Keep a turn while a statement runs, however long that takes."""
    while not is_done.wait(RENEW_SECONDS):
        try:
            turns.renew()
        except LakelogError as error:  # others may come between, and nothing worse
            logger.warning("the turn at table %s was not renewed: %s", turns.table.name, error)


def _is_free(files: Mapping[str, int], now: int | None) -> bool:
    """Whether no process has a turn, or the one that had it is no longer there."""
    number = _newest(files)
    if not number or f"turn-{number}-over" in files:
        return True
    return not _is_there(files[f"turn-{number}"], now)


def _is_next(files: Mapping[str, int], own: str, now: int | None) -> bool:
    """Whether no other process that is still there waits for longer."""
    waiting = [name for name, at in files.items() if _WAITS.fullmatch(name) and _is_there(at, now)]
    return min(waiting, default=own) == own


def _is_there(renewed_millis: int, now: int | None) -> bool:
    """Whether the process that has written a file then is still there, as far as is known."""
    return now is None or now - renewed_millis <= TURN_MILLIS


def _newest(files: Iterable[str]) -> int:
    return max((int(found[1]) for name in files if (found := _TURN.fullmatch(name))), default=0)
