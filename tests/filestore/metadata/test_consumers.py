"""Consumers are listed, moved and forgotten; those that say nothing any more end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.metadata.tables.consumers import LEASE_PREFIX, Consumer
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete_consumer, expire_snapshots, reset_consumer
from tests.support.tables.small_tables import make_table, rows_of

HOUR = 3_600_000
EVERYTHING = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    table = make_table(tmp_path, options={"write-only": "true"})
    for batch in range(4):
        table.write(rows_of(batch))
    return table


def test_a_consumer_is_moved_and_forgotten(table: FileStoreTable) -> None:
    reset_consumer(table, "b", 3)
    reset_consumer(table, "a", 5)
    commits = {number: table.snapshots.get(number).uuid for number in (2, 4)}
    assert ConsumerManager(table.file_io, table.paths).readable() == [
        Consumer(consumer_id="a", next_snapshot=5, commit=commits[4]),
        Consumer(consumer_id="b", next_snapshot=3, commit=commits[2]),
    ]
    assert json.loads(Path(table.paths.consumer("b")).read_text()) == {"nextSnapshot": 3, "lakelogCommit": commits[2]}
    expire_snapshots(table, retention=EVERYTHING)
    assert table.snapshots.ids()[0] == 3
    delete_consumer(table, "b")
    expire_snapshots(table, retention=EVERYTHING)
    assert table.snapshots.ids() == [4]


def test_a_consumer_goes_only_where_there_is_something_to_read(table: FileStoreTable) -> None:
    expire_snapshots(table, retention=Retention(count_min=1, count_max=3, age_millis=HOUR, limit=1_000))
    for number in (1, 6):
        with pytest.raises(InvalidRequestError, match=rf"from snapshot 2 to 5 on, found {number}"):
            reset_consumer(table, "a", number)
    with pytest.raises(InvalidRequestError, match="names a file"):
        reset_consumer(table, "../a", 3)
    with pytest.raises(NotFoundError, match="has no consumer 'x'; its consumers are none"):
        delete_consumer(table, "x")
    Path(table.paths.consumer_dir).mkdir()
    Path(table.paths.consumer("odd")).write_text("[]")
    assert ConsumerManager(table.file_io, table.paths).readable() == []
    with pytest.raises(CorruptDataError, match="consumer-odd is not readable"):
        expire_snapshots(table, retention=EVERYTHING)
    delete_consumer(table, "odd")


@pytest.mark.parametrize("consumer_id", ["", "x" * 240])
def test_a_consumer_of_another_engine_counts_whatever_its_name(table: FileStoreTable, consumer_id: str) -> None:
    reset_consumer(table, "a", 3)
    Path(table.paths.consumer("a")).rename(Path(table.paths.consumer_dir, f"consumer-{consumer_id}"))
    expire_snapshots(table, retention=EVERYTHING)
    assert table.snapshots.ids() == [3, 4]
    assert [(one.consumer_id, one.next_snapshot) for one in ConsumerManager(table.file_io, table.paths).readable()] == [
        (consumer_id, 3)
    ]
    delete_consumer(table, consumer_id)
    expire_snapshots(table, retention=EVERYTHING)
    assert table.snapshots.ids() == [4]


@pytest.mark.parametrize(
    ("name", "said"), [("consumer-", "consumer- is not readable"), ("consumer-\n", r"consumer-\\n is not readable")]
)
def test_a_file_that_is_not_a_consumers_is_named_and_nothing_expires(
    table: FileStoreTable, name: str, said: str
) -> None:
    Path(table.paths.consumer_dir).mkdir()
    Path(table.paths.consumer_dir, name).write_text("[]")
    with pytest.raises(CorruptDataError, match=rf"{said}.*nothing expires until"):
        expire_snapshots(table, retention=EVERYTHING)
    assert table.snapshots.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("option", [None, "2 h"])
def test_a_consumer_that_is_silent_for_too_long_ends(tmp_path: Path, option: str | None) -> None:
    options = {} if option is None else {"consumer.expiration-time": option}
    table = make_table(tmp_path, options=options | {"write-only": "true"})
    table.write(rows_of(0))
    for consumer in ("user", f"{LEASE_PREFIX}1"):
        reset_consumer(table, consumer, 1)
    written_millis = Path(table.paths.consumer("user")).stat().st_mtime_ns // 1_000_000
    assert expire_snapshots(table, now_millis=written_millis + HOUR).consumers == ()
    after_three_hours = expire_snapshots(table, now_millis=written_millis + 3 * HOUR).consumers
    after_a_day = expire_snapshots(table, now_millis=written_millis + 25 * HOUR).consumers
    lease = f"{LEASE_PREFIX}1"
    assert (after_three_hours, after_a_day) == (((), (lease,)) if option is None else ((lease, "user"), ()))


def test_a_consumer_that_records_its_progress_stays(table: FileStoreTable) -> None:
    reset_consumer(table, "a", 1)
    os.utime(table.paths.consumer("a"), (0, 0))
    reset_consumer(table, "a", 2)
    written_millis = Path(table.paths.consumer("a")).stat().st_mtime_ns // 1_000_000
    assert expire_snapshots(table, now_millis=written_millis + HOUR).consumers == ()
