"""SHOW."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.columns.written_ddl import column_ddl, written_name
from lakelog.catalog.procedures.procedures import PROCEDURES
from lakelog.common.errors import InvalidRequestError
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import SqlNames, check_database
from lakelog.sql.language.parsing import table_named
from lakelog.sql.language.patterns import patterns, run_by
from lakelog.sql.statements.created_tables import SET_BY_CREATE
from lakelog.sql.statements.describing import pairs
from lakelog.sql.statements.partitions import partition_of, partition_values_of

if TYPE_CHECKING:
    from lakelog.catalog import Table

_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in range(32)} | {chr(127)}  # as in Hive's paths


def show(names: SqlNames, text: str) -> pa.Table | None:
    """SHOW ... Raises UnsupportedError for another statement."""
    return run_by(_PATTERNS, names, text)


def _tables(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    found = names.found_database(_named(asked))
    check_database(found)
    chosen = _matching(found.catalog.list_tables(found.full), asked)
    return pa.table(
        {
            "namespace": pa.array([found.full] * len(chosen), pa.string()),
            "tableName": pa.array(chosen, pa.string()),
            "isTemporary": pa.array([False] * len(chosen), pa.bool_()),
        }
    )


def _databases(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    given = _named(asked)
    catalog = names.catalog_named(None if given is None else given.name)
    return pa.table({"namespace": pa.array(_matching(catalog.list_databases(), asked), pa.string())})


def _columns(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    table = names.found(table_named(asked["name"])).table
    return pa.table({"col_name": [field.name for field in table.schema.fields]})


def _table_properties(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    table, key = names.found(table_named(asked["name"])).table, asked["key"]
    options = dict(table.schema.options)
    if table.schema.primary_keys:
        options["primary-key"] = ",".join(table.schema.primary_keys)
    if key is not None:
        key = key.strip().strip("'\"`")
        value = options.get(key, f"Table {table.name} does not have property: {key}")
        return pairs("key", "value", {key: value})
    return pairs("key", "value", dict(sorted(options.items())))


def _partitions(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    table = names.found(table_named(asked["name"])).table
    if not table.schema.partition_keys:
        raise InvalidRequestError(f"table {table.name} has no partition columns")
    wanted = _wanted_partition(table, asked["partition"])
    found = [
        "/".join(f"{key}={_shown_key(value)}" for key, value in one.values.items())
        for one in table.system.partitions()
        if all(_shown_key(one.values[key]) == value for key, value in wanted.items())
    ]
    return pa.table({"partition": pa.array(found, pa.string())})


def _wanted_partition(table: Table, partition: str | None) -> dict[str, str]:
    """{column: shown value} of PARTITION (column = value, ...). Raises InvalidRequestError."""
    if partition is None:
        return {}
    return {key: _shown_key(value) for key, value in partition_values_of(table, partition_of(partition)).items()}


def _shown_key(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)


def _create_table(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    found = names.found(table_named(asked["name"]))
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


def _catalogs(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    return pa.table({"catalog": _matching(sorted(names.catalogs), asked)})


def _procedures(_: SqlNames, asked: re.Match[str]) -> pa.Table:
    return pa.table({"procedure": _matching(sorted(PROCEDURES), asked)})


def _named(asked: re.Match[str]) -> exp.Table | None:
    return None if asked["name"] is None else table_named(asked["name"])


def _matching(found: list[str], asked: re.Match[str]) -> list[str]:
    """The names that Spark's pattern takes: `*` is any text, `|` an alternative."""
    if asked["like"] is None:
        return found
    wanted = [re.escape(one).replace(r"\*", ".*") for one in asked["like"].split("|")]
    return [name for name in found if any(re.fullmatch(one, name, re.IGNORECASE) for one in wanted)]


_PATTERNS = patterns(
    {
        r"SHOW TABLES(?: (?:(?:IN|FROM) )?(?!LIKE\b){name})?{like}": _tables,
        r"SHOW (?:DATABASES|SCHEMAS)(?: (?:(?:IN|FROM) )?(?!LIKE\b){name})?{like}": _databases,
        r"SHOW COLUMNS (?:(?:IN|FROM) )?{name}": _columns,
        r"SHOW TBLPROPERTIES {name}\s*(?:\((?P<key>.+)\))?": _table_properties,
        r"SHOW PARTITIONS {name}(?: {partition})?": _partitions,
        r"SHOW CREATE TABLE {name}": _create_table,
        r"SHOW CATALOGS{like}": _catalogs,
        r"SHOW PROCEDURES(?: (?:IN|FROM) \S+)?{like}": _procedures,
    }
)
