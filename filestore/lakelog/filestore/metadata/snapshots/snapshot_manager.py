"""The snapshots of a table, found by their ids, their times and their tags."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakelog.common.clock import system_millis
from lakelog.common.errors import CorruptDataError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.file_names import numbers_of
from lakelog.common.json_fields import COUNT, check_json_size, number_of
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.io.network import both, calls_at_once
from lakelog.filestore.metadata.snapshots.commit_times import newest_at
from lakelog.filestore.metadata.snapshots.parsed_files import ParsedFiles
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.tag_reading import TagReader
from lakelog.filestore.schema.paths import SNAPSHOT_PREFIX, TablePaths

_READ_ALONE_MAX = 64  # more snapshots are read by threads: an object store takes a long time for each
_READERS = 16
_PARSED_BYTES_MAX = 1 << 20  # a larger file is not kept in memory for the next read
_PROBES_MAX = 64  # for an older hint the folder is listed instead

PARSED_SNAPSHOTS: ParsedFiles[Snapshot] = ParsedFiles(16 << 20)


class SnapshotManager(TagReader):
    """The snapshots of one table, read from their files at every call.

    It keeps the newest id that it has seen, where the next search starts, and the file that it has parsed last.
    """

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        super().__init__(file_io, paths)
        self._seen: int | None = None
        self._noted: Snapshot | None = None
        self._parsed: tuple[str, bytes, Snapshot] | None = None

    def __getstate__(self) -> tuple[FileIO, TablePaths]:
        return self._file_io, self._paths

    def __setstate__(self, state: tuple[FileIO, TablePaths]) -> None:
        self._file_io, self._paths = state
        self._seen = None
        self._noted = None
        self._parsed = None

    def latest(self) -> Snapshot | None:
        """The newest snapshot, read now; None before the first commit."""
        found = self._looked_up()
        self._noted = self._searched() if found is None else found
        if found is not None:
            self._seen = found.id
        return self._noted

    def look_ahead(self) -> None:
        """In a store behind a network, read where the next search starts. The hint may be wrong, or unreadable."""
        if calls_at_once(self._file_io) > 1 and self._seen is None:
            with contextlib.suppress(LakelogError):
                self._seen = self._hint(self._paths.latest_hint)

    def note(self, snapshot: Snapshot) -> None:
        """Note the snapshot that this handle has just committed."""
        self._seen, self._noted = snapshot.id, snapshot

    @property
    def noted(self) -> Snapshot | None:
        """The newest snapshot as this handle has last seen or committed it; it may be out of date."""
        return self._noted

    def seen(self, snapshot_id: int) -> Snapshot:
        """The snapshot of an id, which this handle may just have read as the newest; else as `get`."""
        known = self._noted
        return known if known is not None and known.id == snapshot_id else self.get(snapshot_id)

    def _looked_up(self) -> Snapshot | None:
        """The newest snapshot, if the ids from the hint or the last seen one on have no gap; None to search."""
        seen = self._seen
        if seen is None or calls_at_once(self._file_io) <= 1:
            hint = self._hint(self._paths.latest_hint)
            if hint is None:
                return None
            start = max(hint, seen or hint)
            found, has_next = self._with_next(start)
        else:
            path = self._paths.latest_hint
            hint, (found, has_next) = both(self._file_io, lambda: self._hint(path), partial(self._with_next, seen))
            if hint is None:
                return None
            start = max(hint, seen)
            if start > seen:
                found, has_next = self._with_next(start)
        for _ in range(_PROBES_MAX):
            if not has_next:
                return found
            start += 1
            found, has_next = self._with_next(start)
        return None

    def _with_next(self, snapshot_id: int) -> tuple[Snapshot | None, bool]:
        """The snapshot of an id, None if it is missing or not the newest, and whether the one after it exists."""
        if calls_at_once(self._file_io) <= 1:
            has_next = self._exists(snapshot_id + 1)
            return None if has_next else self.find(snapshot_id), has_next
        return both(self._file_io, lambda: self.find(snapshot_id), lambda: self._exists(snapshot_id + 1))

    def _searched(self) -> Snapshot | None:
        while True:
            hint = self._hint(self._paths.latest_hint)
            self._seen = self._newest(hint, known=self._seen if self._seen == hint else None)
            if self._seen is None:
                return None
            try:
                return self._read(self._seen)
            except NotFoundError:  # there was a rollback or a new table since the id was read
                self._seen = None

    def latest_id(self) -> int | None:
        """The newest snapshot's id, read now: the ids after the last one seen, or after the hint, are probed."""
        self._seen = self._newest(self._hint(self._paths.latest_hint))
        return self._seen

    def _newest(self, hint: int | None, *, known: int | None = None) -> int | None:
        """The newest id, from the last one seen or the hint, whichever is higher; without a hint, by a listing.

        Both may exist with a gap between them: another engine's fast-forward puts a branch behind the table's
        snapshots, and the branch's hint in place of the table's. The caller checks whether `known` exists.
        """
        starts = set() if hint is None else {hint, self._seen or hint}
        for start in sorted(starts, reverse=True):
            newest = self._probe(start, is_known=start == known)
            if newest is not None:
                return newest
        newest = max(self.ids(), default=None)
        self._check_not_lost(newest)
        return newest

    def _check_not_lost(self, newest: int | None) -> None:
        """Raise CorruptDataError when the hint names the snapshot after the newest: its file was lost.

        A rollback writes the hint before it deletes snapshots. Hints with other ids are stale or damaged.
        """
        hint = self._hint(self._paths.latest_hint)
        if hint is not None and hint == (newest or 0) + 1 and not self._exists(hint):
            raise CorruptDataError(
                f"{self._paths.snapshot(hint)} is missing, though {self._paths.latest_hint} names it as the newest; "
                f"restore the file, or delete LATEST to continue from snapshot {newest or 'none'} and lose its rows"
            )

    def earliest_id(self) -> int | None:
        """The oldest living snapshot's id; None before the first commit."""
        return self.look_for_earliest()[0]

    def look_for_earliest(self) -> tuple[int | None, bool]:
        """The oldest living snapshot's id, and whether it came from the hint, without a listing."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is not None and self._exists(hint) and not self._exists(hint - 1):
            return hint, True
        return min(self.ids(), default=None), False

    def ids(self) -> list[int]:
        """All living ids, in ascending order. Lists the folder."""
        return numbers_of(self._file_io.list_names(self._paths.snapshot_dir), SNAPSHOT_PREFIX)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of an id; None when it is missing."""
        try:
            return self._read(snapshot_id)
        except NotFoundError:
            return None

    def get(self, snapshot_id: int) -> Snapshot:
        """The snapshot of an id. Raises NotFoundError, naming the living ids."""
        try:
            return self._read(snapshot_id)
        except NotFoundError as error:
            ids = self.ids()
            living = f"snapshots {ids[0]} to {ids[-1]} exist" if ids else "the table has no snapshot yet"
            path = self._paths.snapshot(snapshot_id)
            raise NotFoundError(
                f"snapshot {snapshot_id} of {self._paths.root} does not exist; {living}: name one of these. When it "
                f"cannot have expired, its file {path} was lost: restore it"
            ) from error

    def at_or_before(self, time_millis: int, *, now_millis: int | None = None) -> Snapshot | None:
        """The newest snapshot committed at or before a timestamp; None if all living ones are younger.

        Reads all living snapshots: the date of any of them may be wrong, see
        `lakelog.filestore.metadata.snapshots.commit_times`.
        """
        now = system_millis() if now_millis is None else now_millis
        living = self.living()
        at = newest_at([snapshot.time_millis for snapshot in living], time_millis, now_millis=now)
        return None if at is None else living[at]

    def living(self, first: int = 1, *, count: int | None = None) -> list[Snapshot]:
        """The living snapshots from an id on, oldest first; with `count`, at most those of this many ids.

        Those that expire meanwhile are left out.
        """
        earliest, latest = self.earliest_id(), self.latest_id()
        if earliest is None or latest is None:
            return []
        return self._in(range(max(first, earliest), latest + 1)[:count])

    def behind(self, snapshot_id: int) -> list[Snapshot]:
        """The snapshots after a living one, oldest first; without a listing if they are few."""
        return self._in(range(snapshot_id + 1, (self.latest_id() or 0) + 1))

    def _in(self, between: range) -> list[Snapshot]:
        is_short = len(between) <= _READ_ALONE_MAX  # the newest id may be far above
        return self._found(between if is_short else [number for number in self.ids() if number in between])

    def _found(self, ids: Sequence[int]) -> list[Snapshot]:
        """The existing snapshots among these ids."""
        if len(ids) <= _READ_ALONE_MAX:
            return [snapshot for number in ids if (snapshot := self.find(number)) is not None]
        count = min(_READ_ALONE_MAX, -(-len(ids) // _READERS))  # a task for each would take longer than its file
        with ThreadPoolExecutor(_READERS, "lakelog-snapshots") as pool:
            pieces = pool.map(self._found, (ids[start : start + count] for start in range(0, len(ids), count)))
            return [snapshot for piece in pieces for snapshot in piece]

    def walk_back(self, start: Snapshot) -> Iterator[Snapshot]:
        """`start`, then the snapshots before it, down to the oldest living one."""
        yield start
        for snapshot_id in range(start.id - 1, 0, -1):
            try:
                yield self._read(snapshot_id)
            except NotFoundError:
                return

    def create_new(self, snapshot: Snapshot) -> bool:
        """Create the snapshot's file; False when its id is taken. The caller writes the hint."""
        if snapshot.id not in COUNT:
            raise InvalidRequestError(
                f"snapshot {snapshot.id} of {self._paths.root} would not be readable: ids end at {COUNT.stop - 1}; a "
                f"snapshot file with a wrong number is in {self._paths.snapshot_dir}: remove it"
            )
        data = snapshot.to_json().encode()
        try:
            check_json_size(data)
        except ValueError as error:
            raise InvalidRequestError(
                f"snapshot {snapshot.id} of {self._paths.root} would not be readable: {error}; its properties hold "
                "too much, such as the users of the table or the lineage of a batch"
            ) from error
        return self._file_io.create_new(self._paths.snapshot(snapshot.id), data)

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write the hint of the newest snapshot; a stale hint only costs later readers a few probes."""
        self._file_io.write_bytes(self._paths.latest_hint, str(snapshot_id).encode())

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the hint of the oldest snapshot, after an expiry or a rollback."""
        self._file_io.write_bytes(self._paths.earliest_hint, str(snapshot_id).encode())

    def _read(self, snapshot_id: int) -> Snapshot:
        """The snapshot of an id, read now; bytes that were just parsed are not parsed again."""
        path = self._paths.snapshot(snapshot_id)
        data = self._file_io.read_bytes(path)
        parsed = self._parsed
        if parsed is not None and parsed[:2] == (path, data):
            return parsed[2]
        snapshot = PARSED_SNAPSHOTS.get(path, data)
        if snapshot is None:
            snapshot = Snapshot.from_json(data, path=path)
            if snapshot.id != snapshot_id:
                raise damaged(path, f"it holds the snapshot {snapshot.id}, expected {snapshot_id}")
            PARSED_SNAPSHOTS.put(path, data, snapshot)
        if len(data) <= _PARSED_BYTES_MAX:
            self._parsed = path, data, snapshot
        return snapshot

    def _exists(self, snapshot_id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(snapshot_id))

    def _probe(self, start: int, *, is_known: bool) -> int | None:
        """The last id without a gap from `start` on; None if `start` is missing or the end is too far away."""
        if not is_known and not self._exists(start):
            return None
        for snapshot_id in range(start, start + _PROBES_MAX):
            if not self._exists(snapshot_id + 1):
                return snapshot_id
        return None

    def _hint(self, path: str) -> int | None:
        return read_hint(self._file_io, path)


def read_hint(file_io: FileIO, path: str) -> int | None:
    """The number in a hint; None if the hint is missing, half-written or not a valid id."""
    try:
        text = file_io.read_bytes(path).decode().strip()
        return number_of(text, COUNT)
    except (CorruptDataError, NotFoundError, ValueError):
        return None
