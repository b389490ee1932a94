"""What comes of changes to a schema: ids, names in keys and options, and everything that is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any  # Any: options of schemas

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, LakelogError, OptionError, UnsupportedError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.alter.schema_applying import apply_changes
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.schema.column_paths import named_fields
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema

FIRST, LAST = Position(Place.FIRST), Position(Place.LAST)
PAIR = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.string(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("must", pa.int32(), nullable=False),
        pa.field("r", PAIR),
        pa.field("items", pa.list_(PAIR)),
        pa.field("pairs", pa.map_(pa.string(), PAIR)),
    ]
)


def after(name: str) -> Position:
    return Position(Place.AFTER, name)


def before(name: str) -> Position:
    return Position(Place.BEFORE, name)


def schema_of(options: dict[str, str] | None = None, **keys: Any) -> TableSchema:
    given = {"primary_keys": ["id", "day"], "partition_keys": ["day"]} | keys
    return build_schema(COLUMNS, options=options, **given)


def paths(schema: TableSchema) -> dict[str, int]:
    return {".".join(path): field.id for path, field in named_fields(schema.fields)}


def ids_of(schema: TableSchema) -> dict[str, int]:
    return {field.name: field.id for field in schema.fields}


def test_a_new_schema_has_the_next_id_and_the_time_of_the_change() -> None:
    changed = apply_changes(schema_of(), [AddColumn("c", "INT")], time_millis=77)
    assert (changed.id, changed.time_millis) == (1, 77)


def test_a_new_column_and_its_members_take_ids_that_were_never_given() -> None:
    old = schema_of()
    assert old.highest_field_id == 12
    nested = pa.struct([("u", pa.int32()), ("v", pa.struct([("w", pa.int32())]))])
    changed = apply_changes(old, [AddColumn("c", "INT"), AddColumn("n", nested), AddColumn("d", "INT")])
    found = paths(changed)
    # As Paimon numbers: the column, then its members in order, those inside of a member before the member itself.
    assert [found[path] for path in ("c", "n", "n.u", "n.v.w", "n.v", "d")] == [13, 14, 15, 16, 17, 18]
    assert changed.highest_field_id == 18
    dropped = apply_changes(changed, [DropColumn("d"), DropColumn("n")])
    again = apply_changes(dropped, [AddColumn("d", "INT")])
    assert (dropped.highest_field_id, ids_of(again)["d"]) == (18, 19)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (AddColumn("c", "INT"), "id day a must r items pairs c"),
        (AddColumn("c", "INT", position=LAST), "id day a must r items pairs c"),
        (AddColumn("c", "INT", position=FIRST), "c id day a must r items pairs"),
        (AddColumn("c", "INT", position=after("a")), "id day a c must r items pairs"),
        (AddColumn("c", "INT", position=before("a")), "id day c a must r items pairs"),
        (UpdateColumnPosition("a", FIRST), "a id day must r items pairs"),
        (UpdateColumnPosition("a", LAST), "id day must r items pairs a"),
        (UpdateColumnPosition("a", after("r")), "id day must r a items pairs"),
        (UpdateColumnPosition("r", after("id")), "id r day a must items pairs"),
        (UpdateColumnPosition("a", before("r")), "id day must a r items pairs"),
        (UpdateColumnPosition("r", before("id")), "r id day a must items pairs"),
        (UpdateColumnPosition("a", after("day")), "id day a must r items pairs"),
        (UpdateColumnPosition("day", LAST), "id a must r items pairs day"),
        (DropColumn("a"), "id day must r items pairs"),
        (RenameColumn("a", "b"), "id day b must r items pairs"),
    ],
    ids=str,
)
def test_columns_come_in_the_order_that_is_asked_for(change: SchemaChange, expected: str) -> None:
    old = schema_of()
    changed = apply_changes(old, [change])
    assert " ".join(changed.field_names) == expected
    kept = {number: name for name, number in ids_of(old).items()}
    moved = {number: name for name, number in ids_of(changed).items()}
    for number in kept.keys() & moved.keys():
        assert moved[number] in (kept[number], "b")


@pytest.mark.parametrize("way", [("r",), ("items", "element"), ("pairs", "value")], ids=str)
def test_members_of_rows_are_changed_by_their_path(way: tuple[str, ...]) -> None:
    old = schema_of()
    changes: Sequence[SchemaChange] = [
        AddColumn((*way, "z"), "DOUBLE", position=FIRST),
        UpdateColumnType((*way, "x"), "BIGINT"),
        RenameColumn((*way, "x"), "wide"),
        UpdateColumnPosition((*way, "wide"), LAST),
        SetComment((*way, "wide"), "was x"),
        DropColumn((*way, "y")),
    ]
    changed = apply_changes(old, changes)
    place = ".".join(way)
    found = {path: field for path, field in named_fields(changed.fields) if path[: len(way)] == way}
    members = [(path[-1], str(field.type), field.id) for path, field in found.items() if len(path) == len(way) + 1]
    assert members == [("z", "DOUBLE", 13), ("wide", "BIGINT", paths(old)[f"{place}.x"])]
    assert found[(*way, "wide")].description == "was x"
    others = [field for field in changed.fields if field.name != way[0]]
    assert others == [field for field in old.fields if field.name != way[0]]


def test_elements_and_values_of_their_own_are_widened() -> None:
    columns = pa.schema([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.list_(pa.float32())))])
    changed = apply_changes(
        build_schema(columns, options={"bucket": "-1"}),
        [UpdateColumnType(("l", "element"), "BIGINT"), UpdateColumnType(("m", "value", "element"), "DOUBLE")],
    )
    assert [str(field.type) for field in changed.fields] == ["ARRAY<BIGINT>", "MAP<STRING NOT NULL, ARRAY<DOUBLE>>"]


def test_nullability_comments_and_options_are_set() -> None:
    old = schema_of({"write-only": "true"})
    changed = apply_changes(
        old,
        [
            SetNullability("must", nullable=True),
            SetComment("a", "a number"),
            SetTableComment("flights"),
            SetOption("snapshot.num-retained.min", "3"),
            RemoveOption("write-only"),
        ],
    )
    assert changed.field("must").type.nullable
    assert changed.field("a").description == "a number"
    assert changed.comment == "flights"
    assert changed.options["snapshot.num-retained.min"] == "3"
    assert "write-only" not in changed.options
    undone = apply_changes(changed, [SetComment("a", None), SetTableComment(None)])
    assert (undone.field("a").description, undone.comment) == (None, None)


def test_widening_keeps_the_nullability() -> None:
    changed = apply_changes(schema_of(), [UpdateColumnType("must", "BIGINT"), UpdateColumnType("a", "BIGINT NOT NULL")])
    assert [str(changed.field(name).type) for name in ("must", "a")] == ["BIGINT NOT NULL", "BIGINT"]


def test_changes_that_come_to_nothing_give_the_same_schema() -> None:
    old = schema_of({"write-only": "true"})
    assert apply_changes(old, [SetOption("write-only", "true"), RenameColumn("a", "b"), RenameColumn("b", "a")]) is old


def test_a_renamed_column_is_renamed_in_keys_and_options() -> None:
    options = {
        "bucket": "4",
        "bucket-key": "id",
        "merge-engine": "partial-update",
        "sequence.field": "seq,id",
        "fields.seq,id.sequence-group": "a,b",
        "fields.b.aggregate-function": "sum",
        "fields.b.ignore-retract": "true",
        "file-index.bloom-filter.columns": "id, b",
        "other": "id",
    }
    others = ("file-index.bloom-filter.columns", "other")  # kept where others set them
    names = ("id", "day", "a", "b", "seq")
    fields = [DataField(id=0, name=name, type=parse_type("INT")) for name in names]
    made = build_schema(
        fields,
        primary_keys=["id", "day"],
        partition_keys=["day"],
        options={key: value for key, value in options.items() if key not in others},
    )
    old = TableSchema(
        id=4,
        fields=made.fields,
        highest_field_id=made.highest_field_id,
        partition_keys=made.partition_keys,
        primary_keys=made.primary_keys,
        options=options,
    )
    changed = apply_changes(
        old, [RenameColumn("id", "key"), RenameColumn("b", "total"), RenameColumn("seq", "b"), RenameColumn("a", "seq")]
    )
    assert changed.primary_keys == ("key", "day")
    assert changed.options == {
        "bucket": "4",
        "bucket-key": "key",
        "merge-engine": "partial-update",
        "sequence.field": "b,key",
        "fields.b,key.sequence-group": "seq,total",
        "fields.total.aggregate-function": "sum",
        "fields.total.ignore-retract": "true",
        "file-index.bloom-filter.columns": "key,total",
        "other": "id",
    }


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ([], InvalidRequestError, "no change is given"),
        ([AddColumn("a", "INT")], InvalidRequestError, "column 'a' exists already"),
        ([AddColumn(("r", "x"), "INT")], InvalidRequestError, "column 'r.x' exists already"),
        ([AddColumn("c", "INT NOT NULL")], InvalidRequestError, "leave out NOT NULL"),
        ([AddColumn("c", "NUMBER")], UnsupportedError, "'NUMBER' is not supported"),
        ([AddColumn("rowkind", "INT")], InvalidRequestError, "'rowkind' is reserved"),
        ([AddColumn("", "INT")], InvalidRequestError, "names no column"),
        ([AddColumn("c", "TIME(6)")], UnsupportedError, "use TIME(3)"),
        (
            [AddColumn("c", "INT", position=after("d"))],
            InvalidRequestError,
            "column 'd' does not exist; the columns are id, day, a",
        ),
        ([AddColumn(("a", "x"), "INT")], InvalidRequestError, "column 'a' is INT, which has no member 'x'"),
        ([AddColumn(("items", "x"), "INT")], InvalidRequestError, "has no member 'x'"),
        ([AddColumn(("items", "x", "y"), "INT")], InvalidRequestError, "go on with 'element'"),
        ([AddColumn(("pairs", "key", "x"), "INT")], InvalidRequestError, "go on with 'value'"),
        ([DropColumn("id")], InvalidRequestError, "'id' belongs to the primary key (id, day) and cannot be dropped"),
        ([DropColumn("day")], InvalidRequestError, "belongs to the primary key"),
        ([DropColumn("nope")], InvalidRequestError, "column 'nope' does not exist"),
        ([DropColumn(("r", "x")), DropColumn(("r", "y"))], InvalidRequestError, "'r.y' is the only one left"),
        ([RenameColumn("day", "d")], InvalidRequestError, "partition (day) and cannot be renamed"),
        ([RenameColumn("a", "id")], InvalidRequestError, "column 'id' exists already"),
        ([RenameColumn("a", "_KEY_a")], InvalidRequestError, "is reserved"),
        ([UpdateColumnPosition("a", after("a"))], InvalidRequestError, "cannot be moved after itself"),
        ([UpdateColumnType("id", "DECIMAL(19, 0)")], InvalidRequestError, "belongs to the primary key"),
        ([UpdateColumnType("day", "STRING")], InvalidRequestError, "cannot be changed in type"),
        ([UpdateColumnType("a", "SMALLINT")], InvalidRequestError, "'a' is INT and cannot become SMALLINT"),
        ([UpdateColumnType("a", "FLOAT")], InvalidRequestError, "types can only be widened"),
        ([UpdateColumnType("r", PAIR)], InvalidRequestError, "by their path"),
        ([SetNullability("a", nullable=False)], InvalidRequestError, "may hold nulls"),
        ([SetNullability("id", nullable=True)], InvalidRequestError, "cannot be made nullable"),
        ([SetOption("bucket", "8")], InvalidRequestError, "use Table.upkeep.rescale"),
        ([RemoveOption("bucket")], InvalidRequestError, "use Table.upkeep.rescale"),
        ([SetOption("lakelog.table-uuid", "x")], InvalidRequestError, "the identity of the table"),
        ([SetOption("snapshot.num-retained", "3")], OptionError, "did you mean 'snapshot.num-retained.m"),
        ([SetOption("snapshot.num-retained.min", "few")], OptionError, "expected a positive number"),
        ([SetOption("log.system", "kafka")], OptionError, "unknown option 'log.system'"),
        ([SetOption("file.format", "orc"), AddColumn("c", "CHAR(3)")], UnsupportedError, "'c' has the type CHAR(3)"),
        ([RemoveOption("write-only")], InvalidRequestError, "'write-only' is not set"),
        (
            [SetOption("changelog-producer.row-deduplicate-ignore-fields", "a,nope")],
            InvalidRequestError,
            "'nope', which does not exist",
        ),
        ([SetOption("fields.nope.aggregate-function", "sum")], InvalidRequestError, "'nope', which does not exist"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changes: Sequence[SchemaChange], error: type[LakelogError], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        apply_changes(schema_of(), changes)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (DropColumn("MUST"), DropColumn("must")),
        (DropColumn(("R", "X")), DropColumn(("r", "x"))),
        (RenameColumn("A", "b"), RenameColumn("a", "b")),
        (AddColumn("c", "INT", position=after("DAY")), AddColumn("c", "INT", position=after("day"))),
        (AddColumn(("Items", "element", "z"), "INT"), AddColumn(("items", "element", "z"), "INT")),
        (UpdateColumnPosition("A", before("ID")), UpdateColumnPosition("a", before("id"))),
        (UpdateColumnType(("Pairs", "value", "X"), "BIGINT"), UpdateColumnType(("pairs", "value", "x"), "BIGINT")),
        (SetNullability("Must", nullable=True), SetNullability("must", nullable=True)),
        (SetComment("A", "c"), SetComment("a", "c")),
        (
            SetOption("changelog-producer.row-deduplicate-ignore-fields", "A,Must"),
            SetOption("changelog-producer.row-deduplicate-ignore-fields", "a,must"),
        ),
        (SetOption("partition.timestamp-pattern", "$DAY"), SetOption("partition.timestamp-pattern", "$day")),
    ],
    ids=str,
)
def test_columns_are_named_in_any_case(change: SchemaChange, same: SchemaChange) -> None:
    assert apply_changes(schema_of(), [change]) == apply_changes(schema_of(), [same])


def test_a_column_changes_the_case_of_its_own_name() -> None:
    keyed = build_schema(COLUMNS, primary_keys="id", options={"sequence.field": "a"})
    renamed = apply_changes(keyed, [RenameColumn("A", "A"), RenameColumn("ID", "Id")])
    assert renamed.field_names[:3] == ("Id", "day", "A")
    assert (renamed.primary_keys, renamed.options["sequence.field"]) == (("Id",), "A")


def test_options_of_a_column_are_removed_and_kept_under_its_own_name() -> None:
    table = schema_of({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"})
    assert apply_changes(table, [SetOption("fields.A.aggregate-function", "sum")]) is table
    early = apply_changes(table, [SetOption("fields.NEW.aggregate-function", "sum"), AddColumn("new", "INT")])
    assert early.options["fields.new.aggregate-function"] == "sum"
    key = "fields.New.aggregate-function"
    none = apply_changes(
        table, [AddColumn("new", "INT"), SetOption(key, "sum"), RemoveOption(key.replace("New", "NEW"))]
    )
    assert none.options == table.options


@pytest.mark.parametrize("change", [AddColumn("A", "INT"), RenameColumn("must", "A")], ids=str)
def test_a_column_that_differs_from_another_in_case_alone_is_refused(change: SchemaChange) -> None:
    with pytest.raises(InvalidRequestError, match=r"'A' differs only in case from 'a', .*write the values to 'a', or"):
        apply_changes(schema_of(), [change])
    with pytest.raises(InvalidRequestError, match=r"'r\.X' differs only in case from 'r\.x', which exists"):
        apply_changes(schema_of(), [AddColumn(("r", "X"), "INT")])


def test_a_name_that_may_be_any_of_several_columns_is_refused() -> None:
    schema = build_schema(pa.schema([("id", pa.int64()), ("ab", pa.int32()), ("aB", pa.int32())]))
    with pytest.raises(InvalidRequestError, match="column 'AB' is ambiguous: ab, aB; write the name in its exact case"):
        apply_changes(schema, [DropColumn("AB")])
    with pytest.raises(InvalidRequestError, match=r"option 'fields\.AB\.stats-mode': column 'AB' is ambiguous: ab, aB"):
        apply_changes(schema, [SetOption("fields.AB.stats-mode", "full")])
    assert apply_changes(schema, [DropColumn("aB")]).field_names == ("id", "ab")


def test_a_misspelled_column_is_answered_with_the_closest_name() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"column 'muts' does not exist; the columns are .*did you mean 'must'"
    ):
        apply_changes(schema_of(), [DropColumn("muts")])


def test_timestamps_in_orc_files_are_not_shifted_by_zones_where_none_were_before() -> None:
    key = "orc.timestamp-ltz.legacy.type"
    moment = AddColumn("seen", "TIMESTAMP_LTZ(3)")
    changed = apply_changes(schema_of(), [SetOption("file.format", "orc")])
    assert key not in changed.options
    changed = apply_changes(changed, [moment])
    assert changed.options[key] == "false"
    by_others = replace(changed, options={name: text for name, text in changed.options.items() if name != key})
    assert key not in apply_changes(by_others, [SetTableComment("x")]).options


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("aggregation.remove-record-on-delete", "true"),
        ("bucket-function.type", "mod"),
        ("bucket-key", "id"),
        ("changelog-producer", "input"),
        ("data-file.path-directory", "data"),
        ("deletion-vectors.enabled", "true"),
        ("fields.default-aggregate-function", "sum"),
        ("ignore-delete", "true"),
        ("merge-engine", "aggregation"),
        ("partial-update.remove-record-on-delete", "true"),
        ("partition", "id"),
        ("partition.default-name", "none"),
        ("partition.legacy-name", "false"),
        ("primary-key", "id"),
        ("rowkind.field", "a"),
        ("sequence.field", "a"),
        ("sequence.field.sort-order", "descending"),
    ],
)
def test_what_stored_rows_were_written_by_stays(key: str, value: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"option '{re.escape(key)}' cannot be changed from None to {value}"):
        apply_changes(schema_of(), [SetOption(key, value)])


UPDATED = {
    "merge-engine": "partial-update",
    "fields.a.sequence-group": "must",
    "fields.must.aggregate-function": "sum",
}


@pytest.mark.parametrize(
    "changes",
    [
        [SetOption("fields.must.aggregate-function", "max")],
        [RemoveOption("fields.must.aggregate-function")],
        [SetOption("fields.must.ignore-retract", "true")],
        [SetOption("fields.a.sequence-group", "must,r")],
        [RemoveOption("fields.a.sequence-group")],
        [RemoveOption("fields.a.sequence-group"), DropColumn("a")],
        [AddColumn("c", "INT"), SetOption("fields.c.sequence-group", "r")],
    ],
    ids=str,
)
def test_how_stored_values_are_merged_stays(changes: Sequence[SchemaChange]) -> None:
    with pytest.raises(InvalidRequestError, match=r"the options fields\.\* of column"):
        apply_changes(schema_of(UPDATED), changes)


def test_new_columns_take_rules_of_their_own_and_dropped_ones_leave_theirs() -> None:
    added = apply_changes(
        schema_of(UPDATED),
        [
            AddColumn("b", "INT"),
            SetOption("fields.a.sequence-group", "must,b"),
            AddColumn("seq", "INT"),
            AddColumn("c", "INT"),
            SetOption("fields.seq.sequence-group", "c"),
            SetOption("fields.c.aggregate-function", "max"),
        ],
    )
    assert added.options["fields.seq.sequence-group"] == "c"
    with pytest.raises(InvalidRequestError, match=r"the option 'fields\.seq\.sequence-group' = 'c' names it"):
        apply_changes(added, [DropColumn("seq")])
    changes: Sequence[SchemaChange] = [
        RemoveOption("fields.seq.sequence-group"),
        RemoveOption("fields.c.aggregate-function"),
        DropColumn("c"),
        DropColumn("seq"),
    ]
    assert apply_changes(added, changes).options == {**schema_of(UPDATED).options, "fields.a.sequence-group": "must,b"}


def test_the_first_sequence_group_comes_with_the_table() -> None:
    changes: Sequence[SchemaChange] = [
        AddColumn("s", "INT"),
        AddColumn("c", "INT"),
        SetOption("fields.s.sequence-group", "c"),
    ]
    with pytest.raises(InvalidRequestError, match="would be the first sequence group"):
        apply_changes(schema_of({"merge-engine": "partial-update"}), changes)


def test_rows_are_not_ordered_or_folded_by_strings_of_numbers() -> None:
    for options in (
        {"sequence.field": "a"},
        {"merge-engine": "aggregation"},
        {"merge-engine": "partial-update", "fields.a.sequence-group": "must"},
    ):
        with pytest.raises(InvalidRequestError, match="another order and no sums"):
            apply_changes(schema_of(options), [UpdateColumnType("a", "STRING")])
        assert str(apply_changes(schema_of(options), [UpdateColumnType("a", "BIGINT")]).field("a").type) == "BIGINT"
    assert str(apply_changes(schema_of(), [UpdateColumnType("a", "STRING")]).field("a").type) == "STRING"


def test_a_bucket_key_stays_where_there_are_several_buckets() -> None:
    columns = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    several = build_schema(columns, options={"bucket": "2", "bucket-key": "a"})
    with pytest.raises(InvalidRequestError, match="the option 'bucket-key' = 'a' names it"):
        apply_changes(several, [DropColumn("a")])
    with pytest.raises(InvalidRequestError, match="belongs to the bucket key"):
        apply_changes(several, [UpdateColumnType("a", "BIGINT")])
    assert apply_changes(several, [RenameColumn("a", "c")]).bucket_keys == ("c",)
    one = build_schema(columns)
    assert one.bucket_keys == ("a", "b")
    assert apply_changes(one, [DropColumn("a"), UpdateColumnType("b", "BIGINT")]).bucket_keys == ("b",)
    with pytest.raises(InvalidRequestError, match="'b' cannot be dropped: it is the last one of those by which rows"):
        apply_changes(one, [DropColumn("a"), AddColumn("c", "INT"), DropColumn("b")])


def test_what_an_older_version_took_for_granted_is_written_out() -> None:
    made = schema_of()
    old = TableSchema(
        id=3, fields=made.fields, highest_field_id=12, primary_keys=("id", "day"), partition_keys=("day",), version=1
    )
    assert (old.bucket_count, old.file_format) == (1, "orc")
    changed = apply_changes(old, [AddColumn("c", "INT")])
    assert (changed.version, changed.bucket_count, changed.file_format) == (3, 1, "orc")


def test_a_wrong_highest_id_of_another_writer_gives_no_id_twice() -> None:
    made = schema_of()
    wrong = TableSchema(id=1, fields=made.fields, highest_field_id=3, options=made.options, primary_keys=("id",))
    assert ids_of(apply_changes(wrong, [AddColumn("c", "INT")]))["c"] == 13
