"""Columns and members of nested types by their path, as Paimon writes it. Pure.

`("r", "x")` is the member `x` of the ROW column `r`; `element` goes into an ARRAY or MULTISET and `value` into a MAP:
`("items", "element", "x")`. Keys of maps have no path: they cannot be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lakelog.common.column_names import known_columns, matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType, TypeRoot

ColumnPath = tuple[str, ...]
Fields = tuple[DataField, ...]

ELEMENT = "element"
VALUE = "value"
_KEY = "key"


def path_of(column: str | Sequence[str]) -> ColumnPath:
    """The path of a column, from its name or a sequence of names. Raises InvalidRequestError."""
    path = (column,) if isinstance(column, str) else tuple(column)
    if not path or not all(path):
        raise InvalidRequestError(f"{column!r} names no column; expected a name, or the names on the way to a member")
    return path


def dotted(path: ColumnPath) -> str:
    """The path as a string for messages."""
    return ".".join(path)


def find(fields: Sequence[DataField], name: str, path: ColumnPath) -> int:
    """The index of a field among its siblings; names are compared as in Spark.

    Raises InvalidRequestError, naming the siblings.
    """
    names = [field.name for field in fields]
    found = matching(name, names)
    if not found:
        raise InvalidRequestError(f"column {dotted(path)!r} does not exist; {known_columns(name, names)}")
    if len(found) > 1:
        raise InvalidRequestError(
            f"column {dotted(path)!r} is ambiguous: {listed(found)}; write the name in its exact case"
        )
    return names.index(found[0])


def spelled_path(fields: Sequence[DataField], path: ColumnPath, *, is_new: bool = False) -> ColumnPath:
    """The path with names as the table spells them; the last name of a new path is not changed.

    Raises InvalidRequestError for a name that no column or member has. A step into a type that has no such step is not
    changed.
    """
    spelled: list[str] = []
    members: Sequence[DataField] = fields
    inside: DataType | None = None
    for at, name in enumerate(path):
        if is_new and at == len(path) - 1:
            return (*spelled, name)
        if inside is None or inside.root is TypeRoot.ROW:
            field = members[find(members, name, path[: at + 1])]
            spelled.append(field.name)
            inside = field.type
        else:
            below = {ELEMENT: inside.element, VALUE: inside.value}.get(name)
            if below is None:
                return (*spelled, *path[at:])
            spelled.append(name)
            inside = below
        members = inside.fields
    return tuple(spelled)


def edit_siblings(fields: Fields, path: ColumnPath, edit: Callable[[Fields], Fields]) -> Fields:
    """The fields, with the field at the path and its siblings edited. Raises InvalidRequestError."""
    if len(path) == 1:
        return edit(fields)

    def edit_row(kind: DataType) -> DataType:
        if kind.root is not TypeRoot.ROW:
            raise InvalidRequestError(f"column {dotted(path[:-1])!r} is {kind}, which has no member {path[-1]!r}")
        return replace(kind, fields=edit(kind.fields))

    return edit_type(fields, path[:-1], edit_row)


def edit_type(fields: Fields, path: ColumnPath, edit: Callable[[DataType], DataType]) -> Fields:
    """The fields, with the type at the path edited. Raises InvalidRequestError."""
    place = find(fields, path[0], path)
    field = fields[place]
    changed = replace(field, type=_edit_inside(field.type, path, 1, edit))
    return (*fields[:place], changed, *fields[place + 1 :])


def _edit_inside(kind: DataType, path: ColumnPath, at: int, edit: Callable[[DataType], DataType]) -> DataType:
    if at == len(path):
        return edit(kind)
    match kind.root, path[at]:
        case TypeRoot.ROW, _:
            rest = edit_type(kind.fields, path[at:], edit)
            return replace(kind, fields=rest)
        case ((TypeRoot.ARRAY | TypeRoot.MULTISET), "element"):
            assert kind.element is not None
            return replace(kind, element=_edit_inside(kind.element, path, at + 1, edit))
        case TypeRoot.MAP, "value":
            assert kind.value is not None
            return replace(kind, value=_edit_inside(kind.value, path, at + 1, edit))
    ways = {TypeRoot.ARRAY: ELEMENT, TypeRoot.MULTISET: ELEMENT, TypeRoot.MAP: VALUE}
    hint = f"; go on with {ways[kind.root]!r}" if kind.root in ways else ""
    raise InvalidRequestError(f"column {dotted(path)!r} does not exist: {dotted(path[:at])!r} is {kind}{hint}")


def named_fields(fields: Sequence[DataField], above: ColumnPath = ()) -> Iterator[tuple[ColumnPath, DataField]]:
    """Every column, and every member of every nested type, with its path; a parent comes before its members."""
    for field in fields:
        path = (*above, field.name)
        yield path, field
        yield from _inside(field.type, path)


def _inside(kind: DataType, path: ColumnPath) -> Iterator[tuple[ColumnPath, DataField]]:
    yield from named_fields(kind.fields, path)
    for name, inner in ((ELEMENT, kind.element), (_KEY, kind.key), (VALUE, kind.value)):
        if inner is not None:
            yield from _inside(inner, (*path, name))
