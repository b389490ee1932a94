"""Fields of structs are found by their names, at any depth, whatever the layout of the values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.encoding.arrow_casts import with_named_fields

GIVEN = pa.struct([("B", pa.int32()), ("a", pa.string())])
WANTED = pa.struct([("a", pa.large_string()), ("b", pa.int64())])
TURNED = pa.struct([("a", pa.string()), ("b", pa.int32())])  # the names of the one, the types of the other
ROWS = [{"B": 1, "a": "x"}, None, {"B": None, "a": "y"}, {"B": 2, "a": None}]
SAME = [{"a": "x", "b": 1}, None, {"a": "y", "b": None}, {"a": None, "b": 2}]


@pytest.mark.parametrize(
    ("values", "wanted", "found"),
    [
        (pa.array(ROWS, GIVEN), WANTED, pa.array(SAME, TURNED)),
        (pa.array(ROWS, GIVEN)[1:3], WANTED, pa.array(SAME[1:3], TURNED)),
        (
            pa.array([ROWS, None, [], ROWS[:1]], pa.list_(GIVEN))[1:],
            pa.list_(WANTED),
            pa.array([None, [], SAME[:1]], pa.list_(TURNED)),
        ),
        (
            pa.array([ROWS, None, ROWS[:1]], pa.large_list(GIVEN))[1:],
            pa.list_(WANTED),
            pa.array([None, SAME[:1]], pa.large_list(TURNED)),
        ),
        (
            pa.array([ROWS[:2], None, ROWS[2:]], pa.list_(GIVEN, 2))[1:],
            pa.list_(WANTED),
            pa.array([None, SAME[2:]], pa.list_(TURNED)),
        ),
        (
            pa.array([[("k", ROWS[0])], None, [("l", ROWS[2]), ("m", None)]], pa.map_(pa.string(), GIVEN))[1:],
            pa.map_(pa.string(), WANTED),
            pa.array([None, [("l", SAME[2]), ("m", None)]], pa.map_(pa.string(), TURNED)),
        ),
        (
            pa.array([[(ROWS[0], 5)]], pa.map_(GIVEN, pa.int8())),
            pa.map_(WANTED, pa.int8()),
            pa.array([[(SAME[0], 5)]], pa.map_(TURNED, pa.int8())),
        ),
        (
            pa.array([{"deep": ROWS[:3]}, None], pa.struct([("deep", pa.list_(GIVEN))])),
            pa.struct([("DEEP", pa.list_(WANTED))]),
            pa.array([{"DEEP": SAME[:3]}, None], pa.struct([("DEEP", pa.list_(TURNED))])),
        ),
    ],
    ids=["struct", "slice", "list", "large list", "list of a size", "map", "key of a map", "field of a field"],
)
def test_a_field_is_found_by_its_name_at_any_depth(values: pa.Array, wanted: pa.DataType, found: pa.Array) -> None:
    made = with_named_fields(values, wanted, what="INSERT", column="c")
    made.validate(full=True)
    assert (made.type, made.to_pylist()) == (found.type, found.to_pylist())
    chunks = with_named_fields(pa.chunked_array([values, values]), wanted, what="INSERT", column="c")
    assert chunks.to_pylist() == found.to_pylist() * 2


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", "A"], ["x", "b"], ["a", "a"], ["b", "B"]])
def test_other_fields_are_refused_with_the_place_and_both_lists(names: list[str]) -> None:
    values = pa.array([], pa.list_(pa.struct([(name, pa.int32()) for name in names])))
    with pytest.raises(InvalidRequestError) as error:
        with_named_fields(values, pa.list_(WANTED), what="INSERT INTO t", column="c.d")
    assert f"INSERT INTO t: 'c.d[]' is a struct with the fields a, b, found {', '.join(names)}:" in str(error.value)


def test_an_exact_name_comes_before_one_in_another_case() -> None:
    values = pa.array([{"A": 1, "a": 2}], pa.struct([("A", pa.int32()), ("a", pa.int32())]))
    wanted = pa.struct([("a", pa.int32()), ("A", pa.int32())])
    assert with_named_fields(values, wanted, what="INSERT", column="c").to_pylist() == [{"a": 2, "A": 1}]
