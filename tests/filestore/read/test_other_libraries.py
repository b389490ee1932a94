"""Tables as other libraries see them: lazy polars frames, Arrow streams, DuckDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: the arguments of a function that is watched

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.io.bounded_files import BoundedFileIO
from lakelog.filestore.predicate import bind
from lakelog.filestore.read import split_rows
from lakelog.filestore.read.polars_scan import predicate_of
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_duckdb, to_polars
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("x", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("at", pa.timestamp("us")),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("f", pa.float32()),
        pa.field("ok", pa.bool_()),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
    ]
)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2026, 1, 3)]
col = pl.col


def rows_of(day: int) -> pa.Table:
    ids = range(day * 10, day * 10 + 10)
    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "day": DAYS[day],
                "x": None if key % 5 == 0 else float("nan") if key % 7 == 0 else key / 2,
                "s": None if key % 4 == 0 else f"text {key}",
                "at": dt.datetime(2026, 1, 1, 0, 0, key, 5),
                "d": key,
                "f": key / 10,
                "ok": None if key % 3 == 0 else key % 2 == 0,
                "m": [("k", key)],
            }
            for key in ids
        ],
        SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Three days of ten rows, the last one in two versions; every call of the file system is counted."""
    schema = build_schema(SCHEMA, primary_keys=["id", "day"], partition_keys=["day"], options={"write-only": "true"})
    table = FileStoreTable.create(tmp_path / "t", schema, FaultyFileIO(UNSYNCED))
    for day in (0, 1, 2, 2):
        table.write(rows_of(day))
    return table


def opened(table: FileStoreTable) -> int:
    """How many data files were opened since the last call."""
    assert isinstance(table.file_io, BoundedFileIO)
    assert isinstance(table.file_io.inner, FaultyFileIO)
    count = table.file_io.inner.calls.count("open_input")
    table.file_io.inner.calls.clear()
    return count


FILTERS: list[tuple[Callable[[], pl.Expr], bool]] = [
    (lambda: col("id") > 13, True),
    (lambda: pl.lit(13) >= col("id"), True),
    (lambda: (col("id") != 4) & (col("s") == "text 5"), True),
    (lambda: (col("id") == 4) | col("s").is_null(), True),
    (lambda: (col("id") == 4) | col("s").str.ends_with("5"), False),
    (lambda: (col("id") == 5) & col("s").str.ends_with("5"), True),
    (lambda: col("id").is_in([3, 14, 99]), True),
    (lambda: ~col("id").is_in([3, 14, 99]), False),
    (lambda: col("id").is_between(3, 14), True),
    (lambda: col("id").is_between(3, 14, closed="none"), True),
    (lambda: col("x") > 3.25, True),
    (lambda: col("x").is_nan(), False),
    (lambda: col("x").is_not_null(), True),
    (lambda: col("day") >= DAYS[1], True),
    (lambda: col("at") < dt.datetime(2026, 1, 1, 0, 0, 12, 5), True),
    (lambda: col("at").cast(pl.Date) == dt.date(2026, 1, 1), False),
    (lambda: col("ok"), False),
    (lambda: col("ok") == True, True),  # noqa: E712 - an expression of polars
    (lambda: ~(col("id") == 3), False),
    (lambda: col("d") == 7.0, False),
    (lambda: col("f") == 0.7, False),
    (lambda: col("id") < 3.5, False),
    (lambda: col("id") + 1 == 5, False),
    (lambda: col("s").is_in(["text 5", None]), False),
]


@pytest.mark.parametrize(("make", "is_pushed"), FILTERS)
def test_a_filter_of_polars_gives_the_same_rows_pushed_down(
    table: FileStoreTable, make: Callable[[], pl.Expr], is_pushed: bool
) -> None:
    expression = make()
    eager = pl.from_arrow(table.to_arrow())
    assert isinstance(eager, pl.DataFrame)
    found = to_polars(table).filter(expression).sort("id").collect()
    assert found.equals(eager.filter(expression).sort("id"))
    assert (predicate_of(expression, table.schema.fields) is not None) == is_pushed


