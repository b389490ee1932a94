"""Columns of rows beside those of the table: missing ones are null, new ones are added when that is asked for."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog.catalog import AddColumn, Catalog, DropColumn, Table, open_table
from lakelog.catalog.logs.added_columns import add_new_columns
from lakelog.catalog.logs.altering import alter_table
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from tests.support.tables.small_tables import altered_by_others

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("Name", pa.string()), pa.field("must", pa.int32(), nullable=False)]
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"}
    )


def content(table: Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.to_arrow().sort_by("id").to_pylist()
    return found


def test_a_nullable_column_that_rows_lack_is_null(table: Table) -> None:
    table.write(pa.table({"must": [1], "id": [7]}))
    assert content(table) == [{"id": 7, "Name": None, "must": 1}]


@pytest.mark.parametrize("lacking", ["id", "must"])
def test_a_column_that_takes_no_nulls_must_be_there(table: Table, lacking: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"lack column\(s\) {lacking};.*take no nulls"):
        table.write(pa.table({"id": [7], "must": [1]}).drop_columns([lacking]))


def test_names_are_found_in_any_case_and_order(table: Table) -> None:
    table.write(pa.table({"MUST": [1], "name": ["a"], "Id": [7]}))
    assert content(table) == [{"id": 7, "Name": "a", "must": 1}]


def test_a_name_that_two_columns_may_have_is_refused(tmp_path: Path, table: Table) -> None:
    twins = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64()), ("A", pa.int64())])
    made = Catalog(tmp_path).create_table("db.twins", schema=twins, primary_keys=["id"])
    none = Catalog(tmp_path).create_table("db.u", schema=pa.schema([("Id", pa.int64()), ("iD", pa.int64())]))
    made.write(pa.table({"id": [1], "A": [2], "a": [3]}))
    assert content(made) == [{"id": 1, "a": 3, "A": 2}]
    with pytest.raises(InvalidRequestError, match="column 'ID' of the rows is ambiguous: Id, iD"):
        none.write(pa.table({"ID": [1]}))
    with pytest.raises(InvalidRequestError, match=r"repeat column\(s\) name, NAME"):
        table.write(pa.table({"id": [1], "must": [1], "name": ["a"], "NAME": ["b"]}))


def test_an_unknown_column_is_refused_with_the_way_to_add_it(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match=r"have unknown column\(s\) extra;.*merge_schema=True"):
        table.write(pa.table({"id": [7], "must": [1], "extra": [0.5]}))
    assert table.schema.field_names == ("id", "Name", "must")


def test_new_columns_are_added_in_one_change_before_the_write(table: Table) -> None:
    table.write(pa.table({"id": [1], "must": [1]}))
    rows = pl.DataFrame({"id": [2], "must": [2], "extra": [0.5], "kind": pl.Series(["k"], dtype=pl.Categorical)})
    table.write(rows, merge_schema=True)
    assert [str(field.type) for field in table.schema.fields[3:]] == ["DOUBLE", "STRING"]
    assert table.schema.id == 1
    assert content(table) == [
        {"id": 1, "Name": None, "must": 1, "extra": None, "kind": None},
        {"id": 2, "Name": None, "must": 2, "extra": 0.5, "kind": "k"},
    ]
    assert open_table(table.path).schema == table.schema
    table.write(rows, merge_schema=True)
    assert table.schema.id == 1


def test_new_columns_take_nulls_in_their_members_too(table: Table) -> None:
    kind = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    rows = pa.table({"id": [1], "must": [1], "pair": pa.array([{"x": 1}], kind)})
    table.write(rows, merge_schema=True)
    table.write(pa.table({"id": [2], "must": [2], "pair": pa.array([{"x": None}], pa.struct([("x", pa.int32())]))}))
    assert [row["pair"] for row in content(table)] == [{"x": 1}, {"x": None}]


def test_new_columns_of_a_stream_are_added_before_it_is_taken(table: Table) -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1], "must": [1], "extra": [True], "_row_kind": ["+I"]})
    table.write(pa.RecordBatchReader.from_batches(batch.schema, [batch]), merge_schema=True)
    assert content(table) == [{"id": 1, "Name": None, "must": 1, "extra": True}]


def test_columns_that_another_writer_has_added_are_known_with_merge_schema(table: Table) -> None:
    open_table(table.path).alter(AddColumn("extra", "INT"))
    table.write(pa.table({"id": [1], "must": [1], "extra": [5]}), merge_schema=True)
    assert content(table) == [{"id": 1, "Name": None, "must": 1, "extra": 5}]


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (pa.table({"id": ["x"], "must": [1], "extra": [1]}), {}, "column 'id': expected BIGINT"),
        (pa.table({"id": [1], "extra": [1]}), {}, "lack column"),
        (pa.table({"id": [1], "must": [1], "extra": [1]}), {"mode": "upsert"}, "mode 'upsert' is not known"),
        (pa.table({"id": [1], "must": [1], "extra": [1]}), {"where": "id = 1"}, "takes no condition"),
        (pa.table({"id": [1], "must": [1], "extra": [1]}), {"row_kinds": "x"}, "row_kinds takes '\\+I'.*found 'x'"),
    ],
    ids=["type", "missing", "mode", "where", "kinds"],
)
def test_a_write_that_cannot_be_leaves_the_schema(
    table: Table, rows: pa.Table, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        table.write(rows, merge_schema=True, **arguments)  # type: ignore[arg-type]  # wrong on purpose
    assert open_table(table.path).schema.id == 0


def test_a_new_column_without_a_type_is_refused_by_name(table: Table) -> None:
    with pytest.raises(UnsupportedError, match="column 'extra' has the Arrow type null"):
        table.write(pd.DataFrame({"id": [1], "must": [1], "extra": [None]}), merge_schema=True)


def test_additions_to_a_table_with_a_log_pass_the_checks_of_alter(tmp_path: Path) -> None:
    options = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "nowhere:1"}
    store = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"]).store
    path = Path(store.path) / "schema/schema-0"
    path.write_text(altered_by_others(store.schema, **options))
    store = open_table(store.path).store
    found = pa.schema([*SCHEMA, ("extra", pa.int64())])
    added = add_new_columns(store, str(tmp_path), found)
    assert added.field_names == ("id", "Name", "must", "extra")
    alter_table(store, str(tmp_path), [DropColumn("extra")])
    with pytest.raises(UnsupportedError, match="had another column 'extra' before"):
        add_new_columns(store, str(tmp_path), found)
