"""Names of columns are compared as Spark compares them."""

from __future__ import annotations

import pytest

from lakelog.common.column_names import spelled
from lakelog.common.errors import InvalidRequestError

NAMES = ["id", "Name", "a", "A"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("id", ("id",)),
        ("ID", ("id",)),
        (["NAME", "Id"], ("Name", "id")),
        ("A", ("A",)),
        (["a", "A"], ("a", "A")),
        ([], ()),
    ],
)
def test_case_counts_only_where_two_names_differ_in_nothing_else(given: object, found: tuple[str, ...]) -> None:
    assert spelled(given, NAMES, what="columns") == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no", "columns: column 'no' does not exist; the columns are id, Name, a, A"),
        ("nmae", "columns: column 'nmae' does not exist; the columns are id, Name, a, A; did you mean 'Name'\\?"),
        ("NAMES", "columns: column 'NAMES' does not exist; the columns are id, Name, a, A; did you mean 'Name'\\?"),
        (["id", "ID"], "columns names the column 'id' twice; name it once"),
        (5, "columns takes a column name or a list of them, found 5"),
        ([5], r"columns takes a column name or a list of them, found \[5\]"),
        (b"id", "columns takes a column name or a list of them, found b'id'"),
    ],
)
def test_a_wrong_name_is_refused_by_its_argument(given: object, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        spelled(given, NAMES, what="columns")


def test_a_name_that_may_be_any_of_several_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="column 'ÄB' is ambiguous: äb, Äb"):
        spelled("ÄB", ["äb", "Äb"], what="columns")


def test_a_session_that_tells_cases_apart_takes_equal_names_alone() -> None:
    assert spelled("Name", NAMES, what="columns", is_case_sensitive=True) == ("Name",)
    with pytest.raises(InvalidRequestError, match=r"column 'NAME' does not exist.*did you mean 'Name'"):
        spelled("NAME", NAMES, what="columns", is_case_sensitive=True)
