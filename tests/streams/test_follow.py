"""`Table.follow` of tables without a log: the rows of a snapshot, then each change once, from stored positions too.

Random histories of every kind of table. The reader is a new process after any batch, with what its position says.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.verbs import expire_snapshots
from lakelog.streams import follower, named_consumers
from lakelog.streams.change_batch import ChangeBatch
from lakelog.streams.phases import stream_head
from lakelog.streams.reading.offsets import LogOffset
from lakelog.streams.stream_places import inside
from tests.support.examples import examples
from tests.support.tables.followed_tables import KINDS, Change, History, Kind, fold, rows_of, shown, table_of
from tests.support.tables.small_tables import SCHEMA

MOVES = ("write", "write", "write", "delete", "compact", "restore")
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})


def changes_in(batches: Iterator[ChangeBatch]) -> list[Change]:
    found = (row for batch in batches for row in batch.to_arrow().to_pylist())
    return [(row["_row_kind"], row["id"], row["batch"]) for row in found]


class Reader:
    """A program that stores the position of each batch with the changes, and is started again anywhere."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.found: list[Change] = []
        self.position: str | None = None
        self.is_complete = True

    def read(self, batches: int) -> bool:
        """Read some batches in a new process; False at the end."""
        with open_table(self._path).follow(start=self.position or "snapshot", until="latest") as changes:
            for _ in range(batches):
                batch = next(changes, None)
                if batch is None:
                    return False
                self.found += changes_in(iter([batch]))
                self.position, self.is_complete = str(batch.position), batch.complete
        return True


def check(folder: Path, kind: Kind, seed: int) -> None:
    """Follow one history, from its middle on."""
    dice = random.Random(seed)
    history = History(table_of(folder, kind), kind, dice)
    for _ in range(dice.randint(0, 5)):
        history.move(*MOVES)
    reader = Reader(history.table.path)
    for _ in range(dice.randint(1, 6)):
        reader.read(dice.randint(1, 4))
        history.move(*MOVES)
    history.table.compact(full=True)
    while reader.read(dice.randint(1, 4)):
        pass
    assert reader.is_complete
    assert fold(Counter(), reader.found, kind) == shown(history.table), (seed, history.moves)


@pytest.mark.parametrize("name", KINDS)
def test_a_follower_comes_to_the_rows_of_its_table(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "PIECE_ROWS", 2)
    for seed in range(examples(3)):
        check(tmp_path / str(seed), KINDS[name], seed)


def test_changes_come_while_they_are_committed(table: Table) -> None:
    threading.Timer(0.3, lambda: table.write(rows_of([1, 2], 1))).start()
    with table.follow(start="latest") as changes:
        first = next(changes)
    assert sorted(first.rows["id"].to_pylist()) == [1, 2]
    assert (first.complete, first.snapshot, len(first)) == (True, 1, 2)


def test_a_loop_of_asyncio_is_given_the_same(table: Table) -> None:
    table.write(rows_of(range(5), 1))

    async def read() -> list[Change]:
        found: list[Change] = []
        with table.follow(until="latest") as changes:
            async for batch in changes:
                found += changes_in(iter([batch]))
        return found

    with ThreadPoolExecutor(1) as other:  # Playwright's tests leave a loop in this thread
        found = other.submit(lambda: asyncio.run(read())).result()
    assert sorted(found) == [("+I", one, 1) for one in range(5)]


def test_a_batch_that_a_cancelled_task_has_waited_for_is_given_to_the_next(table: Table) -> None:
    """A time-out around `anext` leaves its question to the table to a thread."""

    async def read() -> list[Change]:
        async with table.follow(start="latest") as changes:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(changes), 0.05)
            table.write(rows_of([1], 1))
            await asyncio.sleep(0.5)  # the thread has the batch, and no task waits for it
            table.write(rows_of([2], 2))
            return [*changes_in(iter([await anext(changes)])), *changes_in(iter([await anext(changes)]))]

    with ThreadPoolExecutor(1) as other:
        found = other.submit(lambda: asyncio.run(read())).result()
    assert found == [("+I", 1, 1), ("+I", 2, 2)]


