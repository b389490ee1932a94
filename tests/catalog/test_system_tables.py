"""System tables by their full names, and those of a warehouse."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, open_table
from lakelog.catalog.system.system_tables import shown_options
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.warehouse.system_names import ReadName, split_name

SCHEMA = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Two tables, one of them partitioned, with a branch."""
    found = Catalog(tmp_path)
    parted = found.create_table("db.parted", schema=SCHEMA, primary_keys=["day", "id"], partition_keys=["day"])
    parted.write(pa.table({"day": ["a", "b", "b"], "id": [1, 1, 2]}, schema=SCHEMA))
    parted.branches.create("dev")
    parted.branch("dev").write(pa.table({"day": ["c"], "id": [9]}, schema=SCHEMA))
    found.create_table("other.plain", schema=SCHEMA)
    return found


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ReadName(table="db.t")),
        ("db.t$files", ReadName(table="db.t", system="files")),
        ("db.t$branch_b", ReadName(table="db.t", branch="b")),
        ("db.t$branch_b$files", ReadName(table="db.t", branch="b", system="files")),
        ("s3://a$b/db.db/t$tags", ReadName(table="s3://a$b/db.db/t", system="tags")),
        ("/data/my$folder", ReadName(table="/data/my$folder")),
    ],
)
def test_a_name_is_split_into_table_branch_and_system_table(text: str, parts: ReadName) -> None:
    assert split_name(text) == parts


@pytest.mark.parametrize("text", ["db.t$fils", "db.t$", "db.t$branch_", "db.t$files$tags", "db.t$branch_b$x"])
def test_a_name_with_another_part_is_an_error(text: str) -> None:
    with pytest.raises(NotFoundError, match=r"of table db\.t, which does not exist; (did you mean|expected)"):
        split_name(text)


def test_a_system_table_of_a_branch_shows_the_branch(catalog: Catalog) -> None:
    names = [catalog.system_table(f"db.parted{part}$partitions") for part in ("", "$branch_dev")]
    assert [one.to_arrow(columns="partition")["partition"].to_pylist() for one in names] == [
        ["day=a", "day=b"],
        ["day=a", "day=b", "day=c"],
    ]


def test_a_branch_is_opened_by_its_name(catalog: Catalog) -> None:
    assert catalog.load_table("db.parted$branch_dev").count() == 4
    assert open_table(f"{catalog.warehouse}/db.db/parted$branch_dev").count() == 4
    assert open_table("db.parted$branch_dev", catalog.warehouse).count() == 4


def test_a_system_table_is_not_opened_as_a_table(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequestError, match=r"Catalog.system_table\('db.parted\$files'\)"):
        catalog.load_table("db.parted$files")


def test_the_tables_of_a_warehouse_are_listed(catalog: Catalog) -> None:
    columns = ["database_name", "table_name", "table_type", "partitioned", "primary_key", "record_count", "file_count"]
    assert [
        tuple(row.values()) for row in catalog.system_table("sys.tables").to_arrow(columns=columns).to_pylist()
    ] == [
        ("db", "parted", "table", True, True, 3, 2),
        ("other", "plain", "table", False, False, 0, 0),
    ]


def test_the_partitions_of_a_warehouse_are_those_of_partitioned_tables(catalog: Catalog) -> None:
    found = catalog.system_table("sys.partitions").to_arrow(columns=["table_name", "partition_name", "recordCount"])
    assert [tuple(row.values()) for row in found.to_pylist()] == [("parted", "day=a", 1), ("parted", "day=b", 2)]


def test_options_that_hold_secrets_are_hidden(catalog: Catalog) -> None:
    assert shown_options({"s3.secret-key": "a", "s3.region": "b"}) == [("s3.region", "b"), ("s3.secret-key", "******")]
    found = catalog.system_table("sys.catalog_options").to_arrow().to_pylist()
    assert found == [{"key": "warehouse", "value": catalog.warehouse}]
    options = catalog.system_table("sys.all_table_options").to_arrow(where="table_name = 'parted'")
    assert dict(zip(*options.select(["key", "value"]).to_pydict().values(), strict=True)) == dict(
        catalog.load_table("db.parted").schema.options
    )


def test_an_unknown_system_table_of_a_warehouse_names_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'tables'"):
        catalog.system_table("sys.table")
