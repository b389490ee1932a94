"""Schemas: the file, the manager, and what a new table may be."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    OptionError,
    UnsupportedError,
)
from lakelog.common.options import Option
from lakelog.common.types import DataField, DataType, TypeRoot, parse_type
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.options.files import FileFormat
from lakelog.filestore.options.layout import BucketFunction
from lakelog.filestore.schema.new_schema import build_schema, number_fields
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager
from tests.support.tables.column_types import column_types, fields_of
from tests.support.tables.paimon_tables import unpack

COLUMNS = pa.schema(
    [
        pa.field("dt", pa.string()),
        pa.field("id", pa.int64()),
        pa.field("sub", pa.int32()),
        pa.field("v", pa.float64()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def test_the_schema_that_flink_wrote_is_read(tmp_path: Path) -> None:
    folder = unpack("pk_basic", tmp_path) / "db.db" / "pk_basic"
    schema = SchemaManager(LocalFileIO(), TablePaths(str(folder))).latest()
    assert schema is not None
    assert [f"{column.id} {column.name} {column.type}" for column in schema.fields] == [
        "0 id BIGINT NOT NULL",
        "1 name STRING",
        "2 qty INT",
        "3 price DOUBLE",
    ]
    assert schema.primary_keys == schema.trimmed_primary_keys == schema.bucket_keys == ("id",)
    assert schema.bucket_count == 2
    assert schema.file_format is FileFormat.PARQUET
    assert schema.time_millis == 1_795_207_827_113
    given = json.loads((folder / "schema" / "schema-0").read_text())
    written = json.loads(schema.to_json())
    assert len(written.pop("lakelogDigest")) == 32
    assert written == given


@settings(deadline=None)
@given(fields=fields_of(column_types, min_size=1, max_size=6), comment=st.none() | st.text())
def test_every_schema_is_read_back_as_it_was(fields: list[DataField], comment: str | None) -> None:
    numbered, highest = number_fields(fields)
    schema = TableSchema(
        id=3, fields=numbered, highest_field_id=highest, options={"bucket": "2", "x": "é"}, comment=comment
    )
    assert TableSchema.from_json(schema.to_json(), path="schema-3") == schema
    ids = [part for column in numbered for part in _ids(column)]
    assert sorted(ids) == list(range(highest + 1))


def _ids(column: DataField) -> list[int]:
    kind = column.type
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    nested = [part for kind in inner for field in _members(kind) for part in _ids(field)]
    return [column.id, *nested, *(part for member in kind.fields for part in _ids(member))]


def _members(kind: object) -> list[DataField]:
    """The members of a type that is not a column itself, wrapped ones too."""
    assert hasattr(kind, "fields")
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]  # type: ignore[attr-defined]
    return [*kind.fields, *(field for part in inner for field in _members(part))]


def test_field_ids_are_given_in_paimons_order() -> None:
    row = {"type": "ROW", "fields": [{"id": 0, "name": "k", "type": "STRING"}, {"id": 0, "name": "v", "type": "INT"}]}
    deep = {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "m", "type": {"type": "MAP", "key": "STRING", "value": "INT"}},
            {"id": 0, "name": "r", "type": row},
        ],
    }
    kinds = [parse_type("INT"), parse_type({"type": "ARRAY", "element": row}), parse_type(deep), parse_type("INT")]
    numbered, highest = number_fields([DataField(id=0, name=f"c{n}", type=kind) for n, kind in enumerate(kinds)])
    assert [column.id for column in numbered] == [0, 1, 4, 9]
    assert highest == 9
    element = numbered[1].type.element
    assert element is not None
    assert [member.id for member in element.fields] == [2, 3]
    assert [member.id for member in numbered[2].type.fields] == [5, 8]
    assert [member.id for member in numbered[2].type.fields[1].type.fields] == [6, 7]


def test_a_new_table_has_one_bucket_and_keys_that_are_not_null() -> None:
    schema = build_schema(COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], comment="c", time_millis=7)
    assert schema.options == {"bucket": "1"}
    assert [str(column.type) for column in schema.fields[:3]] == ["STRING NOT NULL", "BIGINT NOT NULL", "INT"]
    assert schema.trimmed_primary_keys == ("id",)
    assert [column.name for column in schema.partition_fields] == ["dt"]
    assert [column.name for column in schema.bucket_fields] == ["id"]
    assert schema.bucket_function is BucketFunction.DEFAULT
    assert (schema.id, schema.version, schema.comment, schema.time_millis) == (0, 3, "c", 7)
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_keys_may_be_given_as_options() -> None:
    options = {"primary-key": "dt, id", "partition": "dt", "bucket": "4"}
    schema = build_schema(COLUMNS, options=options)
    assert (schema.primary_keys, schema.partition_keys, schema.options) == (("dt", "id"), ("dt",), {"bucket": "4"})


@pytest.mark.parametrize(
    ("key", "value", "stored_key", "stored"),
    [
        ("bucket-key", "ID , Sub", "bucket-key", "id,sub"),
        ("bucket-key", "id , sub", "bucket-key", "id , sub"),
        ("sequence.field", "SUB,V", "sequence.field", "sub,v"),
        ("rowkind.field", "DT", "rowkind.field", "dt"),
        ("fields.V.aggregate-function", "sum", "fields.v.aggregate-function", "sum"),
        ("fields.SUB.sequence-group", "V,Tags", "fields.sub.sequence-group", "v,tags"),
        ("partition.timestamp-pattern", "$DT $Hour:00:00", "partition.timestamp-pattern", "$dt $Hour:00:00"),
        (
            "changelog-producer.row-deduplicate-ignore-fields",
            "V",
            "changelog-producer.row-deduplicate-ignore-fields",
            "v",
        ),
    ],
)
def test_options_name_columns_in_any_case_and_are_stored_in_the_columns_own(
    key: str, value: str, stored_key: str, stored: str
) -> None:
    schema = build_schema(COLUMNS, options={"bucket": "2", key: value})
    assert schema.options[stored_key] == stored
    assert schema.options.keys() == {"bucket", "bucket-key", stored_key}


def test_without_a_key_the_whole_row_is_the_bucket_key() -> None:
    assert build_schema(COLUMNS, options={"bucket": "2"}).bucket_keys == ("dt", "id", "sub", "v")
    unaware = build_schema(COLUMNS, options={"bucket": "-1"})
    assert (unaware.bucket_count, unaware.bucket_keys) == (-1, ())


def test_options_of_other_parts_are_declared_by_the_caller() -> None:
    log = Option(key="log.system", parse=str, default="none", doc="")
    options = {"log.system": "kafka", "log.kafka.x": "1", "fields.v.aggregate-function": "sum"}
    schema = build_schema(COLUMNS, options=options, also=[log], also_prefixes=["log.kafka."])
    assert schema.options["log.kafka.x"] == "1"
    with pytest.raises(OptionError, match=r"unknown option 'log\.system'"):
        build_schema(COLUMNS, options={"log.system": "kafka"})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"options": {"bukcet": "1"}}, OptionError, "unknown option 'bukcet'; did you mean 'bucket'"),
        ({"options": {"bucket": "0"}}, OptionError, "'bucket' has the value '0'; expected a positive number"),
        ({"options": {"file.format": "csv"}}, OptionError, "expected parquet, orc or avro"),
        ({"options": {"target-file-size": "12 qb"}}, OptionError, "unknown unit 'qb'"),
        (
            {"primary_keys": ["idd"]},
            InvalidRequestError,
            "primary_keys: column 'idd' does not exist; the columns are dt",
        ),
        ({"primary_keys": ["id", "id"]}, InvalidRequestError, "primary_keys names the column 'id' twice"),
        ({"primary_keys": 5}, InvalidRequestError, "primary_keys takes a column name or a list of them, found 5"),
        ({"primary_keys": ["tags"]}, InvalidRequestError, "'tags' has the type ARRAY<STRING>; keys must have atomic"),
        ({"primary_keys": ["id"], "partition_keys": ["dt"]}, InvalidRequestError, "must contain the partition columns"),
        ({"primary_keys": ["dt"], "partition_keys": ["dt"]}, InvalidRequestError, "a column that is not a partition"),
        ({"partition_keys": ["v"]}, UnsupportedError, "partition column 'v' has the type DOUBLE"),
        (
            {"primary_keys": ["id"], "options": {"primary-key": "id"}},
            InvalidRequestError,
            "given twice, as an argument and as an option",
        ),
        ({"primary_keys": ["id"], "options": {"bucket": "-2"}}, UnsupportedError, "bucket=-2 are not written yet"),
        (
            {"primary_keys": ["id"], "options": {"bucket": "-1", "bucket-key": "id"}},
            InvalidRequestError,
            "takes no bucket-key",
        ),
        ({"options": {"dynamic-bucket.max-buckets": "0"}}, InvalidRequestError, "from 1 to 32767, or -1 for none"),
        ({"primary_keys": ["id"], "options": {"bucket-key": "sub"}}, InvalidRequestError, "is not in the primary key"),
        ({"options": {"bucket-key": "tags"}}, InvalidRequestError, "'tags' has the type"),
        ({"options": {"bucket-key": "gone"}}, InvalidRequestError, "column 'gone' does not exist"),
        ({"options": {"bucket": "-1", "bucket-key": "id"}}, InvalidRequestError, "takes no bucket-key"),
        (
            {"primary_keys": ["dt"], "options": {"bucket-function.type": "mod"}},
            InvalidRequestError,
            "needs a bucket key of one INT or BIGINT column, found dt STRING",
        ),
        (
            {"primary_keys": ["dt", "id"], "partition_keys": ["dt"], "options": {"bucket-key": "dt,id"}},
            InvalidRequestError,
            "'dt' is a partition column",
        ),
        ({"options": {"rowkind.field": "tags"}}, InvalidRequestError, "row kinds are strings: use STRING"),
        ({"options": {"fields.subb.stats-mode": "full"}}, InvalidRequestError, "'subb', which .*did you mean 'sub'"),
        (
            {"options": {"fields.v.stats-mode": "full", "fields.V.stats-mode": "none"}},
            OptionError,
            "'fields.v.stats-mode' is given twice, in names that differ only in case",
        ),
    ],
)
def test_what_a_table_cannot_be_is_said_clearly(
    arguments: dict[str, object], error: type[LakelogError], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_schema(COLUMNS, **arguments)  # type: ignore[arg-type]  # wrong arguments are the point


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        (pa.field("_KEY_id", pa.int32()), InvalidRequestError, "'_KEY_id' is reserved"),
        (pa.field("_row_kind", pa.string()), InvalidRequestError, "'_row_kind' is reserved"),
        (pa.field("d\0", pa.string()), InvalidRequestError, "character NUL"),
        (pa.field("s", pa.struct([("m\0", pa.int32())])), InvalidRequestError, "character NUL"),
        (pa.field(" ", pa.int32()), InvalidRequestError, "empty name"),
        (pa.field("id", pa.int32()), InvalidRequestError, "'id' is there twice"),
        (
            DataField(id=0, name="t", type=DataType(root=TypeRoot.TIME, precision=6)),
            UnsupportedError,
            "'t' has TIME\\(6\\); TIME is stored in milliseconds",
        ),
        (pa.field("u", pa.duration("s")), UnsupportedError, "'u' has the Arrow type duration"),
        (pa.field("r", pa.struct([])), UnsupportedError, "'r' has a ROW without members"),
        (
            pa.field("r", pa.struct([("a", pa.timestamp("ns")), ("b", pa.timestamp("us"))])),
            UnsupportedError,
            "'r' has the type .* mixes timestamps",
        ),
        (
            pa.field("r", pa.list_(pa.struct([pa.field("a", pa.int8()), pa.field("a", pa.int8())]))),
            InvalidRequestError,
            "two members share a name",
        ),
    ],
)
def test_what_a_column_cannot_be_is_said_clearly(
    column: pa.Field | DataField, error: type[LakelogError], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_schema([pa.field("id", pa.int64()), column])


def test_a_table_needs_a_column() -> None:
    with pytest.raises(InvalidRequestError, match="at least one column"):
        build_schema(pa.schema([]))


def test_a_table_of_other_engines_keeps_options_that_lakelog_does_not_know() -> None:
    text = json.dumps(
        {"id": 0, "fields": [], "highestFieldId": 0, "partitionKeys": [], "primaryKeys": [], "options": {"odd": "1"}}
    )
    schema = TableSchema.from_json(text, path="schema-0")
    assert json.loads(schema.to_json())["options"] == {"odd": "1"}
    assert (schema.version, schema.bucket_count, schema.file_format) == (1, 1, FileFormat.ORC)


def test_a_table_of_others_without_bucket_option_has_dynamic_buckets() -> None:
    schema = TableSchema(id=0, fields=(), highest_field_id=0)
    assert (schema.bucket_count, schema.file_format) == (-1, FileFormat.PARQUET)


def test_of_two_creators_one_gets_a_conflict(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path / "t"))
    schema = build_schema(COLUMNS)
    SchemaManager(LocalFileIO(), paths).create(schema)
    manager = SchemaManager(LocalFileIO(), paths)
    with pytest.raises(ConflictError, match="schema-0 exists already"):
        manager.create(schema)
    assert manager.latest() == manager.get(0) == pickle.loads(pickle.dumps(manager)).get(0) == schema


def test_a_folder_without_schema_is_no_table(tmp_path: Path) -> None:
    manager = SchemaManager(LocalFileIO(), TablePaths(str(tmp_path)))
    assert manager.latest() is None
    with pytest.raises(NotFoundError, match=r"schema 0 of .* does not exist; found \[\]"):
        manager.get(0)


def test_the_newest_schema_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    manager = SchemaManager(LocalFileIO(), TablePaths(str(tmp_path)))
    for schema_id in (2, 10, 9):
        manager.create(TableSchema(id=schema_id, fields=(), highest_field_id=0))
    (tmp_path / "schema" / ".schema-11.tmp").write_text("")
    (tmp_path / "schema" / "schema-x").write_text("")
    newest = manager.latest()
    assert newest is not None
    assert newest.id == 10
    assert manager.list_ids() == [2, 9, 10]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", CorruptDataError, "schema-0 is damaged: it is not a readable schema"),
        ("[]", CorruptDataError, "not a readable schema"),
        ('{"id": 0}', CorruptDataError, "KeyError"),
        (
            '{"id":0,"fields":[{"id":0,"name":"a","type":"INTT"}],"highestFieldId":0,"partitionKeys":[],'
            '"primaryKeys":[],"options":{}}',
            LakelogError,
            "INTT",
        ),
    ],
)
def test_a_damaged_schema_file_is_named(text: str, error: type[LakelogError], message: str) -> None:
    with pytest.raises(error, match=message):
        TableSchema.from_json(text, path="schema-0")


def test_a_schema_file_under_another_number_is_corrupt(tmp_path: Path) -> None:
    manager = SchemaManager(LocalFileIO(), TablePaths(str(tmp_path)))
    manager.create(TableSchema(id=1, fields=(), highest_field_id=0))
    (tmp_path / "schema" / "schema-1").rename(tmp_path / "schema" / "schema-0")
    with pytest.raises(CorruptDataError, match="holds the schema 1, expected 0"):
        SchemaManager(LocalFileIO(), TablePaths(str(tmp_path))).get(0)
