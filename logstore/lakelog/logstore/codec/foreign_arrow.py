"""Foreign records in columns, by Arrow's parser: records of one schema without anything odd.

Anything odd raises NotColumnarError, and `foreign_single` finds out what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: numpy arrays of any element type

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import DataType, RowKind
from lakelog.logstore.codec.foreign_columns import BoundColumn
from lakelog.logstore.codec.foreign_forms import AssumedTimes
from lakelog.logstore.codec.foreign_members import (
    MemberPath,
    declared_type,
    inferred_type,
    known_in_columns,
    shown_path,
)
from lakelog.logstore.codec.foreign_records import STAND_INS, BadRecordError
from lakelog.logstore.codec.foreign_rules import (
    Columns,
    ForeignRules,
    NewColumns,
    Piece,
    all_columns,
    bound_columns,
    joined_type,
    type_of_value,
)
from lakelog.logstore.codec.json_columns import NotColumnarError, convert_columns, parse_lines
from lakelog.logstore.codec.json_text import escape
from lakelog.logstore.codec.json_value import Json, JsonValueError, parse_json

_SAMPLES_MAX = 256
_IMAGES = ("before", "after")
_FIRST = 64  # the other members are inferred from these; a part with records in another form is halved


def read_columns(
    numbers: Sequence[int],
    payloads: Sequence[bytes],
    connect: Columns,
    rules: ForeignRules,
    new_columns: NewColumns,
    *,
    keys: Sequence[bytes | None],
    seen: AssumedTimes,
) -> Piece:
    """The rows of a part; `keys` are the record keys of the whole batch. Raises NotColumnarError."""
    samples = {} if connect is not None else _samples(payloads)
    names = samples if connect is None else [column.name for column in connect]
    try:
        bound, unknown = bound_columns(names, connect, samples, rules, seen=seen)
        new_columns.add(_types_of_unknown(unknown, connect, samples), rules)
    except BadRecordError as error:
        raise NotColumnarError from error
    wires = [column.wire for column in bound if column.wire is not None]
    if len(wires) < len(bound) or not all(payload[:1] == b"{" for payload in payloads):
        raise NotColumnarError
    image = pa.struct([(column.name, column.wire.type) for column in bound if column.wire is not None])
    text = b"\n".join(payloads)
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise NotColumnarError from error
    schema = pa.schema([("before", image), ("after", image), ("op", pa.string())])
    first = payloads[:_FIRST]
    table = parse_lines(pa.py_buffer(b"\n".join(first)), len(first), schema, unknown="infer")
    for side in _IMAGES:
        _check_known(table[side].combine_chunks(), {column.name for column in bound} | {*unknown} | rules.ignored)
    if len(payloads) > _FIRST:
        table = parse_lines(pa.py_buffer(text), len(payloads), _envelope_of(table.schema), unknown="error")
    before, after, op = (table[name].combine_chunks() for name in ("before", "after", "op"))
    members = _UnknownMembers(connect=connect, rules=rules)
    piece = _rows_of_images(np.array(numbers, np.int64), before, after, op, bound, members, keys=keys)
    for path, kind in members.found.items():
        new_columns.members[path] = joined_type(new_columns.members.get(path), kind)
    return piece


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnknownMembers:
    """What happens to members that the table's columns lack: `found` are those to be added."""

    connect: Columns
    rules: ForeignRules
    found: dict[MemberPath, DataType] = field(default_factory=dict)

    def __call__(self, path: MemberPath, kind: pa.DataType) -> bool:
        """Whether values of a member are left out and counted. Raises NotColumnarError if they make records bad."""
        if shown_path(path) in self.rules.ignored:
            return False
        if not self.rules.drops_members:
            if not self.rules.takes_new_columns or path in self.rules.refused:
                raise NotColumnarError
            self.found[path] = declared_type(path, self.connect or ()) or inferred_type(kind)
        return self.rules.drops_members


def _types_of_unknown(unknown: Sequence[str], connect: Columns, samples: Mapping[str, Json]) -> dict[str, DataType]:
    """Name -> the type of a column for it; no type for a name without a value."""
    if connect is not None:
        return {column.name: column.column_type for column in connect if column.name in unknown}
    types = {name: type_of_value(samples[name]) for name in unknown}
    return {name: kind for name, kind in types.items() if kind is not None}


def _samples(payloads: Sequence[bytes]) -> dict[str, Json]:
    """Names of columns and, for each, a value that is not null, if some records have one. Raises NotColumnarError."""
    found: dict[str, Json] = {}
    for payload in payloads[:: max(1, len(payloads) // _SAMPLES_MAX)]:
        try:
            envelope = parse_json(payload)
            images = [envelope.get("before"), envelope.get("after")]
            for image in images:
                for name, value in (image or {}).items():
                    if found.get(name) is None:
                        found[name] = value
        except (JsonValueError, AttributeError, TypeError) as error:
            raise NotColumnarError from error
        if found and all(value is not None for value in found.values()):
            break
    return found


def _envelope_of(schema: pa.Schema) -> pa.Schema:
    """The members that all records have; one that is null in the samples may be a string elsewhere."""
    return pa.schema([(one.name, one.type if one.name in _IMAGES else _without_nulls(one.type)) for one in schema])


def _without_nulls(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _without_nulls(one.type)) for one in kind])
    return pa.string() if pa.types.is_null(kind) or pa.types.is_timestamp(kind) else kind


def _check_known(image: pa.StructArray, known: Iterable[str]) -> None:
    """Raise NotColumnarError for values in columns that the samples did not show."""
    for place, member in enumerate(image.type):
        if member.name not in known and image.field(place).null_count < len(image):
            raise NotColumnarError


