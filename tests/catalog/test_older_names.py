"""Programs that were written before 0.1.0: the names of `Table` then warn, and do what their new ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, InvalidRequestError, Table
from lakelog.catalog.verbs.older_names import OLDER_NAMES


@pytest.fixture
def table(tmp_path: Path) -> Any:  # mypy knows the new names alone
    made = Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
    made.write(pa.table({"id": [1]}))
    return made


@pytest.mark.parametrize("older", OLDER_NAMES)
def test_an_older_name_warns_and_is_the_member_of_the_new_one(table: Any, older: str) -> None:
    group, _, name = OLDER_NAMES[older].partition(".")

    with pytest.warns(
        DeprecationWarning, match=rf"^Table\.{older} is Table\.{group}\.{name} from 0\.1\.0 on$"
    ) as warned:
        found = getattr(table, older)

    assert (
        found == getattr(getattr(table, group), name) or found.__func__ is getattr(getattr(table, group), name).__func__
    )
    assert warned[0].filename == __file__


def test_tags_branches_and_consumers_can_be_called_as_before(table: Any) -> None:
    with pytest.warns(DeprecationWarning, match=r"^Table\.create_tag "):
        table.create_tag("first")
    with pytest.warns(DeprecationWarning, match=r"^Table\.tags\(\) is Table\.tags\.list\(\) from"):
        assert [tag.name for tag in table.tags()] == ["first"]
    with pytest.warns(DeprecationWarning, match=r"^Table\.branches\(\) "):
        assert table.branches() == []
    with pytest.warns(DeprecationWarning, match=r"^Table\.consumers\(\) "):
        assert table.consumers() == []


def test_rows_between_is_what_changes_compare_by_rows(table: Any) -> None:
    table.write(pa.table({"id": [2]}))
    with pytest.warns(DeprecationWarning, match=r"^Table\.rows_between is Table\.changes\(compare='rows'\) from"):
        batches = list(table.rows_between(1, 2, columns="id"))
    assert pa.Table.from_batches(batches).to_pydict() == {"id": [2]}


def test_a_name_that_never_was_one_is_no_attribute(table: Any) -> None:
    with pytest.raises(AttributeError, match="'Table' object has no attribute 'nothing'"):
        table.nothing  # noqa: B018  # raises


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


def test_the_older_name_of_load_table_warns(tmp_path: Path) -> None:
    catalog: Any = Catalog(tmp_path)
    catalog.create_table("db.t", schema="id BIGINT")

    with pytest.warns(DeprecationWarning, match=r"^Catalog\.table is Catalog\.load_table from"):
        assert catalog.table("db.t").name == "db.t"


def test_a_catalog_says_whether_a_table_or_a_branch_is_there(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create_table("db.t", schema="id BIGINT").branches.create("dev", empty=True)

    names = ("db.t", "db.t$branch_dev", "db.t$branch_no", "db.no", "no.t")
    assert [catalog.table_exists(name) for name in names] == [True, True, False, False, False]
    with pytest.raises(InvalidRequestError, match="'t' does not name a table"):
        catalog.table_exists("t")
