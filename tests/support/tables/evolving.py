"""Tables whose schema changes at random, with a model that keeps values by field id."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: values of every column type

import pyarrow as pa
from hypothesis import strategies as st

from lakelog.common.types import DataField, DataType, RowKind, TypeRoot, array_of, map_of, parse_type, row_of
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    Column,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema

KEYS = 6
_NAMES = ("a", "b", "c", "d", "e")
_MEMBERS = ("x", "y", "z")
_WIDER = {
    "TINYINT": ("SMALLINT", "BIGINT", "DOUBLE", "STRING"),
    "SMALLINT": ("INT", "DECIMAL(9,2)"),
    "INT": ("BIGINT", "DOUBLE", "STRING"),
    "BIGINT": ("STRING",),
    "FLOAT": ("DOUBLE",),
    "BOOLEAN": ("STRING",),
    "VARCHAR(8)": ("STRING",),
}
Value = Any

_scalars = st.sampled_from([parse_type(text) for text in _WIDER])


def _row_type(members: Sequence[tuple[str, DataType]]) -> DataType:
    return row_of([DataField(id=0, name=name, type=kind) for name, kind in members])


_rows = st.lists(
    st.tuples(st.sampled_from(_MEMBERS), _scalars), min_size=1, max_size=2, unique_by=lambda one: one[0]
).map(_row_type)
column_types = st.one_of(
    _scalars,
    _scalars,
    _rows,
    _rows.map(array_of),
    _rows.map(lambda kind: map_of(parse_type("STRING"), kind)),
    _scalars.map(array_of),
)


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    """Tables with the key `id`, partitioned or not, and one to three other columns."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    fields = [DataField(id=0, name="id", type=parse_type("BIGINT"))]
    fields += [DataField(id=0, name=name, type=draw(column_types)) for name in names]
    partition = draw(st.sampled_from(((), ("p",))))
    fields += [DataField(id=0, name=name, type=parse_type("INT")) for name in partition]
    options = {
        "bucket": draw(st.sampled_from(("1", "2"))),
        "write-only": draw(st.sampled_from(("true", "false"))),
        "num-sorted-run.compaction-trigger": "3",
    }
    return build_schema(
        draw(st.permutations(fields)), primary_keys=["id", *partition], partition_keys=partition, options=options
    )


def _holders(fields: Sequence[DataField], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], DataType]]:
    """Every ROW inside the columns, with its path."""
    found: list[tuple[tuple[str, ...], DataType]] = []
    for one in fields:
        kind, path = one.type, (*above, one.name)
        while kind.element is not None or kind.value is not None:
            path = (*path, "element" if kind.element is not None else "value")
            kind = kind.element or kind.value or kind
        if kind.root is TypeRoot.ROW:
            found.append((path, kind))
            found += _holders(kind.fields, path)
    return found


def _leaves(fields: Sequence[DataField], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], DataType]]:
    """Every atomic type inside the columns, with its path; keys of maps are left out."""
    found: list[tuple[tuple[str, ...], DataType]] = []
    for one in fields:
        kind, path = one.type, (*above, one.name)
        while kind.element is not None or kind.value is not None:
            path = (*path, "element" if kind.element is not None else "value")
            kind = kind.element or kind.value or kind
        found += _leaves(kind.fields, path) if kind.root is TypeRoot.ROW else [(path, kind)]
    return found


@st.composite
def changes_of(draw: st.DrawFn, schema: TableSchema) -> SchemaChange:
    """A change that fits the schema."""
    free = [one for one in schema.fields if one.name not in schema.primary_keys]
    unused = [name for name in (*_NAMES, "id2") if name not in schema.field_names]
    wider = [(path, text) for path, kind in _leaves(free) for text in _WIDER.get(str(kind), ())]
    choices: list[st.SearchStrategy[SchemaChange]] = []
    if unused:
        choices.append(st.builds(AddColumn, st.sampled_from(unused), column_types, position=_positions(schema.fields)))
        renamed = [one.name for one in schema.fields if one.name not in schema.partition_keys]
        choices.append(st.builds(RenameColumn, st.sampled_from(renamed), st.sampled_from(unused)))
    if free:
        choices.append(st.builds(DropColumn, st.sampled_from([one.name for one in free])))
    if len(schema.fields) > 1:
        moved = draw(st.sampled_from(schema.field_names))
        others = [one for one in schema.fields if one.name != moved]
        choices.append(st.builds(UpdateColumnPosition, st.just(moved), _positions(others)))
    if wider:
        choices.append(st.sampled_from(wider).map(lambda one: UpdateColumnType(*one)))
    for path, kind in _holders(free):
        names = [member.name for member in kind.fields]
        absent = [name for name in _MEMBERS if name not in names]
        if absent:
            new = st.sampled_from([(*path, name) for name in absent])
            choices.append(st.builds(AddColumn, new, _scalars, position=_positions(kind.fields)))
            choices.append(st.builds(RenameColumn, st.just((*path, names[0])), st.sampled_from(absent)))
        if len(names) > 1:
            gone: Column = (*path, names[-1])
            choices.append(st.just(DropColumn(gone)))
    return draw(st.one_of(choices))


