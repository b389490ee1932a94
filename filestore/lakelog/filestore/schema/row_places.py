"""The places of rows in the files of a table without primary key: which file, and which row of it. Pure.

Such rows have no key: equal rows are told apart by their places, which hold for one snapshot. A read has them as two
more columns of its schema, which no file has.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import MAX_LENGTH, DataField, DataType, TypeRoot
from lakelog.filestore.schema.schema import TableSchema

FILE, POSITION = "__lakelog_file", "__lakelog_position"
FILE_FIELD = DataField(
    id=2_147_483_630, name=FILE, type=DataType(root=TypeRoot.VARCHAR, length=MAX_LENGTH, nullable=False)
)
POSITION_FIELD = DataField(id=2_147_483_629, name=POSITION, type=DataType(root=TypeRoot.BIGINT, nullable=False))
PLACE_FIELDS = (FILE_FIELD, POSITION_FIELD)
PLACE_NAMES = (FILE, POSITION)


def placed_schema(schema: TableSchema) -> TableSchema:
    """The schema with the columns of places. Raises UnsupportedError for a table that has such a column itself."""
    taken = [name for name in schema.field_names if name.lower() in PLACE_NAMES]
    if taken:
        raise UnsupportedError(f"column {taken[0]!r} has a name that statements on rows without a key need: rename it")
    return replace(schema, fields=(*schema.fields, *PLACE_FIELDS))


def has_places(schema: TableSchema) -> bool:
    """Whether a schema has the columns of places."""
    return POSITION_FIELD in schema.fields[-1:]


def schema_without_places(schema: TableSchema) -> TableSchema:
    """The schema without these columns: that of the files."""
    return replace(schema, fields=schema.fields[: -len(PLACE_FIELDS)])


def has_place_columns(rows: pa.Table) -> bool:
    """Whether rows have the columns of places."""
    return FILE in rows.column_names


def without_places(rows: pa.Table) -> pa.Table:
    """The rows without the columns of places, if they have them."""
    return rows.drop_columns([name for name in PLACE_NAMES if name in rows.column_names])
