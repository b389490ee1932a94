"""What pypaimon is asked to do, in a process and an environment of its own: write a table, or read one.

    python pypaimon_job.py write <warehouse> <table> <plain|partitioned|append>
    python pypaimon_job.py append <warehouse> <table> <first commit> <behind the last>
    python pypaimon_job.py read <warehouse> <table>
    python pypaimon_job.py extremes <warehouse> <table> <parquet|orc|avro>
    python pypaimon_job.py rows <warehouse> <table>
    python pypaimon_job.py evolve <warehouse> <table> <1 for deletes too, else 0>

Both sides make the same input rows from this file; what they read travels as JSON. It knows nothing of lakelog.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any  # Any: values of every column type, and pypaimon, which only the other environment has

import pyarrow as pa

BUCKETS = 3
COMMITS = 5
KIND_COLUMN = "op"
FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("tag", pa.string(), nullable=False),
    pa.field("day", pa.date32(), nullable=False),
    pa.field(KIND_COLUMN, pa.string()),
    pa.field("flag", pa.bool_()),
    pa.field("i1", pa.int8()),
    pa.field("i2", pa.int16()),
    pa.field("i4", pa.int32()),
    pa.field("f4", pa.float32()),
    pa.field("f8", pa.float64()),
    pa.field("d9", pa.decimal128(9, 2)),
    pa.field("d18", pa.decimal128(18, 6)),
    pa.field("d30", pa.decimal128(30, 5)),
    pa.field("text", pa.string()),
    pa.field("data", pa.binary()),
    pa.field("clock", pa.time32("ms")),
    pa.field("ts3", pa.timestamp("ms")),
    pa.field("ts6", pa.timestamp("us")),
    pa.field("ltz", pa.timestamp("us", tz="UTC")),
    pa.field("items", pa.list_(pa.int32())),
    pa.field("pairs", pa.map_(pa.string(), pa.int64())),
    pa.field("inner", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])),
]
SCHEMA = pa.schema(FIELDS)
OPTIONS = {"bucket": str(BUCKETS), "file.format": "parquet"}


def keys_of(kind: str) -> tuple[list[str], list[str]]:
    """Primary key and partition columns of a kind of table."""
    if kind == "append":
        return [], ["day"]
    return (["id", "tag", "day"], ["day"]) if kind == "partitioned" else (["id", "tag"], [])


def options_of(kind: str) -> dict[str, str]:
    """The options that both sides give a kind of table."""
    return {**OPTIONS, "bucket-key": "id"} if kind == "append" else OPTIONS


def commits() -> Iterator[pa.Table]:
    """The rows of each commit, in arrival order; the column `op` tells whether a row is +I, +U or -D."""
    chance = random.Random(7)
    for number in range(COMMITS):
        rows = [_row(chance) for _ in range(60)]
        if number < 2:
            rows = [{**row, KIND_COLUMN: "+I"} for row in rows]
        yield pa.Table.from_pylist(rows, schema=SCHEMA)


def _row(chance: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    moment = datetime(1969, 1, 1) + timedelta(microseconds=chance.randrange(10**17))
    number = chance.randrange(50) - 10
    return {
        "id": number * 10**12 if number % 2 else number,
        "tag": chance.choice(("", "a", "tag with space", "ü€😀", "a rather long tag that leaves its slot")),
        "day": date(2026, 1, 1) + timedelta(days=number % 3),
        KIND_COLUMN: chance.choice(("+I", "+U", "+U", "-D")),
        "flag": maybe(chance.random() < 0.5),
        "i1": maybe(chance.choice((-128, 0, 127))),
        "i2": maybe(chance.choice((-32768, 5, 32767))),
        "i4": maybe(chance.randrange(-(2**31), 2**31)),
        "f4": maybe(chance.choice((0.5, -1.25, float("nan"), float("inf"), -0.0))),
        "f8": maybe(chance.choice((0.1, 1e300, 5e-324, float("nan"), float("-inf")))),
        "d9": maybe(Decimal(chance.randrange(-(10**9) + 1, 10**9)).scaleb(-2)),
        "d18": maybe(Decimal(chance.randrange(-(10**18) + 1, 10**18)).scaleb(-6)),
        "d30": maybe(Decimal(f"{chance.randrange(-(10**29), 10**29)}e-5")),
        "text": maybe("".join(chance.choices('aé😀"\\\n\x00 ', k=chance.randrange(12)))),
        "data": maybe(chance.randbytes(chance.randrange(10))),
        "clock": maybe(time(chance.randrange(24), 59, 58)),
        "ts3": maybe(moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
        "ts6": maybe(moment),
        "ltz": maybe(moment.replace(tzinfo=UTC)),
        "items": maybe([maybe(chance.randrange(9)) for _ in range(chance.randrange(4))]),
        "pairs": maybe([(key, maybe(chance.randrange(10**12))) for key in "abc"[: chance.randrange(4)]]),
        "inner": maybe({"x": maybe(chance.randrange(9)), "y": maybe("y")}),
    }


def shown(table: pa.Table) -> list[str]:
    """Each row as text in which every value is exact, sorted."""
    rows = [[_shown(row[field.name]) for field in FIELDS] for row in table.to_pylist()]
    return sorted(json.dumps(row) for row in rows)


def _shown(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case bytes():
            return value.hex()
        case list():
            return [_shown(item) for item in value]
        case tuple():
            return [_shown(item) for item in value]
        case dict():
            return [[key, _shown(item)] for key, item in value.items()]
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return str(value)


EXTREMES = {
    "i1": pa.array([-128, 127, None], pa.int8()),
    "i2": pa.array([-32768, 32767, None], pa.int16()),
    "i4": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
    "i8": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "f4": pa.array([0.1, -3.4e38, None], pa.float32()),
    "flag": pa.array([True, False, None], pa.bool_()),
    "d9": pa.array([Decimal("9999999.99"), Decimal("-9999999.99"), None], pa.decimal128(9, 2)),
    "d18": pa.array([Decimal("1e11"), Decimal("-0.000001"), None], pa.decimal128(18, 6)),
    "ts3": pa.array([datetime(1970, 1, 1), datetime(2261, 12, 31, 23, 59, 59, 999000), None], pa.timestamp("ms")),
    "text": pa.array(["ü€😀", "", None], pa.string()),
    "items": pa.array([[-(2**31), 2**31 - 1], [], None], pa.list_(pa.int32())),
    "inner": pa.array([{"x": 2**31 - 1, "y": "y"}, {"x": None, "y": None}, None], FIELDS[-1].type),
}


def rows_shown(table: pa.Table) -> list[str]:
    """Each row as an object of its columns, as text in which every value is exact, sorted."""
    rows = [{name: _shown(value) for name, value in row.items()} for row in table.to_pylist()]
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _make_extremes(warehouse: str, name: str, file_format: str) -> None:
    """A table of the rows above, numbered, in files of a format."""
    pypaimon = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database(name.partition(".")[0], True)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), **EXTREMES})
    rows = rows.cast(pa.schema([rows.schema.field("id").with_nullable(False), *list(rows.schema)[1:]]))
    options = {"bucket": "1", "file.format": file_format}
    schema = pypaimon.Schema.from_pyarrow_schema(rows.schema, primary_keys=["id"], options=options)
    catalog.create_table(name, schema, False)
    _commit(catalog.get_table(name), rows)


def _commit(table: Any, rows: pa.Table) -> None:
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def _write(warehouse: str, name: str, kind: str) -> None:
    """Make the table and commit the rows with pypaimon; it takes the row kinds from the column `op`."""
    pypaimon = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database(name.partition(".")[0], True)
    primary, partition = keys_of(kind)
    schema = pypaimon.Schema.from_pyarrow_schema(
        SCHEMA,
        primary_keys=primary,
        partition_keys=partition,
        options={**options_of(kind), **({"rowkind.field": KIND_COLUMN} if primary else {})},
    )
    catalog.create_table(name, schema, False)
    table = catalog.get_table(name)
    for rows in commits():
        _commit(table, rows)


def _append(warehouse: str, name: str, first: str, end: str) -> None:
    """Add the rows of some commits to a table that is there, as upserts."""
    table = import_module("pypaimon").CatalogFactory.create({"warehouse": warehouse}).get_table(name)
    for rows in list(commits())[int(first) : int(end)]:
        _commit(table, rows)


EVOLVED = pa.schema(
    [("id", pa.int64()), ("a", pa.string()), ("b", pa.float64()), ("data", pa.large_binary()), ("day", pa.int32())]
)


def _evolve(warehouse: str, name: str, has_deletes: str) -> None:
    """A table whose columns are written at different times, with a BLOB column; of two partitions."""
    pypaimon = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database(name.partition(".")[0], True)
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
    options |= {"deletion-vectors.enabled": "true"} if has_deletes == "1" else {}
    schema = pypaimon.Schema.from_pyarrow_schema(EVOLVED, partition_keys=["day"], options=options)
    catalog.create_table(name, schema, False)
    table = catalog.get_table(name)
    for start in (0, 40):
        numbers = range(start, start + 40)
        blobs = [None if n % 7 == 0 else b"" if n % 7 == 1 else bytes([n]) * (n * 50) for n in numbers]
        columns = [list(numbers), [f"a{n}" for n in numbers], [n / 2 for n in numbers], blobs, [n % 2 for n in numbers]]
        _commit(table, pa.table([pa.array(*pair) for pair in zip(columns, EVOLVED.types, strict=True)], schema=EVOLVED))
    _update(table, "b", [-1.0 * n for n in range(10)], range(3, 13))
    _update(table, "a", [None if n % 3 else f"new {n}" for n in range(50)], range(10, 60))
    _update(table, "data", [b"new", None, b"", b"x" * 5_000], (5, 6, 7, 33))
    if has_deletes == "1":
        builder = table.new_batch_write_builder()
        commit = builder.new_commit()
        commit.commit(builder.new_update().delete_by_row_id([4, 5, 21, 60, 79]))
        commit.close()


def _update(table: Any, column: str, values: list[Any], row_ids: Iterable[int]) -> None:
    """Write one column of some rows anew."""
    numbers = pa.array(row_ids, pa.int64())
    rows = pa.table({"_ROW_ID": numbers, column: pa.array(values, EVOLVED.field(column).type)})
    builder = table.new_batch_write_builder()
    commit = builder.new_commit()
    commit.commit(builder.new_update().with_update_type([column]).update_by_arrow_with_row_id(rows))
    commit.close()


def _read(warehouse: str, name: str) -> pa.Table:
    pypaimon = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse})
    builder = catalog.get_table(name).new_read_builder()
    splits = builder.new_scan().plan().splits()
    return builder.new_read().to_arrow(splits)


def _main(verb: str, *arguments: str) -> object:
    if verb == "write":
        _write(*arguments)
    elif verb == "append":
        _append(*arguments)
    elif verb == "extremes":
        _make_extremes(*arguments)
    elif verb == "evolve":
        _evolve(*arguments)
    else:
        rows = _read(*arguments)
        return rows_shown(rows) if verb == "rows" else shown(rows)
    return None


if __name__ == "__main__":
    print(json.dumps(_main(*sys.argv[1:])))
