"""Adding new columns to a table before the rows that have them are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypedDict

import pyarrow as pa

from lakelog.catalog.logs.altering import alter_table
from lakelog.common.arrow import from_arrow_field
from lakelog.common.types import DataField, DataType
from lakelog.filestore import FileStoreTable
from lakelog.filestore.alter import AddColumn
from lakelog.filestore.schema import ColumnPath, TableSchema, named_fields
from lakelog.filestore.write import check_columns, unknown_columns

_NONE: Mapping[ColumnPath, DataType] = MappingProxyType({})


class Found(TypedDict, total=False):
    """How the columns of rows become columns of a table, how names are compared, and new members of nested columns."""

    column_of: Callable[[pa.Field], DataField]
    is_case_sensitive: bool
    members: Mapping[ColumnPath, DataType]


def add_new_columns(
    store: FileStoreTable,
    warehouse: str,
    found: pa.Schema,
    *,
    kafka: Mapping[str, str] | None = None,
    column_of: Callable[[pa.Field], DataField] = from_arrow_field,
    is_case_sensitive: bool = False,
    members: Mapping[ColumnPath, DataType] = _NONE,
) -> TableSchema:
    """Add the columns of `found` that the newest schema lacks, nullable and at the end, in at most one change.

    `members` are new members of nested columns, by their path: those that the newest schema lacks are added too.
    Returns the resulting newest schema. `found` has no `_row_kind`. Raises like `alter_table`, and InvalidRequestError
    for rows that do not fit the table with these columns: then the schema does not change.
    """

    def new_columns(newest: TableSchema) -> list[AddColumn]:
        names = unknown_columns(newest, found.names, is_case_sensitive=is_case_sensitive)
        columns = [column_of(found.field(name)) for name in names]
        known = {tuple(map(str.lower, path)) for path, _ in named_fields(newest.fields)} if members else set()
        below = [(path, kind) for path, kind in members.items() if tuple(map(str.lower, path)) not in known]
        return [
            *(AddColumn(one.name, _nullable(one.type), one.description) for one in columns),
            *(AddColumn(path, _nullable(kind)) for path, kind in below),
        ]

    def check(_: TableSchema, changed: TableSchema) -> None:
        grown = {path[0] for path in members}
        given = pa.schema([changed.arrow_schema.field(one.name) if one.name in grown else one for one in found])
        check_columns(changed, given, table_name=store.name, is_case_sensitive=is_case_sensitive)

    return alter_table(store, warehouse, new_columns, kafka=kafka, check=check)


def _nullable(kind: DataType) -> DataType:
    """The type with nulls allowed everywhere but in map keys: later batches may have nulls where this one has none."""
    return replace(
        kind,
        nullable=True,
        element=None if kind.element is None else _nullable(kind.element),
        value=None if kind.value is None else _nullable(kind.value),
        fields=tuple(replace(member, type=_nullable(member.type)) for member in kind.fields),
    )