def test_a_stream_is_closed_by_another_thread(table: Table) -> None:
    changes = table.follow(start="latest")
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(list, changes)
        time.sleep(0.2)
        changes.close()
        assert waiting.result() == []
    assert changes.ended


def test_the_end_of_a_closed_stream_is_no_error_in_asyncio(table: Table) -> None:
    async def read() -> list[Change]:
        changes = table.follow(start="latest")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(changes), 0.05)
        changes.close()
        return [change async for batch in changes for change in changes_in(iter([batch]))]

    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: asyncio.run(read())).result() == []


def test_a_handler_that_closes_a_stream_in_the_thread_that_reads_does_not_wait_for_itself(table: Table) -> None:
    def handle(*_signal: object) -> None:
        changes.close()

    with table.follow(start="latest") as changes:
        before = signal.signal(signal.SIGUSR1, handle)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            with pytest.raises(ValueError, match="generator already executing"):
                next(changes)
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_it_ends_with_a_position_and_begins_behind_one(table: Table) -> None:
    table.write(rows_of([1], 1))
    second = table.write(rows_of([2], 2))
    table.write(rows_of([3], 3))

    first = table.snapshot(snapshot_id=1)
    assert first is not None
    with table.follow(start=first, until=second) as changes:
        assert changes_in(changes) == [("+I", 2, 2)]
        behind = changes.position
    with table.follow(start=behind, until="latest") as changes:
        assert changes_in(changes) == [("+I", 3, 3)]


def test_it_begins_at_a_time(table: Table) -> None:
    table.write(rows_of([1], 1))
    since = datetime.now(UTC)
    table.write(rows_of([2], 2))
    with table.follow(start=since, until="latest") as changes:
        assert changes_in(changes) == [("+I", 2, 2)]
    with pytest.raises(InvalidRequestError, match="has no zone"):
        table.follow(start=since.replace(tzinfo=None))


def test_columns_and_a_condition_choose(table: Table) -> None:
    table.write(rows_of(range(6), 1))
    with table.follow(until="latest", columns=["id"], where="id > 3") as changes:
        batches = list(changes)
    assert {name for batch in batches for name in batch.rows.column_names} == {"_row_kind", "id"}
    assert sorted(one for batch in batches for one in batch.rows["id"].to_pylist()) == [4, 5]


def test_a_consumer_goes_on_where_it_was_and_keeps_what_it_has_not_read(table: Table) -> None:
    table.write(rows_of([1], 1))
    with table.follow(consumer="billing", until="latest") as changes:
        assert changes_in(changes) == [("+I", 1, 1)]
    table.write(rows_of([2], 2))
    for batch in range(3, 6):
        table.write(rows_of([batch], batch))
    expire_snapshots(table.store, retention=ONE)
    with table.follow(start="latest", consumer="billing", until="latest") as changes:
        assert sorted(changes_in(changes)) == [("+I", one, one) for one in (2, 3, 4, 5)]
    assert {one.consumer_id: one.next_snapshot for one in table.consumers.list()} == {"billing": 6}


def test_a_batch_that_was_not_finished_comes_again_with_a_consumer(table: Table) -> None:
    table.write(rows_of([1], 1))
    with table.follow(consumer="billing") as changes:
        next(changes)  # and the program dies before it asks for more
    with table.follow(consumer="billing", until="latest") as changes:
        assert changes_in(changes) == [("+I", 1, 1)]


