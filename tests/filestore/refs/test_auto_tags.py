"""Tags that writers create and delete by themselves: which snapshot gets which name."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from lakelog.filestore.refs.tags import auto_tags
from lakelog.filestore.refs.tags.auto_tags import (
    create_due_tags,
    expire_tags_by_writer,
    is_snapshot_due,
    tag_after_commit,
)
from lakelog.filestore.refs.tags.tag_periods import TagPeriods
from lakelog.filestore.refs.tags.tags import tags_of, write_tag
from lakelog.filestore.table import FileStoreTable
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.small_tables import UNSYNCED, make_table, rows_of


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    auto_tags._next.clear()
    auto_tags._expired.clear()


class Clocked:
    """A table whose commits have the times that a test gives, and whose writer creates tags."""

    def __init__(self, folder: Path, **options: str) -> None:
        given = {key.replace("_", "-").replace("tag-", "tag.", 1): text for key, text in options.items()}
        plain = make_table(folder, options={"write-only": "true"})
        schema = dataclasses.replace(plain.schema, options={**plain.schema.options, **given})
        self.table: FileStoreTable = dataclasses.replace(plain, schema=schema)
        self._plain = plain

    def commit(self, time: str, *, watermark: str | None = None, tagging: bool = True) -> list[str]:
        """Commit at a local time; gives the names of the tags that were created."""
        made = self._plain.write(rows_of(self._plain.snapshots.latest_id() or 0))
        snapshot = dataclasses.replace(
            made, time_millis=millis(time), watermark=None if watermark is None else millis(watermark)
        )
        UNSYNCED.write_bytes(self.table.paths.snapshot(made.id), snapshot.to_json().encode())
        return create_due_tags(self.table, snapshot) if tagging else []

    @property
    def tags(self) -> dict[str, int]:
        return {tag.name: tag.snapshot.id for tag in tags_of(self.table)}


def millis(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)  # local, as names are


def test_a_daily_tag_is_the_first_snapshot_behind_its_day(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time")

    assert clocked.commit("2026-01-10 15:00") == ["2026-01-09"]
    assert clocked.commit("2026-01-10 23:59") == []
    assert clocked.commit("2026-01-11 00:00") == ["2026-01-10"]
    assert clocked.commit("2026-01-11 08:00") == []
    assert clocked.tags == {"2026-01-09": 1, "2026-01-10": 3}


def test_a_delay_lets_late_rows_into_the_tag(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time", tag_creation_delay="10 min")

    clocked.commit("2026-01-10 15:00")
    assert clocked.commit("2026-01-11 00:09") == []
    assert clocked.commit("2026-01-11 00:10") == ["2026-01-10"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"tag_creation_period": "hourly"}, ["2026-01-10 14", "2026-01-10 15"]),
        ({"tag_creation_period": "hourly", "tag_period_formatter": "without_dashes"}, ["20260110 14", "20260110 15"]),
        (
            {"tag_creation_period": "hourly", "tag_period_formatter": "without_dashes_and_spaces"},
            ["2026011014", "2026011015"],
        ),
        ({"tag_creation_period_duration": "30 min"}, ["202601101430", "202601101530"]),
    ],
)
def test_names_are_those_of_paimon(tmp_path: Path, options: dict[str, str], names: list[str]) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time", **options)

    assert clocked.commit("2026-01-10 15:10") + clocked.commit("2026-01-10 16:10") == names


def test_two_hours_begin_at_even_hours_of_utc(tmp_path: Path) -> None:
    periods = TagPeriods.of({"tag.creation-period": "two-hours"})

    assert periods.name_of(periods.before(datetime(2026, 1, 10, 15, 10))) == "2026-01-10 12"


def test_a_watermark_names_the_tag_in_its_zone(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="watermark")

    assert clocked.commit("2026-01-20 00:00") == []
    marks = ["2026-01-10 12:00+00:00", "2026-01-10 23:00+00:00", "2026-01-11 00:00+00:00"]
    assert [clocked.commit("2026-01-20 00:00", watermark=mark) for mark in marks] == [
        ["2026-01-09"],
        [],
        ["2026-01-10"],
    ]


def test_missed_periods_get_no_tag(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time")
    clocked.commit("2026-01-10 12:00")

    assert clocked.commit("2026-01-14 12:00") == ["2026-01-13"]


def test_missed_periods_are_filled_when_asked_one_a_snapshot(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time", tag_automatic_completion="true")
    clocked.commit("2026-01-10 12:00")

    made = [clocked.commit("2026-01-13 12:00") for _ in range(4)]

    assert made == [["2026-01-10"], ["2026-01-11"], ["2026-01-12"], []]


def test_a_writer_goes_on_where_another_one_was(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time")
    clocked.commit("2026-01-10 12:00")
    clocked.commit("2026-01-11 12:00", tagging=False)  # of a writer that was killed before it created the tag
    clocked.commit("2026-01-11 13:00", tagging=False)
    auto_tags._next.clear()

    assert clocked.commit("2026-01-11 14:00") == ["2026-01-10"]
    assert clocked.tags["2026-01-10"] == 2


def test_the_oldest_automatic_tags_are_deleted(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time", tag_num_retained_max="2")
    clocked.commit("2026-01-10 12:00")
    write_tag(clocked.table, "mine", clocked.table.snapshots.get(1))
    for day in (11, 12, 13):
        clocked.commit(f"2026-01-{day} 12:00")

    assert clocked.tags == {"mine": 1, "2026-01-11": 3, "2026-01-12": 4}


def test_the_default_time_is_that_of_automatic_tags(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time", tag_default_time_retained="30 d")
    clocked.commit("2026-01-10 12:00")
    (tag,) = tags_of(clocked.table)
    assert tag.time_retained == timedelta(days=30)
    assert tag.create_time is not None
    later = int((tag.create_time + timedelta(days=31)).timestamp() * 1000)

    assert expire_tags_by_writer(clocked.table, now_millis=later) == ["2026-01-09"]


def test_a_batch_write_is_tagged_by_its_day_or_by_the_name_that_is_given(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="batch")
    assert clocked.commit("2026-01-10 12:00") == ["batch-write-2026-01-10"]
    assert clocked.commit("2026-01-10 13:00") == ["batch-write-2026-01-10"]
    assert clocked.tags == {"batch-write-2026-01-10": 2}

    named = Clocked(tmp_path / "named", tag_automatic_creation="batch")
    options = {**named.table.schema.options, "tag.batch.customized-name": "last"}
    named.table = dataclasses.replace(named.table, schema=dataclasses.replace(named.table.schema, options=options))
    assert named.commit("2026-01-10 12:00") == ["last"]
    stream = dataclasses.replace(named.table.snapshots.get(1), commit_identifier=5)
    assert stream.commit_identifier != BATCH_COMMIT_IDENTIFIER
    assert create_due_tags(named.table, stream) == []


def test_the_options_of_the_proposal_tag_at_a_time_of_day(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_create_time="03:30")
    clocked.commit("2026-01-10 12:00")
    assert clocked.commit("2026-01-11 03:29") == []
    assert clocked.commit("2026-01-11 03:30") == ["2026-01-10"]
    weekly = TagPeriods.of({"tag.create-interval": "7 d"})
    assert weekly.length == timedelta(days=7)


def test_a_delay_is_below_the_period() -> None:
    with pytest.raises(InvalidRequestError, match="expected a delay below the period"):
        TagPeriods.of({"tag.creation-period": "hourly", "tag.creation-delay": "1 h"})


def test_a_commit_before_the_next_tag_is_due_costs_no_call(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time")
    clocked.commit("2026-01-10 12:00")
    clocked.commit("2026-01-10 13:00", tagging=False)
    counting = FaultyFileIO(UNSYNCED)
    table = dataclasses.replace(clocked.table, file_io=counting)

    tag_after_commit(table, clocked.table.snapshots.get(2), is_upkeep=True)

    assert counting.calls == []


def test_writes_create_tags(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"tag.automatic-creation": "process-time"})
    snapshot: Snapshot = table.write(rows_of(0))

    day = datetime.fromtimestamp(snapshot.time_millis / 1000) - timedelta(days=1)
    assert {tag.name: tag.snapshot.id for tag in tags_of(table)} == {f"{day:%Y-%m-%d}": snapshot.id}


def test_tags_of_a_write_only_table_are_created_by_upkeep(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"tag.automatic-creation": "process-time", "write-only": "true"})
    table.write(rows_of(0))
    assert tags_of(table) == []

    table.write(rows_of(1))
    table.compact(full=True)

    assert [tag.snapshot.id for tag in tags_of(table)] == [1]


def due(clocked: Clocked, *, now: str, watermark: str | None = None) -> bool:
    """Whether a batch without rows makes a snapshot."""
    mark = None if watermark is None else millis(watermark)
    options = {**clocked.table.schema.options, "write-only": "false"}
    table = dataclasses.replace(clocked.table, schema=dataclasses.replace(clocked.table.schema, options=options))
    return is_snapshot_due(table, watermark=mark, now_millis=millis(now))


def test_an_empty_batch_makes_the_snapshot_that_a_watermark_waits_for(tmp_path: Path) -> None:
    options = {"tag_automatic_creation": "watermark", "snapshot.watermark-idle-timeout": "10 min"}
    clocked = Clocked(tmp_path, **options)
    clocked.commit("2026-01-10 15:00", watermark="2026-01-10 14:59")
    assert not due(clocked, now="2026-01-10 15:08", watermark="2026-01-10 15:01")  # rows may come yet
    assert due(clocked, now="2026-01-10 15:09", watermark="2026-01-10 15:01")
    assert not due(clocked, now="2026-01-10 15:09", watermark="2026-01-10 14:59")  # it would have the same watermark
    assert not due(clocked, now="2026-01-10 15:09")


def test_an_empty_batch_makes_no_snapshot_without_the_timeout(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="watermark")
    clocked.commit("2026-01-10 15:00", watermark="2026-01-10 14:59")
    assert not due(clocked, now="2026-02-10 15:00", watermark="2026-01-11 15:00")


def test_an_empty_batch_makes_the_snapshot_that_a_period_waits_for(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time", tag_creation_delay="10 min")
    clocked.commit("2026-01-10 15:00")
    assert not due(clocked, now="2026-01-11 00:09")
    assert due(clocked, now="2026-01-11 00:10")


def test_writers_of_a_write_only_table_leave_tags_to_its_upkeep(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, tag_automatic_creation="process-time")
    clocked.commit("2026-01-10 15:00")
    assert not is_snapshot_due(clocked.table, watermark=None, now_millis=millis("2026-01-11 00:10"))


def test_an_empty_batch_makes_no_snapshot_of_an_empty_or_untagged_table(tmp_path: Path) -> None:
    assert not due(Clocked(tmp_path / "a", tag_automatic_creation="process-time"), now="2026-01-11 00:10")
    plain = Clocked(tmp_path / "b")
    plain.commit("2026-01-10 15:00", watermark="2026-01-10 14:59")
    assert not due(plain, now="2026-02-10 15:00", watermark="2026-01-11 15:00")
