"""MongoDB's extended JSON is the same value at each level. Source: the specification of MongoDB Extended JSON."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any  # Any: parsed JSON, and values of any column

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.types import RowKind
from lakelog.logstore.codec.foreign import decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules

VALUES: list[tuple[str, Any, Any]] = [
    ("STRING", {"$oid": "5d505646cf6d4fe581014ab2"}, "5d505646cf6d4fe581014ab2"),
    ("STRING", {"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"}, "3b241101-e2bb-4255-8caf-4136c566a962"),
    ("STRING", {"$symbol": "x"}, "x"),
    ("INT", {"$numberInt": "-7"}, -7),
    ("BIGINT", {"$numberLong": "9223372036854775807"}, 9223372036854775807),
    ("DOUBLE", {"$numberDouble": "1.5"}, 1.5),
    ("DECIMAL(20, 4)", {"$numberDecimal": "12345.6789"}, Decimal("12345.6789")),
    ("TIMESTAMP(3)", {"$date": "2019-08-11T17:54:14.692Z"}, dt.datetime(2019, 8, 11, 17, 54, 14, 692_000)),
    ("TIMESTAMP(3)", {"$date": {"$numberLong": "1565546054692"}}, dt.datetime(2019, 8, 11, 17, 54, 14, 692_000)),
    ("TIMESTAMP(3)", {"$date": 1565546054692}, dt.datetime(2019, 8, 11, 17, 54, 14, 692_000)),
    ("BYTES", {"$binary": {"base64": "3q2+7w==", "subType": "00"}}, b"\xde\xad\xbe\xef"),
    ("BOOLEAN", True, True),
    ("STRING", "plain", "plain"),
]


@pytest.mark.parametrize("op", ["c", "u", "d"])
@pytest.mark.parametrize(("leaf", "value", "expected"), VALUES)
def test_extended_json_is_plain_at_each_level(leaf: str, value: Any, expected: Any, op: str) -> None:
    ddl = (
        f"_id STRING NOT NULL, a {leaf}, b ARRAY<{leaf}>, c STRUCT<x {leaf}, Y STRING>, d MAP<STRING, {leaf}>, "
        f"e ARRAY<STRUCT<x ARRAY<{leaf}>>>"
    )
    document = {
        "_id": {"$oid": "64b0"},
        "a": value,
        "b": [value, None, value],
        "c": {"x": value, "y": {"$oid": "64b1"}},
        "d": {"k": value},
        "e": [{"x": [value]}],
    }
    before, after = (None, json.dumps(document)) if op != "d" else (json.dumps(document), None)
    record = json.dumps({"op": op, "before": before, "after": after, "source": {}}).encode()
    key = json.dumps({"id": json.dumps({"$oid": "64b0"})}).encode()

    decoded = decode_foreign([record], [key], ForeignRules(fields=parse_ddl(ddl), key_fields=("_id",)))

    assert decoded.bad == {}
    assert decoded.rows.to_pylist() == [
        {
            "_id": "64b0",
            "a": expected,
            "b": [expected, None, expected],
            "c": {"x": expected, "Y": "64b1"},
            "d": [("k", expected)],
            "e": [{"x": [expected]}],
        }
    ]


def test_a_nested_id_deletes_its_row() -> None:
    rules = ForeignRules(fields=parse_ddl("`_id` STRUCT<shop BIGINT, item STRING>, n INT"), key_fields=("_id",))
    key = {"shop": {"$numberLong": "5"}, "item": {"$oid": "64b0"}}
    record = json.dumps({"op": "d", "before": None, "after": None, "source": {}}).encode()

    decoded = decode_foreign([record], [json.dumps({"id": json.dumps(key)}).encode()], rules)

    assert decoded.bad == {}
    assert decoded.kinds.tolist() == [RowKind.DELETE]
    assert decoded.rows["_id"].to_pylist() == [{"shop": 5, "item": "64b0"}]


def test_a_document_in_a_string_column_stays_the_text_that_it_is() -> None:
    rules = ForeignRules(fields=parse_ddl("_id STRING NOT NULL, doc STRING"), key_fields=("_id",))
    after = json.dumps({"_id": "x", "doc": {"a": {"$numberLong": "5"}}})
    record = json.dumps({"op": "c", "before": None, "after": after, "source": {}}).encode()

    decoded = decode_foreign([record], [None], rules)

    assert decoded.rows["doc"].to_pylist() == ['{"a":{"$numberLong":"5"}}']
