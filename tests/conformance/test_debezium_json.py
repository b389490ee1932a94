"""Change logs that Flink 2.0.0 and Debezium 3.7.0 wrote: read as their writers meant them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any  # Any: parsed JSON

import pytest

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, RowKind, array_of, map_of, parse_type, row_of
from lakelog.logstore.codec.debezium import decode_changes, encode_changes
from lakelog.logstore.options import ChangelogMode
from tests.support.logs.json_forms import comparable, shown_rows

FLINK = Path(__file__).parent / "flink-debezium-json"
DEBEZIUM = Path(__file__).parent / "debezium"
UNCHANGED = "__debezium_unavailable_value"
CASES = ("simple_key", "simple_nokey", "types_key", "types_nokey")
INTERVAL_MICROS = {"1 day 02:03:04": 93_784_000_000, "3 mons": 7_889_400_000_000, None: None}
INTERVAL_TEXTS = {"1 day 02:03:04": "P0Y0M1DT2H3M4S", "3 mons": "P0Y3M0DT0H0M0S", None: None}


def _fields(**types: Any) -> list[DataField]:
    return [
        DataField(id=number, name=name, type=parse_type(kind) if isinstance(kind, str) else kind)
        for number, (name, kind) in enumerate(types.items())
    ]


SIMPLE = _fields(id="INT", name="STRING", v="BIGINT")
TYPES = _fields(
    id="INT",
    name="STRING",
    v="BIGINT",
    price="DECIMAL(12, 2)",
    d="DOUBLE",
    ok="BOOLEAN",
    at="TIMESTAMP(3)",
    micro="TIMESTAMP(6)",
    ltz="TIMESTAMP(3) WITH LOCAL TIME ZONE",
    dt="DATE",
    tm="TIME(0)",
    raw="BYTES",
    arr=array_of(parse_type("INT")),
    m=map_of(parse_type("STRING"), parse_type("INT")),
    r=row_of(_fields(a="INT", b="STRING")),
)
ORDERS = {
    "ord": "INT",
    "line": "SMALLINT",
    "sku": "STRING",
    "qty": "INT",
    "price": "DECIMAL(10, 2)",
    "ratio": "DOUBLE",
    "small": "SMALLINT",
    "t": "TIME(6)",
    "iv": "BIGINT",
    "f": "FLOAT",
    "ints": array_of(parse_type("INT")),
    "kind": "STRING",
}
CUSTOMERS = {
    "id": "BIGINT",
    "name": "STRING",
    "credit": "DECIMAL(12, 2)",
    "born": "DATE",
    "seen": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "at": "TIMESTAMP(3)",
    "doc": "STRING",
    "tags": array_of(parse_type("STRING")),
    "uid": "STRING",
    "raw": "BYTES",
    "ok": "BOOLEAN",
    "note": "STRING",
}


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _expected(path: Path, fields: Sequence[DataField]) -> list[dict[str, Any]]:
    return [comparable(line, fields) for line in _lines(path)]


def _values(path: Path) -> list[bytes | None]:
    return [None if record["value"] is None else record["value"].encode() for record in _lines(path)]


def _changelog(values: Sequence[bytes | None], fields: Sequence[DataField]) -> list[dict[str, Any]]:
    rows, kinds = decode_changes(values, fields)
    return [
        {"_kind": RowKind(kind).short, **comparable(row, fields)}
        for kind, row in zip(kinds.to_pylist(), shown_rows(rows, fields), strict=True)
    ]


def _fold(changelog: Iterable[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that the changes leave; Debezium's mark for an unchanged long text takes the old one."""
    table: dict[Any, dict[str, Any]] = {}
    for change in changelog:
        row = {name: value for name, value in change.items() if name != "_kind"}
        key = tuple(row[name] for name in keys)
        if change["_kind"] in ("+I", "+U"):
            old = table.get(key, {})
            table[key] = {name: old[name] if value == UNCHANGED else value for name, value in row.items()}
        else:
            table.pop(key, None)
    return _sorted(table.values())


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("case", CASES)
def test_flinks_change_log_is_read_as_flink_reads_it(case: str) -> None:
    fields = SIMPLE if case.startswith("simple") else TYPES

    changelog = _changelog(_values(FLINK / f"{case}.jsonl"), fields)

    assert changelog == _expected(FLINK / f"{case}.changelog.jsonl", fields)
    assert _fold(changelog, ["id"]) == _sorted(_expected(FLINK / f"{case}.expected.jsonl", fields))


@pytest.mark.parametrize("case", CASES)
def test_what_flink_wrote_is_written_the_same(case: str) -> None:
    fields = SIMPLE if case.startswith("simple") else TYPES
    keys = ["id"] if case.endswith("_key") else []
    records = _lines(FLINK / f"{case}.jsonl")
    rows, kinds = decode_changes([record["value"].encode() for record in records], fields)

    encoded = encode_changes(rows, kinds, fields, keys, ChangelogMode.ALL)

    assert [None if key is None else key.decode() for key in encoded.keys] == [record["key"] for record in records]
    ours = [_as_flink_writes(value) for value in encoded.values]
    assert ours == [_as_flink_writes(record["value"]) for record in records]


