"""Members of nested values that a table does not know: never an error, and never lost without a word."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any  # Any: JSON of any form

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_rules import ForeignRules

DDL = "id BIGINT NOT NULL, s STRUCT<p: BIGINT, q: STRUCT<x: INT>>, items ARRAY<STRUCT<n: INT>>"
WITH_MAP = f"{DDL}, m MAP<STRING, STRUCT<v: INT>>"  # these are read one by one
OLD: Mapping[str, Any] = {"id": 1, "s": {"p": 1, "q": {"x": 1}}, "items": [{"n": 1}]}
MANY = 200
DDLS = pytest.mark.parametrize("ddl", [DDL, WITH_MAP], ids=["columns", "one by one"])


def change(op: str, row: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> bytes:
    images = {"before": before, "after": None} | ({"before": row} if op == "d" else {"after": row})
    return json.dumps({**images, "op": op}).encode()


def decoded_of(values: Sequence[bytes], ddl: str, **rules: Any) -> ForeignRows:
    fields = parse_ddl(ddl)
    return decode_foreign(values, [None] * len(values), ForeignRules(fields=fields, key_fields=("id",), **rules))


NEW = [
    ({"s": {"p": 1, "new": 2}}, "s.new"),
    ({"s": {"q": {"x": 1, "new": [1]}}}, "s.q.new"),
    ({"items": [{"n": 1}, {"n": 2, "new": "x"}]}, "items.element.new"),
]


@DDLS
@pytest.mark.parametrize(("columns", "path"), NEW)
@pytest.mark.parametrize("op", ["c", "r", "u", "d"])
def test_an_unknown_member_makes_its_record_bad_and_no_other(op: str, columns: Any, path: str, ddl: str) -> None:
    values = [change("c", {**OLD, "id": number}) for number in range(MANY)]
    values[100] = change(op, {**OLD, **columns, "id": 100}, OLD if op == "u" else None)

    decoded = decoded_of(values, ddl)

    assert list(decoded.bad) == [100]
    assert decoded.bad[100].startswith(f"unknown member '{path}': ")
    assert decoded.rows["id"].to_pylist() == [number for number in range(MANY) if number != 100]


@DDLS
@pytest.mark.parametrize(("columns", "path"), NEW)
def test_an_unknown_member_is_reported_where_columns_are_added(columns: Any, path: str, ddl: str) -> None:
    decoded = decoded_of([change("c", {**OLD, **columns}), change("c", OLD)], ddl, takes_new_columns=True)

    assert decoded.bad == {}
    assert [".".join(one) for one in decoded.new_members] == [path]


@DDLS
@pytest.mark.parametrize(("columns", "path"), NEW)
def test_unknown_members_are_left_out_by_name_or_all_of_them_counted(columns: Any, path: str, ddl: str) -> None:
    values = [change("c", {**OLD, "id": number, **columns}) for number in range(MANY)]

    named = decoded_of(values, ddl, ignored=frozenset([path]))
    counted = decoded_of(values, ddl, drops_members=True)

    assert (named.bad, counted.bad) == ({}, {})
    assert named.rows.equals(counted.rows)
    assert named.rows["id"].to_pylist() == list(range(MANY))
    assert (named.left_out.sum(), counted.left_out.sum()) == (0, MANY)


@DDLS
def test_an_unknown_member_that_is_null_is_none(ddl: str) -> None:
    decoded = decoded_of([change("c", {**OLD, "s": {"p": 1, "q": None, "new": None}})], ddl)

    assert decoded.bad == {}
    assert decoded.rows["s"].to_pylist() == [{"p": 1, "q": None}]


@DDLS
def test_a_member_in_other_case_is_the_member(ddl: str) -> None:
    """As with columns: a member is taken by its name, and case counts only where names differ in nothing else."""
    decoded = decoded_of([change("c", {"id": 1, "s": {"P": 7, "Q": {"X": 8}}, "items": [{"N": 9}]})], ddl)
    twice = decoded_of([change("c", {"id": 1, "s": {"P": 7, "p": 8}})], ddl)

    found = decoded.rows.select(["id", "s", "items"]).to_pylist()
    assert found == [{"id": 1, "s": {"p": 7, "q": {"x": 8}}, "items": [{"n": 9}]}]
    assert "the members 'P' and 'p' are both for 's.p'" in twice.bad[0]


def test_the_counts_of_columns_are_those_of_one_by_one() -> None:
    columns: list[dict[str, Any]] = [
        {},
        {"s": {"new": 1, "more": 2}},
        {"items": [{"a": 1}, {"n": 1, "a": {}}, None]},
        {"items": None},
    ]
    values = [change("u", {**OLD, **one}, {**OLD, **other}) for one in columns for other in columns]
    for keys in (("id",), ()):
        whole, single = (
            decode_foreign(
                values, [None] * 16, ForeignRules(fields=parse_ddl(ddl), key_fields=keys, drops_members=True)
            )
            for ddl in (DDL, WITH_MAP)
        )

        assert whole.left_out.tolist() == single.left_out.tolist()
        assert whole.kinds.tolist() == single.kinds.tolist()
        assert whole.left_out.sum() > 0


def test_a_schema_says_the_type_of_a_new_member() -> None:
    member = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "new"}
    image = {
        "type": "struct",
        "fields": [
            {"type": "int64", "field": "id"},
            {"type": "struct", "field": "s", "fields": [{"type": "int64", "field": "p"}, member]},
        ],
    }
    schema = {"type": "struct", "fields": [{**image, "field": "after"}, {"type": "string", "field": "op"}]}
    payload = {"op": "c", "after": {"id": 1, "s": {"p": 1, "new": 5}}}
    value = json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()

    for ddl in (DDL, WITH_MAP):
        decoded = decoded_of([value], ddl, takes_new_columns=True)

        assert {path: str(kind) for path, kind in decoded.new_members.items()} == {("s", "new"): "TIMESTAMP(6)"}


def with_schema(member: Mapping[str, Any], value: Any) -> bytes:
    image = {"type": "struct", "field": "after", "fields": [{"type": "int64", "field": "id"}, member]}
    schema = {"type": "struct", "fields": [image, {"type": "string", "field": "op"}]}
    payload = {"op": "c", "after": {"id": 1, "v": value}}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


MICROS = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
NANOS = {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}
CENTS = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


@pytest.mark.parametrize(
    ("kind", "member", "value", "reason"),
    [
        ("ARRAY<TIMESTAMP(3)>", {"type": "array", "items": MICROS}, [5_000_000], "'v.element' is a count of us"),
        ("ARRAY<TIMESTAMP(6)>", {"type": "array", "items": NANOS}, [5_000], "'v.element' is a count of ns"),
        ("STRUCT<t: TIMESTAMP(3)>", {"type": "struct", "fields": [{**MICROS, "field": "t"}]}, {"t": 5}, "'v.t'"),
        ("ARRAY<DECIMAL(9, 4)>", {"type": "array", "items": CENTS}, ["AMg="], "is DECIMAL(38, 2) by its schema"),
        ("ARRAY<TIMESTAMP(6)>", {"type": "array", "items": MICROS}, [5_000_000], None),
        ("ARRAY<DECIMAL(9, 2)>", {"type": "array", "items": CENTS}, ["AMg="], None),
        ("ARRAY<BIGINT>", {"type": "array", "items": NANOS}, [5_000], None),
    ],
)
def test_a_member_of_another_measure_is_refused(kind: str, member: Any, value: Any, reason: str | None) -> None:
    """The record has a number alone: read in the unit of the table's type it would be another value."""
    decoded = decoded_of([with_schema({**member, "field": "v"}, value)], f"id BIGINT NOT NULL, v {kind}")

    if reason is None:
        assert decoded.bad == {}
        assert decoded.rows.num_rows == 1
    else:
        assert reason in decoded.bad[0]


