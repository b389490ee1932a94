"""DuckDB's columns and filters reach the files of a table, and give the rows that DuckDB gives for its own tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # Any: values of every column type

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.io.bounded_files import BoundedFileIO
from lakelog.filestore.read import arrow_dataset
from lakelog.filestore.read.arrow_filter import ArrowFilter
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_duckdb
from tests.support.examples import rest_in_full
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.small_tables import UNSYNCED
from tests.support.tables.sql_conditions import Conditions
from tests.support.tables.typed_rows import SCHEMA, rows_of

ROWS, FILES = 240, 6


@pytest.fixture(scope="module", params=["append", "merged"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    """Six files of forty rows each, or as many runs whose keys overlap and of which the last ones count."""
    keys = ["id"] if request.param == "merged" else []
    options = {"write-only": "true"}
    schema = build_schema(SCHEMA, primary_keys=keys, options=options)
    table = FileStoreTable.create(tmp_path_factory.mktemp("t") / "t", schema, UNSYNCED)
    step = ROWS // FILES
    for start in range(0, ROWS, step):
        if keys and start:
            older = rows_of(range(start + 90, start + 90 + step))
            table.write(older.set_column(0, SCHEMA.field(0), [list(range(start - 20, start - 20 + step))]))
            table.write(rows_of(range(start - 20, start)))
        table.write(rows_of(range(start, start + step)))
    return table


@pytest.fixture(scope="module")
def connection(table: FileStoreTable) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in another time zone than UTC, with the same rows as a table `own` of DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        rows = table.to_arrow()
        assert rows.num_rows == ROWS
        connection.execute("CREATE TABLE own AS SELECT * FROM rows")
        yield connection


@pytest.mark.parametrize("seed", rest_in_full(range(8), 3))
def test_a_condition_of_sql_gives_the_rows_that_duckdb_finds_in_its_own_table(
    table: FileStoreTable, connection: duckdb.DuckDBPyConnection, seed: int
) -> None:
    relation = to_duckdb(table, connection=connection)
    conditions = Conditions(seed, ROWS)
    for _ in range(25):
        where = conditions.any()
        expected = connection.sql(f"SELECT id FROM own WHERE {where} ORDER BY id").fetchall()
        assert relation.filter(where).project("id").order("id").fetchall() == expected, where


def test_joins_orders_and_limits_give_the_rows_of_duckdbs_own_table(
    table: FileStoreTable, connection: duckdb.DuckDBPyConnection
) -> None:
    lake = to_duckdb(table, connection=connection)
    lake.create_view("lake")
    assert lake.columns == SCHEMA.names
    for query in (
        "SELECT id, varchar FROM {} ORDER BY id DESC LIMIT 7",
        "SELECT t.id FROM {} t JOIN (VALUES (3), (77), (239), (500)) v(k) ON t.id = v.k ORDER BY 1",
        "SELECT a.id, b.date FROM {} a JOIN {} b ON a.id = b.id AND b.integer > 230000 ORDER BY 1",
        "SELECT boolean, count(*), sum(integer) FROM {} WHERE date > DATE '1970-01-05' GROUP BY ALL ORDER BY ALL",
        "SELECT count(*) FROM {}",
        "SELECT id FROM {} WHERE id IN (SELECT max(id) FROM {})",
    ):
        found, own = (connection.sql(query.replace("{}", name)).fetchall() for name in ("lake", "own"))
        assert found == own, query
    assert lake.shape == (ROWS, len(SCHEMA))


@pytest.fixture
def appended(tmp_path: Path) -> FileStoreTable:
    """Six files of one table without a key; every call of the file system is counted.

    Without nanoseconds: they are INT96, then all timestamps of a file are, and have no bounds.
    """
    columns = pa.schema([field for field in SCHEMA if field.name != "timestamp_ns"])
    schema = build_schema(columns, options={"write-only": "true"})
    table = FileStoreTable.create(tmp_path / "t", schema, FaultyFileIO(UNSYNCED))
    for start in range(0, ROWS, ROWS // FILES):
        table.write(rows_of(range(start, start + ROWS // FILES)).select(columns.names))
    return table


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id = 77", 1),
        ("id BETWEEN 30 AND 90", 3),
        ("id IN (1, 2, 239)", 2),
        ("id = 1 OR integer = 200000", 2),
        ("id > 500", 0),
        ("decimal_38_10 > 100000000000000000000.201::DECIMAL(38,10)", 1),
        ("date < DATE '1969-12-20'", 1),
        ("timestamp_s < TIMESTAMP_S '2026-03-02 12:00:00'", 1),
        ("timestamp_ms >= TIMESTAMP_MS '2026-03-01 12:00:01.5'", 1),
        ("timestamp < TIMESTAMP '1969-12-31 01:00:00'", 1),
        ("timestamptz < TIMESTAMPTZ '2026-03-01 10:00:10+00'", 1),
        ("varchar = 'text 005' AND id < 100", 3),
        ("id % 2 = 0", FILES),
        ("double > 20", FILES),
    ],
)
def test_a_filter_of_sql_opens_the_files_that_may_hold_its_rows(
    appended: FileStoreTable, where: str, files: int
) -> None:
    relation = to_duckdb(appended).filter(where).project("varchar")
    assert isinstance(appended.file_io, BoundedFileIO)
    assert isinstance(appended.file_io.inner, FaultyFileIO)
    appended.file_io.inner.calls.clear()
    relation.fetchall()
    assert appended.file_io.inner.calls.count("open_input") == files


def test_a_query_reads_the_bytes_of_its_columns(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(8)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    file_io = CountingFileIO()
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema), file_io)
    source = random.Random(3)
    table.write(pa.table([[source.getrandbits(62) for _ in range(200_000)] for _ in names], schema=schema))
    found = []
    for columns in ("sum(c3)", ", ".join(f"sum({name})" for name in names)):
        relation = to_duckdb(table).aggregate(columns)
        before = file_io.bytes_read
        relation.fetchall()
        found.append(file_io.bytes_read - before)
    one, all_of_them = found
    assert one < all_of_them / 3


def test_a_filter_is_taken_apart_once_a_query(appended: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[ArrowFilter] = []

    def counted(expression: Any) -> ArrowFilter:
        found.append(ArrowFilter(expression))
        return found[-1]

    monkeypatch.setattr(arrow_dataset, "ArrowFilter", counted)
    assert to_duckdb(appended).filter("id = 77").project("id").fetchall() == [(77,)]
    assert len(found) == 1


def test_a_relation_stays_on_its_snapshot_and_its_condition(appended: FileStoreTable) -> None:
    relation = to_duckdb(appended, columns=["integer", "id"], where="id < 50")
    appended.write(rows_of(range(10)).select(appended.schema.field_names))
    assert relation.columns == ["integer", "id"]
    assert relation.filter("integer >= 10000").aggregate("count(*), min(id)").fetchall() == [(34, 11)]


def test_what_is_wrong_with_a_file_is_quoted_by_duckdb(appended: FileStoreTable, tmp_path: Path) -> None:
    for path in (tmp_path / "t").rglob("data-*"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(duckdb.Error, match="bytes, expected"):
        to_duckdb(appended).fetchall()
    with pytest.raises(CorruptDataError):
        appended.to_arrow()


def test_a_release_of_duckdb_that_loses_nan_is_refused(
    appended: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb, "__version__", "1.5.5")
    with pytest.raises(InvalidRequestError, match=r"needs duckdb 2\.0 or later, found 1\.5\.5"):
        to_duckdb(appended)


FIELDS = build_schema(SCHEMA).fields


@pytest.mark.parametrize(
    "expression",
    [
        ~(ds.field("id") > 3),
        ds.field("id") + 1 > 3,
        (ds.field("id") > 3) | ds.field("double").is_nan(),
        ds.field("float") == 0.5,
        ds.field("id") == ds.field("bigint"),
        ds.field("id", "member") == 1,
        ds.field("id").isin([1, None]),
        ds.field("double").is_null(nan_is_null=True),
        ds.field("timestamp_ns") == pa.scalar(5, pa.timestamp("ns")),
        ds.field("timestamp") > pa.scalar(1 << 62, pa.timestamp("s")),
        ds.field("varchar") == 5,
        ds.field("nothing") == 5,
        ds.field("boolean"),
        ds.scalar(True),
    ],
)
def test_what_arrow_and_conditions_may_see_differently_skips_nothing(expression: Any) -> None:
    assert ArrowFilter(expression).predicate(FIELDS) is None


def test_the_columns_of_an_expression_are_known() -> None:
    expression = (ds.field("id") > 3) & (ds.field("a", "b") == "id2") | ~ds.field("new\nline").is_valid()
    assert ArrowFilter(expression).columns() == {"id", "a", "b", "new\nline"}


def test_an_expression_of_very_many_calls_skips_nothing() -> None:
    expression = ds.field("id") == 0
    for number in range(300):
        expression = expression | (ds.field("id") == number)
    assert ArrowFilter(expression).predicate(FIELDS) is None
