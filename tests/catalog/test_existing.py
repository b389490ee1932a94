"""`create_table(if_not_exists=True)` where a table of the name exists."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any  # Any: the arguments of a call

import pytest

from lakelog.catalog import AddColumn, Catalog, Table
from lakelog.common.errors import InvalidRequestError

DDL = "id BIGINT, day STRING, v INT"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return made(tmp_path)


def made(folder: Path, ddl: str = DDL, **given: Any) -> Table:
    asked: dict[str, Any] = {"primary_keys": ["id", "day"], "partition_keys": ["day"], "options": {"bucket": "1"}}
    return Catalog(folder).create_table("db.t", schema=ddl, if_not_exists=True, **asked | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"primary_keys": ["day", "id"]}, "exists with the primary key id, day, and day, id was asked for"),
        ({"primary_keys": [], "partition_keys": []}, "exists with the primary key id, day, and none was asked for"),
        ({"partition_keys": []}, "exists with the partition columns day, and none was asked for"),
    ],
)
def test_other_keys_or_partition_columns_are_an_error(
    tmp_path: Path, table: Table, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        made(tmp_path, **given)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((f"{DDL}, w INT", {}), "it lacks column w INT"),
        ((DDL.replace("v INT", "v BIGINT"), {}), "column v is INT, not BIGINT"),
        ((DDL, {"bucket": "4"}), "option bucket is '1', not '4'"),
        ((DDL, {"merge-engine": "first-row"}), "option merge-engine is not set, and not 'first-row'"),
    ],
)
def test_other_columns_or_options_are_a_warning(
    tmp_path: Path, table: Table, caplog: pytest.LogCaptureFixture, asked: tuple[str, dict[str, str]], message: str
) -> None:
    ddl, options = asked
    found = made(tmp_path, ddl, options={"bucket": "1", **options})
    assert found.schema == table.schema
    assert f"it differs from what was asked for: {message}" in caplog.text


def test_the_table_that_was_asked_for_is_opened_without_a_word(
    tmp_path: Path, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.alter(AddColumn(["added"], "INT"))
    with caplog.at_level(logging.WARNING):
        assert made(tmp_path).uuid == table.uuid
    assert caplog.text == ""


def test_a_wrong_call_is_refused_where_the_table_exists_too(tmp_path: Path, table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="bukcet"):
        made(tmp_path, options={"bukcet": "1"})
