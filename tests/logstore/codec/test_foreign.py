"""Foreign Debezium records: decoded as their connectors meant them, and a bad one costs itself alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any  # Any: parsed JSON

import pyarrow as pa
import pytest

from lakelog.common.types import RowKind
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules
from tests.support.logs.debezium_fixtures import FIXTURES, Fixture


def rules_of(fixture: Fixture, **changes: Any) -> ForeignRules:
    return replace(ForeignRules(fields=fixture.fields, key_fields=fixture.keys, forms=fixture.forms), **changes)


def folded(decoded: ForeignRows, fixture: Fixture) -> pa.Table:
    """The rows that the changes leave: the last of each key, old values kept, nothing before a truncation."""
    table: dict[Any, dict[str, Any]] = {}
    cut = list(decoded.truncations)
    changes = zip(decoded.rows.to_pylist(), decoded.kinds, decoded.records, strict=True)
    for place, (row, kind, record) in enumerate(changes):
        while cut and record > cut[0]:
            table.clear()
            cut.pop(0)
        key = tuple(row[name] for name in fixture.keys)
        if RowKind(kind).is_add:
            kept = {name: table[key][name] for name in decoded.unavailable.get(place, ())}
            table[key] = row | kept
        else:
            table.pop(key, None)
    return pa.Table.from_pylist(list(table.values()), schema=decoded.rows.schema)


@pytest.mark.parametrize("name", FIXTURES)
def test_the_topics_that_debezium_wrote_end_in_their_tables(name: str) -> None:
    fixture = FIXTURES[name]
    keys, values = fixture.keys_and_values()

    decoded = decode_foreign(values, keys, rules_of(fixture))

    assert decoded.bad == {}
    assert fixture.shown(folded(decoded, fixture)) == fixture.expected()


@pytest.mark.parametrize("name", FIXTURES)
def test_one_by_one_gives_what_columns_give(name: str) -> None:
    fixture = FIXTURES[name]
    keys, values = fixture.keys_and_values()
    whole = decode_foreign(values, keys, rules_of(fixture))

    single = [decode_foreign([value], [key], rules_of(fixture)) for key, value in zip(keys, values, strict=True)]

    assert str([row for one in single for row in one.rows.to_pylist()]) == str(whole.rows.to_pylist())  # NaN is equal
    assert [int(kind) for one in single for kind in one.kinds] == whole.kinds.tolist()


def test_a_bad_record_costs_itself_alone() -> None:
    fixture = FIXTURES["orders"]
    keys, values = fixture.keys_and_values()
    good = decode_foreign(values, keys, rules_of(fixture))
    spoiled = [*values[:50], b'{"op": "c", "after": {"ord": "x"}', *values[50:]]

    decoded = decode_foreign(spoiled, [*keys[:50], None, *keys[50:]], rules_of(fixture))

    assert list(decoded.bad) == [50]
    assert str(decoded.rows.to_pylist()) == str(good.rows.to_pylist())


def envelope(op: str, after: Any = None, before: Any = None) -> bytes:
    return json.dumps({"before": before, "after": after, "source": {}, "op": op}).encode()


ORDER = {"ord": 1, "line": 2, "qty": 3}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not a JSON record"),
        (b"\xff\xfe", "not a JSON record"),
        (b"[1]", "not a change"),
        (b'{"op":"c","after":' + b"[" * 100_000, "nested too deep"),
        (b'"' + b"x" * (17 << 20) + b'"', "oversized"),
        (envelope("x", ORDER), "op is 'x'"),
        (envelope("c"), "no image 'after'"),
        (envelope("u"), "no image 'after'"),
        (envelope("d"), "neither an image 'before' nor a record key"),
        (envelope("c", {**ORDER, "qty": "many"}), "wrong type: column 'qty'"),
        (envelope("c", {**ORDER, "small": 70_000}), "wrong type: column 'small'"),
        (envelope("c", {**ORDER, "price": 123456789012}), "wrong type: column 'price'"),
        (envelope("c", {**ORDER, "t": 86_400_000}), "wrong type: column 't'"),
        (envelope("c", {"ord": 1, "qty": 3}), "missing: column 'line' is a primary key column"),
        (envelope("c", {"ord": 1, "line": 2}), "missing: column 'qty' is NOT NULL"),
        (envelope("c", {**ORDER, "added": 1}), "unknown column 'added'"),
        (b'{"schema":{"type":"int32"},"payload":{"op":"c"}}', "its schema is no struct"),
    ],
)
def test_a_bad_record_says_why(value: bytes, reason: str) -> None:
    decoded = decode_foreign([value], [None], rules_of(FIXTURES["strings.orders"]))

    assert reason in decoded.bad[0]
    assert decoded.rows.num_rows == 0


def test_a_number_that_has_no_end_is_no_number() -> None:
    digits = b'{"op":"c","after":{"ord":1,"line":2,"qty":' + b"9" * 100_000 + b"}}"
    power = b'{"op":"c","after":{"ord":1,"line":2,"qty":1,"ratio":1e999999999999}}'

    decoded = decode_foreign([digits, power], [None, None], rules_of(FIXTURES["orders"]))

    assert sorted(decoded.bad) == [0, 1]


def test_bombs_end_in_time_that_grows_with_their_size() -> None:
    open_text = b'{"op":"c","after":{"ord":"' + b'\\"' * 500_000
    many_names = b'{"op":"c","after":{' + b",".join(b'"c%d":1' % number for number in range(100_000)) + b',"c1":1}}'
    many_columns = [
        b'{"op":"c","after":{%s}}' % b",".join(b'"c%d_%d":1' % (row, number) for number in range(200))
        for row in range(200)
    ]
    wide = [b'{"op":"c","after":{"ord":1},"x":[' + b"[]," * 200_000 + b"1]}"]

    values = [open_text, many_names, *wide, *many_columns]
    decoded = decode_foreign(values, [None] * len(values), rules_of(FIXTURES["orders"]))

    assert sorted(decoded.bad) == list(range(len(values)))
    assert all("oversized" in decoded.bad[number] for number in (1, 2))


def test_a_changed_key_is_a_delete_and_an_insert() -> None:
    change = envelope("u", {**ORDER, "ord": 5}, ORDER)

    decoded = decode_foreign([change] * 2, [None] * 2, rules_of(FIXTURES["orders"]))

    assert decoded.kinds.tolist() == [RowKind.DELETE, RowKind.INSERT] * 2
    assert decoded.rows["ord"].to_pylist() == [1, 5] * 2


def test_a_delete_without_image_takes_the_key_of_the_record() -> None:
    keys = [b'{"ord":7,"line":1}', b'{"schema":{},"payload":{"ord":8,"line":1}}']

    decoded = decode_foreign([envelope("d")] * 2, keys, rules_of(FIXTURES["orders"]))

    assert decoded.kinds.tolist() == [RowKind.DELETE] * 2
    assert decoded.rows["ord"].to_pylist() == [7, 8]
    assert decoded.rows["qty"].to_pylist() == [0, 0]  # NOT NULL, and the key is all that is known


def test_new_columns_are_reported_with_their_types() -> None:
    added = {"b": True, "i": 1, "d": 1.5, "s": "x", "l": [1], "n": None}

    decoded = decode_foreign(
        [envelope("c", ORDER | added)] * 100, [None] * 100, rules_of(FIXTURES["orders"], takes_new_columns=True)
    )

    assert {name: str(kind) for name, kind in decoded.new_columns.items()} == {
        "b": "BOOLEAN",
        "i": "BIGINT",
        "d": "DOUBLE",
        "s": "STRING",
        "l": "STRING",
    }
    assert decoded.bad == {}


def test_ignored_columns_are_left_out() -> None:
    rules = rules_of(FIXTURES["orders"], ignored=frozenset({"secret"}))

    decoded = decode_foreign([envelope("c", {**ORDER, "secret": 1})] * 3, [None] * 3, rules)

    assert (decoded.bad, decoded.rows.num_rows) == ({}, 3)


def test_a_table_that_only_takes_inserts_refuses_the_rest() -> None:
    rules = rules_of(FIXTURES["orders"], key_fields=(), no_removals="it takes inserts only")
    values = [envelope("c", ORDER), envelope("u", ORDER, ORDER), envelope("d", None, ORDER), envelope("t")]

    decoded = decode_foreign(values, [None] * 4, rules)

    assert sorted(decoded.bad) == [1, 2, 3]
    assert decoded.rows.num_rows == 1


def test_a_table_without_key_gets_both_images() -> None:
    rules = rules_of(FIXTURES["orders"], key_fields=())

    decoded = decode_foreign([envelope("u", ORDER, {**ORDER, "qty": 1})] * 2, [None] * 2, rules)

    assert decoded.kinds.tolist() == [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER] * 2


def test_a_document_of_mongodb_is_a_row_of_its_members() -> None:
    fields = ForeignRules(
        fields=Fixture(name="", ddl="_id STRING NOT NULL, n BIGINT, at TIMESTAMP(3), tags STRING", keys=()).fields,
        key_fields=("_id",),
    )
    document = {"_id": {"$oid": "64b0"}, "n": {"$numberLong": "7"}, "at": {"$date": 1500}, "tags": [1, "x"]}
    inserted = json.dumps({"op": "c", "before": None, "after": json.dumps(document), "source": {}}).encode()
    deleted = json.dumps({"op": "d", "before": None, "after": None, "source": {}}).encode()
    key = json.dumps({"id": json.dumps({"$oid": "64b0"})}).encode()

    decoded = decode_foreign([inserted, deleted], [key, key], fields)

    assert decoded.bad == {}
    assert decoded.kinds.tolist() == [RowKind.INSERT, RowKind.DELETE]
    first = decoded.rows.to_pylist()[0]
    assert (first["_id"], first["n"], first["at"].isoformat(), first["tags"]) == (
        "64b0",
        7,
        "1970-01-01T00:00:01.500000",
        '[1,"x"]',
    )
