"""USE, DESCRIBE and SHOW."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.dialect import LakelogDialect
from lakelog.sql.names import SqlNames, check_database
from lakelog.sql.row_statements import partition_values_of

if TYPE_CHECKING:
    from lakelog.catalog import Table

_SHOWN = re.compile(
    r"(?P<what>TABLES|DATABASES|SCHEMAS|COLUMNS|TBLPROPERTIES|PARTITIONS|CREATE\s+TABLE|CATALOGS|PROCEDURES)\b\s*"
    r"(?:(?:IN|FROM)\s+)?(?P<name>(?!LIKE\b)[\w.`$-]+)?\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in range(32)} | {chr(127)}  # as in Hive's paths
_DESCRIBED = re.compile(r"DESC(?:RIBE)?\s+(?:TABLE\s+)?(?P<name>[\w.`$]+)\s+(?P<column>\w+|`[^`]+`)", re.IGNORECASE)
_KINDS = ("EXTENDED", "FORMATTED", "TABLE", "DATABASE", "SCHEMA", "PROCEDURE", "FUNCTION", "QUERY", "NAMESPACE")
_LIKE = re.compile(r"(?:LIKE\s+)?'(?P<pattern>[^']*)'", re.IGNORECASE)


def use(names: SqlNames, statement: exp.Expr) -> None:
    """USE [catalog.]database."""
    names.use(statement.this)


def describe(names: SqlNames, statement: exp.Expr) -> pa.Table:
    """DESCRIBE TABLE: the columns, with EXTENDED what the table is."""
    if str(statement.args.get("kind") or "").upper() in ("DATABASE", "SCHEMA"):
        found = names.found_database(statement.this)
        check_database(found)
        location = f"{found.catalog.warehouse}/{found.full}.db"
        return _pairs(
            "info_name",
            "info_value",
            {"Catalog Name": found.catalog_name, "Namespace Name": found.full, "Location": location},
        )
    table = names.found(statement.this).table
    rows = [(field.name, _type(field.type).lower(), field.description) for field in table.schema.fields]
    if table.schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(table.schema.fields)] if row[0] in table.schema.partition_keys]
    if statement.args.get("style"):
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        described = table.describe()
        rows.append(("Provider", "lakelog", ""))
        rows += [
            (name.replace("_", " ").capitalize(), "" if (value := getattr(described, name)) is None else str(value), "")
            for name in described.__slots__
        ]
    return pa.table(
        {
            "col_name": [row[0] for row in rows],
            "data_type": [row[1] for row in rows],
            "comment": pa.array([row[2] for row in rows], pa.string()),
        }
    )


def described_column(names: SqlNames, text: str) -> pa.Table | None:
    """DESCRIBE of one column, which sqlglot does not read; None for another statement. Raises InvalidRequestError."""
    asked = _DESCRIBED.fullmatch(text.strip().rstrip(";"))
    if asked is None or asked["name"].upper() in _KINDS:
        return None
    table = names.found(exp.to_table(asked["name"], dialect=LakelogDialect)).table
    name = asked["column"].strip("`").lower()
    field = next((one for one in table.schema.fields if one.name.lower() == name), None)
    if field is None:
        raise InvalidRequestError(f"table {table.name} has no column {shown(name)}")
    found = {"col_name": field.name, "data_type": _type(field.type).lower(), "comment": field.description or "NULL"}
    return _pairs("info_name", "info_value", found)


def show(names: SqlNames, text: str) -> pa.Table:
    """SHOW ...; `text` is what follows the word."""
    found = _SHOWN.fullmatch(text.strip().rstrip(";"))
    if found is None:
        raise UnsupportedError(f"SHOW {shown(text)}: there is no such statement here")
    name = found["name"]
    table = None if name is None else exp.to_table(name, dialect=LakelogDialect)
    return _SHOWS[" ".join(found["what"].upper().split())](names, table, found["rest"])


def _tables(names: SqlNames, given: exp.Table | None, rest: str) -> pa.Table:
    found = names.found_database(given)
    check_database(found)
    chosen = _matching(found.catalog.list_tables(found.full), rest)
    return pa.table(
        {
            "namespace": pa.array([found.full] * len(chosen), pa.string()),
            "tableName": pa.array(chosen, pa.string()),
            "isTemporary": pa.array([False] * len(chosen), pa.bool_()),
        }
    )


def _databases(names: SqlNames, given: exp.Table | None, rest: str) -> pa.Table:
    catalog = names.catalogs[names.catalog if given is None else given.name]
    return pa.table({"namespace": pa.array(_matching(catalog.list_databases(), rest), pa.string())})


def _columns(names: SqlNames, given: exp.Table | None, _: str) -> pa.Table:
    table = names.found(_needed(given, "COLUMNS")).table
    return pa.table({"col_name": [field.name for field in table.schema.fields]})


def _table_properties(names: SqlNames, given: exp.Table | None, rest: str) -> pa.Table:
    table = names.found(_needed(given, "TBLPROPERTIES")).table
    options = dict(table.schema.options)
    if table.schema.primary_keys:
        options["primary-key"] = ",".join(table.schema.primary_keys)
    if rest.strip():
        key = rest.strip().strip("()").strip().strip("'\"`")
        value = options.get(key, f"Table {table.name} does not have property: {key}")
        return _pairs("key", "value", {key: value})
    return _pairs("key", "value", dict(sorted(options.items())))


def _partitions(names: SqlNames, given: exp.Table | None, rest: str) -> pa.Table:
    table = names.found(_needed(given, "PARTITIONS")).table
    if not table.schema.partition_keys:
        raise InvalidRequestError(f"table {table.name} has no partition columns")
    wanted = _wanted_partition(table, rest)
    found = [
        "/".join(f"{key}={_shown_key(value)}" for key, value in one.values.items())
        for one in table.system.partitions()
        if all(_shown_key(one.values[key]) == value for key, value in wanted.items())
    ]
    return pa.table({"partition": pa.array(found, pa.string())})


def _wanted_partition(table: Table, rest: str) -> dict[str, str]:
    """{column: shown value} of PARTITION (column = value, ...). Raises InvalidRequestError."""
    if not rest.strip():
        return {}
    made = LakelogDialect().parse(f"TRUNCATE TABLE t {rest}")[0]
    partition = None if made is None else made.args.get("partition")
    if partition is None:
        raise UnsupportedError(f"SHOW PARTITIONS ... {shown(rest)}: expected PARTITION (column = value)")
    return {key: _shown_key(value) for key, value in partition_values_of(table, partition).items()}


def _shown_key(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)


def _create_table(names: SqlNames, given: exp.Table | None, _: str) -> pa.Table:
    found = names.found(_needed(given, "CREATE TABLE"))
    schema = found.table.schema
    lines = [
        f"  {field.name} {_type(field.type)}{'' if field.type.nullable else ' NOT NULL'}" for field in schema.fields
    ]
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(schema.primary_keys)}) NOT ENFORCED")
    text = f"CREATE TABLE {found} (\n" + ",\n".join(lines) + ")\n"
    if schema.partition_keys:
        text += f"PARTITIONED BY ({', '.join(schema.partition_keys)})\n"
    if schema.options:
        text += (
            "TBLPROPERTIES (\n"
            + ",\n".join(f"  '{key}' = '{value}'" for key, value in sorted(schema.options.items()))
            + ")\n"
        )
    return pa.table({"createtab_stmt": [text]})


def _catalogs(names: SqlNames, _: exp.Table | None, rest: str) -> pa.Table:
    return pa.table({"catalog": _matching(sorted(names.catalogs), rest)})


def _procedures(_: SqlNames, __: exp.Table | None, rest: str) -> pa.Table:
    from lakelog.catalog.procedures.procedures import PROCEDURES  # noqa: PLC0415

    return pa.table({"procedure": _matching(sorted(PROCEDURES), rest)})


def _needed(given: exp.Table | None, what: str) -> exp.Table:
    if given is None:
        raise InvalidRequestError(f"SHOW {what} needs the name of a table")
    return given


def _matching(found: list[str], rest: str) -> list[str]:
    """The names that Spark's pattern takes: `*` is any text, `|` an alternative."""
    like = _LIKE.fullmatch(rest.strip())
    if like is None:
        if rest.strip():
            raise UnsupportedError(f"SHOW ... {shown(rest)}: expected LIKE 'pattern'")
        return found
    patterns = [re.escape(one).replace(r"\*", ".*") for one in like["pattern"].split("|")]
    return [name for name in found if any(re.fullmatch(one, name, re.IGNORECASE) for one in patterns)]


def _pairs(first: str, second: str, found: Mapping[str, str]) -> pa.Table:
    return pa.table({first: pa.array([*found], pa.string()), second: pa.array([*found.values()], pa.string())})


def _type(kind: object) -> str:
    return str(kind).removesuffix(" NOT NULL")


_SHOWS: Mapping[str, Callable[[SqlNames, exp.Table | None, str], pa.Table]] = {
    "TABLES": _tables,
    "DATABASES": _databases,
    "SCHEMAS": _databases,
    "COLUMNS": _columns,
    "TBLPROPERTIES": _table_properties,
    "PARTITIONS": _partitions,
    "CREATE TABLE": _create_table,
    "CATALOGS": _catalogs,
    "PROCEDURES": _procedures,
}
