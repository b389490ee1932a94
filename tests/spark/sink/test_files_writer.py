"""Writes by format("lakelog") and by sinks, as the processes beside Spark's run them: no session is needed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.sink import files_writer
from lakelog.spark.sink.sink import LakelogSink

AWAY = {
    "path": "s3://bucket/lake/db.db/t",
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.access-key": "key",
    "s3.secret-key": "secret",
    "s3.region": "us-east-1",
    "s3.attempts.maximum": "1",
}


def test_a_batch_ends_without_an_error_of_its_own_while_the_store_is_away() -> None:
    writer = LakelogDataSource(AWAY).streamWriter(StructType().add("id", LongType()), False)
    writer.abort([], 0)
    for call in (lambda: writer.write(iter([])), lambda: writer.commit([], 0)):
        with pytest.raises(UnavailableError, match=r"s3://bucket/lake/db\.db/t.* the store does not answer"):
            call()


COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("size", pa.int32())])
CASE = "spark.sql.caseSensitive"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table("db.t", schema=COLUMNS, primary_keys=["id"])


def struct_of(**columns: DataType) -> StructType:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    return schema


def write(
    monkeypatch: pytest.MonkeyPatch,
    table: Table,
    schema: StructType,
    rows: pa.Table,
    conf: dict[str, str],
    **options: str,
) -> None:
    """What Spark does with a batch write: one task."""
    context = SimpleNamespace(partitionId=lambda: 0, getLocalProperty=conf.get)
    monkeypatch.setattr(files_writer, "TaskContext", SimpleNamespace(get=lambda: context))
    writer: Any = LakelogDataSource({"path": table.path, **options}).writer(schema, False)
    writer.commit([writer.write(iter(rows.to_batches()))])


def test_a_batch_write_lacks_nullable_columns_and_spells_names_in_its_own_case(
    monkeypatch: pytest.MonkeyPatch, table: Table
) -> None:
    schema = struct_of(SIZE=LongType(), ID=LongType(), _row_kind=StringType())
    write(monkeypatch, table, schema, pa.table({"SIZE": [5, 6], "ID": [1, 2], "_row_kind": ["+I", "-D"]}), {})
    assert table.to_arrow().to_pylist() == [{"id": 1, "name": None, "size": 5}]
    with pytest.raises(InvalidRequestError, match=r"lack column\(s\) id"):
        write(monkeypatch, table, schema, pa.table({"SIZE": [5], "ID": [1], "_row_kind": ["+I"]}), {CASE: "true"})


def test_a_batch_write_adds_columns_with_merge_schema_alone(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    pair = struct_of(x=IntegerType())
    pair.fields[0].nullable = False
    schema, kind = struct_of(id=LongType(), extra=IntegerType(), pair=pair), pa.struct([("x", pa.int32())])
    rows = pa.table({"id": [1], "extra": pa.array([7], pa.int32()), "pair": pa.array([{"x": 1}], kind)})
    with pytest.raises(InvalidRequestError, match=r"have unknown column\(s\) extra, pair;.*option mergeSchema"):
        write(monkeypatch, table, schema, rows, {})
    for _ in range(2):
        write(monkeypatch, table, schema, rows, {}, mergeschema="true")
    added = open_table(table.path)
    assert [str(field.type) for field in added.schema.fields[3:]] == ["INT", "ROW<x INT>"]
    assert added.schema.id == 1
    assert added.to_arrow(columns=["extra", "pair"]).to_pylist() == [{"extra": 7, "pair": {"x": 1}}]


def rows_of(conf: str, **columns: DataType) -> Any:
    """What a sink asks of a DataFrame before it writes it."""
    session = SimpleNamespace(conf={CASE: conf})
    return SimpleNamespace(schema=struct_of(**columns), columns=list(columns), sparkSession=session)


def test_a_sink_adds_columns_with_merge_schema_alone_but_not_those_of_the_order(table: Table) -> None:
    rows = rows_of("false", ID=LongType(), extra=StringType(), at=LongType(), _row_kind=StringType())
    with pytest.raises(InvalidRequestError, match=r"have unknown column\(s\) extra;.*merge_schema=True of write"):
        LakelogSink(table, order_by="at").check_rows(rows)
    sink = LakelogSink(table, order_by="at", merge_schema=True)
    sink.check_rows(rows)
    assert sink.table.schema.field_names == ("id", "name", "size", "extra")
    assert open_table(table.path).schema == sink.table.schema


def test_a_sink_compares_names_as_the_session_says(table: Table) -> None:
    LakelogSink(table).check_rows(rows_of("false", ID=LongType()))
    with pytest.raises(InvalidRequestError, match=r"lack column\(s\) id"):
        LakelogSink(table).check_rows(rows_of("true", ID=LongType()))
    with pytest.raises(InvalidRequestError, match=r"repeat column\(s\) id, ID"):
        LakelogSink(table).check_rows(rows_of("false", id=LongType(), ID=LongType()))


def test_the_columns_of_an_order_are_found_as_the_session_compares_names(table: Table) -> None:
    sink = LakelogSink(table, order_by=["SIZE", "At"])
    sink.check_rows(rows_of("false", id=LongType(), size=IntegerType(), at=LongType()))
    assert sink.order_by == ("size", "at")
    with pytest.raises(InvalidRequestError, match=r"order_by: column 'SIZE' does not exist.*did you mean 'size'"):
        LakelogSink(table, order_by="SIZE").check_rows(rows_of("true", id=LongType(), size=IntegerType()))
