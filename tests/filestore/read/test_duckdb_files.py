"""Files that DuckDB reads itself give the rows that it finds in its own tables, from verified bytes."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES
from lakelog.filestore.formats.blocks.shared_input import SharedFile
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.read.duckdb import file_system, own_files, served_files, short_footers
from lakelog.filestore.read.duckdb import relation as duckdb_relation
from lakelog.filestore.read.duckdb.own_files import OwnFiles
from lakelog.filestore.read.duckdb.short_footers import READS_BEFORE, ShortFooterFile
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_duckdb
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import UNSYNCED
from tests.support.tables.sql_conditions import Conditions
from tests.support.tables.typed_rows import COLUMNS, SCHEMA, rows_of

ROWS = 240
TYPES = [name for name in COLUMNS if name not in ("time", "timestamp_s", "timestamp_ms", "timestamp_ns")]
PLAIN = pa.schema([field for field in SCHEMA if field.name in ("id", *TYPES)])


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the files that DuckDB opened itself, of however few rows."""
    found: list[int] = []
    opened = OwnFiles.opened

    def counted(files: OwnFiles, number: int) -> SharedFile:
        found.append(number)
        return opened(files, number)

    monkeypatch.setattr(own_files, "_ROWS_MIN", 1)
    monkeypatch.setattr(OwnFiles, "opened", counted)
    return found


def new_table(folder: Path, options: Mapping[str, str], *, keys: bool = False) -> FileStoreTable:
    schema = build_schema(PLAIN, primary_keys=["id"] if keys else [], options=options)
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def plain_rows(ids: range) -> pa.Table:
    return rows_of(ids).select(PLAIN.names)


def appended(folder: Path) -> FileStoreTable:
    """Six files."""
    table = new_table(folder, {"write-only": "true"})
    for start in range(0, ROWS, 40):
        table.write(plain_rows(range(start, start + 40)))
    return table


def compacted(folder: Path) -> FileStoreTable:
    """Two buckets, each of one file."""
    table = new_table(folder, {"bucket": "2"}, keys=True)
    table.write(plain_rows(range(ROWS)))
    table.write(plain_rows(range(100, 200)))
    table.compact(full=True)
    return table


def partly_merged(folder: Path) -> FileStoreTable:
    """Two buckets of one file each, and younger rows in one of them."""
    table = compacted(folder)
    older = plain_rows(range(50, 51))
    table.write(older.set_column(0, PLAIN.field(0), [[7]]))
    table.write(plain_rows(range(7, 8)))
    return table


def with_deletions(folder: Path) -> FileStoreTable:
    """A file with a deletion vector in one of two buckets."""
    table = new_table(folder, {"bucket": "2", "deletion-vectors.enabled": "true"}, keys=True)
    table.write(plain_rows(range(ROWS)))
    table.compact(full=True)
    table.write(plain_rows(range(7, 8)))
    table.compact()
    assert any(split.deletions for split in plan_splits(table, table.snapshot()).splits)
    return table


def of_two_schemas(folder: Path) -> FileStoreTable:
    """Files without a column that was added since, and files with it."""
    schema = build_schema(PLAIN.remove(PLAIN.get_field_index("varchar")), options={"write-only": "true"})
    table = FileStoreTable.create(folder / "t", schema, UNSYNCED)
    table.write(plain_rows(range(40)).drop_columns("varchar"))
    altered(table, AddColumn("varchar", "STRING"))
    table = FileStoreTable.open(folder / "t", UNSYNCED)
    table.write(plain_rows(range(40, ROWS)).select(table.schema.field_names))
    return table


def all_types(folder: Path) -> FileStoreTable:
    """Columns that DuckDB sees differently in Parquet among the others."""
    table = FileStoreTable.create(folder / "t", build_schema(SCHEMA), UNSYNCED)
    table.write(rows_of(range(10)))
    return table


MAKERS = [appended, compacted, partly_merged, with_deletions, of_two_schemas]


@pytest.mark.parametrize("make", [*MAKERS, all_types])
def test_columns_have_the_types_that_arrow_gives_them(tmp_path: Path, make: Callable[[Path], FileStoreTable]) -> None:
    table = make(tmp_path)
    through_arrow = duckdb.from_arrow(table.to_arrow())
    assert [(column[0], column[1]) for column in to_duckdb(table).description] == [
        (column[0], column[1]) for column in through_arrow.description
    ]


