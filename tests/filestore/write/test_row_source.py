"""What users hand over as rows: each form is written as the same rows, and streams in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs.write_verbs import committed
from lakelog.filestore.write.row_input import row_source
from lakelog.filestore.write.spilling import Spills
from lakelog.filestore.write.table_write import Overwrite, TableWrite
from tests.support.tables.small_tables import UNSYNCED

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("size", pa.int32())])
VALUES = {"id": [1, 2, 3], "name": ["a", None, "c"], "size": [10, 20, None]}
ROWS = pa.table(VALUES, schema=COLUMNS)


def as_array() -> object:
    return type("Array", (), {"__arrow_c_array__": lambda _, schema=None: ROWS.to_batches()[0].__arrow_c_array__()})()


def as_stream() -> object:
    return type("Stream", (), {"__arrow_c_stream__": lambda _, schema=None: ROWS.__arrow_c_stream__()})()


def as_relation() -> object:
    given = ROWS  # noqa: F841  # DuckDB finds it by its name
    return duckdb.connect().sql("SELECT * FROM given ORDER BY id").set_alias("r")


FORMS: dict[str, Callable[[], Any]] = {
    "Arrow table": lambda: ROWS,
    "record batch": lambda: ROWS.to_batches()[0],
    "reader": lambda: pa.RecordBatchReader.from_batches(COLUMNS, iter(ROWS.to_batches(max_chunksize=2))),
    "C array": as_array,
    "C stream": as_stream,
    "polars": lambda: pl.DataFrame(VALUES),
    "polars, categorical": lambda: pl.DataFrame(VALUES).with_columns(pl.col("name").cast(pl.Categorical)),
    "lazy polars": lambda: pl.DataFrame(VALUES).lazy().filter(pl.col("id") < 9),
    "pandas": lambda: pd.DataFrame(VALUES).astype({"size": "Int32"}),
    "pandas, named index": lambda: pd.DataFrame(VALUES).astype({"size": "Int32"}).set_index("id"),
    "pandas, other index": lambda: pd.DataFrame(VALUES, index=[7, 8, 9]).astype({"size": "Int32"}),
    "DuckDB": as_relation,
}


def make(folder: Path, **options: str) -> FileStoreTable:
    given = {"bucket": "1", "write-only": "true"} | {key.replace("_", "-"): value for key, value in options.items()}
    return FileStoreTable.create(folder / "t", build_schema(COLUMNS, primary_keys=["id"], options=given), UNSYNCED)


def content(table: FileStoreTable) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_written_as_the_same_rows(tmp_path: Path, form: str) -> None:
    table = make(tmp_path)
    table.write(FORMS[form]())
    assert content(table) == ROWS.to_pylist()


def test_rows_of_a_table_are_written_to_another_as_a_stream(tmp_path: Path) -> None:
    table, other = make(tmp_path / "a"), make(tmp_path / "b")
    table.write(ROWS)
    other.write(table)
    assert content(other) == ROWS.to_pylist()


@pytest.mark.parametrize("form", ["Arrow table", "reader", "lazy polars", "DuckDB"])
def test_row_kinds_go_with_the_rows_of_each_form(tmp_path: Path, form: str) -> None:
    table = make(tmp_path)
    table.write(ROWS)
    table.write(FORMS[form](), kinds=["+U", "-D", "-D"])
    assert [row["id"] for row in content(table)] == [1]


BUDGET_BYTES, BATCH_ROWS, BATCHES = 2 << 20, 4_096, 100


def test_a_stream_larger_than_the_write_buffer_is_spilled_and_never_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled: list[None] = []
    held: list[int] = []
    add = Spills.add
    monkeypatch.setattr(Spills, "add", lambda self, parts: spilled.append(add(self, parts)))
    before = pa.total_allocated_bytes()

    def generated() -> Iterator[pa.RecordBatch]:
        for number in range(BATCHES):
            held.append(pa.total_allocated_bytes() - before)
            ids = np.arange(BATCH_ROWS) * BATCHES + number
            yield pa.RecordBatch.from_pydict({"id": ids, "name": [f"{one:060}" for one in ids]}, COLUMNS.remove(2))

    table = make(tmp_path, write_buffer_size=str(BUDGET_BYTES))
    table.write(pa.RecordBatchReader.from_batches(COLUMNS.remove(2), generated()))
    assert BATCHES * BATCH_ROWS * 68 > 10 * BUDGET_BYTES
    assert len(spilled) > 10
    assert max(held) < 4 * BUDGET_BYTES
    assert table.to_arrow(columns=["id"]).num_rows == BATCHES * BATCH_ROWS


def test_a_large_batch_of_a_stream_is_taken_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spilled: list[None] = []
    add = Spills.add
    monkeypatch.setattr(Spills, "add", lambda self, parts: spilled.append(add(self, parts)))
    batch = pa.RecordBatch.from_pydict({"id": np.arange(10_000)})
    table = make(tmp_path, write_buffer_size="8 kb")
    table.write(pa.RecordBatchReader.from_batches(batch.schema, [batch]))
    assert len(spilled) > 5
    assert table.to_arrow().num_rows == 10_000


def test_a_stream_that_breaks_leaves_no_file(tmp_path: Path) -> None:
    schema = build_schema(COLUMNS, options={"bucket": "-1", "write-buffer-size": "1 kb"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)

    def broken() -> Iterator[pa.RecordBatch]:
        for _ in range(50):
            yield from ROWS.to_batches()
        raise OSError("the source broke")

    with pytest.raises(OSError, match="the source broke"):
        table.write(pa.RecordBatchReader.from_batches(COLUMNS, broken()))
    assert list((tmp_path / "t").rglob("*.parquet")) == []
    assert table.snapshot() is None


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("id", None, "the first is row 150"),
        ("_row_kind", "x", "found 'x' in row 150"),
        ("_row_kind", 9, "9 in row 150"),
    ],
)
def test_a_wrong_row_of_a_stream_is_counted_from_its_start(
    tmp_path: Path, column: str, value: object, message: str
) -> None:
    right = {"id": 1, "_row_kind": 0 if isinstance(value, int) else "+I"}
    rows = pa.Table.from_pylist([right | ({column: value} if at == 150 else {}) for at in range(200)])
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=20))
    with pytest.raises(InvalidRequestError, match=message):
        make(tmp_path, write_buffer_size="1 kb").write(reader)


@pytest.mark.parametrize("form", ["lazy polars", "DuckDB", "Arrow table"])
def test_rows_that_can_be_taken_again_are_written_again_when_overtaken(tmp_path: Path, form: str) -> None:
    table = make(tmp_path)
    slow = TableWrite(table, FORMS[form](), replaces=None)
    table.write(pa.table({"id": [1], "name": ["first"], "size": [0]}, schema=COLUMNS))
    committed(table, slow, None)
    assert content(table) == ROWS.to_pylist()


def test_a_reader_whose_table_changed_under_an_overwrite_is_a_conflict_and_leaves_no_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    slow = TableWrite(table, FORMS["reader"](), replaces=Overwrite.EVERYTHING)
    table.write(ROWS.slice(0, 1))
    files = set((tmp_path / "t").rglob("*.parquet"))
    with pytest.raises(ConflictError, match="overwrite again"):
        committed(table, slow, None)
    assert len(set((tmp_path / "t").rglob("*.parquet"))) == len(files) - 1
    assert content(table) == ROWS.slice(0, 1).to_pylist()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([{"id": 1}], "found list; make a table of it with pyarrow.Table.from_pylist"),
        ({"id": [1]}, "found dict; make a table of it with pyarrow.table"),
        ((row for row in [1]), "found generator; make a stream of it with pyarrow.RecordBatchReader.from_batches"),
        ("rows.parquet", "found str$"),
        (None, "found NoneType$"),
        (pl.Series("id", [1]), "found Series of polars"),
        (pl.DataFrame, "found type"),
        (pd.Series([1]), "found Series of pandas"),
        (pa.array([1]), "found Int64Array of pyarrow"),
        (pa.chunked_array([[1]]), "found ChunkedArray of pyarrow"),
        (np.zeros(3), "found ndarray of numpy"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_table_of_rows_is_named(given: Any, found: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"write takes an Arrow table.*; {found}"):
        row_source(given)


def test_a_pandas_column_of_mixed_values_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match=r"cannot become an Arrow table.*column odd"):
        row_source(pd.DataFrame({"odd": [1, "a"]}))
