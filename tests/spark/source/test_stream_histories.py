"""A stream of every kind of table without a log, from every start, through restarts: it comes to the table's rows.

Random histories of writes, deletes, compactions and restores, with expiry before a start from a tag. A reader is
started again between batches and plans each batch twice, as after a crash. The partitions of a batch come in any order,
as Spark runs them. An overwrite is no change for streams.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Table, open_table
from lakelog.common.errors import NotFoundError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, rescale, restore
from lakelog.streams.phases import stream_head
from lakelog.streams.reading import packing
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import Offset
from tests.support.examples import examples, in_full
from tests.support.streams.planned_reader import Change as Signed
from tests.support.streams.planned_reader import Reader
from tests.support.tables.followed_tables import (
    KINDS,
    Change,
    History,
    Kind,
    Rows,
    fold,
    rows_of,
    shown,
    start_of,
    table_of,
)

MOVES = ("write", "write", "write", "delete", "compact", "restore")
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)


class Follower(Reader):
    """A query that keeps its changes in order."""

    def __init__(self, table: Table, **options: str) -> None:
        self.found: list[Change] = []
        super().__init__(table, **options)

    def read_batch(self, end: Offset | None) -> Signed:
        """Read one batch up to `end`."""
        assert self.offset is not None
        assert end is not None
        parts = self._planner.parts(self.offset, end)
        random.Random(len(self.found)).shuffle(parts)
        for row in self.rows_of(parts):
            self.found.append((row["_row_kind"], row["id"], row["batch"]))
        self._planner.let_go(end)
        self.offset = end
        return self.rows

    def read_some(self, dice: random.Random) -> None:
        """Read a few batches of random sizes, by a new process or not."""
        if dice.random() < 0.5:
            self.start()
        self.read(Limits(rows=dice.choice([1, 3, 100])), batches=dice.randint(1, 3))

    def read_on(self) -> None:
        """Read up to the end of the table."""
        self.read(batches=1000)


Start = tuple[Follower, Rows]


def full(history: History) -> Start:
    """From the rows of the newest snapshot."""
    return Follower(open_table(history.table.path)), Counter()


def of_snapshot(history: History) -> Start:
    """From the rows of an older snapshot."""
    number = history.dice.choice(history.table.snapshots.ids())
    return Follower(open_table(history.table.path), **{"snapshot_id": str(number)}), Counter()


def of_tag(history: History) -> Start:
    """From the rows of a tag; the snapshots behind it may have expired."""
    table, dice = history.table, history.dice
    write_tag(table, "kept", table.snapshots.get(dice.choice(table.snapshots.ids())))
    for _ in range(dice.randint(0, 2)):
        history.move(*MOVES)
    if dice.random() < 0.5:
        expire_snapshots(table, retention=ONE)
    return Follower(open_table(table.path), **{"tag": "kept", "failOnDataLoss": "false"}), Counter()


def latest(history: History) -> Start:
    """From the changes behind the newest snapshot."""
    start = start_of(history.table, history.table.snapshots.latest())
    follower = Follower(open_table(history.table.path), **{"log.scan": "latest"})
    follower.read(batches=1)
    return follower, start


def behind_snapshot(history: History) -> Start:
    """From the changes of an older snapshot."""
    snapshots = history.table.snapshots
    number = history.dice.choice(snapshots.ids())
    before = snapshots.get(number - 1) if number > 1 else None
    options = {"log.scan": "from-snapshot", "snapshot_id": str(number)}
    return Follower(open_table(history.table.path), **options), start_of(history.table, before)


STARTS: Mapping[str, Callable[[History], Start]] = {
    "full": full,
    "snapshot": of_snapshot,
    "tag": of_tag,
    "latest": latest,
    "from-snapshot": behind_snapshot,
}


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


def check(folder: Path, kind: Kind, start: str, seed: int) -> None:
    """Follow one history, from a start in its middle."""
    dice = random.Random(f"{start} {seed}")
    history = History(table_of(folder, kind), kind, dice)
    history.move("write")
    for _ in range(dice.randint(0, 5)):
        history.move(*MOVES)
    follower, rows = STARTS[start](history)
    for _ in range(dice.randint(0, 5)):
        follower.read_some(dice)
        history.move(*MOVES)
    history.table.compact(full=True)
    follower.read_on()
    assert fold(rows, follower.found, kind) == shown(history.table), (seed, history.moves)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", KINDS)
def test_a_stream_comes_to_the_rows_of_its_table(tmp_path: Path, name: str, start: str) -> None:
    for seed in range(examples(2)):
        check(tmp_path / str(seed), KINDS[name], start, seed)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", KINDS)
def test_a_stream_comes_to_the_rows_of_its_table_in_many_histories(tmp_path: Path, name: str, start: str) -> None:
    for seed in range(100, 100 + in_full(60)):
        check(tmp_path / str(seed), KINDS[name], start, seed)


def again_in_another_bucket(table: FileStoreTable) -> None:
    """Key 3 comes behind the restore again, in another bucket than before it."""
    table.write(rows_of([1, 2], 1))
    table.write(rows_of([4, 5, 6, 3], 2))
    restore(table, snapshot_id=2)
    table.write(rows_of([3], 3))


def older_rows_again(table: FileStoreTable) -> None:
    table.write(rows_of([1, 2, 3, 4, 5], 1))
    table.write(rows_of([1, 2, 3, 4, 5], 2))
    restore(table, snapshot_id=2)


def more_buckets(table: FileStoreTable) -> None:
    table.write(rows_of([1, 2, 3, 4, 5], 1))
    table.write(rows_of([1, 2, 3, 4, 5], 2))
    table.compact(full=True)
    rescale(FileStoreTable.open(table.path), 5)
    FileStoreTable.open(table.path).write(rows_of([1, 2, 3, 4, 5], 3))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("name", "change"),
    [("dynamic buckets", older_rows_again), ("dynamic buckets", again_in_another_bucket), ("none", more_buckets)],
)
def test_changes_of_a_key_that_has_moved_into_another_bucket_come_in_order(
    tmp_path: Path, name: str, change: Callable[[FileStoreTable], None], seed: int
) -> None:
    """In one batch, whatever order its partitions are read in."""
    table = table_of(tmp_path, KINDS[name])
    table.write(rows_of([6], 0))
    follower = Follower(open_table(table.path))
    follower.read_on()
    follower.found += [("+I", 6, 0)] * seed  # another order
    change(table)
    follower.start()
    follower.read_on()
    assert fold(Counter(), follower.found, KINDS[name]) == shown(FileStoreTable.open(table.path))


def test_an_overwrite_of_fixed_buckets_is_read_by_several_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key stays in its bucket there."""
    monkeypatch.setattr(packing, "part_count", lambda: 2)  # of a machine with two cores
    table = table_of(tmp_path, KINDS["none"])
    table.write(rows_of([6], 0))
    follower = Follower(open_table(table.path))
    follower.read_on()
    table.write(rows_of(range(40), 1), mode="overwrite")
    table.write(rows_of(range(40), 2))
    _, partitions = follower.plan()
    assert len(partitions) > 1
    follower.read_on()
    assert fold(Counter(), follower.found, KINDS["none"]) == shown(table)


