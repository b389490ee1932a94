"""What says the columns of a new table: schemas of several libraries, DDL, and rows."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from datetime import time
from decimal import Decimal
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, open_table
from lakelog.catalog.columns.new_columns import columns_of
from lakelog.catalog.columns.spark_json import columns_of_struct
from lakelog.common.errors import InvalidRequestError, UnsupportedError


def shown(schema: object) -> list[str]:
    return [f"{field.name} {field.type}" for field in columns_of(schema)]


ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
NULLABLE = ["id BIGINT", "name STRING"]


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (ARROW, ["id BIGINT NOT NULL", "name STRING"]),
        (list(ARROW), ["id BIGINT NOT NULL", "name STRING"]),
        (pa.table({"id": [1], "name": ["a"]}), NULLABLE),
        ("id BIGINT NOT NULL, name STRING", ["id BIGINT NOT NULL", "name STRING"]),
        (pl.Schema({"id": pl.Int64, "name": pl.String}), NULLABLE),
        ({"id": pl.Int64(), "name": pl.String}, NULLABLE),
        (pl.DataFrame({"id": [1], "name": ["a"]}), NULLABLE),
        (pl.LazyFrame({"id": [1], "name": ["a"]}), NULLABLE),
        (pl.DataFrame({"c": ["a"]}, schema={"c": pl.Categorical}), ["c STRING"]),
        (pd.DataFrame({"id": [1], "name": ["a"]}, index=[7]), NULLABLE),
    ],
)
def test_columns_are_taken_from_schemas_and_rows(schema: object, columns: list[str]) -> None:
    assert shown(schema) == columns


def test_a_table_is_made_with_the_columns_of_another(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    first = catalog.create_table("db.a", schema="id BIGINT COMMENT 'x', s STRUCT<a: INT>", primary_keys="ID")
    second = catalog.create_table("db.b", schema=first.schema, primary_keys="id")
    assert second.schema.fields == first.schema.fields


@pytest.mark.parametrize("key", ["comment", "description", "doc"])
def test_comments_of_arrow_fields_are_kept(tmp_path: Path, key: str) -> None:
    member = pa.field("a", pa.int32(), metadata={key: "a member"})
    schema = pa.schema([pa.field("s", pa.struct([member]), metadata={key: "a struct"})])
    Catalog(tmp_path).create_table("db.t", schema=schema, options={"bucket": "-1"})
    (column,) = open_table("db.t", tmp_path).schema.fields
    assert (column.description, column.type.fields[0].description) == ("a struct", "a member")


def test_comments_of_ddl_are_kept_in_the_schema_file(tmp_path: Path) -> None:
    made = Catalog(tmp_path).create_table("db.t", schema="id BIGINT COMMENT 'the key'")
    stored = json.loads(Path(made.path, "schema/schema-0").read_text())
    assert stored["fields"][0]["description"] == "the key"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, "schema is 5 of type builtins.int; expected a pyarrow schema, columns as DDL"),
        (None, "schema is None of type builtins.NoneType"),
        (["id"], "schema holds 'id' of type builtins.str as a column, expected a pyarrow field"),
        ({"id": "BIGINT"}, "schema has 'BIGINT' of type builtins.str as the type of column 'id', expected a polars"),
        (
            pd.DataFrame({"a": [1, "x", b"y"]}),
            "a pandas DataFrame with values that are not of one type, in column.s. 'a'",
        ),
    ],
)
def test_what_says_no_columns_is_named(tmp_path: Path, schema: object, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Catalog(tmp_path).create_table("db.t", schema=schema)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schema", [pl.Schema({"n": pl.Duration("us")}), pa.schema([("n", pa.duration("us"))])])
def test_a_type_that_the_format_lacks_is_named_with_its_column(schema: object) -> None:
    with pytest.raises(UnsupportedError, match=r"column 'n' has the Arrow type duration.us., .*: cast it to a whole"):
        columns_of(schema)


def test_the_json_form_of_a_spark_schema_is_read() -> None:
    inner = {"type": "struct", "fields": [{"name": "a", "type": "char(3)", "nullable": True, "metadata": {}}]}
    array = {"type": "array", "elementType": inner, "containsNull": False}
    mapped = {"type": "map", "keyType": "string", "valueType": "decimal(10,2)", "valueContainsNull": False}
    fields = [
        {"name": "t", "type": "timestamp", "nullable": False, "metadata": {"comment": "when"}},
        {"name": "x", "type": array, "nullable": True, "metadata": {}},
        {"name": "m", "type": mapped, "nullable": True, "metadata": {}},
    ]
    found = columns_of_struct({"type": "struct", "fields": fields})
    assert [f"{field.name} {field.type}" for field in found] == [
        "t TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL",
        "x ARRAY<ROW<a CHAR(3)> NOT NULL>",
        "m MAP<STRING NOT NULL, DECIMAL(10, 2) NOT NULL>",
    ]
    assert found[0].description == "when"


def test_a_catalog_makes_tables_without_spark_and_pandas(tmp_path: Path) -> None:
    code = (
        "import sys; from lakelog.catalog import Catalog\n"
        f"Catalog({str(tmp_path)!r}).create_table('db.t', schema='id BIGINT')\n"
        'assert not {m for m in sys.modules if m.startswith(("pyspark", "pandas"))}'
    )
    subprocess.run([sys.executable, "-c", code], check=True)


UUIDS = [uuid.UUID(int=1 << 127), None, uuid.UUID("123e4567-e89b-12d3-a456-426614174000")]
MANY = pa.table(
    {
        "tiny": pa.array([255, 0, None], pa.uint8()),
        "small": pa.array([65535, 0, None], pa.uint16()),
        "whole": pa.array([(1 << 32) - 1, 0, None], pa.uint32()),
        "big": pa.array([(1 << 64) - 1, 0, None], pa.uint64()),
        "half": pa.array([1.5, -65504, None], pa.float16()),
        "day": pa.array([86_400_000, -86_400_000, None], pa.date64()),
        "id": pa.array([one and one.bytes for one in UUIDS], pa.uuid()),
        "pair": pa.array([[1, 2], [3, None], None], pa.list_(pa.int8(), 2)),
        "flag": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
        "at": pa.array([time(1, 2, 3, 4000), time(23, 59, 59, 999_000), None], pa.time64("ns")),
        "sum": pa.array([Decimal("1.25"), Decimal("-9.75"), None], pa.decimal256(30, 2)),
    }
)


def test_a_table_made_of_wider_and_narrower_types_holds_every_value(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema=MANY)
    table.write(MANY)

    texts = [one and str(one) for one in UUIDS]
    expected = {**{name: MANY[name].to_pylist() for name in MANY.column_names}, "id": texts}
    found = table.to_arrow()
    assert found.to_pydict() == expected
    assert found.schema.field("big").type == pa.decimal128(20, 0)
    assert found.schema.field("tiny").type == pa.int16()


def test_a_polars_frame_with_times_and_arrays_makes_a_table(tmp_path: Path) -> None:
    kinds = pl.Schema({"at": pl.Time(), "pair": pl.Array(pl.Int8, 2)})
    frame = pl.DataFrame({"at": [time(1, 2, 3, 4000)], "pair": [[1, 2]]}, schema=kinds)
    table = Catalog(tmp_path).create_table("db.t", schema=frame)
    table.write(frame)

    assert table.to_arrow().to_pylist() == frame.to_dicts()
    with pytest.raises(InvalidRequestError, match=r"column 'at'.*lose data"):
        table.write(pl.DataFrame({"at": [time(1, 2, 3, 4001)], "pair": [[1, 2]]}, schema=kinds))


def test_one_error_names_all_columns_without_a_type() -> None:
    rows = pa.table({"a": pa.nulls(1), "b": pa.array([1], pa.duration("s")), "c": pa.array([1]), "d": [b""]})
    with pytest.raises(UnsupportedError) as caught:
        columns_of(rows)
    assert [line.split()[1] for line in str(caught.value).splitlines()] == ["'a'", "'b'"]


def test_one_error_names_all_columns_that_do_not_fit_a_table(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema="a INT, b DATE, c STRING")
    with pytest.raises(InvalidRequestError, match=r"column 'a': expected INT.*column 'b': expected DATE"):
        table.write(pa.table({"a": ["x"], "b": ["y"], "c": ["z"]}))


@pytest.mark.parametrize("nested", [False, True])
def test_objects_of_polars_are_refused_by_name_and_not_stored_as_addresses(tmp_path: Path, nested: bool) -> None:
    frame = pl.DataFrame({"id": [1], "thing": [object()]}, schema={"id": pl.Int64, "thing": pl.Object})
    frame = frame.with_columns(pl.lit(1, pl.Int128).alias("many")) if nested else frame
    table = Catalog(tmp_path).create_table("db.t", schema="id BIGINT, thing BYTES, many STRING")
    for take in (columns_of, table.write):
        for rows in (frame, frame.lazy()):
            with pytest.raises(InvalidRequestError, match="'thing' .Object.*" + ("'many'" if nested else "")):
                take(rows)
    assert table.snapshot() is None


def test_mixed_values_of_a_pandas_frame_are_refused_with_their_columns() -> None:
    frame = pd.DataFrame({"fine": [1, 2], "mixed": [1, "x"], "objects": [object(), None]})
    with pytest.raises(InvalidRequestError, match="'mixed', 'objects'"):
        columns_of(frame)
