"""Parquet data files: every type exactly, damage seen, columns pruned."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_schema, to_arrow_type
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot, parse_type
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.formats.parquet.parquet_fetching import fetches_of, ranges_of
from lakelog.filestore.formats.parquet.parquet_writing import ParquetWriter, write_parquet
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import number_fields
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_rules import check_types
from tests.support.examples import examples
from tests.support.files.local_files import local_file, read_parquet
from tests.support.tables.column_types import column_types, exact_rows, fields_of, tables
from tests.support.tables.paimon_tables import unpack

IO = LocalFileIO(sync_data=False)
ROW: dict[str, object] = {
    "type": "ROW",
    "fields": [
        {"id": 0, "name": "x", "type": "INT NOT NULL"},
        {"id": 0, "name": "y", "type": {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "INT"}}},
    ],
}
TYPES = {
    "id": ("BIGINT NOT NULL", "required int64 field_id=0 id"),
    "b": ("BOOLEAN", "optional boolean field_id=1 b"),
    "i1": ("TINYINT", "optional int32 field_id=2 i1 (Int(bitWidth=8, isSigned=true))"),
    "i2": ("SMALLINT", "optional int32 field_id=3 i2 (Int(bitWidth=16, isSigned=true))"),
    "i4": ("INT", "optional int32 field_id=4 i4"),
    "f": ("FLOAT", "optional float field_id=5 f"),
    "d": ("DOUBLE", "optional double field_id=6 d"),
    "d9": ("DECIMAL(9, 2)", "optional int32 field_id=7 d9 (Decimal(precision=9, scale=2))"),
    "d18": ("DECIMAL(18, 4)", "optional int64 field_id=8 d18 (Decimal(precision=18, scale=4))"),
    "d20": ("DECIMAL(20, 0)", "optional fixed_len_byte_array(9) field_id=9 d20 (Decimal(precision=20, scale=0))"),
    "s": ("CHAR(3)", "optional binary field_id=10 s (String)"),
    "y": ("BINARY(3)", "optional binary field_id=11 y"),
    "da": ("DATE", "optional int32 field_id=12 da (Date)"),
    "ti": ("TIME(0)", "optional int32 field_id=13 ti (Time(isAdjustedToUTC=true, timeUnit=milliseconds))"),
    "t0": ("TIMESTAMP(0)", "optional int64 field_id=14 t0 (Timestamp(isAdjustedToUTC=false, timeUnit=milliseconds,"),
    "t3": ("TIMESTAMP(3)", "optional int64 field_id=15 t3 (Timestamp(isAdjustedToUTC=false, timeUnit=milliseconds,"),
    "t6": ("TIMESTAMP(6)", "optional int64 field_id=16 t6 (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds,"),
    "l6": ("TIMESTAMP_LTZ(6)", "optional int64 field_id=17 l6 (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds,"),
}


def fields_named(types: Mapping[str, Any]) -> list[DataField]:
    return list(number_fields([DataField(id=0, name=name, type=parse_type(text)) for name, text in types.items()])[0])


def test_types_have_the_physical_forms_of_the_format(tmp_path: Path) -> None:
    fields = fields_named({name: text for name, (text, _) in TYPES.items()})
    path = str(tmp_path / "x.parquet")
    size = write_parquet(IO, path, to_arrow_schema(fields).empty_table(), fields)
    lines = str(pq.ParquetFile(path).schema).splitlines()
    assert size == Path(path).stat().st_size
    for name, (_, form) in TYPES.items():
        assert any(line.strip().startswith(form) for line in lines), f"{name}: {lines}"


def test_nested_types_have_the_physical_forms_and_ids_of_the_format(tmp_path: Path) -> None:
    kinds: dict[str, dict[str, object]] = {
        "a": {"type": "ARRAY", "element": ROW},
        "m": {"type": "MULTISET", "element": "STRING"},
    }
    fields = list(number_fields([DataField(id=0, name=n, type=parse_type(k)) for n, k in kinds.items()])[0])
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, to_arrow_schema(fields).empty_table(), fields)
    schema = str(pq.ParquetFile(path).schema)
    for form in (
        "optional group field_id=0 a (List)",
        "optional group field_id=536870912 element",
        "required int32 field_id=1 x",
        "optional group field_id=2 y (Map)",
        "required binary field_id=536868862 key (String)",
        "optional group field_id=536872960 value (List)",
        "optional int32 field_id=536872961 element",
        "required binary field_id=536867838 key (String)",
        "required int32 field_id=536873984 value",
    ):
        assert form in schema, schema


def test_nanoseconds_are_int96(tmp_path: Path) -> None:
    fields = fields_named({"t9": "TIMESTAMP(9)", "t6": "TIMESTAMP(6)", "t0": "TIMESTAMP_LTZ(0)"})
    moment = datetime(1, 1, 1)
    table = pa.table(
        [
            pa.array([-1, 1 << 62, None], pa.timestamp("ns")),
            pa.array([moment, datetime(9999, 12, 31, 23, 59, 59, 999_999), None], pa.timestamp("us")),
            pa.array([moment, datetime(9999, 12, 31), None], pa.timestamp("s", tz="UTC")),
        ],
        schema=to_arrow_schema(fields),
    )
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields)
    assert str(pq.ParquetFile(path).schema).count("optional int96") == 3
    assert read_parquet(path, fields).equals(table)
    with ParquetFile(local_file(path)) as file:
        assert pa.Table.from_batches(file.iter_batches(fields, batch_rows=2)).equals(table)


def _is_written(fields: list[DataField]) -> bool:
    """Whether a table may have these columns."""
    try:
        check_types(fields)
    except UnsupportedError:
        return False
    return True


def _may_have_far_moments(fields: list[DataField]) -> bool:
    """Whether rows may hold timestamps that the file's unit cannot hold."""
    return "TIMESTAMP" in str([str(column.type) for column in fields])


