"""A stream in the caller's process: batches of changes, each with the place behind it.

The planner says where the next batch of Spark would end; here it is given in pieces, so that memory is bounded. Behind
each piece there is a place from which a later process goes on: in the rows of a snapshot their number, in the log the
next offset of each bucket. Source: FLIP-188 (a snapshot, then its log).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.state import TablePosition
from lakelog.streams.change_batch import ChangeBatch
from lakelog.streams.named_consumers import NamedConsumer
from lakelog.streams.options.log_options import MetadataColumn
from lakelog.streams.planner import StreamPlanner
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import FollowOffset, LogOffset, Offset, SnapshotOffset, StartOffset
from lakelog.streams.reading.part_rows import PartRows
from lakelog.streams.stream_places import StreamPlace, inside, pinned

if TYPE_CHECKING:
    from lakelog.logstore.kafka.records.record_watch import RecordWatch

PIECE_ROWS = 65_536
LIMITS = Limits(rows=200_000, size_bytes=64 << 20)
_OFFSET = MetadataColumn.OFFSET.column
_BUCKET, _WATERMARK = MetadataColumn.BUCKET.column, MetadataColumn.WATERMARK.column
ABOUT = (MetadataColumn.BUCKET, MetadataColumn.OFFSET, MetadataColumn.WATERMARK)
_ABOUT_NAMES = frozenset(one.column for one in ABOUT)
_REST_SECONDS, _TURN_SECONDS = 0.02, 0.5
_END = object()


class ChangeStream:
    """The batches of a stream: iterate over it, with `for` or `async for`, and close it, from any thread.

    It waits for changes, until what it was to read ends. Snapshots and records that it still has to read are kept until
    it is closed, or for a day after its process has died. `ended` says that what it was to read has ended, `reached` is
    how far all changes were given: behind snapshots without any, too.
    """

    def __init__(
        self,
        planner: StreamPlanner,
        rows: PartRows,
        place: StreamPlace,
        *,
        watch: RecordWatch | None = None,
        consumer: NamedConsumer | None = None,
        until: TablePosition | None = None,
        ends: bool = False,
        limits: Limits = LIMITS,
    ) -> None:
        """Read nothing yet. With `ends` it ends with what the table has now, else with `until` if that is given.

        `watch` waits for records of the log, if there is one. `consumer` records the places that are reached, once the
        caller asks for what is behind them.
        """
        self._consumer = consumer
        self._planner = planner
        self._rows = rows
        self._place = place
        self._until = until
        self._ends = ends
        self._limits = limits
        self._watch = watch
        self._batches = self._read()
        self._reading = RLock()  # a handler of signals may close the stream in the thread that reads
        self._thread: ThreadPoolExecutor | None = None  # of callers with asyncio, who may be cancelled while it reads
        self._asked: Future[ChangeBatch | None] | None = None  # the batch that it reads
        self._is_closed = self._is_released = False
        self._given = place.position
        self._error: BaseException | None = None
        self.ended = False
        # The number of a snapshot that is read in part says nothing.
        self.reached = place.position if place.is_between else replace(place.position, snapshot_id=0)

    def __iter__(self) -> Iterator[ChangeBatch]:
        return self

    def __next__(self) -> ChangeBatch:
        while not self.ended:
            found = self.poll(_TURN_SECONDS)
            if found is not None:
                return found
        raise StopIteration

    def __aiter__(self) -> AsyncIterator[ChangeBatch]:
        return self

    async def __anext__(self) -> ChangeBatch:
        while self._asked is not None or not self.ended:
            if self._asked is None or self._asked.cancelled():
                self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="lakelog-follow")
                self._asked = self._thread.submit(self.poll, _TURN_SECONDS)
            answer = asyncio.wrap_future(self._asked)
            try:
                await asyncio.wait([answer])  # where the caller is cancelled here, the next call has the batch
            finally:
                answer.cancel()  # this does nothing once the batch is there
            self._asked = None
            found = answer.result()
            if found is not None:
                return found
        raise StopAsyncIteration

    def poll(self, timeout: float) -> ChangeBatch | None:
        """The next batch; None if no batch came within so many seconds, and where the stream has `ended`.

        Behind an error each call raises it again: it is not the end.
        """
        deadline = time.monotonic() + timeout
        with self._reading:
            while not self.ended:
                if self._error is not None:
                    raise self._error
                try:
                    found = _END if self._is_closed else next(self._batches, _END)
                except BaseException as error:
                    self._error = error
                    raise
                if isinstance(found, ChangeBatch):
                    return found
                if found is _END:
                    self.ended = True
                elif time.monotonic() >= deadline:
                    break
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"changes of {self._rows.table.name}, followed; iterate over them"

    @property
    def table(self) -> TableStore:
        """The table that is read."""
        return self._rows.table

    @property
    def position(self) -> TablePosition:
        """The place behind the last batch that was given."""
        return self._given

    def close(self) -> None:
        """End the stream, and keep nothing for it any more; a thread that waits for a batch has the end of the stream.

        It waits for such a thread, half a second at most.
        """
        self._is_closed = True
        with self._reading:
            if self._is_released:
                return
            self._batches.close()
            self._is_released = True
            if self._watch is not None:
                self._watch.close()
            self._planner.release()
            if self._consumer is not None:
                self._consumer.flush()

    def _read(self) -> Generator[ChangeBatch | None]:
        """The batches, and None after each pause."""
        if self._ends:
            self._planner.fix_head()
        while not self._is_reached():
            self._place = self._place.at(self._planner.moved(self._place.offset))
            start = self._place.offset
            asked = time.monotonic()
            end = self._planner.end_of_batch(start, self._limits)
            if end == start:
                self._note_reached()
                if self._ends:
                    return
                self._wait(start, asked)
                yield None
                continue
            if isinstance(start, StartOffset):
                self._place = self._place.at(pinned(end))
            yield from self._between(self._place.offset, end)
            self._place = self._place.at(end)
            if self._place.is_between:
                self.reached = self._place.position
                self._record()
            self._planner.let_go(end)

    def _record(self) -> None:
        if self._consumer is not None:
            self._consumer.reached(self._place)

    def _note_reached(self) -> None:
        """There is nothing to read: snapshots behind the place have no changes."""
        offset = self._place.offset
        if self._place.is_between:
            self._record()
        if isinstance(offset, FollowOffset):
            newest = max(offset.consumed, self._planner.newest_seen)
            self.reached = replace(self._place.position, snapshot_id=newest, stream=None)
        elif self._place.is_between:
            self.reached = self._place.position

    def _is_reached(self) -> bool:
        return self._until is not None and self.reached.covers(self._until)

    def _wait(self, start: Offset, asked: float) -> None:
        """Wait until there may be something new."""
        watch = self._watch
        if isinstance(start, LogOffset) and watch is not None and watch.wait(start.offsets, _TURN_SECONDS):
            self._planner.hear(watch.heard())
        elif not self._planner.rest(asked):
            time.sleep(_REST_SECONDS)

    def _between(self, start: Offset, end: Offset) -> Iterator[ChangeBatch]:
        """The pieces of what lies between two offsets; the last one has the place `end`."""
        if isinstance(start, LogOffset) and isinstance(end, LogOffset):
            pieces = self._of_log(start, end)
        else:
            pieces = self._in_order(end)
        held: tuple[pa.Table, StreamPlace] | None = None
        for rows, place in pieces:
            if held is not None:
                yield self._batch(*held, complete=False)
            held = rows, place
        if held is not None:
            self._place = self._place.at(end)
            yield self._batch(held[0], self._place, complete=not isinstance(end, SnapshotOffset))

    def _in_order(self, end: Offset) -> Iterator[tuple[pa.Table, StreamPlace]]:
        """The rows of a snapshot, or of the files of changes, which are always in the same order: by their number."""
        begun = self._place
        seen, left = begun.rows, begun.rows
        for part in self._planner.parts(begun.offset, end):
            for batch in self._rows.rows(part):
                for at in range(left, batch.num_rows, PIECE_ROWS):
                    rows = batch.slice(at, PIECE_ROWS)
                    seen += rows.num_rows
                    yield pa.Table.from_batches([rows]), replace(begun, rows=seen)
                left = max(0, left - batch.num_rows)

    def _of_log(self, start: LogOffset, end: LogOffset) -> Iterator[tuple[pa.Table, StreamPlace]]:
        """The records of a log, bucket by bucket. What comes from files goes with the records behind it."""
        offsets = dict(start.offsets)
        held: list[pa.RecordBatch] = []
        in_bucket = -1
        for part in self._planner.parts(start, end):
            for batch in self._rows.rows(part):
                bucket, last = batch.column(_BUCKET)[0].as_py(), batch.column(_OFFSET)[-1].as_py()
                if in_bucket not in (-1, bucket):
                    offsets[in_bucket] = end.offsets[in_bucket]
                    if held:
                        yield pa.Table.from_batches(held), self._place.at(inside(start, end, offsets))
                        held = []
                in_bucket = bucket
                held.append(batch)
                if last is not None:
                    offsets[bucket] = last + 1
                    yield pa.Table.from_batches(held), self._place.at(inside(start, end, offsets))
                    held = []
        if held:
            offsets[in_bucket] = end.offsets[in_bucket]
            yield pa.Table.from_batches(held), self._place.at(inside(start, end, offsets))

    def _batch(self, rows: pa.Table, place: StreamPlace, *, complete: bool) -> ChangeBatch:
        names, watermark = rows.column_names, None
        if _WATERMARK in names and (times := rows.column(_WATERMARK)).null_count < len(times):
            import pyarrow.compute as pc  # noqa: PLC0415  # loads slowly

            watermark = pc.max(times).as_py()
        self._given = place.position
        shown = [name for name in names if name not in _ABOUT_NAMES]
        return ChangeBatch(
            rows=rows.select(shown),
            position=self._given,
            complete=complete,
            snapshot=self._given.snapshot_id,
            watermark=watermark,
        )
