"""What a log allows to change: no record may be read as something else than it was written as."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, open_table
from lakelog.catalog.logs.altering import check_log_is_read, check_log_options
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.alter.schema_applying import apply_changes
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema

ROW = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("must", pa.int32(), nullable=False),
        pa.field("r", ROW),
        pa.field("items", pa.list_(ROW)),
    ]
)


def check(*steps: Sequence[SchemaChange]) -> None:
    """Apply the steps one after the other; the last one is checked against all schemas before it."""
    schemas = [build_schema(SCHEMA, primary_keys=["id"])]
    for changes in steps:
        schemas.append(apply_changes(schemas[-1], changes))
    *older, old, new = schemas
    check_log_is_read(old, new, [*older, old], table_name="db.t")


@pytest.mark.parametrize(
    "changes",
    [
        [AddColumn("c", "INT"), AddColumn("n", ROW, position=Position(Place.FIRST))],
        [AddColumn(("r", "z"), "INT"), AddColumn(("items", "element", "z"), "INT")],
        [DropColumn("a"), DropColumn(("r", "x")), DropColumn(("items", "element", "y"))],
        [UpdateColumnPosition("id", Position(Place.LAST)), SetComment("a", "a number"), SetTableComment("a table")],
        [SetOption("snapshot.num-retained.min", "3")],
    ],
    ids=str,
)
def test_changes_under_which_every_record_is_read_right_are_taken(changes: Sequence[SchemaChange]) -> None:
    check(changes)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([[RenameColumn("a", "b")]], "column 'a' of table db.t cannot be renamed"),
        ([[RenameColumn(("r", "x"), "z")]], "column 'r.x' of table db.t cannot be renamed"),
        ([[UpdateColumnType("a", "BIGINT")]], "column 'a' of table db.t is INT and cannot become BIGINT"),
        ([[UpdateColumnType(("items", "element", "x"), "BIGINT")]], "column 'items.element.x' of table db.t is INT"),
        ([[SetNullability("must", nullable=True)]], "is INT NOT NULL and cannot become INT"),
        ([[SetNullability(("r", "x"), nullable=True), DropColumn("must")]], "is NOT NULL and cannot be dropped"),
        ([[DropColumn("a"), AddColumn("a", "INT")]], "had another column 'a' before"),
        ([[DropColumn("a")], [SetTableComment("x")], [AddColumn("a", "INT")]], "had another column 'a' before"),
        ([[DropColumn(("r", "x"))], [AddColumn(("r", "x"), "INT")]], "had another column 'r.x' before"),
        (
            [[DropColumn(("items", "element", "x"))], [AddColumn(("items", "element", "x"), "INT")]],
            "had another column 'items.element.x' before",
        ),
    ],
    ids=str,
)
def test_changes_under_which_a_record_could_be_misread_are_refused(
    steps: Sequence[Sequence[SchemaChange]], text: str
) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(text)):
        check(*steps)


def test_a_name_of_another_writer_s_schema_counts_too() -> None:
    made = build_schema(SCHEMA, primary_keys=["id"])
    foreign = apply_changes(made, [RenameColumn("a", "b")])  # by an engine that knows no log
    old = apply_changes(foreign, [DropColumn("b")])
    with pytest.raises(UnsupportedError, match="had another column 'a' before"):
        check_log_is_read(old, apply_changes(old, [AddColumn("a", "INT")]), [made, foreign, old], table_name="db.t")


LOGGED = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "one:9092"}


@pytest.mark.parametrize(
    "change",
    [
        {"log.scan": "latest"},
        {"log.retention": "1 d"},
        {"log.kafka.bootstrap.servers": "two:9092"},
        {"snapshot.num-retained.min": "3"},
    ],
)
def test_where_streams_start_and_how_clients_get_there_can_change(change: dict[str, str]) -> None:
    check_log_options(LOGGED, {**LOGGED, **change})
    check_log_options({**LOGGED, **change}, LOGGED)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"log.system": "none"}, "log and files would hold different rows"),
        ({"log.topic": "other"}, "'log.topic' cannot be changed from t to other"),
        ({"log.topic-id": "other"}, "cannot be changed from i to other"),
        ({"log.changelog-mode": "all"}, "'log.changelog-mode' cannot be changed from None to all"),
        ({"log.consistency": "eventual"}, "cannot be changed"),
        ({"log.replication-factor": "3"}, "change the topic with Kafka's own tools"),
        ({"log.max-record-size": "1 mb"}, "would have no effect"),
    ],
)
def test_what_log_and_files_agreed_on_stays(change: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(text)):
        check_log_options(LOGGED, {**LOGGED, **change})


def test_a_table_without_a_log_takes_no_option_of_one(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    for key, value in (("log.system", "kafka"), ("log.scan", "latest"), ("log.kafka.acks", "all")):
        with pytest.raises(InvalidRequestError, match="the table has no log; `lakelog log add`"):
            table.alter(SetOption(key, value))


def test_a_table_of_the_catalog_is_altered_whole_or_not_at_all(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    altered = table.alter(AddColumn("c", "INT"), RenameColumn("a", "b"))
    assert altered.schema.field_names == ("id", "b", "must", "r", "items", "c")
    assert (altered.name, altered.path) == (table.name, table.path)
    with pytest.raises(InvalidRequestError, match="column 'nope' does not exist"):
        altered.alter(DropColumn("c"), DropColumn("nope"))
    assert open_table(table.path).schema == altered.schema
    assert isinstance(altered.schema, TableSchema)
