"""What Arrow's casts lack: fields of structs by their names, and which value is refused. Pure.

Arrow's own casts of structs drop fields that the wanted type lacks, and fill those that it does not find with nulls.
Here fields are found at any depth, as the columns of a table are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed

Values: TypeAlias = "pa.Array | pa.ChunkedArray"


def with_named_fields(values: Values, wanted: pa.DataType, *, what: str, column: str) -> Values:
    """The values, whose structs have the fields of `wanted` in their order; other types are left as they are.

    Raises as `named_type`.
    """
    kind = named_type(values.type, wanted, what=what, column=column)
    if kind == values.type:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_named(chunk, kind) for chunk in values.chunks], kind)
    return _named(values, kind)


def named_type(given: pa.DataType, wanted: pa.DataType, *, what: str, column: str) -> pa.DataType:
    """The type that `with_named_fields` gives to values of a type.

    Raises InvalidRequestError for a struct with other fields than the wanted one: `what` begins the error, `column` is
    the place of the values.
    """
    types = pa.types
    if types.is_struct(given) and types.is_struct(wanted):
        places = _places(given, wanted, what=what, column=column)
        found = [
            named_type(given.field(place).type, one.type, what=what, column=f"{column}.{one.name}")
            for place, one in zip(places, wanted, strict=True)
        ]
        fields = [given.field(place).with_name(one.name) for place, one in zip(places, wanted, strict=True)]
        return pa.struct([field.with_type(kind) for field, kind in zip(fields, found, strict=True)])
    if types.is_map(given) and types.is_map(wanted):
        key = named_type(given.key_type, wanted.key_type, what=what, column=f"{column}.key")
        item = named_type(given.item_type, wanted.item_type, what=what, column=f"{column}.value")
        is_same = key == given.key_type and item == given.item_type
        return given if is_same else pa.map_(key, given.item_field.with_type(item))
    if _is_list(given) and _is_list(wanted):
        element = named_type(given.value_type, wanted.value_type, what=what, column=f"{column}[]")
        if element == given.value_type:
            return given
        field = given.value_field.with_type(element)
        return pa.large_list(field) if types.is_large_list(given) else pa.list_(field)
    return given


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _places(given: pa.DataType, wanted: pa.DataType, *, what: str, column: str) -> list[int]:
    """The place in `given` of each field of `wanted`."""
    names, own = [one.name for one in given], [one.name for one in wanted]
    known = [matching(name, own) for name in names]
    is_matched = all(len(one) == 1 for one in known) and sorted(one[0] for one in known) == sorted(own)
    if not is_matched:
        raise InvalidRequestError(
            f"{what}: {column!r} is a struct with the fields {listed(own)}, found {listed(names)}: fields are found by "
            "their names; give each of them once"
        )
    at = {one[0]: place for place, one in enumerate(known)}
    return [at[name] for name in own]


def _named(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in a type of `named_type`."""
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        given = [one.name for one in values.type]
        own = [one.name for one in kind]
        at = {matching(name, own)[0]: place for place, name in enumerate(given)}
        members = [_named(values.field(at[one.name]), one.type) for one in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null())
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    first, count = values.offsets[0], values.offsets[-1].as_py() - values.offsets[0].as_py()
    offsets = pc.subtract(values.offsets, first)
    if pa.types.is_map(kind):
        keys = _named(values.keys.slice(first.as_py(), count), kind.key_type)
        items = _named(values.items.slice(first.as_py(), count), kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=values.is_null())
    elements = _named(values.values.slice(first.as_py(), count), kind.value_type)
    array = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return array.from_arrays(offsets, elements, type=kind, mask=values.is_null())


def refused_place(values: Values, cast: Callable[[Values], object]) -> int:
    """The place of the first of the values that `cast`, which has refused them together, refuses alone."""
    place = 0
    while len(values) > 1:
        half = len(values) // 2
        try:
            cast(values[:half])
            values, place = values[half:], place + half
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values = values[:half]
    return place


def refused_value(values: Values, cast: Callable[[Values], object]) -> object:
    """The first of the values that `cast`, which has refused them together, refuses alone."""
    return values[refused_place(values, cast)].as_py()