def test_a_new_nested_column_has_types_that_hold_what_its_records_have() -> None:
    member = {
        "type": "array",
        "items": {"type": "struct", "fields": [{**NANOS, "field": "t"}, {**CENTS, "field": "d"}]},
    }
    value = with_schema({**member, "field": "v"}, [{"t": 5, "d": "AMg="}])

    decoded = decoded_of([value], "id BIGINT NOT NULL", takes_new_columns=True)

    assert {name: str(one) for name, one in decoded.new_columns.items()} == {
        "v": "ARRAY<ROW<t BIGINT, d DECIMAL(38, 2)>>"
    }


def test_a_list_is_no_string_inside_of_a_list() -> None:
    """Its text would be taken for a string: a list of more dimensions than the column has."""
    decoded = decoded_of([change("c", {"id": 1, "tags": [[1]]})], "id BIGINT NOT NULL, tags ARRAY<STRING>")

    assert "a list inside of a list" in decoded.bad[0]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("place", ['{"id":1,"v":%s}', '{"id":1,"tags":[0, %s ]}', '{"id":1,"other":%s}'])
def test_nan_without_quotes_is_no_json(word: str, place: str) -> None:
    ddl = "id BIGINT NOT NULL, v DOUBLE, tags ARRAY<DOUBLE>"
    value, quoted = (
        f'{{"before":null,"op":"c","after":{image}}}'.replace("%s", word).encode()
        for image in (place, '{"id":1,"v":"%s"}')
    )
    good = [change("c", {"id": number, "v": 1.5}) for number in range(MANY)]

    decoded = decoded_of([*good, value, quoted], ddl, ignored=frozenset(["other"]))

    assert list(decoded.bad) == [MANY]
    assert decoded.bad[MANY] == f"not a JSON record: {word} is not JSON"
    assert repr(decoded.rows["v"][-1].as_py()) == repr(float(word))
