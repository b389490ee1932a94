"""Records of both decoders, changed at random: in their JSON, at any depth, and in their bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any  # Any: JSON of any form

DDL = (
    "id BIGINT NOT NULL, name STRING NOT NULL, s STRUCT<p: BIGINT, q: STRUCT<at: TIMESTAMP(3), x: DECIMAL(9, 2)>>,"
    " items ARRAY<STRUCT<n: INT, tags: ARRAY<STRING>>>, m MAP<STRING, STRUCT<v: DOUBLE>>, tags ARRAY<STRING>,"
    " price DECIMAL(12, 2), ratio DOUBLE, small SMALLINT, f FLOAT, b BYTES, d DATE, t TIME(3), at TIMESTAMP(3),"
    " seen TIMESTAMP(6) WITH LOCAL TIME ZONE, ok BOOLEAN"
)
WITHOUT_MAPS = DDL.replace(" m MAP<STRING, STRUCT<v: DOUBLE>>,", "")  # Arrow's parser reads these in columns

ROW: Mapping[str, Any] = {
    "id": 1,
    "name": "a",
    "s": {"p": 1, "q": {"at": "2024-01-02 03:04:05", "x": 12.5}},
    "items": [{"n": 1, "tags": ["x", None]}, {"n": 2, "tags": []}, None],
    "m": {"k": {"v": 1.5}},
    "tags": ["y"],
    "price": 12.25,
    "ratio": 0.5,
    "small": 7,
    "f": 1.5,
    "b": "AQI=",
    "d": 19_000,
    "t": 1_000,
    "at": 1_700_000_000_000,
    "seen": "2024-01-02T03:04:05Z",
    "ok": True,
}

_INT, _TEXT = {"type": "int64", "optional": True}, {"type": "string", "optional": True}
_IMAGE_SCHEMA: Sequence[Mapping[str, Any]] = (
    {**_INT, "field": "id"},
    {**_TEXT, "field": "name"},
    {"type": "struct", "field": "s", "fields": [{**_INT, "field": "p"}, {**_TEXT, "field": "new"}]},
    {"type": "array", "field": "tags", "items": _TEXT},
    {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
        "field": "price",
    },
    {**_INT, "field": "at", "name": "io.debezium.time.MicroTimestamp"},
)
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "struct", "field": "before", "fields": _IMAGE_SCHEMA},
        {"type": "struct", "field": "after", "fields": _IMAGE_SCHEMA},
        {"type": "string", "field": "op"},
    ],
}
_WITH_SCHEMA = {"id": 1, "name": "a", "s": {"p": 1}, "tags": ["x"], "price": "AMg=", "at": 1_700_000_000_000_000}

ODD: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 255, 1.5, 1e300, 1 << 31, -(1 << 63), 1 << 63, 10**40),
    *("", "x", "1", "1.5", "NaN", "-Infinity", "AQI=", "AQI", "\ud7ff", "\x00", "\x1b[2J\u202e", "z" * 300),
    *("2024-02-30", "2024-02-29 12:00:00", "24:00:00", "99999-01-01", "__debezium_unavailable_value", "{", '{"a":1}'),
    *([], {}, [[]], [None], [{}], [1, "x"], {"": 1}, {"a": {"b": []}}, {"p": 1, "new": 2}, {"P": 1}, {"p": {}, "P": 1}),
    *({"scale": 1, "value": "AQ=="}, {"scale": 10**9, "value": "AQ=="}, {"$date": 1 << 70}, {"$numberDouble": "NaN"}),
    *(float("nan"), float("inf"), -float("inf")),
)
_NAMES = (
    "",
    "p",
    "P",
    "new",
    "id",
    "ID",
    "op",
    "before",
    "after",
    "payload",
    "schema",
    "fields",
    "type",
    "\x1b[0m",
    "_id",
)
_BYTES = (b"", b"\0", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\xff", b"\\", b"\n", b"NaN", b"1", b"e9", b"\\u0000")


def templates(row: Mapping[str, Any]) -> Sequence[Any]:
    """Good records: of each op, without a schema beside them and with one."""
    plain = [
        {"before": None, "after": dict(row), "op": "c"},
        {"before": dict(row), "after": {**row, "name": "b"}, "op": "u"},
        {"before": {**row, "id": 2}, "after": dict(row), "op": "u"},
        {"before": dict(row), "after": None, "op": "d"},
    ]
    wrapped = [
        {"schema": _SCHEMA, "payload": {"before": None, "after": _WITH_SCHEMA, "op": "c"}},
        {"schema": _SCHEMA, "payload": {"before": _WITH_SCHEMA, "after": None, "op": "d"}},
        {"schema": None, "payload": plain[0]},
    ]
    document = [{"before": None, "after": json.dumps({**row, "at": {"$date": 1_000}}), "op": "c"}]
    return [*plain, *plain, *wrapped, *document]


def mutated(count: int, row: Mapping[str, Any], *, seed: int) -> Iterator[bytes]:
    """Good records, each with one to three changes of its JSON, and some with a change of their bytes."""
    rng = random.Random(seed)
    good = templates(row)
    for _ in range(count):
        record = copy.deepcopy(rng.choice(good))
        for _ in range(rng.randrange(1, 4)):
            record = _changed(record, rng)
        separators = rng.choice([(",", ":"), (", ", ": ")])
        data = json.dumps(record, separators=separators, ensure_ascii=rng.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
        yield _damaged(data, rng) if rng.random() < 0.2 else data


def _changed(value: Any, rng: random.Random) -> Any:
    """The value with one change, at a place that is often deep."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        return {**value, name: _changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], _changed(value[place], rng), *value[place + 1 :]]
    match rng.randrange(4):
        case 0 if isinstance(value, dict):
            return {**value, rng.choice(_NAMES): rng.choice(ODD)}
        case 1 if isinstance(value, dict) and value:
            lost = rng.choice(list(value))
            return {name: one for name, one in value.items() if name != lost}
        case 2 if isinstance(value, dict) and value:
            lost = rng.choice(list(value))
            return {(rng.choice(_NAMES) if name == lost else name): one for name, one in value.items()}
        case 3 if isinstance(value, list):
            return [*value, rng.choice(ODD)]
    return copy.deepcopy(rng.choice(ODD))


def _damaged(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.choice(_BYTES) + data[start + rng.randrange(4) :]