def test_a_query_reads_the_files_and_columns_that_it_needs(table: FileStoreTable) -> None:
    lazy = to_polars(table)
    opened(table)
    assert lazy.filter(col("day") == DAYS[0]).select("s").collect().height == 10
    assert opened(table) == 1
    assert lazy.head(3).collect().height == 3
    assert opened(table) == 1
    assert lazy.filter(col("id") > 100).collect().schema == lazy.collect_schema()
    assert opened(table) == 0
    assert lazy.select(pl.len()).collect().item() == 30
    assert lazy.filter(col("id") < 15).select(pl.len()).collect().item() == 15


def test_a_lazy_frame_without_columns_has_the_rows_of_the_table(table: FileStoreTable) -> None:
    numbered = to_polars(table).with_row_index("row")
    assert numbered.select("row").collect()["row"].to_list() == list(range(30))
    assert numbered.select("row").filter(col("row") > 24).collect().height == 5
    assert to_polars(table).filter(col("id") > 13).with_row_index("row").select("row").collect().height == 16
    assert to_polars(table, columns=[]).select(pl.len()).collect().item() == 30
    assert to_polars(table, columns=[], where="id > 13").head(4).select(pl.len()).collect().item() == 4


def test_a_filter_is_bound_once_for_all_splits(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in (0, 1):
        table.write(rows_of(day))  # all three days need a merge
    bound: list[object] = []

    def counted(*arguments: Any) -> object:
        bound.append(bind(*arguments))
        return bound[-1]

    monkeypatch.setattr(split_rows, "bind", counted)
    assert to_polars(table).filter(col("id") < 25).collect().height == 25
    assert len(bound) == 1


def test_where_and_columns_still_work_and_are_checked_at_once(table: FileStoreTable) -> None:
    lazy = to_polars(table, columns=["s", "id"], where="x > 3.25")
    assert lazy.collect_schema().names() == ["s", "id"]
    frame = lazy.filter(col("id") < 12).collect()
    assert frame["id"].sort().to_list() == [7, 8, 9, 11]
    with pytest.raises(InvalidRequestError, match="does not exist"):
        to_polars(table, where="nothing = 1")
    with pytest.raises(InvalidRequestError):
        to_polars(table, columns=["nothing"])


def test_a_lazy_frame_stays_on_its_snapshot(table: FileStoreTable) -> None:
    lazy = to_polars(table)
    relation = to_duckdb(table, columns=["id"])
    table.write(pa.table(rows_of(0).slice(0, 1).columns, schema=SCHEMA).set_column(0, SCHEMA.field(0), [[77]]))
    assert lazy.collect().height == len(relation.fetchall()) == 30
    assert to_polars(table).collect().height == 31


def test_the_table_is_an_arrow_stream(table: FileStoreTable) -> None:
    arrow = table.to_arrow().sort_by("id")
    assert pa.table(table).sort_by("id").drop_columns("x").equals(arrow.drop_columns("x"))  # it holds NaN
    assert pa.RecordBatchReader.from_stream(table).schema == arrow.schema
    assert pl.DataFrame(table).height == 30
    assert duckdb.from_arrow(table).aggregate("sum(id)").fetchall() == [(435,)]


def test_a_stream_has_the_schema_that_is_asked_for(table: FileStoreTable) -> None:
    wider = arrow_with(table.to_arrow().schema, "s", pa.large_string())
    read = pa.RecordBatchReader.from_stream(table, schema=wider)
    assert read.schema == wider
    assert read.read_all().num_rows == 30
    with pytest.raises(ValueError, match="field names are not matching"):
        pa.RecordBatchReader.from_stream(table, schema=pa.schema([("other", pa.int8())]))


def arrow_with(schema: pa.Schema, name: str, kind: pa.DataType) -> pa.Schema:
    """The schema with another type of one column."""
    index = schema.get_field_index(name)
    return schema.set(index, schema.field(index).with_type(kind))


def test_a_stream_reads_a_file_when_its_turn_comes(table: FileStoreTable) -> None:
    opened(table)
    reader = pa.RecordBatchReader.from_stream(table)
    assert opened(table) == 0
    reader.read_next_batch()
    assert opened(table) == 1


def test_a_duckdb_relation_is_read_as_often_as_it_is_asked(table: FileStoreTable) -> None:
    relation = to_duckdb(table, columns=["id"], where="day > DATE '2026-01-01'")
    assert len(relation.fetchall()) == 20
    assert relation.filter("id >= 15").aggregate("count(*)").fetchall() == [(15,)]
    assert len(relation.fetchall()) == 20
