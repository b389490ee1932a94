"""Strategies for tables and what happens to them, with a dict as the model of what must be in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: values of every column type

import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st

from lakelog.common.arrow import time_unit, to_arrow_schema, to_arrow_type
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, DataType, RowKind, TypeRoot
from lakelog.filestore.options.files import FileFormat
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from tests.support.tables.column_types import column_types, exact_rows, scalar_types, values_of

_NO_PATH = {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}
_TEXT = {TypeRoot.CHAR, TypeRoot.VARCHAR}
_BYTES = {TypeRoot.BINARY, TypeRoot.VARBINARY}
_TIMESTAMPS = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
_SECONDS = st.integers(-62_135_596_800, 253_402_300_799)


def is_storable(kind: DataType) -> bool:
    """Whether a table can have a column of the type, and every value that `storable_values` gives for it."""
    try:
        build_schema([pa.field("id", pa.int32()), DataField(id=0, name="c", type=kind)], primary_keys=["id"])
    except UnsupportedError:
        return False
    return not kind.is_nested or "TIMESTAMP" not in str(kind)  # `storable_values` bounds those of columns only


key_types = scalar_types.filter(is_storable)
value_types = column_types.filter(is_storable)
partition_types = key_types.filter(lambda kind: kind.root not in _NO_PATH)


def storable_values(kind: DataType) -> st.SearchStrategy[Any]:
    """Values that a file can hold: texts of the length, timestamps of the years 1 to 9999 or what a long can count."""
    if kind.root in _TIMESTAMPS and (kind.precision or 0) <= 6:
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000}[time_unit(kind.precision or 0)]
        some = st.builds(lambda second, part: second * per_second + part, _SECONDS, st.integers(0, per_second - 1))
        return st.none() | some if kind.nullable else some
    given = values_of(kind)
    if kind.root in _TEXT or kind.root in _BYTES:
        length = kind.length or 0
        return given.map(lambda value: value if value is None else value[:length])
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Rows in arrival order with their kinds; `is_overwrite` replaces the table."""

    rows: pa.Table
    kinds: pa.Array
    is_overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """A compaction of all buckets."""

    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A table and what happens to it."""

    schema: TableSchema
    steps: Sequence[Write | Compact]


@dataclass(slots=True)
class Model:
    """What must be in the table: its rows by key, each as exact text."""

    schema: TableSchema
    rows: dict[str, str]

    @classmethod
    def of(cls, schema: TableSchema) -> Model:
        """An empty table."""
        return cls(schema, {})

    def apply(self, step: Write | Compact) -> None:
        """Do what the step does."""
        if isinstance(step, Compact):
            return
        if step.is_overwrite:
            self.rows.clear()
        keys = exact_rows(step.rows.select(list(self.schema.primary_keys)))
        for key, row, kind in zip(keys, exact_rows(step.rows), step.kinds.to_pylist(), strict=True):
            if RowKind(kind).is_add:
                self.rows[key] = row
            else:
                self.rows.pop(key, None)

    def shown(self) -> list[str]:
        """The rows, sorted as text."""
        return sorted(self.rows.values())


def shown(table: pa.Table) -> list[str]:
    """The rows of an Arrow table as `Model.shown` has them."""
    return sorted(exact_rows(table))


@st.composite
def table_schemas(draw: st.DrawFn, *, options: dict[str, str] | None = None) -> TableSchema:
    """Primary key tables with up to three key columns of any type, partitioned or not, and any value columns."""
    keys = draw(st.lists(key_types, min_size=1, max_size=2))
    partitions = draw(st.lists(partition_types, max_size=1))
    values = draw(st.lists(value_types, max_size=3))
    fields = [
        DataField(id=0, name=f"{name}{index}", type=kind)
        for name, kinds in (("k", keys), ("p", partitions), ("v", values))
        for index, kind in enumerate(kinds)
    ]
    shuffled = draw(st.permutations(fields))
    names = [field.name for field in fields if field.name[0] in "kp"]
    try:
        schema = build_schema(
            shuffled,
            primary_keys=draw(st.permutations(names)),
            partition_keys=[name for name in names if name.startswith("p")],
            options={"bucket": str(draw(st.integers(1, 3))), **(options or {})},
        )
    except UnsupportedError:  # a type that the file format cannot hold
        reject()
    if FileFormat.ORC in schema.file_formats and "TIMESTAMP" in str([str(field.type) for field in fields]):
        reject()  # ORC holds a few centuries only
    return schema


@st.composite
def histories(
    draw: st.DrawFn, *, steps_max: int = 6, rows_max: int = 8, options: Mapping[str, str] | None = None
) -> History:
    """Tables with writes that often meet the same keys, and compactions in between."""
    options = {
        "write-only": draw(st.sampled_from(("true", "false"))),
        "num-sorted-run.compaction-trigger": "3",
        **(options or {}),
    }
    if draw(st.booleans()):
        options["target-file-size"] = "1 b"  # every piece of rows becomes a file
    schema = draw(table_schemas(options=options))
    keys = draw(
        st.lists(
            st.tuples(*(storable_values(schema.field(name).type) for name in schema.primary_keys)),
            min_size=2,
            max_size=5,
        )
    )
    writes = _writes(schema, keys, rows_max)
    steps = st.lists(
        st.one_of(writes, writes, writes, st.builds(Compact, is_full=st.booleans())), min_size=2, max_size=steps_max
    )
    return History(schema=schema, steps=draw(steps))


@st.composite
def _writes(draw: st.DrawFn, schema: TableSchema, keys: Sequence[tuple[Any, ...]], rows_max: int) -> Write:
    chosen = draw(st.lists(st.sampled_from(keys), min_size=draw(st.integers(0, 3)), max_size=rows_max))
    columns: dict[str, list[Any]] = {
        name: [key[index] for key in chosen] for index, name in enumerate(schema.primary_keys)
    }
    for field in schema.fields:
        if field.name not in columns:
            columns[field.name] = [draw(storable_values(field.type)) for _ in chosen]
    kinds = [draw(st.sampled_from(RowKind)) for _ in chosen]
    return Write(
        rows=arrow_rows(schema.fields, columns),
        kinds=pa.array(kinds, pa.int8()),
        is_overwrite=draw(st.integers(0, 9)) == 0,
    )


def arrow_rows(fields: Sequence[DataField], columns: dict[str, list[Any]]) -> pa.Table:
    """An Arrow table of Python values by column name."""
    arrays = [pa.array(columns[field.name], to_arrow_type(field.type)) for field in fields]
    return pa.Table.from_arrays(arrays, schema=to_arrow_schema(fields))
