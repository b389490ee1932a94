"""Finds the columns of rows by the names of a table's columns. Pure.

Names are compared as Spark compares them: an exact match comes first, else a match in another case, unless ambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.schema.schema import TableSchema

_WAYS_OUT = {
    "lack": "; these columns take no nulls",
    "have unknown": "; leave them out, or add them to the table: merge_schema=True of write, write_stream and "
    "LakelogSink, the option mergeSchema of format('lakelog'), or Table.alter",
}


def places_of_columns(
    schema: TableSchema, names: Sequence[str], *, table_name: str, is_case_sensitive: bool = False
) -> list[int | None]:
    """For each column of the table the index of its values in `names`; None for a column that the rows lack.

    Raises InvalidRequestError for columns that the table lacks, for duplicate columns, and for rows that lack a NOT
    NULL column.
    """
    found = [*map(names_of(schema, is_case_sensitive=is_case_sensitive), names)]
    wanted = schema.field_names
    keys = () if schema.is_counted else schema.primary_keys
    counts = Counter(found)
    problems = {
        "lack": [
            field.name
            for field in schema.fields
            if field.name not in counts and (field.name in keys or not field.type.nullable)
        ],
        "have unknown": [name for name, column in zip(names, found, strict=True) if column is None],
        "repeat": [name for name, column in zip(names, found, strict=True) if counts[column] > 1],
    }
    for verb, columns in problems.items():
        if columns:
            raise InvalidRequestError(
                f"rows for table {table_name} {verb} column(s) {listed(dict.fromkeys(columns))}; expected "
                f"{listed(wanted)}, found {listed(names) or 'none'}{_WAYS_OUT.get(verb, '')}"
            )
    places = {column: place for place, column in enumerate(found)}
    return [places.get(name) for name in wanted]


def unknown_columns(schema: TableSchema, names: Sequence[str], *, is_case_sensitive: bool = False) -> list[str]:
    """The names for which the table has no column."""
    name_of = names_of(schema, is_case_sensitive=is_case_sensitive)
    return [name for name in names if name_of(name) is None]


def names_of(schema: TableSchema, *, is_case_sensitive: bool = False) -> Callable[[str], str | None]:
    """The function from a name to the table's column of that name, None if the table has none.

    It raises InvalidRequestError for an ambiguous name: one of several columns that differ only in case.
    """
    exact = set(schema.field_names)

    def name_of(name: str) -> str | None:
        if name in exact or is_case_sensitive:
            return name if name in exact else None
        columns = matching(name, schema.field_names)
        if len(columns) > 1:
            raise InvalidRequestError(f"column {name!r} of the rows is ambiguous: {listed(columns)}")
        return columns[0] if columns else None

    return name_of