def _rows_of_images(  # noqa: PLR0917  # the parts of the envelope
    numbers: np.ndarray[Any, np.dtype[np.int64]],
    before: pa.StructArray,
    after: pa.StructArray,
    op: pa.Array,
    bound: Sequence[BoundColumn],
    members: _UnknownMembers,
    *,
    keys: Sequence[bytes | None],
) -> Piece:
    """Raises NotColumnarError for an odd op or a missing image, which only reading one by one can explain."""
    rules = members.rules
    has_before, has_after = (np.asarray(image.is_valid()) for image in (before, after))
    letters = op.fill_null("").to_numpy(zero_copy_only=False)
    adds, updates, deletes = np.isin(letters, ("c", "r")), letters == "u", letters == "d"
    takes_after, takes_before = adds | updates, deletes.copy()
    (olds, left_out_of_olds), (news, left_out_of_news) = (_columns_of(one, bound, members) for one in (before, after))
    of_old_rows = deletes | (updates & has_before if rules.keys_stay else updates)
    if rules.key_fields and of_old_rows.any():
        _check_old_keys(numbers, of_old_rows, olds, bound, rules, keys=keys)
    moved = np.zeros(len(letters), np.bool_)
    if not rules.key_fields:
        takes_before |= updates
    elif (updates & has_before).any():
        moved = updates & has_before & _differ(olds, news, bound, rules.key_fields, count=len(letters))
        takes_before |= moved
    if not (takes_after | takes_before).all() or (takes_after & ~has_after).any() or (takes_before & ~has_before).any():
        raise NotColumnarError
    if rules.no_removals is not None and takes_before.any():
        raise NotColumnarError
    count = len(letters)
    kinds = np.empty(2 * count, np.int8)
    kinds[0::2] = np.where(updates & ~moved, RowKind.UPDATE_BEFORE, RowKind.DELETE)
    kinds[1::2] = np.where(updates & ~moved, RowKind.UPDATE_AFTER, RowKind.INSERT)
    chosen = np.flatnonzero(np.column_stack([takes_before, takes_after]).ravel())
    places, is_after = np.divmod(chosen, 2)
    index = pa.array(places + is_after * count)
    images = [pa.concat_arrays([old, new]).take(index) for old, new in zip(olds, news, strict=True)]
    converted = convert_columns([column.wire for column in bound if column.wire is not None], images)
    try:
        arrays = {column.target.name: column.fit(array) for column, array in zip(bound, converted, strict=True)}
    except pa.ArrowInvalid as error:
        raise NotColumnarError from error
    return Piece(
        records=numbers[places],
        kinds=kinds[chosen],
        arrays=all_columns(arrays, len(chosen), rules),
        left_out=np.concatenate([left_out_of_olds, left_out_of_news])[places + is_after * count],
    )


def _check_old_keys(
    numbers: np.ndarray[Any, np.dtype[np.int64]],
    of_old_rows: np.ndarray[Any, np.dtype[np.bool_]],
    olds: Sequence[pa.Array],
    bound: Sequence[BoundColumn],
    rules: ForeignRules,
    *,
    keys: Sequence[bytes | None],
) -> None:
    """Raise NotColumnarError if the key of an old row may be unknown, given record key and image."""
    text = pl.Series([keys[number] for number in numbers], dtype=pl.Binary)
    lacks = np.zeros(len(numbers), np.bool_)
    for name in rules.key_fields:
        lacks |= ~text.bin.contains(f'"{escape(name)}":'.encode()).fill_null(True).to_numpy()
    lacks &= of_old_rows
    if not lacks.any():
        return
    known = np.ones(len(numbers), np.bool_)
    for column, old in zip(bound, olds, strict=True):
        if column.target.name in rules.key_fields:
            known &= np.asarray(old.is_valid()) & ~_are_stand_ins(old)
    if (lacks & ~known).any():
        raise NotColumnarError


def _are_stand_ins(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if pa.types.is_string(values.type):
        found = pc.is_in(values, pa.array(["", *STAND_INS]))
    elif pa.types.is_integer(values.type):
        found = pc.equal(values, 0)
    else:
        raise NotColumnarError
    return np.asarray(found.fill_null(False))


def _columns_of(
    image: pa.StructArray, bound: Sequence[BoundColumn], members: _UnknownMembers
) -> tuple[list[pa.Array], np.ndarray[Any, np.dtype[np.int64]]]:
    """The columns in their wire types, and how many members were left out of each row. Raises NotColumnarError."""
    flat = image.flatten()
    left_out = np.zeros(len(image), np.int64)
    arrays = []
    for column in bound:
        assert column.wire is not None
        values = flat[image.type.get_field_index(column.name)]
        known, of_column = known_in_columns(values, column.wire.type, (column.target.name,), members)
        arrays.append(known)
        left_out += of_column
    return arrays, left_out


def _differ(
    olds: Sequence[pa.Array],
    news: Sequence[pa.Array],
    bound: Sequence[BoundColumn],
    key_fields: Sequence[str],
    *,
    count: int,
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where both images have a whole key, and the keys differ."""
    differ, whole = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for column, old, new in zip(bound, olds, news, strict=True):
        if column.target.name in key_fields:
            if pa.types.is_nested(old.type):
                raise NotColumnarError
            differ |= np.asarray(pc.not_equal(old, new).fill_null(False))
            whole &= np.asarray(old.is_valid()) & np.asarray(new.is_valid())
    return differ & whole
