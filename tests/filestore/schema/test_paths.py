"""Where files live: folder names of partitions are those that Flink made with Paimon."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakelog.common.types import DataField, parse_type
from lakelog.filestore.encoding.binary_row import StoredValue, serialize_row
from lakelog.filestore.schema.paths import FileNames, TablePaths, partition_path
from lakelog.filestore.schema.schema import TableSchema

TYPES = {"d": "DATE", "i": "INT", "b": "BOOLEAN", "l": "BIGINT", "ts": "TIMESTAMP(3)", "de": "DECIMAL(10, 2)"}


def schema_of(types: dict[str, str], **options: str) -> TableSchema:
    fields = tuple(
        DataField(id=index, name=name, type=parse_type(text)) for index, (name, text) in enumerate(types.items())
    )
    return TableSchema(
        id=0, fields=fields, highest_field_id=len(fields), partition_keys=tuple(types), options=dict(options)
    )


def path_of(types: dict[str, str], values: list[StoredValue], **options: str) -> str:
    schema = schema_of(types, **options)
    row = serialize_row([field.type for field in schema.partition_fields], values)
    assert partition_path(schema, values) == partition_path(schema, row)
    return partition_path(schema, row)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("2024-01-01", "2024-01-01"),
        ("x/y", "x%2Fy"),
        ("[s]", "%5Bs%5D"),
        ("back\\slash", "back%5Cslash"),
        ('dq"', "dq%22"),
        ("ü€", "ü€"),
        ("k=v", "k%3Dv"),
        ("tab\there", "tab%09here"),
        ("100%", "100%25"),
        ("a b", "a b"),
        ("q'uote", "q%27uote"),
        (".", "."),
        ("{b}", "%7Bb%7D"),
        ("h#a?s*h^", "h%23a%3Fs%2Ah%5E"),
        ("", "__DEFAULT_PARTITION__"),
        (" \t\u3000", "__DEFAULT_PARTITION__"),
        ("\xa0", "\xa0"),
        (None, "__DEFAULT_PARTITION__"),
    ],
)
def test_a_text_partition_is_escaped_as_paimon_escapes_it(text: str | None, folder: str) -> None:
    assert path_of({"region": "STRING"}, [text]) == f"region={folder}/"


def test_values_have_their_older_names_by_default() -> None:
    row: list[StoredValue] = [19_782, -5, True, 12_345_678_901, 1_704_164_645_678, Decimal("-12.50")]
    assert path_of(TYPES, row) == "d=19782/i=-5/b=true/l=12345678901/ts=2024-01-02T03%3A04%3A05.678/de=-12.50/"
    row = [-1, 0, False, 0, 1_704_164_640_000, Decimal("0.00")]
    assert path_of(TYPES, row) == "d=-1/i=0/b=false/l=0/ts=2024-01-02T03%3A04/de=0.00/"


def test_values_have_their_sql_names_where_the_option_says_so() -> None:
    row: list[StoredValue] = [-1, 0, False, 0, 1_704_164_640_000, Decimal("0.00")]
    path = path_of(TYPES, row, **{"partition.legacy-name": "false"})
    assert path == "d=1969-12-31/i=0/b=false/l=0/ts=2024-01-02 03%3A04%3A00.000/de=0.00/"
    types = {"t": "TIME(3)", "u": "TIME(0)", "l": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    path = path_of(types, [86_399_001, 3_600_000, -1], **{"partition.legacy-name": "false"})
    assert path == "t=23%3A59%3A59.001/u=01%3A00%3A00/l=1969-12-31 23%3A59%3A59.999999/"
    assert path_of(types, [86_399_001, 3_600_000, -1]) == "t=86399001/u=3600000/l=1969-12-31T23%3A59%3A59.999999/"


@pytest.mark.parametrize(
    ("kind", "value", "folder"),
    [
        ("FLOAT", float("nan"), "NaN"),
        ("DOUBLE", float("inf"), "Infinity"),
        ("FLOAT", float("-inf"), "-Infinity"),
        ("DOUBLE", -0.0, "-0.0"),
        ("DOUBLE", 1e-300, "1.0E-300"),
        ("DOUBLE", 9.99e-4, "9.99E-4"),
        ("DOUBLE", 0.001, "0.001"),
        ("DOUBLE", 9999999.5, "9999999.5"),
        ("DOUBLE", -1234567890123.25, "-1.23456789012325E12"),
        ("FLOAT", 0.10000000149011612, "0.1"),
        ("FLOAT", 9999999.0, "9999999.0"),
        ("FLOAT", 1e7, "1.0E7"),
        ("FLOAT", 25e9, "2.5E10"),
        ("FLOAT", 1e-38, "1.0E-38"),
    ],
)
def test_a_float_is_named_as_java_prints_it(kind: str, value: float, folder: str) -> None:
    assert path_of({"f": kind}, [value]) == f"f={folder}/"
    assert path_of({"f": kind}, [value], **{"partition.legacy-name": "false"}) == f"f={folder}/"


def test_a_time_is_named_without_zeros_at_its_end() -> None:
    options = {"partition.legacy-name": "false"}
    assert path_of({"t": "TIME(3)", "u": "TIME(3)"}, [0, 47_277_390], **options) == (
        "t=00%3A00%3A00.0/u=13%3A07%3A57.39/"
    )
    assert path_of({"t": "TIME(3)", "u": "TIME(2)"}, [100_500, 86_399_990], **options) == (
        "t=00%3A01%3A40.5/u=23%3A59%3A59.99/"
    )


def test_an_unpartitioned_table_has_no_partition_folder() -> None:
    schema = TableSchema(id=0, fields=(), highest_field_id=0)
    assert partition_path(schema, bytes(12)) == ""
    paths = TablePaths("/lake/db.db/t")
    assert paths.data_file("", 3, "data-x.parquet") == "/lake/db.db/t/bucket-3/data-x.parquet"
    assert paths.data_file("dt=1/", -2, "x") == "/lake/db.db/t/dt=1/bucket-postpone/x"


def test_names_of_one_writer_never_repeat() -> None:
    names = FileNames("u")
    made = [
        names.data_file("parquet"),
        names.data_file("orc", prefix="c-"),
        names.manifest(b""),
        names.index_file(b"x"),
    ]
    assert made == [
        "data-u-0.parquet",
        "c-u-1.orc",
        "manifest-u-2-blake2b-cae66941d9efbd404e4d88758ea67670",
        "index-u-3-blake2b-442a44457137672b3218c1007dc8f76a",
    ]
    assert FileNames().uuid != FileNames().uuid
