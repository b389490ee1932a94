"""Which state of a table a read shows: by snapshot, timestamp, watermark, tag, branch and version."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any  # Any: keywords of reads

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from tests.support.tables.paimon_branches import take_as_branch
from tests.support.tables.paimon_tables import expected, unpack
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, make_table

HOUR = 3_600_000
START = 1_770_000_000_000
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)


def with_history(folder: Path, *, count: int = 6) -> FileStoreTable:
    """A table whose snapshot n has one row, n, and was committed n hours after the start, with the watermark 10 n."""
    table = make_table(folder, options={"write-only": "true"})
    for number in range(1, count + 1):
        table.write(pa.table([pa.array([0]), pa.array([number], pa.int32())], schema=SCHEMA))
        made = dataclasses.replace(
            table.snapshots.get(number), time_millis=START + number * HOUR, watermark=number * 10
        )
        UNSYNCED.write_bytes(table.paths.snapshot(number), made.to_json().encode())
    return table


def shown(table: FileStoreTable, **which: Any) -> int:
    """The snapshot that a read shows, by its row."""
    return int(table.to_arrow(**which)["batch"][0].as_py())


def expired(table: FileStoreTable, *tagged: int) -> FileStoreTable:
    """The table with tags of these snapshots, when all snapshots but the newest have expired."""
    for number in tagged:
        write_tag(table, f"t{number}", table.snapshots.get(number))
    expire_snapshots(table, retention=ONE, now_millis=START + 100 * HOUR)
    return table


def test_a_timestamp_shows_the_newest_snapshot_at_it_or_before(tmp_path: Path) -> None:
    table = with_history(tmp_path)

    assert shown(table, timestamp=START + 3 * HOUR) == 3
    assert shown(table, timestamp=START + 4 * HOUR - 1) == 3
    with pytest.raises(NotFoundError, match=r"has no snapshot at or before .* name a later time"):
        shown(table, timestamp=START)


def test_a_timestamp_whose_snapshot_has_expired_shows_the_closest_earlier_tag_or_else_the_oldest(
    tmp_path: Path,
) -> None:
    table = expired(with_history(tmp_path), 2, 4)

    assert shown(table, timestamp=START + 6 * HOUR) == 6
    assert shown(table, timestamp=START + 6 * HOUR - 1) == 4
    assert shown(table, timestamp=START + 4 * HOUR - 1) == 2
    assert shown(table, timestamp=START + 1 * HOUR) == 2


def test_a_timestamp_before_the_first_commit_shows_no_tag(tmp_path: Path) -> None:
    table = with_history(tmp_path)
    write_tag(table, "t", table.snapshots.get(2))

    with pytest.raises(NotFoundError, match="has no snapshot at or before"):
        shown(table, timestamp=START)


def test_a_watermark_shows_the_oldest_snapshot_that_has_passed_it(tmp_path: Path) -> None:
    table = with_history(tmp_path)

    assert [shown(table, watermark=mark) for mark in (0, 10, 11, 60)] == [1, 1, 2, 6]
    with pytest.raises(NotFoundError, match="no snapshot with the watermark 61 or a later one: the newest is 60"):
        shown(table, watermark=61)


def test_a_watermark_is_found_in_a_tag(tmp_path: Path) -> None:
    table = expired(with_history(tmp_path), 3)

    assert [shown(table, watermark=mark) for mark in (10, 30, 31)] == [3, 3, 6]


def test_flinks_smallest_watermark_is_none(tmp_path: Path) -> None:
    table = with_history(tmp_path, count=1)
    made = dataclasses.replace(table.snapshots.get(1), watermark=-(1 << 63))
    UNSYNCED.write_bytes(table.paths.snapshot(1), made.to_json().encode())

    with pytest.raises(NotFoundError, match="no snapshot has a watermark"):
        shown(table, watermark=-(1 << 63))


def test_a_version_is_a_tag_then_a_snapshot_then_a_branch(tmp_path: Path) -> None:
    table = with_history(tmp_path / "db.db")
    branch = with_history(tmp_path / "other")
    write_tag(branch, "t", branch.snapshots.get(3))
    take_as_branch(table, branch, "dev")
    write_tag(table, "t2", table.snapshots.get(2))
    UNSYNCED.write_bytes(table.paths.tag("5"), table.snapshots.get(1).to_json().encode())
    UNSYNCED.write_bytes(table.paths.tag("watermark-20"), table.snapshots.get(4).to_json().encode())
    UNSYNCED.write_bytes(table.paths.tag("dev.1"), table.snapshots.get(3).to_json().encode())

    assert {text: shown(table, version=text) for text in ("t2", "5", "4", "watermark-20", "watermark-30", "dev.1")} == {
        "t2": 2,
        "5": 1,  # the tag, not the snapshot
        "4": 4,
        "watermark-20": 4,  # the tag, not the watermark
        "watermark-30": 3,
        "dev.1": 3,  # the tag, not the branch's snapshot
    }
    assert shown(table, version=6) == 6
    assert [shown(table, version=text) for text in ("dev.t", "dev.2", "dev", "main", "main.t2")] == [3, 2, 6, 6, 2]
    assert shown(table, branch="dev", version="t") == 3
    for wrong in ("t3", "dev.t9", "dove.t"):
        with pytest.raises(NotFoundError, match=r"t3|t9|dove"):
            shown(table, version=wrong)


def test_a_read_shows_one_state(tmp_path: Path) -> None:
    table = with_history(tmp_path, count=1)

    with pytest.raises(InvalidRequestError, match="watermark=5 and version=1 each name a state"):
        shown(table, watermark=5, version="1")


def test_an_expired_snapshot_is_read_by_the_tag_that_the_error_names(tmp_path: Path) -> None:
    table = expired(with_history(tmp_path), 2)

    with pytest.raises(NotFoundError, match=r"snapshot 2 of .* has expired; it is kept by the tags t2"):
        shown(table, snapshot_id=2)
    with pytest.raises(NotFoundError, match=r"snapshot 3 of .* does not exist; snapshots 6 to 6 exist"):
        shown(table, snapshot_id=3)


def test_what_flink_tagged_and_branched_is_read_by_its_version(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "tagged")

    def rows(version: str) -> list[Any]:
        return sorted(table.to_arrow(version=version).to_pylist(), key=json.dumps)

    for version, file in {
        "t1": "tag-t1",
        "t2": "tag-t2",
        "8": "snapshot-8",
        "b1.t1": "branch-b1.tag-t1",
        "b1.3": "branch-b1.snapshot-3",
        "b1": "branch-b1",
    }.items():
        assert rows(version) == sorted(expected("tags_branches", "tagged", file), key=json.dumps), version
