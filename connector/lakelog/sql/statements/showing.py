"""SHOW."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.columns.written_ddl import column_ddl, written_name
from lakelog.catalog.procedures.procedures import PROCEDURES
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import SqlNames, check_database
from lakelog.sql.language.parsing import table_named
from lakelog.sql.statements.created_tables import SET_BY_CREATE
from lakelog.sql.statements.describing import pairs
from lakelog.sql.statements.partitions import partition_of, partition_values_of

if TYPE_CHECKING:
    from lakelog.catalog import Table

_SHOWN = re.compile(
    r"(?P<what>TABLES|DATABASES|SCHEMAS|COLUMNS|TBLPROPERTIES|PARTITIONS|CREATE\s+TABLE|CATALOGS|PROCEDURES)\b\s*"
    r"(?:(?:IN|FROM)\s+)?(?P<name>(?!LIKE\b)[\w.`$-]+)?\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in range(32)} | {chr(127)}  # as in Hive's paths
_LIKE = re.compile(r"(?:LIKE\s+)?'(?P<pattern>[^']*)'", re.IGNORECASE)


def show(names: SqlNames, text: str) -> pa.Table:
    """SHOW ...; `text` is what follows the word."""
    found = _SHOWN.fullmatch(text.strip().rstrip(";"))
    if found is None:
        raise UnsupportedError(f"SHOW {shown(text)}: there is no such statement here")
    name = found["name"]
    table = None if name is None else table_named(name)
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
    catalog = names.catalog_named(None if given is None else given.name)
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
        return pairs("key", "value", {key: value})
    return pairs("key", "value", dict(sorted(options.items())))


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
    return {key: _shown_key(value) for key, value in partition_values_of(table, partition_of(rest)).items()}


def _shown_key(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)


def _create_table(names: SqlNames, given: exp.Table | None, _: str) -> pa.Table:
    found = names.found(_needed(given, "CREATE TABLE"))
    schema = found.table.schema
    lines = [f"  {column_ddl(field, _text)}" for field in schema.fields]
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(written_name, schema.primary_keys))}) NOT ENFORCED")
    text = f"CREATE TABLE {'.'.join(map(written_name, (found.catalog_name, *found.full.split('.'))))} (\n"
    text += ",\n".join(lines) + ")\n"
    if schema.partition_keys:
        text += f"PARTITIONED BY ({', '.join(map(written_name, schema.partition_keys))})\n"
    if schema.comment:
        text += f"COMMENT {_text(schema.comment)}\n"
    options = {key: value for key, value in sorted(schema.options.items()) if key not in SET_BY_CREATE}
    if options:
        pairs_of = ",\n".join(f"  {_text(key)} = {_text(value)}" for key, value in options.items())
        text += f"TBLPROPERTIES (\n{pairs_of})\n"
    return pa.table({"createtab_stmt": [text]})


def _text(text: str) -> str:
    """A string as DuckDB reads it."""
    return exp.Literal.string(text).sql(dialect=LakelogDialect)


def _catalogs(names: SqlNames, _: exp.Table | None, rest: str) -> pa.Table:
    return pa.table({"catalog": _matching(sorted(names.catalogs), rest)})


def _procedures(_: SqlNames, __: exp.Table | None, rest: str) -> pa.Table:
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