@settings(
    deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(data=st.data())
def test_every_type_is_read_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    drawn = data.draw(fields_of(column_types, min_size=1, max_size=4).filter(_is_written))
    fields = list(number_fields(drawn)[0])
    table = data.draw(tables(fields))
    path = str(tmp_path_factory.getbasetemp() / "every_type.parquet")
    try:
        write_parquet(IO, path, table, fields)
    except InvalidRequestError:
        assume(not _may_have_far_moments(fields))
        raise
    again = read_parquet(path, fields)
    assert again.schema == table.schema
    assert exact_rows(again) == exact_rows(table)


def test_the_files_that_flink_wrote_are_read(tmp_path: Path) -> None:
    folder = unpack("pk_basic", tmp_path) / "db.db" / "pk_basic"
    schema = TableSchema.from_json((folder / "schema" / "schema-0").read_text(), path="schema-0")
    tables_read = [read_parquet(path, schema.fields) for path in sorted(folder.glob("bucket-*/*.parquet"))]
    assert sum(table.num_rows for table in tables_read) == 33
    assert all(table.schema == schema.arrow_schema for table in tables_read)


def sample() -> tuple[pa.Table, list[DataField]]:
    fields = fields_named({"id": "INT NOT NULL", "v": "STRING", "x": "DOUBLE"})
    count = 3_000
    table = pa.table(
        [pa.array(range(count), pa.int32()), [f"value {index % 500}" for index in range(count)], [0.5] * count],
        schema=to_arrow_schema(fields),
    )
    return table, fields


def test_a_flipped_bit_never_gives_wrong_rows(tmp_path: Path) -> None:
    table, fields = sample()
    path = tmp_path / "x.parquet"
    write_parquet(IO, str(path), table, fields)
    good = path.read_bytes()
    unseen = 0
    for at in range(4, len(good), len(good) // 150):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        with contextlib.suppress(CorruptDataError):
            assert read_parquet(path, fields).equals(table), f"byte {at} of {len(good)}"
            unseen += 1
    assert unseen < 50  # bytes that say nothing of the rows: statistics, names of the writer


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_short_file_is_corrupt(tmp_path: Path, keep: int) -> None:
    table, fields = sample()
    path = tmp_path / "x.parquet"
    write_parquet(IO, str(path), table, fields)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptDataError, match=r"x\.parquet is damaged: it is not readable"):
        read_parquet(path, fields)


def test_columns_and_row_groups_are_read_alone(tmp_path: Path) -> None:
    table, fields = sample()
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields, row_group_bytes=table.nbytes // 3)
    with ParquetFile(local_file(path)) as file:
        assert file.row_count == sum(rows for rows, _ in file.row_groups) == 3_000
        assert len(file.row_groups) >= 3
        assert file.names == ["id", "v", "x"]
        assert file.read([fields[2], fields[0]]).equals(table.select(["x", "id"]))
        first = file.row_groups[0][0]
        assert file.read(fields[:1], row_groups=[0]).equals(table.select(["id"]).slice(0, first))
        batches = list(file.iter_batches(fields, batch_rows=1_000))
        assert max(batch.num_rows for batch in batches) <= 1_000
        assert pa.Table.from_batches(batches).equals(table)
        assert pa.Table.from_batches(file.iter_batches(fields[:1], row_groups=[1])).num_rows == file.row_groups[1][0]


def test_a_column_in_few_blocks_of_a_row_group_is_fetched_alone(tmp_path: Path) -> None:
    fields = [DataField(id=number, name=f"c{number}", type=DataType(root=TypeRoot.BIGINT)) for number in range(6)]
    values = pa.array(np.random.default_rng(3).integers(0, 1 << 62, 130_000))
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, pa.table([values] * 6, schema=to_arrow_schema(fields)), fields, row_group_bytes=64 << 20)
    with ParquetFile(local_file(path)) as file:
        assert next(fetches_of(file.footer.metadata, ["c3"], [0], 64 << 20)).span is None


