"""DESCRIBE. Source: Spark, "DESCRIBE TABLE"; FLIP-188, "DESCRIBE", for what a table and a partition are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.procedures.procedures import find_procedure
from lakelog.catalog.tables.describing import PartitionDescription, described_rows
from lakelog.common.arrow import from_arrow_type
from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.common.types import DataType, TypeRoot
from lakelog.sql.language.names import FoundName, SqlNames, check_database
from lakelog.sql.language.parsing import parsed_one, table_named
from lakelog.sql.language.patterns import patterns, run_by, unquoted
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.selects import rows_of
from lakelog.sql.statements.partitions import partition_of, partition_values_of

if TYPE_CHECKING:
    from lakelog.catalog import Table

_Row: TypeAlias = tuple[str, str, str | None]


def describe(names: SqlNames, text: str) -> pa.Table | None:
    """DESCRIBE of a table, a column, a partition, a query, a database or a procedure. Raises UnsupportedError."""
    return run_by(_PATTERNS, names, text)


def _described_query(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    query = parsed_one(asked["query"])
    if not isinstance(query, exp.Query | exp.Values):
        raise UnsupportedError(f"DESCRIBE QUERY {shown(asked['query'])}: this is not a query")
    fields = QueryTables(names=names).run(rows_of(query).limit(0)).schema
    return _table([(field.name, type_of(from_arrow_type(field.type, name=field.name)), "") for field in fields])


def _described_table(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    found = names.found(table_named(asked["name"]))
    details = _details(found, asked["partition"], is_extended=asked["style"] is not None)
    return _table([*_columns(found.table), *details])


def _detail(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    return _table(_details(names.found(table_named(asked["name"])), asked["partition"], is_extended=True))


def pairs(first: str, second: str, found: Mapping[str, str]) -> pa.Table:
    """The names and values as rows of two columns."""
    return pa.table({first: pa.array([*found], pa.string()), second: pa.array([*found.values()], pa.string())})


def type_of(kind: DataType) -> str:
    """A type in Spark's words, without NOT NULL."""
    match kind.root:
        case TypeRoot.ARRAY if kind.element is not None:
            return f"array<{type_of(kind.element)}>"
        case TypeRoot.MAP if kind.key is not None and kind.value is not None:
            return f"map<{type_of(kind.key)},{type_of(kind.value)}>"
        case TypeRoot.MULTISET if kind.element is not None:
            return f"map<{type_of(kind.element)},int>"
        case TypeRoot.ROW:
            return f"struct<{','.join(f'{one.name}:{type_of(one.type)}' for one in kind.fields)}>"
        case TypeRoot.TIMESTAMP_LTZ:
            return "timestamp"
        case TypeRoot.TIMESTAMP:
            return "timestamp_ntz"
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return "binary"
        case TypeRoot.DECIMAL:
            return f"decimal({kind.precision},{kind.scale})"
    return str(kind).removesuffix(" NOT NULL").lower()


def _database(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    found = names.found_database(table_named(asked["name"]))
    check_database(found)
    location = f"{found.catalog.warehouse}/{found.full}.db"
    values = {"Catalog Name": found.catalog_name, "Namespace Name": found.full, "Location": location}
    return pairs("info_name", "info_value", values)


def _procedure(_: SqlNames, asked: re.Match[str]) -> pa.Table:
    found = find_procedure(asked["procedure"])
    parameters = [
        f"{one.name} {one.kind}{'' if one.is_required else ' (may be left out)'}: {one.comment}"
        for one in found.parameters
    ]
    lines = [f"sys.{found.name}", found.comment, *parameters]
    return pa.table({"procedure_description": pa.array(lines, pa.string())})


def _column(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    table, name = names.found(table_named(asked["name"])).table, unquoted(asked["column"]).lower()
    field = next((one for one in table.schema.fields if one.name.lower() == name), None)
    if field is None:
        raise InvalidRequestError(f"table {table.name} has no column {shown(name)}")
    found = {"col_name": field.name, "data_type": type_of(field.type), "comment": field.description or "NULL"}
    return pairs("info_name", "info_value", found)


def _columns(table: Table) -> Iterator[_Row]:
    rows = [(field.name, type_of(field.type), field.description) for field in table.schema.fields]
    yield from rows
    if table.schema.partition_keys:
        yield "# Partition Information", "", ""
        yield "# col_name", "data_type", "comment"
        yield from (row for row in rows if row[0] in table.schema.partition_keys)


def _details(found: FoundName, partition: str | None, *, is_extended: bool) -> Iterator[_Row]:
    """What the table is, or one of its partitions. Raises NotFoundError for a partition that does not exist."""
    if partition is not None:
        yield "", "", ""
        yield "# Detailed Partition Information", "", ""
        yield from ((label, text, "") for label, text in described_rows(_partition(found, partition_of(partition))))
    elif is_extended:
        yield "", "", ""
        yield "# Detailed Table Information", "", ""
        yield "Provider", "lakelog", ""
        yield from ((label, text, "") for label, text in described_rows(found.table.describe()))


def _partition(found: FoundName, partition: exp.Expr) -> PartitionDescription:
    table = found.table
    asked = {key: str(value) for key, value in partition_values_of(table, partition).items()}
    if missing := [key for key in table.schema.partition_keys if key not in asked]:
        raise InvalidRequestError(f"PARTITION of {found} needs a value for {', '.join(missing)}")
    for one in table.system.partitions():
        if {key: str(value) for key, value in one.values.items()} == asked:
            return one
    raise NotFoundError(f"table {found} has no partition ({', '.join(f'{key}={asked[key]}' for key in asked)})")


def _table(rows: Iterable[_Row]) -> pa.Table:
    found = list(rows)
    return pa.table(
        {
            name: pa.array([row[at] for row in found], pa.string())
            for at, name in enumerate(("col_name", "data_type", "comment"))
        }
    )


_PATTERNS = patterns(
    {
        r"DESC(?:RIBE)? (?:QUERY )?(?P<query>\(?\s*(?:SELECT|WITH|VALUES|FROM)\b.+)": _described_query,
        r"DESC(?:RIBE)? QUERY (?P<query>.+)": _described_query,
        r"DESC(?:RIBE)? DETAIL (?:TABLE )?{name}(?: {partition})?": _detail,
        r"DESC(?:RIBE)? PROCEDURE (?:\w+\.)?sys\.(?P<procedure>\w+)": _procedure,
        r"DESC(?:RIBE)? (?:DATABASE|SCHEMA|NAMESPACE) (?:EXTENDED )?{name}": _database,
        r"DESC(?:RIBE)? (?:TABLE )?(?:(?P<style>EXTENDED|FORMATTED) )?{name}(?: {partition})?": _described_table,
        r"DESC(?:RIBE)? (?:TABLE )?(?!(?:FUNCTION|HISTORY|DETAIL|PROCEDURE|QUERY)\b){name} {column}": _column,
    }
)
