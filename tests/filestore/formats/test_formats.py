"""ORC and Avro data files: laid out as Flink lays them out, every type exactly, what they cannot hold refused."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any  # Any: Avro schemas and records are untyped, and values of any column

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.data.data_writer import file_fields
from lakelog.filestore.formats.avro.avro_writing import avro_schema
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES
from lakelog.filestore.formats.file_writing import create_data_file
from lakelog.filestore.formats.opening import open_data_file
from lakelog.filestore.formats.orc.orc_writing import orc_schema
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema, number_fields
from lakelog.filestore.schema.schema import TableSchema
from tests.support.examples import examples
from tests.support.files.local_files import local_file
from tests.support.tables.column_types import column_types, exact_rows, fields_of, tables
from tests.support.tables.paimon_tables import unpack

IO = LocalFileIO(sync_data=False)


def fields_named(types: dict[str, Any]) -> list[DataField]:
    return list(number_fields([DataField(id=0, name=name, type=parse_type(kind)) for name, kind in types.items()])[0])


def write(path: str, table: pa.Table, fields: list[DataField], compression: str = "zstd") -> tuple[int, bytes]:
    """Write a data file, and give its size and its checksums."""
    with create_data_file(IO, path, fields, compression=compression, compression_level=1) as writer:
        for start in range(0, max(1, table.num_rows), 5):
            writer.write(table.slice(start, 5))
        return writer.finish(), writer.checksums


def read(path: str, fields: list[DataField], written: tuple[int, bytes]) -> pa.Table:
    size, checksums = written
    with open_data_file(local_file(path, size_bytes=size, checksums=checksums)) as file:
        return pa.Table.from_batches(file.iter_batches(fields, batch_rows=3), to_arrow_schema(fields))


@pytest.fixture(scope="module")
def flinks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("pk_all_types", tmp_path_factory.mktemp("flink")) / "db.db"


def newest_file(table: Path, extension: str) -> tuple[TableSchema, bytes]:
    schema = TableSchema.from_json((table / "schema" / "schema-0").read_text(), path="schema-0")
    return schema, min(table.glob(f"bucket-*/*.{extension}")).read_bytes()


def test_avro_files_have_the_schema_that_flink_gives_them(flinks: Path) -> None:
    schema, data = newest_file(flinks / "types_avro", "avro")
    theirs = fastavro.reader(io.BytesIO(data)).writer_schema
    ours = fastavro.parse_schema(avro_schema(file_fields(schema)))
    assert plain(ours) == plain(theirs)


def plain(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if not key.startswith("__")}
    return [plain(part) for part in schema] if isinstance(schema, list) else schema


def test_orc_files_have_the_types_and_ids_that_flink_gives_them(flinks: Path, tmp_path: Path) -> None:
    schema, data = newest_file(flinks / "types_orc", "orc")
    fields = list(file_fields(schema))
    path = str(tmp_path / "x.orc")
    write(path, to_arrow_schema(fields).empty_table(), fields)
    theirs, ours = orc.ORCFile(io.BytesIO(data)).schema, orc.ORCFile(path).schema
    assert ours.to_string(show_field_metadata=True) == theirs.to_string(show_field_metadata=True)
    assert [field.nullable for field in orc_schema(fields)] == [field.type.nullable for field in fields]


def is_held(fields: list[DataField], extension: str) -> bool:
    """Whether tables of the format may have these columns."""
    try:
        build_schema(fields, options={"file.format": extension, "bucket": "-1"})
    except (InvalidRequestError, UnsupportedError):
        return False
    return True


@pytest.mark.parametrize("extension", ["orc", "avro"])
@settings(deadline=None, max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_type_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, extension: str, data: st.DataObject
) -> None:
    drawn = data.draw(fields_of(column_types, min_size=1, max_size=4))
    renamed = [DataField(id=0, name=f"c{index}", type=field.type) for index, field in enumerate(drawn)]
    assume(is_held(renamed, extension))
    fields = list(number_fields(renamed)[0])
    table = data.draw(tables(fields))
    path = str(tmp_path_factory.getbasetemp() / f"every_type.{extension}")
    try:
        written = write(path, table, fields, compression=data.draw(st.sampled_from(("zstd", "none", "gzip"))))
    except InvalidRequestError:
        assume("TIMESTAMP" not in str([str(field.type) for field in fields]))
        raise
    again = read(path, fields, written)
    assert again.schema == table.schema
    assert exact_rows(again) == exact_rows(table)


def test_an_independent_reader_of_avro_finds_the_values(tmp_path: Path) -> None:
    texts = {"n": "BIGINT NOT NULL", "d": "DECIMAL(20, 3)", "s": "STRING", "f": "FLOAT", "b": "BOOLEAN"}
    nested: dict[str, Any] = {
        "m": {"type": "MAP", "key": "STRING", "value": "INT"},
        "l": {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING"}},
        "r": {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "INT"}]},
    }
    fields = fields_named({**texts, **nested})
    rows: list[dict[str, Any]] = [
        {
            "n": -(1 << 63),
            "d": Decimal("-12345678901234567.891"),
            "s": "ü",
            "f": 0.5,
            "b": True,
            "m": {"a": 1, "b": None},
        }
        | {"l": [["x", None], None, []], "r": {"x": -1}},
        {"n": (1 << 63) - 1, "d": Decimal("0.001"), "s": "", "f": -1.5, "b": False, "m": {}, "l": [], "r": {"x": None}},
        {"n": 64} | dict.fromkeys("dsfbmlr"),
    ]
    given = [row | {"m": None if row["m"] is None else list(row["m"].items())} for row in rows]
    path = tmp_path / "x.avro"
    write(str(path), pa.Table.from_pylist(given, schema=to_arrow_schema(fields)), fields)
    assert list(fastavro.reader(io.BytesIO(path.read_bytes()))) == rows


@pytest.mark.parametrize(
    ("extension", "kind", "name", "says"),
    [
        ("orc", "CHAR(3)", "c", "remove the blanks"),
        ("avro", "TIMESTAMP(9)", "c", "Avro files hold microseconds"),
        ("avro", "TIMESTAMP_LTZ(7)", "c", "Avro files hold microseconds"),
        ("avro", {"type": "MULTISET", "element": "INT"}, "c", "elements are strings"),
        ("avro", "INT", "with space", "which Avro files cannot hold"),
        ("avro", {"type": "ROW", "fields": [{"id": 0, "name": "1", "type": "INT"}]}, "c", "cannot hold"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_when_the_table_is_made(
    extension: str, kind: Any, name: str, says: str
) -> None:
    fields = [DataField(id=0, name="id", type=parse_type("INT")), DataField(id=0, name=name, type=parse_type(kind))]
    with pytest.raises(UnsupportedError, match=says):
        build_schema(fields, primary_keys=["id"], options={"file.format": extension})
    with pytest.raises(UnsupportedError, match=says):
        build_schema(fields, primary_keys=["id"], options={"file.format.per.level": f"0:{extension}"})


@pytest.mark.parametrize("moment", [-1, -1_001, 9_300_000_000_000_000, -9_300_000_000_000_000])
def test_timestamps_that_orc_cannot_hold_are_refused_nested_too(tmp_path: Path, moment: int) -> None:
    kind = {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": "TIMESTAMP(6)"}}
    fields = fields_named({"t": kind})
    table = pa.Table.from_pylist([{"t": [(1, [0, None, moment])]}], schema=to_arrow_schema(fields))
    with pytest.raises(InvalidRequestError, match=r"column 't' holds the timestamp .* which ORC files cannot hold"):
        write(str(tmp_path / "x.orc"), table, fields)


def test_timestamps_of_local_time_do_not_depend_on_the_zone_of_the_machine() -> None:
    made = build_schema(
        pa.schema([("t", pa.timestamp("us", tz="UTC"))]), options={"file.format": "orc", "bucket": "-1"}
    )
    assert made.options["orc.timestamp-ltz.legacy.type"] == "false"


@pytest.mark.parametrize("extension", ["orc", "avro"])
def test_a_compression_that_a_format_lacks_is_refused(tmp_path: Path, extension: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"compression 'zip' is not known for"):
        write(str(tmp_path / f"x.{extension}"), pa.table({"c": [1]}), fields_named({"c": "BIGINT"}), compression="zip")


@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_a_file_of_many_blocks_is_verified_where_it_is_read(tmp_path: Path, extension: str) -> None:
    fields = fields_named({"a": "BIGINT", "b": "BINARY(200)"})
    values = [bytes([number % 251]) * 100 + number.to_bytes(100, "big") for number in range(20_000)]
    table = pa.table([pa.array(range(20_000), pa.int64()), pa.array(values, pa.binary())], names=["a", "b"])
    path = tmp_path / f"x.{extension}"
    with create_data_file(IO, str(path), fields, compression="none", compression_level=1) as writer:
        writer.write(table)
        written = (writer.finish(), writer.checksums)
    assert len(written[1]) == 4 * -(-written[0] // BLOCK_BYTES) > 8
    assert exact_rows(read(str(path), fields, written)) == exact_rows(table)
    data = bytearray(path.read_bytes())
    data[written[0] // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match="have the checksum"):
        read(str(path), fields, written)


@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_chunks_without_rows_are_written(tmp_path: Path, extension: str) -> None:
    """Filters leave them."""
    fields = fields_named({"a": "BIGINT"})
    empty, full = pa.chunked_array([[]], pa.int64()), pa.chunked_array([[1, 2], [], [3]], pa.int64())
    for name, column in (("empty", empty), ("first", pa.chunked_array([[], *full.chunks], pa.int64()))):
        table = pa.table([column], names=["a"])
        path = str(tmp_path / f"{name}.{extension}")
        with create_data_file(IO, path, fields, compression="zstd", compression_level=1) as writer:
            writer.write(table)
            writer.write(table.slice(0, 0))
            written = (writer.finish(), writer.checksums)
        assert read(path, fields, written)["a"].to_pylist() == column.to_pylist()


NESTED_ROWS: dict[str, tuple[str, list[Any]]] = {
    "row in a row": (
        "ROW<a ROW<x STRING, n INT>>",
        [{"a": {"x": "1", "n": 1}}, {"a": None}, {"a": {"x": "3", "n": 3}}],
    ),
    "rows in lists in a row": (
        "ROW<a ARRAY<ROW<x INT>>>",
        [{"a": [{"x": 1}, None, {"x": 5}]}, {"a": None}, {"a": [{"x": 2}, {"x": 3}]}],
    ),
    "three rows": (
        "ROW<a ROW<b ROW<x INT>>>",
        [{"a": {"b": {"x": 1}}}, {"a": {"b": None}}, {"a": None}, {"a": {"b": {"x": 4}}}],
    ),
    "rows in rows in a list": (
        "ARRAY<ROW<a ROW<x INT>>>",
        [[{"a": {"x": 1}}, {"a": None}], None, [{"a": {"x": 4}}, None, {"a": {"x": 6}}]],
    ),
    "rows in rows in a map": (
        "MAP<INT, ROW<a ROW<x INT>>>",
        [[(1, {"a": {"x": 1}}), (2, {"a": None})], None, [(3, {"a": {"x": 4}})]],
    ),
}


@pytest.mark.parametrize("extension", ["orc", "avro", "parquet"])
@pytest.mark.parametrize("kind", NESTED_ROWS)
def test_rows_in_rows_keep_their_values_behind_one_that_is_null(tmp_path: Path, kind: str, extension: str) -> None:
    """Arrow's writer of ORC shifts the values behind it, where the row around it is never null."""
    ddl, values = NESTED_ROWS[kind]
    fields = list(number_fields(parse_ddl(f"s {ddl}"))[0])
    table = pa.table([pa.array(values, to_arrow_schema(fields).field(0).type)], schema=to_arrow_schema(fields))
    path = str(tmp_path / f"x.{extension}")
    again = read(path, fields, write(path, table, fields))
    assert again.to_pylist() == [{"s": value} for value in values]