def test_a_name_with_a_dot_is_a_column_and_no_path(tmp_path: Path) -> None:
    """Beside nanoseconds all timestamps are INT96, which says nothing of their digits; `a` has a member `b` too."""
    row = {"type": "ROW", "fields": [{"id": 1, "name": "b", "type": "TIMESTAMP(3)"}]}
    fields = fields_named({"a": row, "a.b": "TIMESTAMP(3)", ".": "TIMESTAMP(3)", "n": "TIMESTAMP(9)", "x": "INT"})
    far, count = datetime(9999, 12, 31), 3_000
    columns: list[list[object]] = [[{"b": far}] * count, [far] * count, [far] * count, [None] * count, [7] * count]
    table = pa.table([pa.array(values, to_arrow_type(one.type)) for values, one in zip(columns, fields, strict=True)],
                     schema=to_arrow_schema(fields))  # fmt: skip
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields)
    with ParquetFile(local_file(path)) as file:
        assert file.footer.int96_columns == {"a", "a.b", ".", "n"}
        assert file.read(fields).equals(table)
        for field in fields:
            assert file.read([field]).equals(table.select([field.name]))
            found = ranges_of(file.footer.metadata, [field.name], [0])
            assert sum(end - start for start, end in found) > 0


def test_row_groups_are_fetched_together_as_far_as_they_fit(tmp_path: Path) -> None:
    table, fields = sample()
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields, row_group_bytes=table.nbytes // 3)
    with ParquetFile(local_file(path)) as file:
        names, groups = file.names, list(range(len(file.row_groups)))
        (whole,) = fetches_of(file.footer.metadata, names, groups, 64 << 20)
        assert whole.groups == groups
        assert whole.span is not None
        assert whole.span[0] == 4  # behind the magic bytes, up to the footer
        assert whole.span[1] <= IO.size(path) - file.footer.metadata.serialized_size
        parts = list(fetches_of(file.footer.metadata, names, groups, 1))
        assert [part.groups for part in parts] == [[group] for group in groups]
        assert all(part.buffer_bytes and part.span is None for part in parts)
        apart = list(fetches_of(file.footer.metadata, names, [0, 2], 64 << 20))
        assert [part.groups for part in apart] == [[0], [2]]
        one_column = next(fetches_of(file.footer.metadata, names[:1], groups, 64 << 20))
        assert one_column.span is not None  # it is in all blocks of the file
        assert pa.Table.from_batches(file.iter_batches(fields, fetch_bytes=1)).equals(table)


def test_rows_may_come_in_pieces(tmp_path: Path) -> None:
    table, fields = sample()
    path = str(tmp_path / "x.parquet")
    with ParquetWriter(IO, path, fields) as writer:
        writer.write(table.slice(0, 10))
        writer.write(table.slice(10))
        size = writer.finish()
    assert size == IO.size(path)
    assert read_parquet(path, fields).equals(table)


def test_decimals_in_bytes_get_no_dictionary_in_which_java_would_not_find_them(tmp_path: Path) -> None:
    kinds = {18: True, 19: False, 38: False}
    fields, _ = number_fields(
        [
            DataField(id=0, name=f"d{digits}", type=DataType(root=TypeRoot.DECIMAL, precision=digits, scale=2))
            for digits in kinds
        ]
    )
    schema = to_arrow_schema(fields)
    path = str(tmp_path / "x.parquet")
    values = [Decimal("1234567.00"), None] * 50
    write_parquet(IO, path, pa.table([pa.array(values, field.type) for field in schema], schema=schema), fields)
    group = pq.read_metadata(path).row_group(0)
    assert [group.column(index).has_dictionary_page for index in range(3)] == list(kinds.values())