@pytest.mark.parametrize("make", MAKERS)
def test_a_condition_of_sql_gives_the_rows_that_duckdb_finds_in_its_own_table(
    tmp_path: Path, own: list[int], make: Callable[[Path], FileStoreTable]
) -> None:
    table = make(tmp_path)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        duckdb.from_arrow(table.to_arrow(), connection=connection).create("own")
        lake = to_duckdb(table, connection=connection)
        lake.create_view("lake")
        assert tuple(lake.columns) == table.schema.field_names
        for query in (
            "SELECT * FROM {} ORDER BY id",
            "SELECT count(*), sum(integer) FROM {}",
            "SELECT count(*) FROM {}",
        ):
            found, expected = (connection.sql(query.format(name)).fetchall() for name in ("lake", "own"))
            assert str(found) == str(expected), query  # as texts: NaN is not NaN
        conditions = Conditions(3, ROWS, TYPES)
        for _ in range(40):
            where = conditions.any()
            expected = connection.sql(f"SELECT id FROM own WHERE {where} ORDER BY id").fetchall()
            assert lake.filter(where).project("id").order("id").fetchall() == expected, where
    assert own


def test_nested_columns_are_read_as_through_arrow(tmp_path: Path, own: list[int]) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.list_(pa.int32())),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
            pa.field("s", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
        ]
    )
    rows = [
        {"a": [1, None, 3], "m": [("k", [1.5, None]), ("l", None)], "s": {"x": 1, "y": {"z": "text"}}},
        {"a": [], "m": [], "s": {"x": None, "y": None}},
        {"a": None, "m": None, "s": None},
    ]
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema, options={"bucket": "-1"}), UNSYNCED)
    table.write(pa.Table.from_pylist(rows, schema))
    found = to_duckdb(table).fetchall()
    assert own
    assert found == duckdb.from_arrow(table.to_arrow()).fetchall()


@pytest.mark.parametrize("column", ["time", "timestamp_s", "timestamp_ms", "timestamp_ns"])
def test_columns_that_duckdb_sees_differently_come_through_arrow(tmp_path: Path, own: list[int], column: str) -> None:
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field(column), SCHEMA.field("timestamp")])
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema), UNSYNCED)
    table.write(rows_of(range(20)).select(schema.names))
    relation = to_duckdb(table)
    own.clear()
    assert relation.order("id").fetchall() == duckdb.from_arrow(table.to_arrow().sort_by("id")).fetchall()
    assert own == []


def test_what_a_manifest_prunes_better_comes_through_arrow(
    tmp_path: Path, own: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = appended(tmp_path)
    assert to_duckdb(table, where="id < 50").aggregate("count(*)").fetchall() == [(50,)]
    for name, value in (("_ROWS_MIN", 41), ("_FILES_MAX", 5), ("_ROWS_MAX", 239), ("_PLANNED_FILES_MAX", 5)):
        with monkeypatch.context() as patched:
            patched.setattr(own_files, name, value)
            assert to_duckdb(table).aggregate("count(*)").fetchall() == [(ROWS,)], name
    assert own == []
    to_duckdb(table).fetchall()
    assert own


def test_names_that_differ_in_case_come_through_arrow(tmp_path: Path, own: list[int]) -> None:
    schema = pa.schema([pa.field("a", pa.int32()), pa.field("A", pa.int32())])
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema), UNSYNCED)
    table.write(pa.table([[1, 2], [3, 4]], schema=schema))
    assert to_duckdb(table).fetchall() == [(1, 3), (2, 4)]
    assert own == []


def test_members_that_differ_in_case_keep_their_names(tmp_path: Path, own: list[int]) -> None:
    member = pa.struct([("a", pa.int32()), ("A", pa.int32())])
    for number, kind in enumerate((member, pa.list_(member))):
        schema = pa.schema([("id", pa.int32()), ("m", kind)])
        table = FileStoreTable.create(tmp_path / str(number), build_schema(schema), UNSYNCED)
        value: object = {"a": 1, "A": 2}
        rows = pa.table([[1], [[value] if number else value]], schema=schema)
        table.write(rows)
        assert to_duckdb(table).fetchall() == duckdb.from_arrow(rows).fetchall()
    assert own == []


@pytest.mark.parametrize("rows_min", [1, ROWS + 1])
def test_a_relation_without_columns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_min: int) -> None:
    monkeypatch.setattr(own_files, "_ROWS_MIN", rows_min)
    with pytest.raises(InvalidRequestError, match="needs a column"):
        to_duckdb(appended(tmp_path), columns=[])


def test_names_are_quoted(tmp_path: Path, own: list[int]) -> None:
    schema = pa.schema(
        [pa.field('a "b".c', pa.int32()), pa.field("select", pa.int32()), pa.field("filename", pa.int32())]
    )
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema), UNSYNCED)
    table.write(pa.table([[1], [2], [3]], schema=schema))
    relation = to_duckdb(table)
    assert relation.columns == schema.names
    assert relation.fetchall() == [(1, 2, 3)]
    assert own


