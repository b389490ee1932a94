"""Finds members of nested values that a table's column does not have, and leaves them out of the decoded values.

The path of a member is that of `AddColumn`: `("s", "new")`, `("items", "element", "new")`, `("m", "value", "new")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any  # Any: numpy arrays of any element type

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import time_unit
from lakelog.common.column_names import matching
from lakelog.common.types import DataType, TypeRoot
from lakelog.logstore.codec.connect_types import STRING, ConnectColumn, new_type
from lakelog.logstore.codec.json_columns import NotColumnarError
from lakelog.logstore.codec.json_value import Json, JsonValueError, value_of

MemberPath = tuple[str, ...]
Found = Callable[[MemberPath, Json], None]
_ELEMENT, _VALUE = "element", "value"
_MOMENTS = {TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}


def shown_path(path: MemberPath) -> str:
    """The path as `ignore_columns` takes it."""
    return ".".join(path)


def known_members(value: Json, kind: DataType, path: MemberPath, found: Found) -> Json:
    """The value of a nested type with the names of its members as the type spells them, and no others.

    `found` is called with the path and the value of each other member that is not null. A value of another form is
    kept. Raises JsonValueError for a member that appears several times.
    """
    if kind.root is TypeRoot.ROW and isinstance(value, Mapping):
        return _known_of_row(value, kind, path, found)
    if kind.root is TypeRoot.ARRAY and isinstance(value, list):
        assert kind.element is not None
        return [known_members(one, kind.element, (*path, _ELEMENT), found) for one in value]
    if kind.root is TypeRoot.MAP and isinstance(value, Mapping):
        assert kind.value is not None
        if kind.value.is_nested:
            return {name: known_members(one, kind.value, (*path, _VALUE), found) for name, one in value.items()}
    return value


def _known_of_row(value: Mapping[str, Json], kind: DataType, path: MemberPath, found: Found) -> Json:
    members = {field.name: field.type for field in kind.fields}
    known: dict[str, Json] = {}
    spelled: dict[str, str] = {}
    for name in value:
        one = value_of(value, name)
        fitting = [name] if name in members else matching(name, members)
        if len(fitting) != 1:
            if one is not None:
                found((*path, name), one)
            continue
        (member,) = fitting
        if member in known:
            raise JsonValueError(
                f"the members {spelled[member]!r} and {name!r} are both for {shown_path((*path, member))!r}"
            )
        spelled[member] = name
        known[member] = known_members(one, members[member], (*path, member), found)
    return known


def known_in_columns(
    values: pa.Array, wire: pa.DataType, path: MemberPath, found: Callable[[MemberPath, pa.DataType], bool]
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int64]]]:
    """Values that Arrow's parser has read, without the members that the wire type lacks, and the number of these.

    `found` is called with the path and the type of each such member that is not null everywhere, and returns whether
    its values count. Raises NotColumnarError for a member whose name differs in case only.
    """
    count = np.zeros(len(values), np.int64)
    if values.type == wire:
        return values, count
    if pa.types.is_struct(wire) and pa.types.is_struct(values.type):
        names = [field.name for field in wire]
        children: dict[str, pa.Array] = {}
        for field, child in zip(values.type, values.flatten(), strict=True):
            if field.name in names:
                children[field.name], inside = known_in_columns(
                    child, wire.field(field.name).type, (*path, field.name), found
                )
                count += inside
            elif child.null_count < len(child):
                if matching(field.name, names):
                    raise NotColumnarError
                if found((*path, field.name), field.type):
                    count += np.asarray(child.is_valid()).astype(np.int64)
        return pa.StructArray.from_arrays(
            [children[name] for name in names], fields=list(wire), mask=values.is_null()
        ), count
    if pa.types.is_list(wire) and pa.types.is_list(values.type):
        offsets = np.asarray(values.offsets).astype(np.int64)
        elements = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        known, inside = known_in_columns(elements, wire.value_type, (*path, _ELEMENT), found)
        offsets -= offsets[0]
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside)])
        made = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), known, type=wire, mask=values.is_null())
        return made, sums[offsets[1:]] - sums[offsets[:-1]]
    raise NotColumnarError


def declared_type(path: MemberPath, connect: Sequence[ConnectColumn]) -> DataType | None:
    """The type that the schema beside a record gives a member; None if it gives none."""
    column = next((one for one in connect if one.name.lower() == path[0].lower()), None)
    kind = None if column is None else column.type
    for name in path[1:]:
        if kind is None:
            return None
        if kind.root is TypeRoot.ROW:
            found = matching(name, [field.name for field in kind.fields])
            kind = next((field.type for field in kind.fields if field.name in found), None)
        else:
            kind = {_ELEMENT: kind.element, _VALUE: kind.value}.get(name)
    return None if kind is None else new_type(kind)


def other_measure(found: DataType, column: DataType, path: MemberPath) -> str | None:
    """How the unit or scale of a member differs from that of the table's column; None if its values mean the same.

    `found` is what the schema beside the records says. The record has only a number: milliseconds would be read as
    microseconds, and unscaled decimals with another scale.
    """
    if {found.root, column.root} <= _MOMENTS and found.root is not TypeRoot.TIMESTAMP_LTZ:
        units = [time_unit(max(one.precision or 0, 1)) for one in (found, column)]
        if units[0] != units[1]:
            return f"member {shown_path(path)!r} is a count of {units[0]} by its schema, and the table has {column}"
    if {found.root, column.root} == {TypeRoot.DECIMAL} and found.scale != column.scale:
        return f"member {shown_path(path)!r} is {found} by its schema, and the table has {column}"
    pairs = [(found.element, column.element, _ELEMENT), (found.value, column.value, _VALUE)]
    known = {field.name: field.type for field in column.fields}
    for field in found.fields:
        fitting = matching(field.name, known)
        if len(fitting) == 1:
            pairs.append((field.type, known[fitting[0]], fitting[0]))
    reasons = (other_measure(one, other, (*path, name)) for one, other, name in pairs if one and other)
    return next((reason for reason in reasons if reason is not None), None)


def inferred_type(kind: pa.DataType) -> DataType:
    """The type of a new member, from Arrow's. Raises NotColumnarError for a possibly larger whole number."""
    if pa.types.is_floating(kind):
        raise NotColumnarError
    if pa.types.is_boolean(kind):
        return DataType(root=TypeRoot.BOOLEAN)
    return DataType(root=TypeRoot.BIGINT) if pa.types.is_integer(kind) else STRING
