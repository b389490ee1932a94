"""What a call says of ages and numbers of snapshots, against what the table's options say."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, RemoveOption
from lakelog.catalog.names.durations import Age, age_millis
from lakelog.catalog.tables.expiring import retention_of
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.options import check_options
from lakelog.filestore.options.retention import SNAPSHOT_TIME_RETAINED
from lakelog.filestore.schema.schema_manager import SchemaManager

OPTIONS = Retention(count_min=10, count_max=20, age_millis=3_600_000, limit=50)


@pytest.mark.parametrize(
    "older_than", [timedelta(hours=2), "2 h", "7200000 ms", datetime.fromtimestamp(1_700_000_000 - 7200, UTC)]
)
def test_an_age_is_a_timedelta_a_duration_or_a_datetime(older_than: Age) -> None:
    assert age_millis(older_than, now_millis=1_700_000_000_000) == 7_200_000


def test_an_age_that_is_a_datetime_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert age_millis(datetime(1970, 1, 1), now_millis=5) == 5
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("older_than", "said"),
    [
        ("2 moons", "unknown unit 'moons'.*expected a form such as 2 h"),
        (7200, "is the int 7200"),
        (["2 h"], "is a list of 1 item; expected"),
        (None, "is None; expected"),
        ("7200", "a number without a unit; write 7200 d, h, min, s or ms"),
        ("1.5 h", "'1.5' is not a whole number"),
    ],
)
def test_an_age_of_another_form_is_refused_by_name(older_than: Age, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"older_than.*{said}"):
        age_millis(older_than, now_millis=0)


@pytest.mark.parametrize("given", ["30", " 30 ", 7, "soon", datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_tag_and_a_branch_are_not_made_with_a_time_that_is_no_duration(tmp_path: Path, given: Any) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()}), primary_keys=["id"])
    table.write(pa.table({"id": [1]}))
    for make in (table.tags.create, table.branches.create):
        with pytest.raises(InvalidRequestError, match=r"time_retained \(--time-retained\) is .*expected"):
            make("short", time_retained=given)
    table.write(pa.table({"id": [2]}))
    assert not table.tags.list()
    assert not table.branches.list()


@pytest.mark.parametrize("given", [timedelta(days=-1), timedelta(0), "0 s", timedelta(microseconds=1), timedelta.max])
def test_a_time_that_no_tag_or_branch_can_have_leaves_nothing_behind(tmp_path: Path, given: timedelta | str) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema=pa.schema({"id": pa.int64()}), primary_keys=["id"])
    table.write(pa.table({"id": [1]}))
    for make in (table.tags.create, table.branches.create):
        with pytest.raises(
            InvalidRequestError, match=r"time_retained \(--time-retained\) is .*; expected from 1 ms to"
        ):
            make("short", time_retained=given)
    assert (table.tags.list(), table.branches.list(), table.branches.expire(), table.tags.expire()) == ([], [], [], [])
    table.branches.create("short", time_retained="1 d")


def test_an_option_without_a_unit_keeps_its_milliseconds_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        check_options({"snapshot.time-retained": "3600017", "snapshot.num-retained.min": "5", "bucket": "4"})
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "option snapshot.time-retained is '3600017', a number without a unit, which means milliseconds"
    ]
    assert SNAPSHOT_TIME_RETAINED.of({"snapshot.time-retained": "3600017"}) == 3_600_017


def test_what_a_call_leaves_out_the_options_say() -> None:
    assert retention_of(OPTIONS, retain_max=None, retain_min=None, age_millis=None) == OPTIONS
    found = retention_of(OPTIONS, retain_max=5, retain_min=1, age_millis=0)
    assert found == Retention(count_min=1, count_max=5, age_millis=0, limit=50)


@pytest.mark.parametrize(
    ("retain_max", "retain_min", "said"),
    [(5, None, "at most 5 snapshots and at least 10"), (0, None, "retain_max is 0"), (None, -1, "retain_min is -1")],
)
def test_numbers_that_cannot_hold_are_refused(retain_max: int | None, retain_min: int | None, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        retention_of(OPTIONS, retain_max=retain_max, retain_min=retain_min, age_millis=None)


def test_the_doctor_names_an_option_that_is_not_understood_and_what_is_left_out(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()}), primary_keys=["id"])
    files = table.store
    values = {"snapshot.time-retained": "1 moon", "compaction.size-ratio": "x", "file.format": "lance"}
    changed = replace(files.schema, id=1, options={**files.schema.options, **values})
    SchemaManager(files.file_io, files.paths).create(changed)
    table = catalog.load_table("db.t")
    found = [(one.status, one.found, one.advice) for one in table.upkeep.doctor().problems]
    assert table.describe().file_format == "lance"
    assert len(found) == 3
    for key, effect in zip(
        values,
        ("writers expire no snapshots", "writers do not compact", "what needs the option is refused"),
        strict=True,
    ):
        assert [one for one in found if f"'{key}' has the value '{values[key]}'" in one[1] and effect in one[1]]
        table = table.alter(RemoveOption(key))
    assert table.upkeep.doctor().is_sound
