"""Flink's computed columns and watermark, when columns of the table change.

`tests/integration/flink/test_flink_columns.py` holds the same changes against Flink itself.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.alter.schema_applying import apply_changes
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.options.flink_options import computed_column, watermark
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("c`x", pa.int32()),
        ("at", pa.timestamp("ms")),
    ]
)
OPTIONS = {
    **computed_column(1, name="twice", kind="INT", expression="`b` * 2 + CHAR_LENGTH('a c`x')"),
    **computed_column(6, name="last", kind="INT", expression="UPPER(`c``x`)"),
    **watermark(column="at", kind="TIMESTAMP(3)", expression="`at` - INTERVAL '5' SECOND"),
}


def made() -> TableSchema:
    return build_schema(COLUMNS, primary_keys=["id"], options=OPTIONS)


def order_in_flink(schema: TableSchema) -> list[str]:
    """All columns as `FlinkCatalog.toCatalogTable` puts them together; a wrong place is an IndexError there too."""
    computed = {
        int(key.split(".")[1]): value
        for key, value in schema.options.items()
        if key.startswith("schema.") and key.endswith(".name")
    }
    stored = iter(schema.field_names)
    return [computed.get(place) or next(stored) for place in range(len(computed) + len(schema.field_names))]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (DropColumn("a"), ["id", "twice", "b", "c`x", "at", "last"]),
        (AddColumn("n", "INT"), ["id", "twice", "a", "b", "c`x", "at", "last", "n"]),
        (AddColumn("n", "INT", position=Position(Place.FIRST)), ["n", "id", "twice", "a", "b", "c`x", "at", "last"]),
        (
            AddColumn("n", "INT", position=Position(Place.AFTER, "id")),
            ["id", "n", "twice", "a", "b", "c`x", "at", "last"],
        ),
        (
            AddColumn("n", "INT", position=Position(Place.BEFORE, "a")),
            ["id", "twice", "n", "a", "b", "c`x", "at", "last"],
        ),
        (RenameColumn("a", "z"), ["id", "twice", "z", "b", "c`x", "at", "last"]),
        (UpdateColumnPosition("b", Position(Place.FIRST)), ["b", "id", "twice", "a", "c`x", "at", "last"]),
        (UpdateColumnType("a", "BIGINT"), ["id", "twice", "a", "b", "c`x", "at", "last"]),
    ],
)
def test_computed_columns_keep_their_places_among_the_others(change: SchemaChange, expected: list[str]) -> None:
    changed = apply_changes(made(), [change])

    assert order_in_flink(changed) == expected
    expressions = {value for key, value in changed.options.items() if key.endswith(".expr")}
    assert expressions == {value for key, value in OPTIONS.items() if key.endswith(".expr")}


def test_several_changes_of_one_alter_move_the_places_one_after_the_other() -> None:
    changed = apply_changes(
        made(), [DropColumn("a"), AddColumn("a", "INT"), UpdateColumnPosition("a", Position(Place.AFTER, "id"))]
    )
    assert order_in_flink(changed) == ["id", "a", "twice", "b", "c`x", "at", "last"]


def test_a_place_that_an_earlier_version_left_behind_the_last_column_is_brought_back() -> None:
    broken = build_schema(COLUMNS, options=computed_column(9, name="far", kind="INT", expression="`b`"))
    assert order_in_flink(apply_changes(broken, [DropColumn("a")])) == ["id", "b", "c`x", "at", "far"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (DropColumn("b"), r"'b' cannot be dropped: the computed column 'twice' of Flink names it \(`b` \* 2"),
        (RenameColumn("B", "z"), "'b' cannot be renamed: the computed column 'twice'"),
        (DropColumn("c`x"), "the computed column 'last' of Flink names it"),
        (DropColumn("at"), "the watermark of Flink names it"),
        (RenameColumn("at", "time"), "the watermark of Flink names it"),
        (AddColumn("twice", "INT"), "'twice' exists already, as a computed column"),
        (AddColumn("LAST", "INT"), "'LAST' exists already, as a computed column"),
        (RenameColumn("a", "twice"), "'twice' exists already, as a computed column"),
    ],
)
def test_what_flink_refuses_is_refused(change: SchemaChange, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        apply_changes(made(), [change])


def test_names_in_texts_and_of_functions_are_no_columns() -> None:
    options = computed_column(0, name="c", kind="STRING", expression="UPPER('a') || CONCAT(`b`, 'it''s a')")
    schema = build_schema(pa.schema([("a", pa.string()), ("b", pa.string()), ("UPPER", pa.string())]), options=options)
    assert order_in_flink(apply_changes(schema, [DropColumn("a"), DropColumn("UPPER")])) == ["c", "b"]
