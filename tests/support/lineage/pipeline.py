"""The pipeline of the proposal: tables 1 to 4, from which jobs make 5 and 6, whose join is 7; and a model of it.

Amounts are decimals, so that what is made again from the sources must be equal digit by digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any  # Any: rows and states

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from tests.support.streams.planned_jobs import Row, Rows

SOURCES = ("db.t1", "db.t2", "db.t3", "db.t4")
AMOUNT = pa.decimal128(18, 4)
SOURCE = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", AMOUNT)])
JOINED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("five", AMOUNT), pa.field("six", AMOUNT)])
Amounts = Mapping[int, Decimal]


def make_tables(catalog: Catalog, options: Mapping[str, str]) -> dict[str, Table]:
    """The seven tables."""
    return {
        name: catalog.create_table(
            name, schema=JOINED if name == "db.t7" else SOURCE, primary_keys=["id"], options=options
        )
        for name in (*SOURCES, "db.t5", "db.t6", "db.t7")
    }


def five(amount: Decimal) -> Decimal:
    """What table 5 has of an amount."""
    return amount + Decimal("0.0001")


def six(amount: Decimal) -> Decimal:
    """What table 6 has of an amount."""
    return amount * 3


def is_in_six(row_id: int) -> bool:
    """Whether table 6 has a row: some batches have none."""
    return row_id % 3 != 0


def to_five(_state: dict[str, Any], rows: Rows) -> list[Row]:
    """Job 1."""
    return [{"id": row["id"], "amount": five(row["amount"])} for found in rows.values() for row in found]


def to_six(_state: dict[str, Any], rows: Rows) -> list[Row]:
    """Job 2."""
    return [
        {"id": row["id"], "amount": six(row["amount"])}
        for found in rows.values()
        for row in found
        if is_in_six(row["id"])
    ]


def to_seven(state: dict[str, Any], rows: Rows) -> list[Row]:
    """Job 3: the join of tables 5 and 6. Its state are the rows of both."""
    changed: set[int] = set()
    for source, found in rows.items():
        side = state.setdefault(source, {})
        side |= {row["id"]: row["amount"] for row in found}
        changed |= {row["id"] for row in found}
    left, right = state.get("db.t5", {}), state.get("db.t6", {})
    return [
        {"id": row_id, "five": left[row_id], "six": right[row_id]}
        for row_id in sorted(changed)
        if row_id in left and row_id in right
    ]


def expected(sources: Mapping[str, Amounts]) -> dict[str, dict[int, tuple[Decimal, ...]]]:
    """Tables 5, 6 and 7, made again from the rows of the sources."""
    rows = {row_id: amount for amounts in sources.values() for row_id, amount in amounts.items()}
    return {
        "db.t5": {row_id: (five(amount),) for row_id, amount in rows.items()},
        "db.t6": {row_id: (six(amount),) for row_id, amount in rows.items() if is_in_six(row_id)},
        "db.t7": {row_id: (five(amount), six(amount)) for row_id, amount in rows.items() if is_in_six(row_id)},
    }


def rows_at(table: Table, snapshot_id: int) -> dict[int, tuple[Decimal, ...]]:
    """What a table has at a snapshot."""
    return {row["id"]: tuple(row.values())[1:] for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist()}


def amounts_at(table: Table, snapshot_id: int) -> dict[int, Decimal]:
    """The amounts of a source at a snapshot."""
    return {row_id: values[0] for row_id, values in rows_at(table, snapshot_id).items()}
