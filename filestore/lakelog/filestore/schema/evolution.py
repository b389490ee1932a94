"""Reads rows of an older or newer schema as the columns of the current schema: by field id, never by name. Pure.

A column that the file lacks is null. Types are cast as Paimon's readers cast them; members of nested rows have ids of
their own and are matched the same way. Source: Paimon spec, "Schema evolution".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema, to_arrow_type
from lakelog.common.errors import ConflictError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.encoding.casting import BYTES, FLOATS, INTEGERS, TEXT, TIMES, cast_scalars

_WIDENED = (INTEGERS, FLOATS, TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMapping:
    """How to read columns from a file: `stored` are those read; `sources` are their indexes by wanted column."""

    wanted: tuple[DataField, ...]
    stored: tuple[DataField, ...]
    sources: tuple[int | None, ...]
    is_plain: bool  # the file holds the wanted columns unchanged

    @classmethod
    def of(cls, wanted: Sequence[DataField], stored: Sequence[DataField]) -> FieldMapping:
        """Match the wanted columns with those of a file. Raises UnsupportedError for types that have no cast."""
        by_id = {field.id: field for field in stored}
        read: list[DataField] = []
        sources: list[int | None] = []
        for field in wanted:
            found = by_id.get(field.id)
            if found is None:
                sources.append(None)
                continue
            check_cast(found.type, field.type, name=field.name)
            sources.append(len(read))
            read.append(found)
        is_plain = len(read) == len(wanted) and all(
            found.name == field.name and found.type == field.type for found, field in zip(read, wanted, strict=True)
        )
        return cls(wanted=tuple(wanted), stored=tuple(read), sources=tuple(sources), is_plain=is_plain)

    def adapt(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns of a batch of the stored ones."""
        if self.is_plain:
            return batch
        columns = [
            pa.nulls(batch.num_rows, to_arrow_type(field.type))
            if source is None
            else _cast_named(batch.column(source), self.stored[source], field)
            for field, source in zip(self.wanted, self.sources, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.wanted))


def _cast_named(values: pa.Array, found: DataField, wanted: DataField) -> pa.Array:
    try:
        return cast_values(values, found.type, wanted.type)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"column {wanted.name!r} is {found.type} in older files and {wanted.type} now, and holds values that do "
            f"not fit: {error}"
        ) from error


def check_cast(found: DataType, wanted: DataType, *, name: str) -> None:
    """Raise UnsupportedError if values of one type cannot be read as another."""
    if found.is_nested or wanted.is_nested:
        if found.root is not wanted.root:
            raise _no_cast(found, wanted, name)
        members = {member.id: member for member in found.fields}
        for member in wanted.fields:
            if member.id in members:
                check_cast(members[member.id].type, member.type, name=f"{name}.{member.name}")
        for inner in ("element", "key", "value"):
            one, other = getattr(found, inner), getattr(wanted, inner)
            if one is not None and other is not None:
                check_cast(one, other, name=f"{name}.{inner}")
        return
    if found.root is not wanted.root and _family(found.root) + _family(wanted.root) not in _CASTS:
        raise _no_cast(found, wanted, name)


def check_not_narrowed(wanted: Sequence[DataField], stored: Sequence[DataField], *, path: str) -> None:
    """Raise ConflictError if a reader of an older schema would lose values of a newer file.

    Columns that the reader does not know are left out, and columns dropped since are null; but a type that has changed
    since may hold values that the reader's type cannot hold.
    """
    by_id = {field.id: field for field in stored}
    for field in wanted:
        found = by_id.get(field.id)
        if (found is None and not field.type.nullable) or (found is not None and _differs(found.type, field.type)):
            what = "no such column any more" if found is None else str(found.type)
            raise ConflictError(
                f"the table's schema has changed since it was opened: column {field.name!r} is {field.type} here and "
                f"{what} in data file {path}; open the table again"
            )


