"""Computed columns and the watermark that Flink keeps in options, when the columns of the table change. Pure.

Flink finds a computed column by its place among all columns, and opens no table whose places and columns disagree.
Source: Paimon, `FlinkCatalog` and `FlinkCatalogPropertiesUtil`; Flink, "ALTER TABLE".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    UpdateColumnPosition,
)
from lakelog.filestore.schema.column_paths import path_of
from lakelog.filestore.schema.schema import TableSchema

_PART = re.compile(r"schema\.(\d{1,5})\.([\w-]+)")
_WATERMARK = "schema.watermark.0."
# Of an expression in Flink's SQL: a string, a name in backticks, or a word that does not call a function.
_TOKEN = re.compile(r"'(?:[^']|'')*'|`((?:[^`]|``)+)`|\b([^\W\d]\w*)\b(?!\s*\()")


@dataclass(frozen=True, slots=True, eq=False)
class _Computed:
    """A computed column: its place as stored, and its options without `schema.<place>.`."""

    place: int
    parts: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.parts["name"]


def with_places(before: TableSchema, after: TableSchema, change: SchemaChange) -> TableSchema:
    """The schema after a change, with computed columns in the places where Flink's ALTER TABLE has them.

    Raises InvalidRequestError for a column that a computed column or the watermark names and that is dropped or
    renamed, and for the name of a computed column.
    """
    if not isinstance(change, AddColumn | DropColumn | RenameColumn | UpdateColumnPosition):
        return after
    path, computed = path_of(change.column), _computed(before)
    name = path[0]
    if len(path) > 1:
        return after
    if isinstance(change, DropColumn | RenameColumn):
        _check_unnamed(before, computed, name, "dropped" if isinstance(change, DropColumn) else "renamed")
    if not computed:
        return after
    new = change.name if isinstance(change, RenameColumn) else name if isinstance(change, AddColumn) else None
    if new is not None and new.lower() in (one.name.lower() for one in computed):
        raise InvalidRequestError(f"column {new!r} exists already, as a computed column of Flink; choose another name")
    order = _all_columns(before, computed)
    match change:
        case DropColumn():
            order.remove(name)
        case RenameColumn():
            order[order.index(name)] = change.name
        case AddColumn(position=position) | UpdateColumnPosition(position=position):
            order = [one for one in order if one != name]
            order.insert(_place(order, position), name)
    kept = {key: value for key, value in after.options.items() if not _PART.fullmatch(key)}
    at = {one: place for place, one in enumerate(order) if isinstance(one, _Computed)}
    moved = {f"schema.{place}.{part}": value for one, place in at.items() for part, value in one.parts.items()}
    return replace(after, options={**kept, **moved})


def _computed(schema: TableSchema) -> list[_Computed]:
    """The computed columns, by place. Columns that are stored may be listed in the same way, and are not computed."""
    parts: dict[int, dict[str, str]] = {}
    for key, value in schema.options.items():
        if found := _PART.fullmatch(key):
            parts.setdefault(int(found[1]), {})[found[2]] = value
    return [
        _Computed(place, of_column)
        for place, of_column in sorted(parts.items())
        if "name" in of_column and of_column["name"] not in schema.field_names
    ]


def _all_columns(schema: TableSchema, computed: list[_Computed]) -> list[str | _Computed]:
    """Stored columns by name, and computed ones in their places; places behind the last column are at the end."""
    order: list[str | _Computed] = list(schema.field_names)
    for one in computed:
        order.insert(one.place, one)
    return order


def _place(order: list[str | _Computed], position: Position | None) -> int:
    if position is None or position.place is Place.LAST:
        return len(order)
    if position.beside is None:
        return 0
    return order.index(position.beside) + (position.place is Place.AFTER)


def _check_unnamed(schema: TableSchema, computed: list[_Computed], name: str, verb: str) -> None:
    expressions = [(f"the computed column {one.name!r}", one.parts.get("expr", "")) for one in computed]
    expressions.append(("the watermark", schema.options.get(f"{_WATERMARK}strategy.expr", "")))
    rowtime = schema.options.get(f"{_WATERMARK}rowtime", "").split(".")[0]
    for what, expression in [*expressions, ("the watermark", f"`{rowtime}`")]:
        if name in _names_in(expression):
            raise InvalidRequestError(
                f"column {name!r} cannot be {verb}: {what} of Flink names it ({expression}); change or drop that "
                "first, in Flink or by its options schema.*"
            )


def _names_in(expression: str) -> set[str]:
    return {found[1].replace("``", "`") if found[1] else found[2] for found in _TOKEN.finditer(expression)}
