"""Records in the forms of Debezium's connectors, with the rows that they are.

Each form has the types that the documentation of its connector maps, the members of its `source` block, and its way to
write updates and deletes. Source: Debezium's documentation, "Data type mappings" and "Data change events".
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any  # Any: JSON and column values of any type

EPOCH = dt.datetime(1970, 1, 1)
EXACT = Context(prec=60)
Make = Callable[[random.Random], tuple[Any, Any]]  # (the JSON value, the value of the column)
Record = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormColumn:
    """A column of a form: its Connect schema, the type of the table's column, and how values are made."""

    name: str
    schema: Mapping[str, Any]
    ddl: str
    make: Make


def logical(kind: str, name: str | None = None, **parameters: str) -> dict[str, Any]:
    """A Connect schema."""
    found: dict[str, Any] = {"type": kind, "optional": True}
    if name is not None:
        found |= {"name": name, "version": 1}
    return found | ({"parameters": parameters} if parameters else {})


def same(make: Callable[[random.Random], Any]) -> Make:
    """A value that is the same in JSON and in the column."""

    def both(rng: random.Random) -> tuple[Any, Any]:
        value = make(rng)
        return value, value

    return both


def unscaled(number: int) -> str:
    """A number as Connect's Decimal writes it."""
    size = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal(digits: int, scale: int) -> Make:
    def make(rng: random.Random) -> tuple[str, Decimal]:
        number = rng.randint(-(10**digits) + 1, 10**digits - 1)
        return unscaled(number), Decimal(number).scaleb(-scale, EXACT)

    return make


def moment(units_per_second: int) -> Make:
    def make(rng: random.Random) -> tuple[int, dt.datetime]:
        micros = rng.randint(-(10**15), 2 * 10**15) // 1_000 * 1_000
        return micros * units_per_second // 1_000_000, EPOCH + dt.timedelta(microseconds=micros)

    return make


def time_of_day(units_per_second: int) -> Make:
    def make(rng: random.Random) -> tuple[int, dt.time]:
        millis = rng.randrange(86_400_000)
        return millis * units_per_second // 1_000, (EPOCH + dt.timedelta(milliseconds=millis)).time()

    return make


def day(rng: random.Random) -> tuple[int, dt.date]:
    days = rng.randint(-20_000, 40_000)
    return days, (EPOCH + dt.timedelta(days=days)).date()


def zoned(rng: random.Random) -> tuple[str, dt.datetime]:
    at = EPOCH + dt.timedelta(microseconds=rng.randrange(2 * 10**15))
    return f"{at.isoformat()}Z", at.replace(tzinfo=dt.UTC)


def binary(rng: random.Random) -> tuple[str, bytes]:
    data = rng.randbytes(rng.randrange(12))
    return base64.b64encode(data).decode(), data


def variable(rng: random.Random) -> tuple[dict[str, Any], Decimal]:
    scale, number = rng.randrange(6), rng.randint(-(10**12), 10**12)
    return {"scale": scale, "value": unscaled(number)}, Decimal(number).scaleb(-scale, EXACT)


