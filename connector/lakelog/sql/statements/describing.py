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
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.statements.partitions import partition_of, partition_values_of

if TYPE_CHECKING:
    from lakelog.catalog import Table

_NAME = r"(?P<name>[\w.`$-]+)"
_DETAIL = re.compile(rf"DESC(?:RIBE)?\s+DETAIL\s+(?:TABLE\s+)?{_NAME}\s*(?P<partition>PARTITION\b.*)?", re.I | re.S)
_PROCEDURE = re.compile(r"DESC(?:RIBE)?\s+PROCEDURE\s+(?:\w+\.)?sys\.(?P<name>\w+)", re.I)
_QUERY = re.compile(r"DESC(?:RIBE)?\s+(?:QUERY\s+(?P<query>.+)|(?P<bare>(?:SELECT|WITH|VALUES)\b.+))", re.I | re.S)
_COLUMN = re.compile(rf"DESC(?:RIBE)?\s+(?:TABLE\s+)?{_NAME}\s+(?P<column>\w+|`[^`]+`)", re.IGNORECASE)
_KINDS = (
    "EXTENDED",
    "FORMATTED",
    "TABLE",
    "DATABASE",
    "SCHEMA",
    "PROCEDURE",
    "FUNCTION",
    "QUERY",
    "NAMESPACE",
    "HISTORY",
)
_STYLES = ("EXTENDED", "FORMATTED")
_Row: TypeAlias = tuple[str, str, str | None]


def describe(names: SqlNames, statement: exp.Expr) -> pa.Table:
    """DESCRIBE TABLE [EXTENDED] [PARTITION], DATABASE and PROCEDURE. Raises UnsupportedError for others."""
    kind, style = (str(statement.args.get(name) or "").upper() for name in ("kind", "style"))
    if kind in ("DATABASE", "SCHEMA", "NAMESPACE"):
        return _database(names.found_database(statement.this))
    if kind not in ("", "TABLE") or (style and style not in _STYLES):
        raise UnsupportedError(f"DESCRIBE {kind or style}: there is no such statement here")
    found = names.found(statement.this)
    return _table([*_columns(found.table), *_details(found, statement.args.get("partition"), is_extended=bool(style))])


def describe_text(names: SqlNames, text: str) -> pa.Table | None:
    """DESCRIBE of a query, of one column, and DETAIL, which sqlglot does not read; None for another statement."""
    text = text.strip().rstrip(";")
    query = _QUERY.fullmatch(text)
    if query is not None:
        rows = QueryTables(names=names).run(
            exp.select(exp.Star()).from_(_query(query["query"] or query["bare"])).limit(0)
        )
        return _table(
            [(field.name, type_of(from_arrow_type(field.type, name=field.name)), "") for field in rows.schema]
        )
    detail = _DETAIL.fullmatch(text)
    if detail is not None:
        found = names.found(table_named(detail["name"]))
        partition = None
        if detail["partition"] is not None:
            partition = partition_of(detail["partition"])
        return _table(_details(found, partition, is_extended=True))
    procedure = _PROCEDURE.fullmatch(text)  # some are words of SQL
    if procedure is not None:
        return _procedure(procedure["name"])
    column = _COLUMN.fullmatch(text)
    if column is None or column["name"].upper() in _KINDS:
        return None
    return _column(names.found(table_named(column["name"])).table, column["column"])


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


def _query(text: str) -> exp.Subquery:
    found = parsed_one(text)
    if not isinstance(found, exp.Query):
        raise UnsupportedError(f"DESCRIBE QUERY {shown(text)}: this is not a query")
    return found.subquery("described")


def _database(found: FoundName) -> pa.Table:
    check_database(found)
    location = f"{found.catalog.warehouse}/{found.full}.db"
    values = {"Catalog Name": found.catalog_name, "Namespace Name": found.full, "Location": location}
    return pairs("info_name", "info_value", values)


def _procedure(name: str) -> pa.Table:
    found = find_procedure(name)
    parameters = [
        f"{one.name} {one.kind}{'' if one.is_required else ' (may be left out)'}: {one.comment}"
        for one in found.parameters
    ]
    lines = [f"sys.{found.name}", found.comment, *parameters]
    return pa.table({"procedure_description": pa.array(lines, pa.string())})


def _column(table: Table, given: str) -> pa.Table:
    name = given.strip("`").lower()
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


def _details(found: FoundName, partition: exp.Expr | None, *, is_extended: bool) -> Iterator[_Row]:
    """What the table is, or one of its partitions. Raises NotFoundError for a partition that does not exist."""
    if partition is not None:
        yield "", "", ""
        yield "# Detailed Partition Information", "", ""
        yield from ((label, text, "") for label, text in described_rows(_partition(found, partition)))
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