def _as_flink_writes(value: bytes | str) -> Any:
    """Flink leaves out the zeros at the end of a second's fraction, and orders maps as it likes."""
    envelope = json.loads(value, parse_float=Decimal)
    for image in (envelope["before"], envelope["after"]):
        for name in ("at", "micro", "ltz"):
            if image and image.get(name):
                whole, _, fraction = image[name].replace("T", " ").removesuffix("Z").partition(".")
                image[name] = (whole, fraction.rstrip("0"), image[name].endswith("Z"))
        if image and image.get("d") is not None:
            image["d"] = float(image["d"])  # Java writes 4.9E-324 for what is 5e-324 in its shortest form
        if image and image.get("tm"):
            image["tm"] = image["tm"].removesuffix(".000")
    return envelope


def test_debeziums_orders_are_read_as_flink_reads_them() -> None:
    fields = _fields(**ORDERS | {"price": "STRING", "t": "BIGINT"})

    changelog = _changelog(_values(DEBEZIUM / "orders.jsonl"), fields)

    assert changelog == _expected(DEBEZIUM / "orders.flink_changelog.jsonl", fields)
    folded = _expected(DEBEZIUM / "orders.flink_expected.jsonl", fields)
    assert _fold(changelog, ["ord", "line"]) == _sorted(folded)


@pytest.mark.parametrize(
    ("name", "types", "intervals"),
    [
        ("orders", ORDERS, INTERVAL_MICROS),
        ("with_schema.orders", ORDERS, INTERVAL_MICROS),
        ("strings.orders", ORDERS | {"t": "TIME(3)", "iv": "STRING"}, INTERVAL_TEXTS),
    ],
)
def test_debeziums_orders_fold_to_the_table(name: str, types: dict[str, Any], intervals: dict[Any, Any]) -> None:
    fields = _fields(**types)

    folded = _fold(_changelog(_values(DEBEZIUM / f"{name}.jsonl"), fields), ["ord", "line"])

    rows = [_order(line, fields, intervals) for line in _table(f"{name}.expected.jsonl")]
    assert folded == _sorted(rows)


def _table(name: str) -> list[dict[str, Any]]:
    text = (DEBEZIUM / name).read_text(encoding="utf-8")
    return [json.loads(line, parse_float=Decimal) for line in text.split("\n") if line]


def _order(line: dict[str, Any], fields: Sequence[DataField], intervals: dict[Any, Any]) -> dict[str, Any]:
    digits = next(field.type.precision for field in fields if field.name == "t")
    return comparable(line, fields) | {
        "price": None if line["price"] is None else str(line["price"]),
        "iv": intervals[line["iv"]],
        "t": None if line["t"] is None else _with_digits(line["t"], digits or 0),
    }


def _with_digits(text: str, digits: int) -> str:
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')[:digits]}"


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("customers", CUSTOMERS),
        ("with_schema.customers", CUSTOMERS),
        ("strings.customers", CUSTOMERS | {"raw": "STRING"}),
    ],
)
def test_debeziums_customers_fold_to_the_table(name: str, types: dict[str, Any]) -> None:
    fields = _fields(**types)

    after_truncation = _split_at_truncation(_values(DEBEZIUM / f"{name}.jsonl"))[-1]
    folded = _fold(_changelog(after_truncation, fields), ["id"])

    assert folded == _sorted(_customer(line, types) for line in _table(f"{name}.expected.jsonl"))


def _split_at_truncation(values: Sequence[bytes | None]) -> list[list[bytes | None]]:
    parts: list[list[bytes | None]] = [[]]
    for value in values:
        if value is not None and b'"op":"t"' in value:
            parts.append([])
        else:
            parts[-1].append(value)
    return parts


def _customer(line: dict[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    row = {name: line[name] for name in types}
    return row | {
        "credit": None if row["credit"] is None else str(row["credit"]),
        "at": None if row["at"] is None else _with_digits(row["at"], 3),
        "seen": None if row["seen"] is None else _with_digits(row["seen"].removesuffix("+00:00"), 6) + "Z",
        "raw": None if row["raw"] is None else row["raw"].removeprefix("\\x"),
        "doc": None if row["doc"] is None else _json_text(row["doc"]),
    }


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str).replace('"2.50"', "2.50")


def test_debeziums_truncation_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"record \d+ truncates the table"):
        decode_changes(_values(DEBEZIUM / "customers.jsonl"), _fields(**CUSTOMERS))


def test_the_number_without_scale_is_read_with_the_scale_of_the_column() -> None:
    values = [value for value in _values(DEBEZIUM / "customers.jsonl") if value and b'"value":"+w=="' in value]

    rows, _ = decode_changes(values, _fields(big="DECIMAL(20, 9)"))

    assert set(rows["big"].to_pylist()) == {Decimal("-0.500000000")}
