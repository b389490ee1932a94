"""The placeholder of an unchanged value is found in each form that Debezium's PostgreSQL connector gives it.

The forms are those of `UnchangedToastedPlaceholder`, by the type of the column; the values are computed with Java's
rules: `UUID.nameUUIDFromBytes`, and one element for each byte of the placeholder.
"""

from __future__ import annotations

import base64
import json
from typing import Any  # Any: parsed JSON

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules

WORD = "__debezium_unavailable_value"
BYTES = WORD.encode()
UNSCALED = [base64.b64encode(bytes([byte])).decode() for byte in BYTES]
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
FORMS = [
    ("text, citext, xml", "STRING", WORD),
    ("json, jsonb", "STRING", WORD),
    ("bytea, bytes", "BYTES", base64.b64encode(BYTES).decode()),
    ("bytea, hex", "STRING", WORD),
    ("bytea, hexadecimal digits", "STRING", BYTES.hex()),
    ("hstore, map", "MAP<STRING, STRING>", {WORD: WORD}),
    ("hstore, json", "STRING", json.dumps({WORD: WORD}, separators=(",", ":"))),
    ("text[], varchar[], json[]", "ARRAY<STRING>", [WORD]),
    ("uuid[]", "ARRAY<STRING>", [UUID]),
    ("uuid[] as text", "STRING", [UUID]),
    ("bytea[]", "ARRAY<BYTES>", [base64.b64encode(BYTES).decode()]),
    ("smallint[]", "ARRAY<SMALLINT>", [*BYTES]),
    ("integer[]", "ARRAY<INT>", [*BYTES]),
    ("bigint[]", "ARRAY<BIGINT>", [*BYTES]),
    ("date[]", "ARRAY<DATE>", [*BYTES]),
    ("real[]", "ARRAY<FLOAT>", [float(byte) for byte in BYTES]),
    ("double precision[]", "ARRAY<DOUBLE>", [float(byte) for byte in BYTES]),
    ("boolean[]", "ARRAY<BOOLEAN>", [True] * len(BYTES)),
    ("numeric(10, 2)[]", "ARRAY<DECIMAL(10, 2)>", UNSCALED),
    ("numeric[]", "ARRAY<DECIMAL(38, 0)>", [{"scale": 0, "value": value} for value in UNSCALED]),
]


def decoded(kind: str, value: Any, count: int = 1, unavailable: str = WORD, separator: str = ",") -> ForeignRows:
    record = {"before": None, "after": {"id": 1, "v": value}, "source": {}, "op": "u"}
    text = json.dumps(record, separators=(separator, ":"), ensure_ascii=False).encode()
    rules = ForeignRules(fields=parse_ddl(f"id INT NOT NULL, v {kind}"), key_fields=("id",), unavailable=unavailable)
    return decode_foreign([text] * count, [b'{"id":1}'] * count, rules)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("separator", [",", ", "])
@pytest.mark.parametrize(("kind", "value"), [one[1:] for one in FORMS], ids=[one[0] for one in FORMS])
def test_the_placeholder_keeps_the_old_value(kind: str, value: Any, count: int, separator: str) -> None:
    found = decoded(kind, value, count, separator=separator)

    assert found.bad == {}
    assert found.unavailable == dict.fromkeys(range(count), ("v",))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("ARRAY<INT>", [1] * len(BYTES)),
        ("ARRAY<INT>", [*BYTES][1:]),
        ("ARRAY<BOOLEAN>", [True] * 27),
        ("ARRAY<STRING>", []),
        ("ARRAY<STRING>", [WORD, "x"]),
        ("MAP<STRING, STRING>", {WORD: "x"}),
        ("STRING", f"{WORD} "),
    ],
)
def test_a_value_that_is_alike_is_a_value(kind: str, value: Any) -> None:
    found = decoded(kind, value)

    assert (found.bad, found.unavailable) == ({}, {})
    shown = found.rows["v"][0].as_py()
    assert (dict(shown) if kind.startswith("MAP") else shown) == value


def test_a_placeholder_of_bytes_is_written_as_the_connector_takes_it() -> None:
    """`hex:` is Debezium's way; a byte above 127 is negative in Java."""
    assert decoded("BYTES", "AP8=", unavailable="hex:00ff").unavailable == {0: ("v",)}
    assert decoded("ARRAY<INT>", [0, -1], unavailable="hex:00ff").unavailable == {0: ("v",)}
