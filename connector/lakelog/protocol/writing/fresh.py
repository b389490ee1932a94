"""Fresh reads: the newest snapshot, and the files of the transactions that the log has behind it.

The header of each transaction names its level-0 files, so a fresh read is a plan, and decodes no records. It equals the
plain read behind the snapshot that takes in the same offsets. Aborted and open transactions are not in it. A batch
statement is in it as a whole or not at all: in each bucket the read ends before the first transaction of a statement
that is not in all its buckets, since later ones are built on it. Source: docs/rfcs/0049-log-first.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakelog.common.errors import NotFoundError, UnavailableError, UnsupportedError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import OutdatedSnapshotError, TableStore
from lakelog.filestore.read import pinned
from lakelog.filestore.verbs import AddedRows, RowsInMemory
from lakelog.filestore.write import add_entry
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.offsets import Position, committed_ends
from lakelog.logstore.options import FRESH_CACHE_MAX_MEMORY_SIZE
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.table_position import TablePosition
from lakelog.protocol.state.writer_marks import WriterMarks
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.committed import CommittedBucket
from lakelog.protocol.writing.whole_tails import Logged, cut_tails, logged_before, statements_in

AnyStore = TypeVar("AnyStore", bound=TableStore)
_LOOK_AGAIN_SECONDS = 0.005
_LOOK_AGAIN_SECONDS_MAX = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshState(Generic[AnyStore]):
    """A table whose reads show a snapshot and what the log has behind it, and the position of these reads.

    `answers` are what any snapshot may take in of it: each bucket up to its first batch statement, which only the
    statement's own commit takes in. `added` looks up rows by key; None where that needs a read of `table`.
    """

    table: AnyStore
    position: TablePosition
    answers: tuple[BucketAnswer, ...]
    added: AddedRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownLog:
    """What was read of a bucket's log from `start` on: its transactions, and the last stable offset of that read."""

    start: int
    logged: Logged
    read_to: Position

    @property
    def end(self) -> int:
        """Where the last transaction ends."""
        return self.logged[-1][1] if self.logged else self.start

    def behind(self, offset: int) -> _KnownLog | None:
        """What is known behind an offset; None if a snapshot ends where no transaction ends."""
        if offset == self.start:
            return self
        left = [end for _, end in self.logged].index(offset) + 1 if any(end == offset for _, end in self.logged) else 0
        return _KnownLog(start=offset, logged=self.logged[left:], read_to=self.read_to) if left else None


