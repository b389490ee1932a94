"""The line of commits that have lost a race: the one that has waited longest goes first.

A commit that has lost puts the file `lakelog/line/<place>-<patience>-<uuid>` into the table's folder, empty, with a
place after all others in it, and the milliseconds for which others wait while it is first. The commit is tried again
when it is first, and deletes its file at its end. So one commit is tried at a time, and the others do not slow it down.

A commit that has lost no race passes the line without looking at it, with two exceptions in which it joins the line
too: its handle has met other commits recently, or its snapshot would have a number that LOOK_EVERY divides and the file
`lakelog/line/waiting` exists, which each lost race writes and the last commit in the line deletes. So writers that
always win do not keep a slow one from its turn.

The line decides nothing: only creating the snapshot's file decides. If a process in the line was killed or sleeps, or a
handle is released before the next commit that has its place, the waiting commits delete the file once its patience is
over, or `remove_orphan_files` does. A file that is deleted wrongly only costs the commit its place.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakelog.common.errors import NotFoundError, UnavailableError
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.schema.paths import TablePaths

logger = logging.getLogger("lakelog.filestore")

LOOK_EVERY = 16
LATELY_SECONDS = 10.0
_PATIENCE_MIN_MILLIS, _PATIENCE_MAX_MILLIS = 2_000, 60_000
_TRIES_OF_PATIENCE = 8  # others wait for the first one as long as this many of its tries take
_NUMBER_MAX = 10**15 - 1  # a file with a higher number would not be a place
# The next commit looks often, those after it seldom.
_PAUSE_MIN_MILLIS, _PAUSE_OF_NEXT_MILLIS, _PAUSE_GROWTH = 5, 50, 1.5
_MARK = "waiting"
_NO_ANSWER = (NotFoundError, UnavailableError)  # without the table's folder the commit itself says what is missing
_NAME = re.compile(r"([0-9]{1,15})-([0-9]{1,6})-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True, order=True)
class LinePlace:
    """One file of the line. Places are ordered by their numbers; two that were taken at once, by the uuid."""

    number: int
    uuid: str
    patience_millis: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number}-{self.patience_millis}-{self.uuid}"

    @classmethod
    def of(cls, name: str) -> LinePlace | None:
        """The place with this name; None for a file that is not a place."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(int(found[1]), found[3], min(int(found[2]), _PATIENCE_MAX_MILLIS))


def line_folder(paths: TablePaths) -> str:
    """The folder of the line of a table or branch."""
    return f"{paths.own_root}/lakelog/line"


