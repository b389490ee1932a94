"""A warehouse in an object store: the catalog, tables by name and by path, and the command line."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, open_table
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError, NotFoundError, OptionError, UnavailableError
from tests.support.servers.s3_proxy import Fault, s3_proxy
from tests.support.servers.s3_server import SECRET_KEY, S3Server

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


@pytest.fixture
def warehouse(s3: S3Server) -> str:
    return f"s3://{s3.new_bucket()}/lake"


@pytest.fixture
def catalog(s3: S3Server, warehouse: str) -> Catalog:
    return Catalog(f"{warehouse}/", options=s3.options)


def test_a_database_may_hold_no_table(catalog: Catalog) -> None:
    catalog.create_database("staging")
    assert catalog.list_databases() == ["staging"]
    assert catalog.list_tables("staging") == []
    catalog.drop_database("staging")
    assert not catalog.database_exists("staging")


def test_tables_are_made_listed_opened_and_dropped(s3: S3Server, warehouse: str, catalog: Catalog) -> None:
    assert catalog.list_databases() == []
    for name in ("b.two", "a.one", "b.one"):
        catalog.create_table(name, schema=SCHEMA, primary_keys=["id"])
    catalog.load_table("b.two").write(pa.table({"id": [1, 1], "name": ["x", "y"]}, schema=SCHEMA))

    assert catalog.list_databases() == ["a", "b"]
    assert catalog.list_tables("b") == ["one", "two"]
    by_path = open_table(f"{warehouse}/b.db/two", options=s3.options)
    by_name = open_table("b.two", warehouse, options=s3.options)
    for table in (by_path, by_name, catalog.load_table("b.two")):
        assert table.to_arrow().to_pylist() == [{"id": 1, "name": "y"}]
        assert (table.name, table.warehouse, table.path) == ("b.two", warehouse, f"{warehouse}/b.db/two")
    with pytest.raises(InvalidRequestError, match=r"table b.two exists already in s3://"):
        catalog.create_table("b.two", schema=SCHEMA)
    catalog.drop_table("b.two")

    assert catalog.list_tables("b") == ["one"]
    assert s3.file_io().list_names(f"{warehouse}/b.db") == ["one"]
    with pytest.raises(NotFoundError, match=r"table b.two does not exist in s3://.*; database 'b' has one"):
        catalog.load_table("b.two")
    again = catalog.create_table("b.two", schema=SCHEMA, primary_keys=["id"])
    assert again.to_arrow().num_rows == 0


def test_a_drop_that_ends_half_way_leaves_no_empty_table(s3: S3Server, warehouse: str, catalog: Catalog) -> None:
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    made.write(pa.table({"id": [1], "name": ["x"]}, schema=SCHEMA))
    with s3_proxy(s3.endpoint) as proxy:
        through = Catalog(warehouse, options={**s3.options_at(proxy.endpoint), "s3.attempts.maximum": "1"})
        is_passed = [True]  # the first deletion, of all but snapshots and schemas

        def is_second_deletion(request: object) -> bool:
            is_deletion = getattr(request, "method", "") == "POST"
            fails = is_deletion and not is_passed[0]
            is_passed[0] = is_passed[0] and not is_deletion
            return fails

        proxy.next_is(Fault.FAIL, where=is_second_deletion, times=100)
        with pytest.raises(UnavailableError):
            through.drop_table("db.t")

    with pytest.raises(NotFoundError):  # never a table without rows
        catalog.load_table("db.t").to_arrow()
    catalog.drop_table("db.t")
    assert s3.file_io().list_names(warehouse) == []


def test_keys_are_no_options_of_a_table(catalog: Catalog) -> None:
    with pytest.raises(OptionError, match=r"'s3.secret-key' is not stored with a table: .*Catalog") as refused:
        catalog.create_table("db.t", schema=SCHEMA, options={"s3.secret-key": SECRET_KEY})
    assert SECRET_KEY not in str(refused.value)
    assert SECRET_KEY not in repr(catalog)
    assert catalog.list_databases() == []


def test_a_log_there_needs_servers_that_are_named(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKELOG_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(InvalidRequestError, match=r"has no embedded broker.*LAKELOG_KAFKA_BOOTSTRAP_SERVERS"):
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"})
    assert catalog.list_databases() == []


def test_the_command_line_takes_a_warehouse_in_a_store(
    s3: S3Server, warehouse: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, value in s3.environment.items():
        monkeypatch.setenv(key, value)

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    made = run("table", "create", "db.t", "-c", "id BIGINT NOT NULL", "--primary-keys", "id", "-w", warehouse)
    assert made == (0, f"{warehouse}/db.db/t\n")
    open_table("db.t", warehouse).write(pa.table({"id": [7]}, schema=pa.schema([pa.field("id", pa.int64(), False)])))
    assert json.loads(run("table", "cat", f"{warehouse}/db.db/t")[1]) == {"id": 7}
    monkeypatch.setenv("LAKELOG_WAREHOUSE", warehouse)
    assert run("table", "list") == (0, "db.t\n")
    assert json.loads(run("table", "cat", "db.t")[1]) == {"id": 7}
    assert run("broker", "status") == (
        1,
        f"lakelog: {warehouse} is not on this machine: a broker needs a local folder; name one\n",
    )
    assert run("table", "drop", "db.t", "--yes") == (0, "")
    assert run("table", "list") == (0, "")


def test_success_files_of_tags_are_beside_them_and_none_of_them(s3: S3Server, warehouse: str, catalog: Catalog) -> None:
    table = catalog.create_table("db.t", schema=SCHEMA, options={"tag.create-success-file": "true"})
    table.write(pa.table({"id": [1], "name": ["x"]}, schema=SCHEMA))
    table.tags.create("a")
    folder = f"{warehouse}/db.db/t/tag"
    assert s3.file_io().list_names(f"{folder}/tag-success-file") == ["a_SUCCESS"]
    assert [tag.name for tag in table.tags.list()] == ["a"]
    table.tags.delete("a")
    assert s3.file_io().list_names(folder) == []