def test_repetitive_columns_get_a_dictionary_and_integers_are_delta_packed(tmp_path: Path) -> None:
    fields = fields_named({"kind": "TINYINT", "id": "BIGINT", "city": "STRING", "note": "STRING"})
    count = 20_000
    table = pa.table(
        [
            pa.array([0] * count, pa.int8()),
            range(count),
            [f"city {index % 50}" for index in range(count)],
            [f"note {index}" for index in range(count)],
        ],
        schema=to_arrow_schema(fields),
    )
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields)
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(index) for index in range(4)]
    assert [column.has_dictionary_page for column in columns] == [True, False, True, False]
    assert ["DELTA_BINARY_PACKED" in column.encodings for column in columns] == [False, True, False, False]


@pytest.mark.parametrize("compression", ["zstd", "lz4", "gzip"])
def test_columns_that_do_not_shrink_are_not_compressed(tmp_path: Path, compression: str) -> None:
    rng = np.random.default_rng(7)
    count = 40_000
    numbers = pa.array(rng.random(count))
    notes = pa.array([f"the row of number {number}" for number in rng.integers(0, 1 << 20, count)])
    nested = pa.StructArray.from_arrays([numbers, notes], names=["inner", "text"])
    inner = [{"id": 0, "name": "inner", "type": "DOUBLE"}, {"id": 1, "name": "text", "type": "STRING"}]
    kinds: dict[str, Any] = {
        "number": "DOUBLE",
        "note": "STRING",
        "whole": "BIGINT",
        "both": {"type": "ROW", "fields": inner},
        "numbers": {"type": "ARRAY", "element": "DOUBLE"},
    }
    fields = fields_named(kinds)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(count + 1), pa.int32()), numbers)
    wholes = pa.array(rng.integers(0, 1 << 60, count))
    table = pa.table([numbers, notes, wholes, nested, lists], schema=to_arrow_schema(fields))
    write_parquet(IO, str(tmp_path / "f"), table, fields, compression=compression)
    assert read_parquet(tmp_path / "f", fields).equals(table)
    group = pq.ParquetFile(tmp_path / "f").metadata.row_group(0)
    codecs = {group.column(place).path_in_schema: group.column(place).compression for place in range(group.num_columns)}
    text = "LZ4" if compression == "lz4" else compression.upper()
    assert codecs == {
        "number": "UNCOMPRESSED",
        "note": text,
        "whole": "UNCOMPRESSED",
        "both.inner": "UNCOMPRESSED",
        "both.text": text,
        "numbers.list.element": "UNCOMPRESSED",
    }


def test_a_null_in_a_column_that_must_not_have_one_is_named(tmp_path: Path) -> None:
    fields = fields_named({"id": "INT NOT NULL"})
    with pytest.raises(InvalidRequestError, match="column 'id' is NOT NULL and has 1 null"):
        write_parquet(IO, str(tmp_path / "x"), pa.table({"id": pa.array([1, None], pa.int32())}), fields)


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    fields = fields_named({"id": "INT"})
    with pytest.raises(InvalidRequestError, match="do not fit the columns of"):
        write_parquet(IO, str(tmp_path / "x"), pa.table({"other": [1]}), fields)


def test_an_unknown_compression_is_named(tmp_path: Path) -> None:
    table, fields = sample()
    with pytest.raises(InvalidRequestError, match=r"file\.compression 'zip' is not known"):
        write_parquet(IO, str(tmp_path / "x"), table, fields, compression="zip")
    for compression in ("snappy", "gzip", "lz4", "none"):
        write_parquet(IO, str(tmp_path / compression), table, fields, compression=compression)
        assert read_parquet(tmp_path / compression, fields).equals(table)


def test_a_missing_column_or_file_or_another_type_is_named(tmp_path: Path) -> None:
    table, fields = sample()
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields)
    with pytest.raises(CorruptDataError, match=r"lacks the column 'w'; it has id, v, x"):
        read_parquet(path, fields_named({"w": "INT"}))
    with pytest.raises(CorruptDataError, match=r"column 'v' of .* has the type string, expected int32 for INT"):
        read_parquet(path, fields_named({"v": "INT"}))
    with pytest.raises(NotFoundError, match="y does not exist"):
        read_parquet(tmp_path / "y", fields)