def _positions(siblings: Sequence[DataField]) -> st.SearchStrategy[Position]:
    ends = st.sampled_from((Position(Place.FIRST), Position(Place.LAST)))
    beside = st.sampled_from([one.name for one in siblings])
    return ends | st.builds(Position, st.sampled_from((Place.AFTER, Place.BEFORE)), beside)


def values_of(kind: DataType) -> st.SearchStrategy[Value]:
    """Values with names, as Arrow takes them."""
    some: st.SearchStrategy[Value]
    match kind.root:
        case TypeRoot.ROW:
            some = st.fixed_dictionaries({member.name: values_of(member.type) for member in kind.fields})
        case TypeRoot.ARRAY:
            assert kind.element is not None
            some = st.lists(values_of(kind.element), max_size=2)
        case TypeRoot.MAP:
            assert kind.value is not None
            some = st.dictionaries(st.sampled_from("kl"), values_of(kind.value), max_size=2).map(
                lambda one: [*one.items()]
            )
        case TypeRoot.BOOLEAN:
            some = st.booleans()
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            some = st.integers(-64, 64).map(lambda number: number / 4)
        case TypeRoot.VARCHAR:
            some = st.sampled_from(("", "text", "ü€"))
        case TypeRoot.BIGINT:
            some = st.sampled_from((0, -1, 1 << 40))
        case TypeRoot.INT:
            some = st.sampled_from((0, -1, (1 << 31) - 1))
        case TypeRoot.DECIMAL:
            some = st.integers(-99, 99)
        case _:
            some = st.integers(-128, 127)
    return st.none() | some if kind.nullable else some


def by_id(kind: DataType, value: Value) -> Value:
    """A value with field ids in the place of names."""
    if value is None:
        return None
    match kind.root:
        case TypeRoot.ROW:
            return {member.id: by_id(member.type, value[member.name]) for member in kind.fields}
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return [by_id(kind.element, one) for one in value]
        case TypeRoot.MAP:
            assert kind.value is not None
            return [(key, by_id(kind.value, one)) for key, one in value]
    return value


def shown(kind: DataType, value: Value) -> Value:
    """A value by ids as a type shows it: members that it lacks are null, and texts are texts."""
    if value is None:
        return None
    match kind.root:
        case TypeRoot.ROW:
            return {member.name: shown(member.type, value.get(member.id)) for member in kind.fields}
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return [shown(kind.element, one) for one in value]
        case TypeRoot.MAP:
            assert kind.value is not None
            return [(key, shown(kind.value, one)) for key, one in value]
        case TypeRoot.VARCHAR if not isinstance(value, str):
            return str(value).lower()
    return _plain(value)


@dataclass(slots=True)
class Model:
    """Rows by key, values by field id; and the rows of each snapshot."""

    rows: dict[tuple[Value, ...], dict[int, Value]] = field(default_factory=dict)
    snapshots: dict[int, dict[tuple[Value, ...], dict[int, Value]]] = field(default_factory=dict)

    def write(self, schema: TableSchema, rows: Sequence[dict[str, Value]], kinds: Sequence[int]) -> None:
        """Apply changes that a writer with this schema made."""
        keys = sorted(one.id for one in schema.fields if one.name in schema.primary_keys)
        for row, kind in zip(rows, kinds, strict=True):
            values = {one.id: by_id(one.type, row[one.name]) for one in schema.fields}
            key = tuple(values[number] for number in keys)
            if RowKind(kind).is_add:
                self.rows[key] = values
            else:
                self.rows.pop(key, None)

    def keep(self, snapshot_id: int) -> None:
        """Remember the rows as those of a snapshot."""
        self.snapshots[snapshot_id] = copy.deepcopy(self.rows)


def expected(rows: dict[tuple[Value, ...], dict[int, Value]], fields: Sequence[DataField]) -> list[str]:
    """The rows as columns show them, each as text, in order."""
    return sorted(repr([shown(one.type, row.get(one.id)) for one in fields]) for row in rows.values())


def found(table: pa.Table) -> list[str]:
    """The rows of an Arrow table in the form of `expected`; decimals of whole numbers as numbers."""
    columns = [column.to_pylist() for column in table.columns]
    return sorted(repr([_plain(value) for value in row]) for row in zip(*columns, strict=True))


def _plain(value: Value) -> Value:
    match value:
        case list():
            return [_plain(one) for one in value]
        case tuple():
            return tuple(_plain(one) for one in value)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case None | bool() | str():
            return value
    return int(value) if value == int(value) else float(value)