def test_a_consumer_that_has_read_nothing_yet_goes_on_where_it_began(table: Table) -> None:
    first = table.write(rows_of([1], 1))
    assert first is not None
    starts: tuple[Snapshot | str, ...] = ("latest", first)
    for number, start in enumerate(starts):
        with table.follow(start=start, consumer=f"quiet {number}", until="latest") as changes:
            assert list(changes) == []
    for batch in (2, 3):
        table.write(rows_of([2], batch))
    expire_snapshots(table.store, retention=ONE)
    for number in range(2):
        with table.follow(start="latest", consumer=f"quiet {number}", until="latest") as changes:
            assert changes_in(changes) == [("+I", 2, 2), ("+I", 2, 3)]


def test_a_consumer_that_was_deleted_begins_anew(table: Table) -> None:
    table.write(rows_of([1], 1))
    with table.follow(consumer="billing", until="latest") as changes:
        list(changes)
    table.consumers.delete("billing")
    with table.follow(consumer="billing", until="latest") as changes:
        assert changes_in(changes) == [("+I", 1, 1)]


def test_the_files_of_a_place_that_stays_are_renewed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_consumers, "_RENEWAL_SECONDS", 0.0)
    table.write(rows_of([1], 1))
    with table.follow(consumer="billing") as changes:
        next(changes)
        assert changes.poll(0) is None
        file = Path(table.store.paths.consumer("billing"))
        os.utime(file, (0, 0))
        assert changes.poll(0) is None
        assert file.stat().st_mtime > 0


def test_the_older_of_two_processes_with_one_name_is_stopped(table: Table) -> None:
    table.write(rows_of([1], 1))
    older = table.follow(consumer="billing")
    next(older)
    newer = table.follow(consumer="billing")
    next(newer)
    table.write(rows_of([2], 2))
    with pytest.raises(ConflictError, match=r"'billing' of table db\.t is that of another process now"):
        next(older)
    assert changes_in(iter([next(newer)])) == [("+I", 2, 2)]
    newer.close()


def test_the_position_of_another_table_is_refused(table: Table, tmp_path: Path) -> None:
    other = Catalog(tmp_path).create_table("db.other", schema=SCHEMA, primary_keys=["id"])
    with other.follow(until="latest") as changes, pytest.raises(InvalidRequestError, match="the position is of table"):
        table.follow(start=changes.position)


def test_a_snapshot_that_is_read_does_not_expire(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "PIECE_ROWS", 1)
    table.write(rows_of(range(10), 1))
    with table.follow(until="latest") as changes:
        found = changes_in(iter([next(changes)]))
        for batch in (2, 3):
            table.write(rows_of(range(10), batch))
        table.compact(full=True)
        expire_snapshots(table.store, retention=ONE)
        found += changes_in(changes)
    assert sorted(found) == [("+I", one, 1) for one in range(10)]


def test_a_place_inside_a_batch_has_the_epochs_in_which_its_buckets_were_read() -> None:
    start = LogOffset(topic_id="t", offsets={0: 5, 1: 7}, counts={}, consumed=1, epochs={0: 1, 1: 1}, is_exact=True)
    end = replace(start, offsets={0: 9, 1: 9}, consumed=2, epochs={0: 3, 1: 3})
    found = inside(start, end, {0: 6, 1: 7})
    assert (found.offsets, found.epochs) == ({0: 6, 1: 7}, {0: 3, 1: 1})
    assert (found.consumed, found.is_exact) == (1, False)


def test_behind_an_error_a_stream_has_not_ended(table: Table) -> None:
    table.write(rows_of([1], 1))
    changes = table.follow()
    next(changes)
    for batch in (2, 3):
        table.write(rows_of([1], batch))
    changes.close()  # it keeps nothing any more
    behind = table.follow(start=changes.position)
    expire_snapshots(table.store, retention=ONE)
    for _ in range(2):
        with pytest.raises(LakelogError, match="expired"):
            next(behind)
    assert not behind.ended


def test_what_an_arrow_stream_takes_takes_a_batch(table: Table) -> None:
    table.write(rows_of([1], 1))
    with table.follow(until="latest") as changes:
        (batch,) = changes
    assert pa.table(batch).equals(batch.to_arrow())
