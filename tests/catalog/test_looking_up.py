"""Rows by their primary keys: as a condition finds them, for keys of several columns and of all types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any  # Any: values of keys

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.verbs import read_verbs

KEYS: dict[str, list[Any]] = {
    "BIGINT": [1, 2, -(2**62), 2**53 + 1],
    "STRING": ["a", "", "ä'\\", "a "],
    "BOOLEAN": [True, False],
    "DOUBLE": [0.1, float("inf"), float("nan"), 1e300],
    "FLOAT": [0.5, 0.10000000149011612],
    "DECIMAL(20, 3)": [Decimal("1.500"), Decimal("-99999999999999999.999")],
    "DATE": [dt.date(2026, 1, 31), dt.date(1, 1, 1)],
    "TIMESTAMP(9)": [dt.datetime(2026, 1, 31, 1, 2, 3, 4), dt.datetime(1969, 12, 31)],
    "TIMESTAMP_LTZ(3)": [dt.datetime(2026, 1, 31, tzinfo=dt.UTC)],
    "VARBINARY(9)": [b"", b"\x00\xff"],
    "TIME(3)": [dt.time(1, 2, 3)],
}


@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_found_by_keys_of_each_type(kind: str, tmp_path: Path) -> None:
    values = KEYS[kind]
    table = Catalog(tmp_path).create_table("db.t", schema=f"k {kind} NOT NULL, v INT", primary_keys="k")
    schema = table.schema.arrow_schema
    table.write(pa.Table.from_pylist([{"k": value, "v": at} for at, value in enumerate(values)], schema))

    for at, value in enumerate(values):
        assert table.lookup({"k": value}, columns="v").to_pylist() == [{"v": at}], value
    every = table.lookup([{"k": value} for value in values])
    assert every.schema == schema
    assert sorted(every["v"].to_pylist()) == list(range(len(values)))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"bucket": "4"}
    schema = "id BIGINT NOT NULL, day STRING NOT NULL, name STRING"
    made = Catalog(tmp_path).create_table(
        "db.t", schema=schema, primary_keys=["day", "id"], partition_keys=["day"], options=options
    )
    rows = [{"id": number, "day": day, "name": f"{day}{number}"} for number in range(20) for day in "ab"]
    made.write(pa.Table.from_pylist(rows, made.schema.arrow_schema))
    return made


def test_keys_of_several_columns_are_found_together(table: Table) -> None:
    found = table.lookup([{"id": 1, "day": "a"}, {"day": "b", "id": 2}, {"id": 99, "day": "a"}])

    assert sorted(found["name"].to_pylist()) == ["a1", "b2"]  # and neither a2 nor b1
    assert table.lookup([], columns=["name"]).to_pylist() == []
    assert table.at().lookup({"id": 3, "day": "a"}, columns=["name", "id"]).to_pylist() == [{"name": "a3", "id": 3}]


def test_a_look_up_reads_the_files_of_its_buckets_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    planned = read_verbs.planned

    def noted(store: Any, **what: Any) -> Any:
        found = planned(store, **what)
        read.append(len(found.splits))
        return found

    monkeypatch.setattr(read_verbs, "planned", noted)
    table.lookup({"id": 1, "day": "a"})

    assert read == [1]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"id": 1}, "has a value for each of the columns day, id, as in .*; found id"),
        ({"id": 1, "day": "a", "name": "x"}, "found"),
        ([{"id": 1, "day": "a"}, 7], "found 7"),
        ({"id": "1", "day": "a"}, "does not fit into"),
        ({"id": 2**70, "day": "a"}, "does not fit into"),
    ],
)
def test_what_is_no_key_of_the_table_is_refused(table: Table, keys: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        table.lookup(keys)


def test_a_table_without_key_has_no_look_up(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
    with pytest.raises(UnsupportedError, match="has no primary key: read rows with a condition"):
        table.lookup({"id": 1})
