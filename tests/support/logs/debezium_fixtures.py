"""The records that Debezium wrote for the two tables of `tests/conformance/debezium`, and what the tables became."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any  # Any: parsed JSON

import pyarrow as pa

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.types import DataField
from lakelog.logstore.codec.foreign_forms import BinaryForm, DecimalForm, ForeignForms, TimeForm

FOLDER = Path(__file__).parents[2] / "conformance" / "debezium"

CUSTOMERS_DDL = (
    "id BIGINT NOT NULL, name STRING NOT NULL, credit DECIMAL(12, 2), big STRING, born DATE, "
    "seen TIMESTAMP(6) WITH LOCAL TIME ZONE, at TIMESTAMP(3), doc STRING, tags ARRAY<STRING>, uid STRING, raw BYTES, "
    "ok BOOLEAN, note STRING"
)
ORDERS_DDL = (
    "ord INT NOT NULL, line SMALLINT NOT NULL, sku STRING, qty INT NOT NULL, price DECIMAL(10, 2), ratio DOUBLE, "
    "small SMALLINT, t {time}, iv {interval}, f FLOAT, ints ARRAY<INT>, kind STRING"
)
INTERVAL_MICROS = {"1 day 02:03:04": 93_784_000_000, "3 mons": 7_889_400_000_000, None: None}
INTERVAL_TEXTS = {"1 day 02:03:04": "P0Y0M1DT2H3M4S", "3 mons": "P0Y3M0DT0H0M0S", None: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A topic: its table as DDL, the primary key, and its file names begin with `name`."""

    name: str
    ddl: str
    keys: tuple[str, ...]

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The table's columns."""
        return parse_ddl(self.ddl)

    @property
    def forms(self) -> ForeignForms:
        """The options of the connector that wrote the topic."""
        if not self.name.startswith("strings"):
            return ForeignForms()
        return ForeignForms(binaries=BinaryForm.HEX, decimals=DecimalForm.STRING, times=TimeForm.CONNECT)

    def records(self) -> list[dict[str, Any]]:
        """The records of the topic."""
        return [json.loads(line) for line in _lines(f"{self.name}.jsonl")]

    def keys_and_values(self) -> tuple[list[bytes | None], list[bytes | None]]:
        """The bytes of all keys, and of all values."""
        records = self.records()
        return [_bytes(one["key"]) for one in records], [_bytes(one["value"]) for one in records]

    def expected(self) -> list[dict[str, Any]]:
        """The rows of the table as PostgreSQL gave them at the end, in the forms of `comparable_rows`."""
        rows = [json.loads(line, parse_float=Decimal) for line in _lines(f"{self.name}.expected.jsonl")]
        names = [field.name for field in self.fields]
        return _sorted([{name: _expected(self, name, row.get(name)) for name in names} for row in rows])

    def shown(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Rows of the table in the forms of `expected`."""
        return _sorted([{name: _shown(name, value) for name, value in row.items()} for row in rows.to_pylist()])


def _lines(name: str) -> Sequence[str]:
    return [line for line in (FOLDER / name).read_text(encoding="utf-8").split("\n") if line]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _expected(fixture: Fixture, name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "iv":
        forms: Mapping[Any, Any] = INTERVAL_TEXTS if "iv STRING" in fixture.ddl else INTERVAL_MICROS
        return forms[value]
    if name == "raw":
        return value.removeprefix("\\x")
    if name in ("credit", "price", "big"):
        return format(Decimal(value), "f")
    if name in ("ratio", "f"):
        return str(float(value))
    if name == "doc":
        return json.dumps(value, sort_keys=True, default=float)
    if name == "seen":
        return value.replace("T", " ")
    if name == "at":
        return value.replace("T", " ").rstrip("0").rstrip(".") if "." in value else value.replace("T", " ")
    if name == "t":
        return _micros_of_day(value) if " t BIGINT" in fixture.ddl else value[:12]
    return value


def _shown(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "raw":
        return value.hex()
    if name in ("credit", "price", "big"):
        return format(Decimal(value), "f")
    if name == "f":
        return str(float(f"{value:.7g}"))
    if name == "ratio":
        return str(float(value))
    if name == "doc":
        return json.dumps(json.loads(value), sort_keys=True)
    if name == "seen":
        return value.isoformat(" ")
    if name == "at":
        text = value.isoformat(" ")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if name == "born":
        return value.isoformat()
    if name == "t":
        return value if isinstance(value, int) else value.isoformat("milliseconds" if value.microsecond else "auto")
    return value


def _micros_of_day(text: str) -> int:
    time = dt.time.fromisoformat(text)
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


def _sorted(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


_MICROS = ORDERS_DDL.format(time="BIGINT", interval="BIGINT")  # columns of the type TIME end at milliseconds
_MILLIS = ORDERS_DDL.format(time="TIME(3)", interval="STRING")
FIXTURES = {
    one.name: one
    for one in (
        Fixture(name="customers", ddl=CUSTOMERS_DDL, keys=("id",)),
        Fixture(name="orders", ddl=_MICROS, keys=("ord", "line")),
        Fixture(name="with_schema.customers", ddl=CUSTOMERS_DDL, keys=("id",)),
        Fixture(name="with_schema.orders", ddl=_MICROS, keys=("ord", "line")),
        Fixture(name="strings.customers", ddl=CUSTOMERS_DDL, keys=("id",)),
        Fixture(name="strings.orders", ddl=_MILLIS, keys=("ord", "line")),
    )
}
