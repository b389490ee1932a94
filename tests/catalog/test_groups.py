"""Groups of verbs, read like collections, and whether a table is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, InvalidRequestError, Table


@pytest.fixture
def table(tmp_path: Path) -> Any:  # mypy knows the new names alone
    made = Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
    made.write(pa.table({"id": [1]}))
    return made


def test_groups_are_read_like_collections(table: Table) -> None:
    table.tags.create("first")
    assert [tag.name for tag in table.tags] == ["first"]
    assert table.system["tags"].to_arrow()["tag_name"].to_pylist() == ["first"]

    table.branches.create("dev")
    assert "first" in table.tags
    assert "second" not in table.tags
    assert table.tags["first"].snapshot.id == 1
    assert [branch.name for branch in table.branches] == ["dev"]
    assert "dev" in table.branches
    assert list(table.consumers) == []


def test_a_catalog_says_whether_a_table_or_a_branch_is_there(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create_table("db.t", schema="id BIGINT").branches.create("dev", empty=True)

    names = ("db.t", "db.t$branch_dev", "db.t$branch_no", "db.no", "no.t")
    assert [catalog.table_exists(name) for name in names] == [True, True, False, False, False]
    with pytest.raises(InvalidRequestError, match="'t' does not name a table"):
        catalog.table_exists("t")