@dataclass(slots=True)
class FreshReads(Generic[AnyStore]):
    """The fresh reads of one table handle: what the log had at the last one stays known, and later ones read on."""

    table: AnyStore
    target: LogTarget
    _known: dict[int, _KnownLog] = field(default_factory=dict)
    _kept: RowsInMemory = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """What is read of the files behind the snapshot stays in memory."""
        self._kept = RowsInMemory(FRESH_CACHE_MAX_MEMORY_SIZE.understood(self.table.schema.options))

    def read(
        self, *, whole: bool = False, at_least: TablePosition | None = None, timeout_seconds: float = 10.0
    ) -> FreshState[AnyStore]:
        """The newest committed state. `whole` leaves out batches of streams that are not known to be whole.

        `at_least` is waited for. Raises UnavailableError when Kafka does not answer, or that position is not reached in
        time; UnsupportedError for an eventual log, and behind changes of another engine; CorruptDataError.
        """
        self._check_transactional()
        patience = Patience(self.target.unavailable_seconds)
        deadline, pause = time.monotonic() + timeout_seconds, _LOOK_AGAIN_SECONDS
        while True:
            with self._lock:
                found = patience.keep_trying(lambda: self._look(whole=whole))
            if at_least is None or found.position.covers(at_least):
                return found
            if time.monotonic() + pause > deadline:
                raise UnavailableError(
                    f"table {self.table.name} has not reached the position {at_least} in {timeout_seconds:g} s, it is "
                    f"at {found.position}: what the position names is not committed yet, or waits behind a statement "
                    "or a batch that is not whole"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LOOK_AGAIN_SECONDS_MAX)

    def of_buckets(self, buckets: frozenset[int]) -> tuple[AnyStore, AddedRows | None]:
        """The newest committed state, right in these buckets alone. Raises like `read`.

        Only their logs are read, unless they have a batch statement of others too, which all buckets show or none.
        """
        self._check_transactional()
        with self._lock:
            found = Patience(self.target.unavailable_seconds).keep_trying(
                lambda: self._look(whole=False, buckets=buckets)
            )
        return found.table, found.added

    def _check_transactional(self) -> None:
        if not self.target.topic.is_transactional:
            raise UnsupportedError(
                f"table {self.table.name} has an eventual log, whose records do not say which files are theirs: a "
                "fresh read needs a transactional log; read the newest snapshot"
            )

    def _look(self, *, whole: bool, buckets: frozenset[int] | None = None) -> FreshState[AnyStore]:
        while True:
            # The marks come before the ends: what they name is there.
            marks = WriterMarks(self.table, self.target.topic_id).all() if whole else []
            snapshot = self.table.snapshots.latest()
            try:
                state = read_state(self.table, snapshot, topic_id=self.target.topic_id)
            except OutdatedSnapshotError:  # there is a newer one now
                continue
            try:
                tails = self._tails(state, buckets)
            except LogTruncatedError:
                if self._is_newest(snapshot):
                    raise
                continue  # another writer has taken the tail in, and its records have expired
            whole_up_to = {mark.user: mark.identifier for mark in marks} if whole else None
            try:
                statements = statements_in(self.table, state, tails)
            except NotFoundError:
                if self._is_newest(snapshot):
                    raise
                continue  # the statement was finished meanwhile
            if buckets is not None and not all(part is not None and part <= buckets for part in statements.values()):
                buckets = None
                continue
            cut = cut_tails(tails, statements, whole_up_to)
            return self._shown(state, snapshot, cut, set(statements), is_part=buckets is not None)

    def _is_newest(self, snapshot: Snapshot | None) -> bool:
        return self.table.snapshots.latest_id() == (None if snapshot is None else snapshot.id)

    def _tails(self, state: TableState, buckets: frozenset[int] | None) -> dict[int, Logged]:
        """The committed transactions behind a snapshot, of each bucket or of some."""
        ends = committed_ends(self.target.topic, self.table.bucket_count, only=buckets)

        def known(bucket: int) -> _KnownLog:
            return self._read_on(state, bucket, ends[bucket])

        behind = [bucket for bucket, end in ends.items() if not self._is_known(state, bucket, end)]
        if behind:
            with ThreadPoolExecutor(len(behind), thread_name_prefix="lakelog-fresh") as pool:
                self._known |= dict(zip(behind, pool.map(known, behind), strict=True))
        found = {}
        for bucket in ends:
            if (one := self._behind(state, bucket)) is not None:
                self._known[bucket] = one
                found[bucket] = one.logged
        return found

    def _behind(self, state: TableState, bucket: int) -> _KnownLog | None:
        known = self._known.get(bucket)
        return None if known is None else known.behind(state.logged.position(bucket).offset)

    def _is_known(self, state: TableState, bucket: int, end: Position) -> bool:
        known = self._behind(state, bucket)
        return known is not None and known.read_to.offset == end.offset

    def _read_on(self, state: TableState, bucket: int, end: Position) -> _KnownLog:
        """What is known of a bucket behind a snapshot, and what has come since.

        Raises CorruptDataError for transactions that no snapshot would take in.
        """
        position = state.logged.position(bucket)
        known = self._behind(state, bucket) or _KnownLog(
            start=position.offset, logged=(), read_to=Position(offset=position.offset, leader_epoch=None)
        )
        tail = CommittedBucket(self.table, self.target, bucket).read(state, known.end, end)
        new = tuple((one.header, one.end_offset) for one in tail.transactions)
        return _KnownLog(start=known.start, logged=(*known.logged, *new), read_to=end)

    def _shown(
        self,
        state: TableState,
        snapshot: Snapshot | None,
        tails: Mapping[int, Logged],
        statements: set[object],
        *,
        is_part: bool,
    ) -> FreshState[AnyStore]:
        entries = list(_entries(self.table, tails))
        offsets = {bucket: at.offset for bucket, at in state.logged.positions.items()}
        offsets |= {bucket: logged[-1][1] for bucket, logged in tails.items() if logged}
        position = TablePosition(
            table_uuid=self.table.uuid,
            branch=self.table.branch,
            snapshot_id=state.snapshot_id,
            topic_id=self.target.topic_id,
            offsets=dict(sorted(offsets.items())),
        )
        free = {bucket: logged_before(logged, statements) for bucket, logged in tails.items()}
        answers = tuple(self._answer(state, bucket, logged) for bucket, logged in free.items() if logged)
        return FreshState(
            table=pinned(self.table, snapshot, entries),
            position=position,
            answers=answers,
            added=AddedRows.of(pinned(self.table, snapshot), entries, self._kept, is_part=is_part),
        )

    def _answer(self, state: TableState, bucket: int, logged: Logged) -> BucketAnswer:
        read_to = self._known[bucket].read_to
        return BucketAnswer(
            bucket=bucket,
            base=state.logged.position(bucket).offset,
            end=logged[-1][1],
            leader_epoch=read_to.leader_epoch,
            epoch_offset=read_to.offset,
            transactions=tuple(header for header, _ in logged),
            has_fenced=False,
            ends=tuple(end for _, end in logged),
        )


def _entries(table: TableStore, tails: Mapping[int, Logged]) -> Iterable[ManifestEntry]:
    for bucket, logged in tails.items():
        for header, _ in logged:
            for file in header.files:
                yield add_entry(table, file.bucket_id(bucket), file.meta)
