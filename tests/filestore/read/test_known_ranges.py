"""The least and the greatest value by metadata are those of the rows, or are not known."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.catalog import AddColumn, Catalog, Table, UpdateColumnType
from lakelog.filestore.read import known_range, plan_read

EXACT = ["id", "n", "day", "x", "more"]
UNKNOWN = ["v", "f", "ts", "flag"]
DDL = (
    "id BIGINT NOT NULL, n INT, day DATE, x DECIMAL(12, 2), v STRING, f DOUBLE, ts TIMESTAMP, flag BOOLEAN, "
    "part INT NOT NULL"
)


def rows_of(chance: random.Random, table: Table, count: int) -> pa.Table:
    def some(value: object) -> object:
        return None if chance.random() < 0.3 else value

    made = [
        {
            "id": chance.randint(-1_000, 1_000),
            "n": some(chance.randint(-9, 9)),
            "day": some(date(1960, 1, 1) + timedelta(days=chance.randint(0, 40_000))),
            "x": some(Decimal(chance.randint(-(10**9), 10**9)) / 100),
            "v": some("x" * chance.randint(0, 40)),
            "f": some(chance.choice([float("nan"), 1.5, -2.5])),
            "ts": None,
            "flag": some(True),
            "part": chance.randint(0, 2),
            "more": some(chance.randint(0, 5)),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(made, schema=table.schema.arrow_schema)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("keys", [(), ("part", "id")], ids=["no key", "key"])
def test_a_known_range_is_that_of_the_rows(tmp_path: Path, keys: tuple[str, ...], seed: int) -> None:
    chance = random.Random(seed)
    table = Catalog(tmp_path).create_table(
        "db.t", schema=DDL, primary_keys=keys, partition_keys="part", options={"bucket": "1", "write-only": "true"}
    )
    known = 0
    for step in range(6):
        if step == 2:
            table.alter(AddColumn("more", "INT"))
        if step == 3:
            table.alter(UpdateColumnType("n", "BIGINT"))
        table.write(rows_of(chance, table, chance.randint(1, 5)))
        if step % 2:
            table.compact(full=True)
        rows = table.to_arrow()
        splits = plan_read(table.store, table.snapshot(), where=None).splits
        for name in [*EXACT, "part"]:
            if name not in rows.column_names:
                continue
            found = known_range(table.store, splits, name)
            if found is not None:
                known += 1
                values = pc.min_max(rows[name])
                assert found.to_pylist() == [values["min"].as_py(), values["max"].as_py()], (step, name)
                assert found.type == rows[name].type
        assert [name for name in UNKNOWN if known_range(table.store, splits, name) is not None] == []
    assert known > 10


def test_a_table_without_rows_has_no_extremes(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema="n INT")
    found = known_range(table.store, (), "n")
    assert found is not None
    assert found.to_pylist() == [None, None]
