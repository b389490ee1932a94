"""Options that choose the state of a table which a read shows, in lakelog's words and in Paimon's."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError, NotFoundError, OptionError
from lakelog.streams.options.shown_state import PAIMON_STATE_OPTIONS, ShownState, parse_state
from tests.support.tables.paimon_tables import expected, unpack

BERLIN = ZoneInfo("Europe/Berlin")
NOON_MILLIS = 1_769_857_200_000  # 2026-01-31 12:00 in Berlin
GIVEN = {
    "snapshot_id": "3",
    "timestamp": "2026-01-31 12:00:00",
    "watermark": "7",
    "tag": "base",
    "version": "dev.base",
    "scan.snapshot-id": "3",
    "scan.timestamp": "2026-01-31 12:00:00",
    "scan.timestamp-millis": str(NOON_MILLIS),
    "scan.watermark": "7",
    "scan.tag-name": "base",
    "scan.version": "dev.base",
    "log.scan.timestamp-millis": str(NOON_MILLIS),
    "log.scan.timestamp-mills": str(NOON_MILLIS),
    "versionAsOf": "dev.base",
    "timestampAsOf": "2026-01-31 12:00:00",
}


@pytest.mark.parametrize(
    ("keys", "state"),
    [
        (("snapshot_id", "scan.snapshot-id"), ShownState(snapshot_id=3)),
        (
            ("timestamp", "scan.timestamp", "scan.timestamp-millis", "timestampAsOf"),
            ShownState(timestamp_millis=NOON_MILLIS),
        ),
        (("tag", "scan.tag-name"), ShownState(tag="base")),
        (("watermark", "scan.watermark"), ShownState(watermark=7)),
        (("version", "scan.version", "versionAsOf"), ShownState(version="dev.base")),
    ],
)
def test_an_option_of_lakelog_and_its_names_in_paimon_mean_the_same(keys: tuple[str, ...], state: ShownState) -> None:
    assert [parse_state({key: GIVEN[key]}, BERLIN) for key in keys] == [state] * len(keys)


def test_a_timestamp_may_be_milliseconds() -> None:
    assert parse_state({"timestamp": str(NOON_MILLIS)}, BERLIN) == ShownState(timestamp_millis=NOON_MILLIS)


@pytest.mark.parametrize("keys", list(combinations(GIVEN, 2)), ids=" ".join)
def test_two_options_that_choose_a_state_are_refused_by_both_names(keys: tuple[str, str]) -> None:
    first, second = (f"{key}={GIVEN[key]}" for key in keys)

    with pytest.raises(InvalidRequestError) as caught:
        parse_state({key: GIVEN[key] for key in keys}, BERLIN)

    assert f"{first} and {second} each name a state" in str(caught.value)


def test_no_state_of_paimons_names_is_left_out() -> None:
    assert {option.key for option in PAIMON_STATE_OPTIONS} < set(GIVEN)


@pytest.mark.parametrize("key", ["timestamp", "scan.timestamp"])
def test_an_invalid_timestamp_is_refused_by_the_name_of_its_option(key: str) -> None:
    with pytest.raises(OptionError, match=rf"'{key}' has the value 'soon'"):
        parse_state({key: "soon"}, BERLIN)


@pytest.mark.full
def test_what_a_tag_and_a_branch_hold_is_read_by_arguments_and_by_options(spark: SparkSession, tmp_path: Path) -> None:
    path = str(unpack("tags_branches", tmp_path) / "db.db" / "forwarded")

    def rows(found: DataFrame) -> list[object]:
        return sorted(found.toArrow().to_pylist(), key=json.dumps)

    def option(key: str, value: str) -> list[object]:
        return rows(spark.read.format("lakelog").option(key, value).load(path))

    tagged = sorted(expected("tags_branches", "forwarded", "tag-base"), key=json.dumps)
    assert rows(lakelog.spark.read(spark, path, tag="base")) == tagged
    assert option("tag", "base") == option("scan.tag-name", "base") == tagged
    assert option("version", "base") == option("scan.version", "dev.base") == tagged
    assert option("version", "dev") == option("branch", "dev")
    assert option("branch", "dev") == sorted(expected("tags_branches", "forwarded", "branch-dev"), key=json.dumps)
    with pytest.raises(NotFoundError, match="has no tag 'bass'; the tags are base"):
        lakelog.spark.read(spark, path, tag="bass")


@pytest.mark.full
def test_a_snapshot_is_chosen_by_the_option_of_the_same_name_as_the_argument(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = Catalog(tmp_path).create_table("db.t", schema=columns, primary_keys=["id"])
    first = table.write(pa.table({"id": [1]}, schema=columns))
    table.write(pa.table({"id": [2]}, schema=columns))

    for key, value in {"snapshot_id": "1", "timestamp": str(first.time_millis)}.items():
        found = spark.read.format("lakelog").option(key, value).load(table.path)
        assert [row.id for row in found.collect()] == [1]