def point(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    wkb, srid = rng.randbytes(21), rng.choice([None, 4326])
    return {"wkb": base64.b64encode(wkb).decode(), "srid": srid}, {"wkb": wkb, "srid": srid}


def text(rng: random.Random) -> str:
    return "".join(rng.choice('ab ü😀"\\\n{}[],:é\t') for _ in range(rng.randrange(12)))


def whole(bits: int) -> Make:
    return same(lambda rng: rng.randint(-(1 << bits - 1), (1 << bits - 1) - 1))


STRUCT_VARIABLE = {
    "type": "struct",
    "optional": True,
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [
        {"type": "int32", "optional": False, "field": "scale"},
        {"type": "bytes", "optional": False, "field": "value"},
    ],
}
STRUCT_GEOMETRY = {
    "type": "struct",
    "optional": True,
    "name": "io.debezium.data.geometry.Geometry",
    "fields": [
        {"type": "bytes", "optional": False, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ],
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
TIME = "io.debezium.time."
DATA = "io.debezium.data."


def column(name: str, schema: Mapping[str, Any], ddl: str, make: Make) -> FormColumn:
    """A column of a form."""
    return FormColumn(name=name, schema=schema, ddl=ddl, make=make)


TEXT = column("name", logical("string"), "STRING", same(text))
AMOUNT = column(
    "amount",
    logical("bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "12"}),
    "DECIMAL(12, 2)",
    decimal(12, 2),
)
RAW = column("raw", logical("bytes"), "BYTES", binary)
DAY = column("day", logical("int32", f"{TIME}Date"), "DATE", day)
ZONED = column("zoned", logical("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP(6) WITH LOCAL TIME ZONE", zoned)
MICROS = column("micros", logical("int64", f"{TIME}MicroTimestamp"), "TIMESTAMP(6)", moment(1_000_000))
MILLIS = column("millis", logical("int64", f"{TIME}Timestamp"), "TIMESTAMP(3)", moment(1_000))
CLOCK = column("clock", logical("int64", f"{TIME}MicroTime"), "TIME(6)", time_of_day(1_000_000))
FLAG = column("flag", logical("boolean"), "BOOLEAN", same(lambda rng: rng.random() < 0.5))
REAL = column("real", logical("float"), "FLOAT", same(lambda rng: rng.randint(-(10**6), 10**6) / 4))
DOUBLE = column("double", logical("double"), "DOUBLE", same(lambda rng: rng.uniform(-1e9, 1e9)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorForm:
    """What one connector writes. `updates_have_before` and `deletes_have_before` say which images it has."""

    name: str
    columns: tuple[FormColumn, ...]
    source: Mapping[str, Any]
    updates_have_before: bool = True
    deletes_have_before: bool = True
    has_tombstones: bool = True
    is_document: bool = False

    @property
    def ddl(self) -> str:
        """The table's columns."""
        if self.is_document:
            return "_id BIGINT NOT NULL, " + ", ".join(f"{one.name} {one.ddl}" for one in self.columns)
        return "id BIGINT NOT NULL, " + ", ".join(f"{one.name} {one.ddl}" for one in self.columns)

    @property
    def key(self) -> str:
        """The primary key."""
        return "_id" if self.is_document else "id"

    def history(self, count: int, *, seed: int, has_schema: bool) -> tuple[list[Record], dict[int, dict[str, Any]]]:
        """About `count` records of inserts, snapshots, updates and deletes, and the table that they leave."""
        rng = random.Random(seed)
        table: dict[int, dict[str, Any]] = {}
        images: dict[int, dict[str, Any]] = {}
        records: list[Record] = []
        while len(records) < count:
            key = rng.randrange(count // 3 + 1)
            old = images.get(key)
            if old is not None and rng.random() < 0.25:
                records.append(self._record("d", key, before=old, after=None, has_schema=has_schema))
                if self.has_tombstones:
                    records.append((records[-1][0], None))
                del images[key], table[key]
                continue
            image, row = self._values(rng)
            images[key], table[key] = {self.key: key, **image}, {self.key: key, **row}
            op = "u" if old is not None else rng.choice("cr")
            records.append(self._record(op, key, before=old, after=images[key], has_schema=has_schema))
        return records, table

    def _values(self, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
        image: dict[str, Any] = {}
        row: dict[str, Any] = {}
        for one in self.columns:
            image[one.name], row[one.name] = (None, None) if rng.random() < 0.15 else one.make(rng)
        return image, row

    def _record(self, op: str, key: int, *, before: Any, after: Any, has_schema: bool) -> Record:
        if (op == "u" and not self.updates_have_before) or (op == "d" and not self.deletes_have_before):
            before = None
        if self.is_document:
            key_fields: dict[str, Any] = {"id": str(key)}
            before, after = (None if image is None else json.dumps(image) for image in (before, after))
        else:
            key_fields = {"id": key}
        envelope = {
            "before": before,
            "after": after,
            "source": {"version": "3.2.0.Final", "connector": self.name, "ts_ms": 1_700_000_000_000, **self.source},
            "transaction": None,
            "op": op,
            "ts_ms": 1_700_000_000_123,
        }
        if not has_schema:
            return _json(key_fields), _json(envelope)
        return _json({"schema": self._key_schema(), "payload": key_fields}), _json(
            {"schema": self._schema(), "payload": envelope}
        )

    def _key_schema(self) -> dict[str, Any]:
        kind = "string" if self.is_document else "int64"
        return {"type": "struct", "fields": [{"type": kind, "optional": False, "field": "id"}], "optional": False}

    def _schema(self) -> dict[str, Any]:
        fields = [{"type": "int64", "optional": False, "field": "id"}]
        fields += [{**one.schema, "field": one.name} for one in self.columns]
        image: dict[str, Any] = {"type": "struct", "fields": fields, "optional": True}
        if self.is_document:
            image = logical("string", f"{DATA}Json")
        sides = [{**image, "field": side} for side in ("before", "after")]
        rest = [{"type": "string", "optional": False, "field": "op"}, {**logical("int64"), "field": "ts_ms"}]
        return {"type": "struct", "fields": [*sides, *rest], "optional": False, "name": f"{self.name}.Envelope"}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _enum(*names: str) -> Make:
    return same(lambda rng: rng.choice(names))


def _price(rng: random.Random) -> tuple[str, Decimal]:
    number = Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2)
    return str(number), number


def _number_long(rng: random.Random) -> tuple[dict[str, str], int]:
    number = rng.randint(-(1 << 63), (1 << 63) - 1)
    return {"$numberLong": str(number)}, number


def _document_date(rng: random.Random) -> tuple[dict[str, int], dt.datetime]:
    millis = rng.randrange(2 * 10**12)
    return {"$date": millis}, EPOCH + dt.timedelta(milliseconds=millis)


def _document_decimal(rng: random.Random) -> tuple[dict[str, str], Decimal]:
    number = Decimal(rng.randint(-(10**15), 10**15)).scaleb(-4)
    return {"$numberDecimal": str(number)}, number


FORMS: Sequence[ConnectorForm] = (
    ConnectorForm(
        name="mysql",
        columns=(
            TEXT,
            AMOUNT,
            RAW,
            DAY,
            ZONED,
            MILLIS,
            MICROS,
            CLOCK,
            column("tiny", logical("int16"), "SMALLINT", whole(16)),
            column("year", logical("int32", f"{TIME}Year"), "INT", same(lambda rng: rng.randint(1901, 2155))),
            column("kind", logical("string", f"{DATA}Enum", allowed="new,paid"), "STRING", _enum("new", "paid")),
            column("many", logical("string", f"{DATA}EnumSet", allowed="a,b"), "STRING", _enum("", "a", "a,b")),
            column("doc", logical("string", f"{DATA}Json"), "STRING", same(lambda rng: f'{{"a": {rng.random()}}}')),
            column("bits", logical("bytes", f"{DATA}Bits", length="12"), "BYTES", binary),
            column("place", STRUCT_GEOMETRY, "ROW<wkb BYTES, srid INT>", point),
        ),
        source={"db": "shop", "table": "t", "server_id": 1, "gtid": None, "file": "bin.1", "pos": 4, "row": 0},
    ),
    ConnectorForm(
        name="postgresql",
        columns=(
            TEXT,
            AMOUNT,
            RAW,
            DAY,
            ZONED,
            MICROS,
            CLOCK,
            FLAG,
            REAL,
            DOUBLE,
            column("big", STRUCT_VARIABLE, "DECIMAL(30, 6)", variable),
            column("took", logical("int64", f"{TIME}MicroDuration"), "BIGINT", whole(50)),
            column("uid", logical("string", f"{DATA}Uuid"), "STRING", same(lambda rng: f"{rng.getrandbits(64):x}")),
            column(
                "tags",
                {"type": "array", "items": logical("string"), "optional": True},
                "ARRAY<STRING>",
                same(lambda rng: [text(rng) for _ in range(rng.randrange(3))]),
            ),
        ),
        source={"db": "shop", "schema": "public", "table": "t", "txId": 5, "lsn": 9, "sequence": '[null,"9"]'},
        updates_have_before=False,
    ),
    ConnectorForm(
        name="sqlserver",
        columns=(
            TEXT,
            DAY,
            ZONED,
            FLAG,
            REAL,
            DOUBLE,
            MILLIS,
            RAW,
            column("seven", logical("int64", f"{TIME}NanoTimestamp"), "TIMESTAMP(6)", moment(1_000_000_000)),
            column("seven_time", logical("int64", f"{TIME}NanoTime"), "TIME(6)", time_of_day(1_000_000_000)),
            column("money", logical("bytes", DECIMAL, scale="4"), "DECIMAL(19, 4)", decimal(19, 4)),
            column("tiny", logical("int16"), "SMALLINT", whole(16)),
            column("doc", logical("string", f"{DATA}Xml"), "STRING", same(lambda rng: f"<a>{rng.random()}</a>")),
        ),
        source={"db": "shop", "schema": "dbo", "table": "t", "change_lsn": "00:01", "event_serial_no": 1},
    ),
    ConnectorForm(
        name="oracle",
        columns=(
            TEXT,
            MILLIS,
            MICROS,
            REAL,
            DOUBLE,
            column("number", STRUCT_VARIABLE, "DECIMAL(30, 6)", variable),
            column("whole", logical("bytes", DECIMAL, scale="0"), "DECIMAL(38, 0)", decimal(38, 0)),
            column("small", logical("int8"), "TINYINT", whole(8)),
            column("long", logical("int64"), "BIGINT", whole(64)),
            column("took", logical("string", f"{TIME}Interval"), "STRING", same(lambda rng: f"P{rng.randrange(9)}D")),
            ZONED,
        ),
        source={"db": "ORCL", "schema": "SHOP", "table": "T", "scn": "77", "commit_scn": "78", "rs_id": "", "ssn": 0},
    ),
    ConnectorForm(
        name="db2",
        columns=(TEXT, AMOUNT, DAY, MICROS, REAL, DOUBLE, RAW, column("t", logical("int32"), "INT", whole(32))),
        source={"db": "shop", "schema": "DB2INST1", "table": "T", "change_lsn": "0:1", "commit_lsn": "0:2"},
    ),
    ConnectorForm(
        name="vitess",
        columns=(
            TEXT,
            RAW,
            DOUBLE,
            column("price", logical("string"), "DECIMAL(12, 2)", _price),
            column("at", logical("string"), "STRING", same(lambda rng: f"2024-01-{rng.randint(1, 28):02} 10:00:00")),
            column("kind", logical("string", f"{DATA}Enum", allowed="a,b"), "STRING", _enum("a", "b")),
        ),
        source={"keyspace": "shop", "table": "t", "shard": "-80", "vgtid": '[{"keyspace":"shop"}]'},
        deletes_have_before=True,
    ),
    ConnectorForm(
        name="mongodb",
        columns=(
            column("name", {}, "STRING", same(text)),
            column("n", {}, "BIGINT", _number_long),
            column("at", {}, "TIMESTAMP(3)", _document_date),
            column("price", {}, "DECIMAL(20, 4)", _document_decimal),
            column("flag", {}, "BOOLEAN", same(lambda rng: rng.random() < 0.5)),
        ),
        source={"db": "shop", "collection": "t", "ord": 1, "rs": "rs0", "lsid": None},
        updates_have_before=False,
        deletes_have_before=False,
        is_document=True,
    ),
)