class CommitLine:
    """The line of one table or branch, as one handle sees it."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._folder = line_folder(paths)
        self._met_seconds: float | None = None
        self._kept: list[LinePlace] = []

    def places(self) -> list[LinePlace]:
        """The places in order. One listing."""
        found = (LinePlace.of(name) for name in self._file_io.list_names(self._folder))
        return sorted(place for place in found if place is not None)

    def add(self, place: LinePlace) -> None:
        """Create the file of a place. It need not outlive a crash of the machine."""
        self._file_io.write_bytes(f"{self._folder}/{place.name}", b"")

    def delete(self, place: LinePlace) -> None:
        """Delete the file of a place; a missing one is fine."""
        self._file_io.delete(f"{self._folder}/{place.name}")

    def mark(self) -> None:
        """Mark that there is a line, for commits that look only now and then."""
        self._file_io.write_bytes(f"{self._folder}/{_MARK}", b"")

    def unmark(self) -> None:
        """Delete the mark."""
        self._file_io.delete(f"{self._folder}/{_MARK}")

    def is_marked(self) -> bool:
        """Whether there may be a line. Lists nothing."""
        return self._file_io.exists(f"{self._folder}/{_MARK}")

    def keep(self, place: LinePlace) -> None:
        """Keep a place for the next commit of this handle."""
        self._kept.append(place)

    @property
    def has_kept(self) -> bool:
        """Whether a place is kept for the next commit of this handle."""
        return bool(self._kept)

    def take_kept(self) -> LinePlace | None:
        """The place that a commit of this handle has left to the next one."""
        try:
            return self._kept.pop()
        except IndexError:
            return None

    def note_others(self, now_seconds: float) -> None:
        """Note that a commit of this handle has met others."""
        self._met_seconds = now_seconds

    def has_met_others_lately(self, now_seconds: float) -> bool:
        """Whether a commit of this handle has recently lost a race, or found others in the line."""
        return self._met_seconds is not None and now_seconds - self._met_seconds < LATELY_SECONDS


class CommitTurn:
    """One commit and its place in the line, if it has one.

    `seconds` is a monotonic clock, `sleep` takes seconds. The line is an aid: if the store does not answer, this is
    logged, and the commit continues without the line.
    """

    def __init__(self, line: CommitLine, *, seconds: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._line = line
        self._seconds = seconds
        self._sleep = sleep
        self._place = line.take_kept()
        self._has_others = self._is_last = False

    def begin(self, next_id: int, *, limit_millis: int) -> bool:
        """Called before the first try to create the snapshot `next_id`: whether the commit has waited in the line."""
        try:
            return self._stands_in_line(next_id) and self._wait(0, limit_millis)
        except _NO_ANSWER as error:
            _log_no_answer(error)
            return False

    def _stands_in_line(self, next_id: int) -> bool:
        if self._place is not None:
            return True
        is_asked = not next_id % LOOK_EVERY and self._line.is_marked()
        if not is_asked and not self._line.has_met_others_lately(self._seconds()):
            return False
        has_line = bool(self._line.places())
        if is_asked and not has_line:  # its last one was killed
            self._line.unmark()
        return has_line

    def wait(self, *, try_millis: int, limit_millis: int) -> bool:
        """After a lost race, whose try took `try_millis`, wait for the turn. False if no other commit waits."""
        self._line.note_others(self._seconds())
        try:
            self._line.mark()
            return self._wait(try_millis, limit_millis)
        except _NO_ANSWER as error:
            _log_no_answer(error)
            return False

    def end(self, *, keeps_place: bool) -> None:
        """Leave the line, or leave the place to the next commit of this handle, whose rows are written again."""
        place, self._place = self._place, None
        if place is None:
            return
        if keeps_place:
            self._line.keep(place)
            return
        try:
            self._line.delete(place)
            if self._is_last:
                self._line.unmark()
        except _NO_ANSWER as error:
            logger.warning("the place %s in the line of commits is left behind: %s", place.name, error)

    def _wait(self, try_millis: int, limit_millis: int) -> bool:
        """Wait until no other commit is ahead, or for the limit; returns whether others were in the line.

        Raises UnavailableError.
        """
        self._has_others = False
        ahead = self._ahead(try_millis)
        first, waited, at_first, pause = None, 0.0, 0.0, 0.0
        while ahead and waited < limit_millis:
            if ahead[0] != first:
                first, at_first = ahead[0], waited
                pause = len(ahead) * max(_PAUSE_MIN_MILLIS, try_millis / 8)
            elif waited - at_first >= first.patience_millis:
                self._line.delete(first)
            longest = len(ahead) * max(_PAUSE_OF_NEXT_MILLIS, try_millis / 4)
            pause = min(pause, longest, limit_millis - waited, _PATIENCE_MIN_MILLIS / 4)
            self._sleep(pause / 1000)
            waited, pause = waited + pause, pause * _PAUSE_GROWTH
            ahead = self._ahead(try_millis)
        if self._has_others:
            self._line.note_others(self._seconds())
        return self._has_others

    def _ahead(self, try_millis: int) -> list[LinePlace]:
        """The places before the commit's own place, which is taken if it has none.

        A place whose file was deleted by others is put back, with twice the patience.
        """
        places, own = self._line.places(), self._place
        if own is None or own not in places:
            wanted = try_millis * _TRIES_OF_PATIENCE if own is None else own.patience_millis * 2
            own = self._place = LinePlace(
                number=_next_number(places) if own is None else own.number,
                uuid=uuid.uuid4().hex if own is None else own.uuid,
                patience_millis=max(_PATIENCE_MIN_MILLIS, min(wanted, _PATIENCE_MAX_MILLIS)),
            )
            self._line.add(own)
        self._is_last = all(place == own for place in places)
        self._has_others = self._has_others or not self._is_last
        return [place for place in places if place < own]


def _next_number(places: Sequence[LinePlace]) -> int:
    return min(max((place.number for place in places), default=0) + 1, _NUMBER_MAX)


def _log_no_answer(error: NotFoundError | UnavailableError) -> None:
    logger.warning("the line of commits did not answer, this one is tried without: %s", error)