def _differs(found: DataType, wanted: DataType) -> bool:
    """Whether types differ in more than in members that one of them lacks."""
    if found.root is TypeRoot.ROW and wanted.root is TypeRoot.ROW:
        by_id = {member.id: member for member in found.fields}
        return found.nullable != wanted.nullable or any(
            _differs(by_id[member.id].type, member.type) if member.id in by_id else not member.type.nullable
            for member in wanted.fields
        )
    if not (found.is_nested and found.root is wanted.root):
        return found != wanted
    pairs = [(getattr(found, inner), getattr(wanted, inner)) for inner in ("element", "key", "value")]
    return found.nullable != wanted.nullable or any(
        one is not None and other is not None and _differs(one, other) for one, other in pairs
    )


def keeps_order(stored: DataType, wanted: DataType) -> bool:
    """Whether values of one type, read as another, are the same and in the same order."""
    if stored.with_nullable(True) == wanted.with_nullable(True):
        return True
    if stored.root in TEXT and (stored.length or 1) > (wanted.length or 1):  # longer values are cut
        return False
    return any(
        stored.root in family and wanted.root in family and family.index(stored.root) < family.index(wanted.root)
        for family in _WIDENED
    )


def cast_values(values: pa.Array, found: DataType, wanted: DataType) -> pa.Array:
    """Values of one type as another. The types have passed `check_cast`."""
    target = to_arrow_type(wanted)
    if found.with_nullable(True) == wanted.with_nullable(True):
        return values
    match wanted.root:
        case TypeRoot.ROW:
            return _cast_rows(values, found, wanted)
        case TypeRoot.ARRAY:
            assert found.element is not None
            assert wanted.element is not None
            elements = cast_values(values.values, found.element, wanted.element)
            return pa.ListArray.from_arrays(_offsets(values), elements, type=target, mask=_nulls(values))
        case TypeRoot.MAP:
            assert found.key is not None
            assert found.value is not None
            assert wanted.key is not None
            assert wanted.value is not None
            keys = cast_values(values.keys, found.key, wanted.key)
            items = cast_values(values.items, found.value, wanted.value)
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target, mask=_nulls(values))
        case _:
            return cast_scalars(values, found, wanted)


def _cast_rows(values: pa.Array, found: DataType, wanted: DataType) -> pa.Array:
    stored = {member.id: (index, member) for index, member in enumerate(found.fields)}
    children = []
    for member in wanted.fields:
        if member.id in stored:
            index, old = stored[member.id]
            children.append(cast_values(values.field(index), old.type, member.type))
        else:
            children.append(pa.nulls(len(values), to_arrow_type(member.type)))
    return pa.StructArray.from_arrays(children, fields=list(to_arrow_type(wanted)), mask=_nulls(values))


def _offsets(lists: pa.Array) -> pa.Array:
    return pa.array(lists.offsets.to_numpy())


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _family(root: TypeRoot) -> str:
    for letter, roots in _FAMILIES.items():
        if root in roots:
            return letter
    return "-"


_FAMILIES: Mapping[str, Sequence[TypeRoot]] = {
    "i": INTEGERS,
    "f": FLOATS,
    "m": (TypeRoot.DECIMAL,),
    "o": (TypeRoot.BOOLEAN,),
    "s": TEXT,
    "y": BYTES,
    "d": (TypeRoot.DATE,),
    "t": TIMES,
    "c": (TypeRoot.TIME,),
}
# From one family to another: i integer, f float, m decimal, o boolean, s text, y bytes, d date, t timestamp, c time.
_CASTS = {"ii", "if", "im", "is", "io", "ff", "fi", "fm", "mm", "mi", "mf", "ms", "oi", "os", "ss", "sy", "yy"}
_CASTS |= {"ds", "dt", "td", "ts", "tt", "it", "ti", "tc", "ct", "cs", "cc", "fs", "of", "om", "ys"}
_CASTS |= {"si", "sf", "sm", "so", "sd", "sc"}


def _no_cast(found: DataType, wanted: DataType, name: str) -> UnsupportedError:
    return UnsupportedError(f"column {name!r} is {found} in older files and {wanted} now, which has no cast in lakelog")
