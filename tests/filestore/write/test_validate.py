"""Rows that fit a table are converted without loss; others are refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.validate import validate_rows
from tests.support.examples import examples
from tests.support.tables.strategies import History, Write, histories

TYPES = {
    "id": "BIGINT NOT NULL",
    "small": "SMALLINT",
    "price": "DECIMAL(10, 2)",
    "word": "VARCHAR(3)",
    "data": "BINARY(2)",
    "at": "TIMESTAMP(3)",
    "zoned": "TIMESTAMP_LTZ(6)",
    "ratio": "FLOAT",
    "must": "INT NOT NULL",
}
GOOD: dict[str, pa.Array] = {
    "id": pa.array([1], pa.int64()),
    "small": pa.array([2], pa.int16()),
    "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
    "word": pa.array(["abc"]),
    "data": pa.array([b"ab"]),
    "at": pa.array([1_500], pa.timestamp("ms")),
    "zoned": pa.array([1_500_000], pa.timestamp("us", tz="UTC")),
    "ratio": pa.array([0.5], pa.float32()),
    "must": pa.array([7], pa.int32()),
}


def schema() -> TableSchema:
    fields = [DataField(id=0, name=name, type=parse_type(text)) for name, text in TYPES.items()]
    return build_schema(fields, primary_keys=["id"])


def validate(**changes: pa.Array) -> pa.Table:
    columns = {**GOOD, **changes}
    rows = pa.table({name: column for name, column in columns.items() if column is not None})
    return validate_rows(schema(), rows, table_name="db.t")


@pytest.mark.parametrize(
    ("column", "given", "stored"),
    [
        ("id", pa.array([5], pa.uint8()), 5),
        ("small", pa.array([5], pa.int64()), 5),
        ("small", pa.array([None], pa.null()), None),
        ("price", pa.array([3], pa.int64()), Decimal("3.00")),
        ("price", pa.array([Decimal("1.500")], pa.decimal128(30, 3)), Decimal("1.50")),
        ("word", pa.array(["a"], pa.large_string()), "a"),
        ("word", pa.array(["a"], pa.string_view()), "a"),
        ("word", pa.array(["a"]).dictionary_encode(), "a"),
        ("data", pa.array([b"xy"], pa.binary(2)), b"xy"),
        ("at", pa.array([2], pa.timestamp("s")), datetime(1970, 1, 1, 0, 0, 2)),
        ("zoned", pa.array([2], pa.timestamp("s", tz="Europe/Berlin")), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)),
    ],
)
def test_what_keeps_its_value_is_converted(column: str, given: pa.Array, stored: object) -> None:
    assert validate(**{column: given})[column].to_pylist() == [stored]


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        ("id", pa.array(["1"]), r"column 'id': expected BIGINT NOT NULL \(Arrow int64\), found the Arrow type string"),
        ("small", pa.array([40_000], pa.int32()), "column 'small'.*40000"),
        ("small", pa.array([1.0]), "expected SMALLINT"),
        ("price", pa.array([Decimal("1.555")], pa.decimal128(10, 3)), "column 'price'.*do not fit"),
        ("price", pa.array([10**9], pa.int64()), "column 'price'.*do not fit"),
        ("word", pa.array(["abcd"]), r"is VARCHAR\(3\), but row 0 has 4 characters"),
        ("data", pa.array([b"abc"]), "row 0 has 3 bytes"),
        ("at", pa.array([1], pa.timestamp("ms", tz="UTC")), "column 'at': expected TIMESTAMP"),
        ("at", pa.array([1], pa.timestamp("us")), "column 'at'.*lose data"),
        ("zoned", pa.array([1], pa.timestamp("us")), "column 'zoned': expected TIMESTAMP"),
        ("ratio", pa.array([0.1]), "column 'ratio': expected FLOAT"),
        ("must", pa.array([None], pa.int32()), "column 'must' is NOT NULL, but 1 row"),
        ("id", pa.array([None], pa.int64()), "column 'id' is a primary key column"),
        ("must", None, "lack column.* must; expected id, small"),
        ("extra", pa.array([1]), "have unknown column.* extra"),
    ],
)
def test_what_does_not_fit_is_refused_by_table_and_column(column: str, given: pa.Array | None, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        validate(**{column: given})
    assert "table db.t" in str(caught.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    rows = pa.table([*GOOD.values(), GOOD["id"]], names=[*GOOD, "id"])
    with pytest.raises(InvalidRequestError, match=r"repeat column.* id"):
        validate_rows(schema(), rows, table_name="db.t")


def test_columns_may_come_in_any_order() -> None:
    rows = pa.table(dict(reversed(GOOD.items())))
    assert validate_rows(schema(), rows, table_name="db.t").column_names == list(TYPES)


PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
TURNED = pa.struct([("B", pa.large_string()), ("a", pa.int8())])


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        (PAIR, pa.array([{"B": "x", "a": 1}], TURNED), {"a": 1, "b": "x"}),
        (pa.list_(PAIR), pa.array([[{"B": "x", "a": 1}]], pa.large_list(TURNED)), [{"a": 1, "b": "x"}]),
        (
            pa.map_(pa.int32(), PAIR),
            pa.array([[(5, {"B": "x", "a": 1})]], pa.map_(pa.int32(), TURNED)),
            [(5, {"a": 1, "b": "x"})],
        ),
    ],
)
def test_fields_of_structs_may_come_in_any_order(kind: pa.DataType, given: pa.Array, stored: object) -> None:
    schema = build_schema(pa.schema([pa.field("v", kind)]), options={"bucket": "-1"})
    assert validate_rows(schema, pa.table({"v": given}), table_name="t")["v"].to_pylist() == [stored]


@pytest.mark.parametrize("fields", [["a"], ["a", "c"], ["a", "b", "c"]])
def test_a_struct_with_other_fields_is_refused_with_both_lists(fields: list[str]) -> None:
    schema = build_schema(pa.schema([pa.field("v", PAIR)]), options={"bucket": "-1"})
    given = pa.array([], pa.struct([(name, PAIR.field(0).type) for name in fields]))
    with pytest.raises(InvalidRequestError, match=f"'v' is a struct with the fields a, b, found {', '.join(fields)}:"):
        validate_rows(schema, pa.table({"v": given}), table_name="t")


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(steps_max=3))
def test_rows_of_the_table_s_types_are_left_as_they_are(history: History) -> None:
    for step in history.steps:
        if isinstance(step, Write):
            assert validate_rows(history.schema, step.rows, table_name="t").equals(step.rows)


@pytest.mark.parametrize("given", [pa.array([-7]), pa.array([Decimal(-7)], pa.decimal128(38, 0))])
def test_a_number_that_has_no_place_is_refused_where_arrow_wraps_around(given: pa.Array) -> None:
    schema = build_schema(pa.schema([pa.field("v", pa.decimal128(38, 38))]), options={"bucket": "-1"})
    with pytest.raises(InvalidRequestError, match=r"column 'v': values of type .* do not fit DECIMAL\(38, 38\)"):
        validate_rows(schema, pa.table({"v": given}), table_name="t")


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [1, None], r"v\[\]"),
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), {"a": None}, r"v\.a"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), [("x", None)], r"v\.value"),
        (pa.list_(pa.struct([pa.field("a", pa.int64(), nullable=False)])), [None, {"a": None}], r"v\[\]\.a"),
    ],
)
def test_a_null_in_a_member_that_is_not_null_is_refused(kind: pa.DataType, value: object, place: str) -> None:
    schema = build_schema(pa.schema([pa.field("v", kind)]), options={"bucket": "-1"})
    assert validate_rows(schema, pa.table({"v": pa.array([None], kind)}), table_name="t").num_rows == 1
    with pytest.raises(InvalidRequestError, match=f"column 'v' has nulls at {place}, which is NOT NULL"):
        validate_rows(schema, pa.table({"v": pa.array([None, value], kind)}), table_name="t")
