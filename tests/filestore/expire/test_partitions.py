"""Overwriting and dropping partitions."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.encoding.binary_row import serialize_row
from lakelog.filestore.expire.partition_times import partition_time
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import drop_partitions, expire_partitions

UNSYNCED = LocalFileIO(sync_data=False)
SCHEMA = pa.schema([pa.field("day", pa.date32()), pa.field("shop", pa.string()), pa.field("id", pa.int64())])
DAYS = {"1": 20_000, "2": 20_001, "3": None}


def rows(*given: tuple[str, str | None, int]) -> pa.Table:
    days = pa.array([DAYS[day] for day, _, _ in given], pa.int32()).cast(pa.date32())
    return pa.table([days, [shop for _, shop, _ in given], [key for _, _, key in given]], schema=SCHEMA)


ALL = [("1", "a", 1), ("1", "b", 2), ("2", "a", 3), ("3", None, 4), ("3", " ", 5)]


@pytest.fixture(params=["with key", "without key"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> FileStoreTable:
    """A table with the rows ALL, partitioned by day and shop; partition values may be null without a key."""
    if request.param == "with key":
        fields = [field.with_nullable(False) for field in SCHEMA]
        schema = build_schema(fields, primary_keys=["day", "shop", "id"], partition_keys=["day", "shop"])
    else:
        schema = build_schema(SCHEMA, partition_keys=["day", "shop"], options={"bucket": "-1"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    table.write(rows(*given_to(table)))
    return table


def given_to(table: FileStoreTable) -> list[tuple[str, str | None, int]]:
    return [row for row in ALL if row[0] != "3" or not table.schema.primary_keys]


def content(table: FileStoreTable) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_arrow().to_pylist())


def of(given: list[tuple[str, str | None, int]]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in rows(*given).to_pylist())


def test_only_the_partitions_of_the_new_rows_are_replaced(table: FileStoreTable) -> None:
    snapshot = table.write(rows(("1", "a", 10), ("2", "c", 11)), mode="overwrite-partitions")
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    kept = [row for row in given_to(table) if row[:2] != ("1", "a")]
    assert content(table) == of([*kept, ("1", "a", 10), ("2", "c", 11)])


def test_partitions_that_meet_a_condition_are_replaced(table: FileStoreTable) -> None:
    table.write(rows(("1", "z", 10)), mode="overwrite", where="day = DATE '2024-10-04'")
    kept = [row for row in given_to(table) if row[0] != "1"]
    assert content(table) == of([*kept, ("1", "z", 10)])


def test_rows_outside_of_the_condition_are_refused(table: FileStoreTable) -> None:
    before = sorted(Path(table.path).rglob("data-*"))
    with pytest.raises(InvalidRequestError, match=r"rows of the partition day=20001, shop='a' do not meet"):
        table.write(rows(("1", "a", 10), ("2", "a", 11)), mode="overwrite", where="day = DATE '2024-10-04'")
    assert content(table) == of(given_to(table))
    assert sorted(Path(table.path).rglob("data-*")) == before


@pytest.mark.parametrize(
    ("where", "is_dropped"),
    [
        ("shop = 'a'", lambda day, shop: shop == "a"),
        ("day > DATE '2024-10-04' or shop = 'b'", lambda day, shop: day == "2" or shop == "b"),
        ("shop is null", lambda day, shop: shop is None),
        ("not shop = 'a'", lambda day, shop: shop not in ("a", None)),
    ],
)
def test_partitions_are_dropped(table: FileStoreTable, where: str, is_dropped: object) -> None:
    kept = [row for row in given_to(table) if not is_dropped(row[0], row[1])]  # type: ignore[operator]  # a condition
    drop_partitions(table, where)
    assert content(table) == of(kept)
    assert drop_partitions(table, where) is None


def test_of_partitions_that_differ_in_the_last_of_38_digits_one_is_dropped(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("p", pa.decimal128(38, 0)), pa.field("id", pa.int64())])
    numbers = [10**29, 10**29 + 1, -(10**38) + 1, -(10**38) + 2]
    built = build_schema(schema, partition_keys=["p"], options={"bucket": "-1"})
    table = FileStoreTable.create(tmp_path / "t", built, UNSYNCED)
    table.write(pa.table([pa.array(map(Decimal, numbers), pa.decimal128(38, 0)), range(4)], schema=schema))
    drop_partitions(table, f"p = {10**29 + 1}")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 2, 3]
    drop_partitions(table, f"p IN ({-(10**38) + 1}, 5)")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 3]


def test_conditions_are_on_partition_columns(table: FileStoreTable, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="expected its partition columns alone; it has day, shop"):
        drop_partitions(table, "id = 1")
    with pytest.raises(InvalidRequestError, match="takes no condition"):
        table.write(rows(*ALL[:1]), where="shop = 'a'")
    schema = build_schema(SCHEMA, options={"bucket": "-1"})
    plain = FileStoreTable.create(tmp_path / "plain", schema, UNSYNCED)
    with pytest.raises(InvalidRequestError, match="it has no partition columns"):
        plain.write(rows(*ALL[:1]), mode="overwrite", where="shop = 'a'")
    assert content(table) == of(given_to(table))


def test_a_table_that_changed_meanwhile_is_a_conflict(table: FileStoreTable) -> None:
    rival = FileStoreTable.open(table.path, UNSYNCED)
    interrupted: list[bool] = []

    def write_rival_first() -> int:
        if not interrupted:
            interrupted.append(True)
            rival.write(rows(("1", "a", 99)))
        return 1_000

    clock = CommitClock(now_millis=write_rival_first, sleep=lambda _: None)
    with pytest.raises(ConflictError, match="drop them again"):
        drop_partitions(table, "shop = 'a'", clock=clock)
    assert content(table) == of([*given_to(table), ("1", "a", 99)])


def millis(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_partitions_expire_by_the_day_that_they_name(tmp_path: Path) -> None:
    options = {"bucket": "-1", "partition.expiration-time": "2 d"}
    schema = build_schema(SCHEMA, partition_keys=["day", "shop"], options=options)
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    table.write(rows(*ALL))
    assert expire_partitions(table, now_millis=millis("2024-10-06T00:00:00")) is None
    assert expire_partitions(table, now_millis=millis("2024-10-06T00:00:01")) is not None
    assert content(table) == of([row for row in ALL if row[0] != "1"])
    expire_partitions(table)
    assert content(table) == of([row for row in ALL if row[0] == "3"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "2024-02-29T00:00:00+00:00"),
        ({"partition.timestamp-pattern": "$day $hour:00:00"}, "2024-02-29T07:00:00+00:00"),
        (
            {"partition.timestamp-pattern": "$day/$hour", "partition.timestamp-formatter": "yyyy-MM-dd'/'HH"},
            "2024-02-29T07:00:00+00:00",
        ),
        ({"partition.timestamp-formatter": "yyyyMMdd"}, None),
    ],
)
def test_the_time_of_a_partition_is_made_as_the_options_say(options: dict[str, str], expected: str | None) -> None:
    columns = [pa.field("day", pa.string()), pa.field("hour", pa.string()), pa.field("id", pa.int64())]
    schema = build_schema(columns, partition_keys=["day", "hour"], options={"bucket": "-1", **options})
    kinds = [field.type for field in schema.partition_fields]
    moment = partition_time(schema, serialize_row(kinds, ["2024-02-29", "07"]))
    assert (None if moment is None else moment.isoformat()) == expected
    assert partition_time(schema, serialize_row(kinds, [None, "07"])) is None


def test_wrong_patterns_of_time_are_named(tmp_path: Path) -> None:
    def expire(**options: str) -> None:
        given = {"bucket": "-1", "partition.expiration-time": "1 d", **options}
        schema = build_schema(SCHEMA, partition_keys=["day"], options=given)
        table = FileStoreTable.create(tmp_path / str(len(options)) / "".join(options), schema, UNSYNCED)
        table.write(rows(*ALL))
        expire_partitions(table)

    with pytest.raises(InvalidRequestError, match=r"names 'dai'; the partition columns are day"):
        expire(**{"partition.timestamp-pattern": "$dai"})
    with pytest.raises(InvalidRequestError, match=r"'YYYY' is not known; known are yyyy"):
        expire(**{"partition.timestamp-formatter": "YYYY-MM-dd"})
    schema = build_schema(SCHEMA, options={"bucket": "-1"})
    with pytest.raises(InvalidRequestError, match=r"has no (option partition.expiration-time|partition columns)"):
        expire_partitions(FileStoreTable.create(tmp_path / "plain", schema, UNSYNCED))