@pytest.mark.parametrize("year", [1, 1500, 9999])
def test_timestamps_that_nanoseconds_cannot_hold_are_an_error(tmp_path: Path, year: int) -> None:
    path = str(tmp_path / "x.parquet")
    moments = pa.table({"t": pa.array([None, datetime(2024, 1, 1), datetime(year, 1, 1)], pa.timestamp("us"))})
    pq.write_table(moments, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedError, match=r"column 't' of .* holds timestamps before 1677 or after 2262"):
        read_parquet(path, fields_named({"t": "TIMESTAMP(9)"}))
    assert read_parquet(path, fields_named({"t": "TIMESTAMP(6)"})).column("t").equals(moments.column("t"))


def test_nan_and_zeros_keep_their_bits(tmp_path: Path) -> None:
    fields = [DataField(id=0, name="x", type=DataType(root=TypeRoot.DOUBLE))]
    table = pa.table({"x": [0.0, -0.0, math.nan, math.inf, -math.inf]}, schema=to_arrow_schema(fields))
    path = str(tmp_path / "x.parquet")
    write_parquet(IO, path, table, fields)
    again = read_parquet(path, fields)
    bits = [rows.column("x").combine_chunks().view(pa.int64()).to_pylist() for rows in (table, again)]
    assert bits[0] == bits[1]


def test_a_remembered_footer_does_not_hide_that_a_file_is_another(tmp_path: Path) -> None:
    fields = fields_named({"id": "BIGINT"})
    tables = [pa.table({"id": pa.array(range(start, start + 1_000))}) for start in (1_000, 5_000)]
    paths, checksums = [str(tmp_path / "a"), str(tmp_path / "b")], []
    for path, table in zip(paths, tables, strict=True):
        with ParquetWriter(IO, path, fields) as writer:
            writer.write(table)
            writer.finish()
            checksums.append(writer.checksums)
    with ParquetFile(local_file(paths[0], checksums=checksums[0])) as file:
        assert file.read(fields).equals(tables[0])
    Path(paths[1]).replace(paths[0])
    with (
        ParquetFile(local_file(paths[0], checksums=checksums[0])) as file,
        pytest.raises(CorruptDataError, match="checksum"),
    ):
        file.read(fields)
    with ParquetFile(local_file(paths[0], checksums=checksums[1])) as file:
        assert file.read(fields).equals(tables[1])
        assert [str(bounds.to_pylist()) for bounds in file.bounds_of(fields[0]) if bounds] == ["[5000, 5999]"]
    with ParquetFile(local_file(paths[0])) as file:
        assert [str(bounds.to_pylist()) for bounds in file.bounds_of(fields[0]) if bounds] == ["[5000, 5999]"]


@pytest.mark.parametrize("shape", ["plain", "nested"])
def test_timestamps_before_the_days_of_int96_are_refused(tmp_path: Path, shape: str) -> None:
    """Arrow would read them back as others: it takes days without a sign."""
    coarse = DataType(root=TypeRoot.TIMESTAMP, precision=5)
    if shape == "nested":
        coarse = DataType(root=TypeRoot.MULTISET, element=DataType(root=TypeRoot.ARRAY, element=coarse))
    fine = DataType(root=TypeRoot.TIMESTAMP, precision=9)
    fields = [DataField(id=0, name="fine", type=fine), DataField(id=1, name="coarse", type=coarse)]
    schema = to_arrow_schema(fields)

    def rows(micros: int) -> pa.Table:
        value = micros if shape == "plain" else [([micros], 1)]
        return pa.table(
            [pa.nulls(2, schema.field(0).type), pa.array([value, None], schema.field(1).type)], schema=schema
        )

    path = tmp_path / "x.parquet"
    first = -210866716800000000
    for micros in (first - 1, -359893188798188799):
        with pytest.raises(InvalidRequestError, match=r"column 'coarse' holds the timestamp -.*from the year -4712 on"):
            write_parquet(IO, str(path), rows(micros), fields)
        assert not path.exists()
    write_parquet(IO, str(path), rows(first), fields)
    assert read_parquet(path, fields).equals(rows(first))


def test_a_timestamp_that_int96_has_no_day_for_is_refused(tmp_path: Path) -> None:
    fields = fields_named({"fine": "TIMESTAMP(9)", "coarse": "TIMESTAMP(3)"})
    schema = to_arrow_schema(fields)
    path = str(tmp_path / "x.parquet")
    columns = [
        pa.array([0], pa.int64()).cast(schema.field(0).type),
        pa.array([-(1 << 63) + 1]).cast(schema.field(1).type),
    ]
    with pytest.raises(InvalidRequestError, match=r"the rows do not fit the columns of .*x\.parquet: .*out of bounds"):
        write_parquet(IO, path, pa.table(columns, schema=schema), fields)
    assert not (tmp_path / "x.parquet").exists()