@pytest.mark.parametrize("start", [full, of_snapshot, of_tag])
@pytest.mark.parametrize("name", ["deletion vectors", "deletion vectors, input", "first-row"])
def test_rows_that_wait_for_a_compaction_come_once(
    tmp_path: Path, name: str, start: Callable[[History], Start]
) -> None:
    """Whether the compaction comes before or behind the first batch."""
    kind = KINDS[name]
    history = History(table_of(tmp_path, kind), kind, random.Random(0))
    history.move("write")
    follower, _ = start(history)
    follower.read_on()
    assert follower.found
    waiting = list(follower.found)
    history.table.compact(full=True)
    follower.start()
    follower.read_on()
    assert follower.found == waiting
    assert fold(Counter(), follower.found, kind) == shown(history.table)


def test_a_tag_whose_changes_have_expired_is_refused_without_the_option(tmp_path: Path) -> None:
    kind = KINDS["deletion vectors"]
    history = History(table_of(tmp_path, kind), kind, random.Random(0))
    history.move("write")
    write_tag(history.table, "kept", history.table.snapshots.get(1))
    for _ in range(3):
        history.move("write")
    expire_snapshots(history.table, retention=ONE)
    with pytest.raises(NotFoundError, match=r"tag 'kept' of table .* keeps snapshot 1"):
        Follower(open_table(history.table.path), tag="kept").read_on()


@pytest.mark.parametrize("name", ["lookup", "full-compaction", "deletion vectors", "deletion vectors, lookup"])
def test_rows_that_wait_behind_a_tag_come_once(tmp_path: Path, name: str) -> None:
    """The difference to the oldest living snapshot has what followers of that snapshot have seen."""
    kind = KINDS[name]
    table = table_of(tmp_path, kind)
    table.write(rows_of([1, 2], 1))
    made = table.compact(full=True)
    assert made is not None
    write_tag(table, "kept", made)
    table.write(rows_of([2, 3], 2))
    table.write(rows_of([4], 3))
    expire_snapshots(table, retention=ONE)
    follower = Follower(open_table(table.path), **{"tag": "kept", "failOnDataLoss": "false"})
    follower.read_on()
    table.compact(full=True)
    follower.start()
    follower.read_on()
    assert fold(Counter(), follower.found, kind) == shown(table)
    assert follower.found.count(("+I", 3, 2)) == 1


@pytest.mark.full
@pytest.mark.parametrize("name", ["deletion vectors", "first-row"])
def test_a_query_of_spark_has_the_rows_that_wait_once(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """A sample with Spark's processes, stopped and started again."""
    kind = KINDS[name]
    table = table_of(tmp_path, kind)
    table.write(rows_of([1, 2], 1))
    table.compact(full=True)
    table.write(rows_of([2, 3], 2))
    found: list[Change] = []

    def keep(batch: DataFrame, _: int) -> None:
        found.extend((row["_row_kind"], row["id"], row["batch"]) for row in batch.collect())

    def run() -> None:
        rows = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
        query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "reader"))
        query.trigger(availableNow=True).start().awaitTermination()

    run()
    table.write(rows_of([4], 3))
    run()
    table.compact(full=True)
    run()
    assert len(found) == 4
    assert fold(Counter(), found, kind) == shown(table)
