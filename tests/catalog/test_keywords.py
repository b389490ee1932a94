"""A keyword that a method does not have: the error says which it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.catalog.names.keywords import keywords_of
from lakelog.common.errors import InvalidRequestError

PUBLIC = [name for name, value in vars(Table).items() if callable(value) and not name.startswith("_")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table("db.t", schema=pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("snapshot", {"as_of": 1}, r"Table\.snapshot takes no keyword 'as_of'; .* timestamp, watermark, tag"),
        ("to_arrow", {"column": "id"}, r"Table\.to_arrow takes no keyword 'column'.*did you mean 'columns'\?"),
        (
            "write",
            {"kinds": []},
            r"row_kinds, merge_schema, change_tracking; did you mean 'row_kinds'\?",
        ),
        ("truncate", {"older": 1}, "its keywords are none$"),
    ],
)
def test_an_unknown_keyword_is_answered_with_those_that_are_known(
    table: Table, method: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        getattr(table, method)(**given)


@pytest.mark.parametrize("method", PUBLIC)
def test_every_public_method_of_a_table_names_its_keywords(table: Table, method: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"Table\.{method} takes no keyword 'odd'"):
        getattr(table, method)(odd=1)


@pytest.mark.parametrize("group", ["tags", "branches", "log_store", "upkeep", "consumers", "system"])
def test_the_methods_of_its_groups_do_too(table: Table, group: str) -> None:
    verbs = getattr(table, group)
    for method in (name for name, value in vars(type(verbs)).items() if callable(value) and not name.startswith("_")):
        with pytest.raises(InvalidRequestError, match=rf"\.{method} takes no keyword 'odd'"):
            getattr(verbs, method)(odd=1)


def test_the_keywords_of_reads_are_those_of_a_selection() -> None:
    assert {"columns", "where", "snapshot_id", "timestamp", "tag"} <= set(keywords_of(Table.to_polars))
