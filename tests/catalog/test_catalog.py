"""Databases and tables without a log: folders and schema files, no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Any: the keyword arguments of create_table

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, open_table
from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError, OptionError, UnsupportedError
from lakelog.filestore.alter.schema_changes import AddColumn, SetOption
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_created_table_opens_with_what_it_was_given(catalog: Catalog) -> None:
    before = system_millis()
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "3"}, comment="some")

    table = catalog.load_table("db.t")

    assert table.path == made.path == f"{catalog.warehouse}/db.db/t"
    assert table.name == "db.t"
    assert table.schema == made.schema
    assert table.schema.primary_keys == ("id",)
    assert table.schema.comment == "some"
    assert before <= table.schema.time_millis <= system_millis()
    assert table.store.bucket_count == 3
    assert table.log is None
    assert table.to_arrow().num_rows == 0
    assert list(table.snapshots()) == []


def test_tables_are_listed_by_database(catalog: Catalog) -> None:
    for identifier in ("b.two", "a.one", "b.one"):
        catalog.create_table(identifier, schema=SCHEMA)

    assert catalog.list_databases() == ["a", "b"]
    assert catalog.list_tables("b") == ["one", "two"]


def test_a_database_may_hold_no_table(catalog: Catalog) -> None:
    catalog.create_database("staging")
    assert catalog.list_databases() == ["staging"]
    assert catalog.list_tables("staging") == []
    assert catalog.database_exists("staging")
    assert not catalog.database_exists("other")

    catalog.create_database("staging", if_not_exists=True)
    with pytest.raises(InvalidRequestError, match="database 'staging' exists already in"):
        catalog.create_database("staging")
    catalog.create_table("staging.t", schema=SCHEMA)
    catalog.drop_table("staging.t")
    assert catalog.list_databases() == ["staging"]

    catalog.drop_database("staging")
    assert catalog.list_databases() == []
    with pytest.raises(NotFoundError, match=r"database 'staging' does not exist in .*; there are: none"):
        catalog.list_tables("staging")


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "sys", "lakelog_sys", "a b"])
def test_a_name_that_no_table_could_have_is_no_database(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        catalog.create_database(name)
    assert not Path(catalog.warehouse).exists() or not any(Path(catalog.warehouse).iterdir())


def test_the_databases_of_system_tables_take_no_table(catalog: Catalog) -> None:
    catalog.create_table("db.t", schema=SCHEMA)
    for name in ("sys.t", "lakelog_sys.t"):
        with pytest.raises(InvalidRequestError, match=r"is reserved for lakelog's system tables; choose another name"):
            catalog.create_table(name, schema=SCHEMA)
        with pytest.raises(InvalidRequestError, match=r"is reserved for lakelog's system tables; choose another name"):
            catalog.rename_table("db.t", name)
    assert catalog.list_databases() == ["db"]


def test_an_empty_folder_of_another_engine_is_a_database(catalog: Catalog) -> None:
    Path(catalog.warehouse, "theirs.db").mkdir(parents=True)

    assert catalog.list_databases() == ["theirs"]
    lakelog.sql.connect(catalog).sql("CREATE TABLE theirs.t (id INT)")
    catalog.drop_table("theirs.t")
    assert catalog.list_tables("theirs") == []
    catalog.drop_database("theirs")
    assert catalog.list_databases() == []


def test_a_folder_that_holds_no_schema_is_no_table(catalog: Catalog) -> None:
    Path(catalog.warehouse, "db.db", "t").mkdir(parents=True)

    assert catalog.list_tables("db") == []
    with pytest.raises(NotFoundError):
        catalog.load_table("db.t")


def test_a_table_opens_by_its_folder_too(catalog: Catalog) -> None:
    made = catalog.create_table("db.t", schema=SCHEMA)

    for name in (made.path, Path(made.path), f"file://{made.path}", f"{made.path}/"):
        assert open_table(name).path == made.path
    assert open_table("db.t", catalog.warehouse).path == made.path
    assert open_table(made.path).warehouse == catalog.warehouse


def test_a_missing_table_is_named_with_its_neighbours(catalog: Catalog) -> None:
    catalog.create_table("db.flights", schema=SCHEMA)

    with pytest.raises(NotFoundError, match=r"table db.flight does not exist in .*; database 'db' has flights"):
        catalog.load_table("db.flight")
    with pytest.raises(NotFoundError, match=r"table x.t does not exist .* there is no database 'x'"):
        catalog.load_table("x.t")
    with pytest.raises(NotFoundError, match=r"database 'x' does not exist .* there are: db"):
        catalog.list_tables("x")
    with pytest.raises(NotFoundError):
        open_table(Path(catalog.warehouse, "db.db", "flight"))


def test_an_existing_table_is_not_made_again(catalog: Catalog) -> None:
    made = catalog.create_table("db.t", schema=SCHEMA)

    with pytest.raises(InvalidRequestError, match=r"table db.t exists already .* if_not_exists"):
        catalog.create_table("db.t", schema=SCHEMA)
    again = catalog.create_table("db.t", schema=pa.schema({"other": pa.int8()}), if_not_exists=True)

    assert again.schema == made.schema


def test_a_dropped_table_does_not_exist(catalog: Catalog) -> None:
    catalog.create_table("db.t", schema=SCHEMA)
    catalog.create_table("db.u", schema=SCHEMA)

    catalog.drop_table("db.t")

    assert catalog.list_tables("db") == ["u"]
    assert [path.name for path in Path(catalog.warehouse, "db.db").iterdir()] == ["u"]
    with pytest.raises(NotFoundError):
        catalog.drop_table("db.t")
    catalog.drop_table("db.t", if_exists=True)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"primary_keys": ["no"]}, InvalidRequestError, "column 'no' does not exist"),
        ({"partition_keys": ["no"]}, InvalidRequestError, "column 'no' does not exist"),
        ({"primary_keys": ["id"], "options": {"bucket": "many"}}, OptionError, "'bucket' has the value 'many'"),
        ({"options": {"log.sytem": "kafka"}}, OptionError, "did you mean 'log.system'"),
        ({"options": {"log.system": "pulsar"}}, OptionError, "expected none or kafka"),
        ({"options": {"log.topic": "mine"}}, OptionError, "'log.topic' is set by lakelog"),
        ({"options": {"lakelog.table-uuid": "1"}}, OptionError, "'lakelog.table-uuid' is set by lakelog"),
        ({"options": {"log.system": "kafka", "log.changelog-mode": "upsert"}}, InvalidRequestError, "primary key"),
        ({"options": {"log.changelog-mode": "upsert"}}, InvalidRequestError, "no record replaces another one"),
        ({"options": {"log.format": "avro"}}, OptionError, "'log.format' has the value 'avro'; expected debezium-json"),
        (
            {"primary_keys": ["id"], "options": {"log.system": "kafka", "bucket": "-1"}},
            InvalidRequestError,
            "the bucket of a new key is chosen when a snapshot is made",
        ),
        (
            {"options": {"log.system": "kafka", "bucket": "-1"}},
            InvalidRequestError,
            "found bucket=-1, with which rows have none; set bucket to a positive number",
        ),
        (
            {"primary_keys": ["id"], "options": {"log.system": "kafka", "deletion-vectors.enabled": "true"}},
            UnsupportedError,
            "db.t has a log, and its snapshots must show everything in it",
        ),
        (
            {"options": {"log.system": "kafka", "log.consistency": "eventual"}},
            InvalidRequestError,
            "which needs a primary key, and the table has none: a batch that runs again repeats its records",
        ),
        (
            {
                "primary_keys": ["id"],
                "options": {"log.system": "kafka", "log.consistency": "eventual", "merge-engine": "first-row"},
            },
            UnsupportedError,
            "db.t has log.consistency=eventual, so its log has each row as it was written; merging",
        ),
        (
            {"primary_keys": ["id"], "options": {"log.consistency": "eventual", "log.changelog-mode": "all"}},
            InvalidRequestError,
            "an UPDATE_BEFORE that is read twice is subtracted twice",
        ),
        ({"options": {"log.system": "kafka", "log.kafka.group.id": "g"}}, OptionError, "belongs to lakelog itself"),
    ],
)
def test_a_wrong_request_names_what_is_wrong_and_makes_nothing(
    catalog: Catalog,
    given: dict[str, Any],  # Any: whatever create_table takes
    error: type[LakelogError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        catalog.create_table("db.t", schema=SCHEMA, **given)

    assert files_of(Path(catalog.warehouse)) == []


@pytest.mark.full
def test_a_log_that_does_not_answer_makes_no_table(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers="127.0.0.1:1")

    with pytest.raises(LakelogError, match=r"127\.0\.0\.1:1"):
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"})

    assert files_of(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "summ"}, "aggregate function 'summ'"),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}, "is for CHAR, VARCHAR"),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "merge_map"}, "is for MAP"),
        (
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "max", "fields.v.count-limit": "few"},
            "option 'fields.v.count-limit' has the value 'few'",
        ),
        ({"metadata.stats-mode": "some"}, "expected none, counts"),
        ({"fields.v.stats-mode": "some"}, "fields.v.stats-mode"),
        ({"merge-engine": "first-row", "sequence.field": "v"}, "first-row takes no sequence.field"),
        ({"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}, "could not be read"),
    ],
)
@pytest.mark.parametrize("log", [{}, {"log.system": "kafka", "log.kafka.bootstrap.servers": "127.0.0.1:1"}])
def test_a_catalog_checks_what_a_file_store_table_checks(
    catalog: Catalog, tmp_path: Path, options: dict[str, str], message: str, log: dict[str, str]
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    with pytest.raises((InvalidRequestError, UnsupportedError), match=message) as refused:
        FileStoreTable.create(tmp_path / "alone", build_schema(schema, primary_keys=["id"], options=options))
    with pytest.raises(type(refused.value)) as by_catalog:
        catalog.create_table("db.t", schema=schema, primary_keys=["id"], options={**options, **log})
    assert str(by_catalog.value) == str(refused.value)
    assert files_of(tmp_path) == []


def test_a_merge_engine_needs_a_key_in_a_catalog_too(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequestError, match="need a primary key"):
        catalog.create_table("db.t", schema=pa.schema({"v": pa.int64()}), options={"merge-engine": "partial-update"})


def test_a_mode_of_statistics_is_checked_when_it_changes(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", schema=pa.schema({"v": pa.int64()}), options={"bucket": "-1"})
    with pytest.raises(OptionError, match="expected none, counts"):
        table.alter(SetOption("metadata.stats-mode", "some"))
    with pytest.raises(OptionError, match="expected none, counts"):
        table.alter(AddColumn("w", "INT"), SetOption("fields.w.stats-mode", "some"))