def test_a_connection_that_may_reach_no_files_reads_through_arrow(tmp_path: Path, own: list[int]) -> None:
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        relation = to_duckdb(appended(tmp_path), connection=connection)
        assert relation.aggregate("count(*)").fetchall() == [(ROWS,)]
    assert own == []


def test_without_fsspec_all_comes_through_arrow(
    tmp_path: Path, own: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_relation, "find_spec", lambda name: None)
    assert to_duckdb(appended(tmp_path)).aggregate("count(*)").fetchall() == [(ROWS,)]
    assert own == []


def test_a_relation_stays_on_its_snapshot(tmp_path: Path, own: list[int]) -> None:
    table = appended(tmp_path)
    relation = to_duckdb(table, columns=["integer", "id"])
    table.write(plain_rows(range(10)))
    assert relation.columns == ["integer", "id"]
    assert relation.aggregate("count(*)").fetchall() == [(ROWS,)]
    assert to_duckdb(table, snapshot_id=2).aggregate("count(*)").fetchall() == [(80,)]


def test_files_are_known_as_long_as_something_reads_them(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        relation = to_duckdb(appended(tmp_path), connection=connection)
        relation.create_view("lake")
        derived = relation.filter("id < 100")
        del relation
        gc.collect()
        assert derived.aggregate("count(*)").fetchall() == [(100,)]
        del derived
        gc.collect()
        assert connection.sql("SELECT count(*) FROM lake").fetchall() == [(ROWS,)]
    gc.collect()
    assert not served_files.SERVED


def test_a_file_of_no_relation_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(NotFoundError, match="make the relation again"):
        file_system._FILES.open("lakelog://none/0")


def test_a_damaged_file_is_named_by_duckdb(tmp_path: Path) -> None:
    table = appended(tmp_path)
    relation = to_duckdb(table)
    path = max((tmp_path / "t").rglob("data-*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(duckdb.Error, match="have the checksum"):
        relation.fetchall()
    path.write_bytes(content[:-1])
    with pytest.raises(duckdb.Error, match="bytes, expected"):
        relation.fetchall()
    path.unlink()
    with pytest.raises(duckdb.Error, match=r"data-.* is missing"):
        relation.fetchall()


def test_every_bit_flip_is_an_error(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"write-only": "true"})
    table.write(plain_rows(range(40)))
    (path,) = (tmp_path / "t").rglob("data-*")
    content = path.read_bytes()
    relation = to_duckdb(table).order("id")
    expected = str(relation.fetchall())
    source = random.Random(4)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[source.randrange(len(content))] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(duckdb.Error, match="have the checksum"):
            relation.fetchall()
    path.write_bytes(content)
    assert str(relation.fetchall()) == expected


def footer_start(content: bytes) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def test_every_bit_flip_in_data_is_an_error_after_the_footer_was_shortened(tmp_path: Path) -> None:
    """A footer that was verified is cached; all data is compared, although its ranges were read before."""
    table = new_table(tmp_path, {"write-only": "true"})
    table.write(plain_rows(range(40)))
    (path,) = (tmp_path / "t").rglob("data-*")
    content = path.read_bytes()
    relation = to_duckdb(table).order("id")
    expected = str(relation.fetchall())
    for _ in range(READS_BEFORE):
        relation.fetchall()
    assert any(str(path) in key for key in short_footers._PLACES._held)
    relation = to_duckdb(table).order("id")
    assert str(relation.fetchall()) == expected
    source = random.Random(5)
    for _ in range(60):
        at = source.randrange(4, len(content))
        damaged = bytearray(content)
        damaged[at] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        if at < footer_start(content):
            with pytest.raises(duckdb.Error, match="have the checksum"):
                relation.fetchall()
        else:
            assert str(relation.fetchall()) == expected
    path.write_bytes(content)
    assert str(relation.fetchall()) == expected


@pytest.mark.parametrize("make", MAKERS)
def test_queries_find_the_same_after_footers_were_shortened(
    tmp_path: Path, own: list[int], make: Callable[[Path], FileStoreTable]
) -> None:
    table = make(tmp_path)
    columns = ["integer", "id", "varchar"]
    queries: list[tuple[duckdb.DuckDBPyRelation, Sequence[str]]] = [
        (to_duckdb(table), table.schema.field_names),
        (to_duckdb(table, columns=columns), columns),
    ]
    whole = [relation.order("id").fetchall() for relation, _ in queries]
    conditions = [Conditions(7, ROWS, TYPES).any(), "id = 77", "integer IS NULL"]
    found = [queries[0][0].filter(where).project("id").order("id").fetchall() for where in conditions]
    for _ in range(READS_BEFORE):
        for relation, _ in queries:
            relation.aggregate("count(*)").fetchall()
    keys = [key for key in short_footers._PLACES._held if str(tmp_path) in key]
    assert {len(key.split("\n")) - 2 for key in keys} == {len(names) for _, names in queries}
    queries = [(to_duckdb(table), table.schema.field_names), (to_duckdb(table, columns=columns), columns)]
    assert str([relation.order("id").fetchall() for relation, _ in queries]) == str(whole)
    again = [queries[0][0].filter(where).project("id").order("id").fetchall() for where in conditions]
    assert again == found
    assert own


def test_each_range_of_a_file_with_a_short_footer_fits_the_others(tmp_path: Path) -> None:
    table = wide_table(tmp_path, CountingFileIO())
    (path,) = (tmp_path / "t").rglob("data-*")
    content = path.read_bytes()
    start, size = footer_start(content), len(content)
    whole = _opened_alone(table, ["c1"])
    for _ in range(READS_BEFORE):
        assert whole.read(size - 100, size) == content[-100:]
    assert whole.read(size - 100, size) == content[-100:]  # a relation keeps the footer that it began with
    short = _opened_alone(table, ["c1"])
    assert short.size == size
    tail = short.read(start, size)
    assert tail != content[start:]
    assert short.read(start - 50, size) == content[start - 50 : start] + tail
    assert short.read(start - 50, start) == content[start - 50 : start]
    for at in (start - 9, start, start + 9, size - 9):
        assert short.read(at, size - 3) == short.read(start - 9, size)[at - start + 9 : -3]


def _opened_alone(table: FileStoreTable, names: list[str]) -> ShortFooterFile:
    snapshot = table.snapshot()
    files = own_files.own_files(PlannedRead.of(table, snapshot, table.schema.select(names)))
    assert files is not None
    file = files.opened(0)._blocks
    assert isinstance(file, ShortFooterFile)
    return file


def test_a_duckdb_that_caches_parts_of_files_reads_with_whole_and_short_footers(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET cache_local_files = true")
        connection.execute("SET parquet_metadata_cache = true")
        table = compacted(tmp_path)
        first = to_duckdb(table, connection=connection)
        expected = str(first.order("id").fetchall())
        for _ in range(READS_BEFORE + 2):
            for relation in (first, to_duckdb(table, connection=connection)):
                assert str(relation.order("id").fetchall()) == expected
        assert any(str(tmp_path) in key for key in short_footers._PLACES._held)


def test_a_connection_that_finds_no_variables_holds_the_files_too(tmp_path: Path, own: list[int]) -> None:
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        relation = to_duckdb(appended(tmp_path), connection=connection)
        relation.create_view("lake")
        del relation
        gc.collect()
        assert connection.sql("SELECT count(*) FROM lake").fetchall() == [(ROWS,)]
    gc.collect()
    assert own
    assert not served_files.SERVED


def test_what_holds_the_files_is_not_in_a_plan(tmp_path: Path) -> None:
    relation = to_duckdb(appended(tmp_path))
    for query in (relation, relation.filter("id = 5"), relation.aggregate("count(*), sum(integer)")):
        assert "JOIN" not in query.explain().upper()


def wide_table(folder: Path, file_io: FileIO) -> FileStoreTable:
    """One file of 13 MB: eight columns of random numbers."""
    names = [f"c{number}" for number in range(8)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    table = FileStoreTable.create(folder / "t", build_schema(schema), file_io)
    source = random.Random(3)
    table.write(pa.table([[source.getrandbits(62) for _ in range(200_000)] for _ in names], schema=schema))
    return table


def test_a_query_reads_the_blocks_of_its_columns_once(tmp_path: Path, own: list[int]) -> None:
    file_io = CountingFileIO()
    table = wide_table(tmp_path, file_io)
    (path,) = (tmp_path / "t").rglob("data-*")
    found = []
    for columns in ("sum(c3)", ", ".join(f"sum(c{number})" for number in range(8))):
        relation = to_duckdb(table).aggregate(columns)
        before = file_io.bytes_read
        relation.fetchall()
        found.append(file_io.bytes_read - before)
    one, all_of_them = found
    assert own
    assert one < all_of_them / 2
    assert all_of_them < 1.3 * path.stat().st_size + 4 * BLOCK_BYTES  # and the footer a few times
