"""CREATE TABLE, with columns, LIKE another table, or AS SELECT.

Source: Spark and FLIP-188, "CREATE TABLE"; Paimon, "Spark DDL", for the properties `primary-key` and `partition`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from lakelog.catalog.columns.ddl import parse_ddl_type
from lakelog.catalog.columns.session_defaults import with_defaults
from lakelog.catalog.columns.written_ddl import quoted_name, type_ddl, written_text
from lakelog.catalog.logs.log_life import SET_BY_LAKELOG
from lakelog.catalog.staging import TableWords, replaced_table, stage_table
from lakelog.common.arrow import from_arrow_type
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.options import parse_names
from lakelog.common.types import DataType
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import FoundName, SqlNames, check_database
from lakelog.sql.queries.engine import open_engine
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.recording import recording
from lakelog.sql.statements.fitting import checked
from lakelog.sql.statements.flink_columns import flink_options, is_computed
from lakelog.sql.statements.inserting import check_still
from lakelog.sql.statements.written_fields import fields_of_query

if TYPE_CHECKING:
    from lakelog.filestore.schema import TableSchema

_VARIANT = re.compile(r"\bVARIANT\b", re.IGNORECASE)  # a type of Paimon too, which lakelog has not

_PROVIDERS = ("lakelog", "paimon")
SET_BY_CREATE = frozenset(option.key for option in SET_BY_LAKELOG)
_PRIMARY_KEY, _PARTITION = "primary-key", "partition"


def create_table(names: SqlNames, statement: exp.Expr) -> None:
    """CREATE TABLE, and REPLACE TABLE, which gives a table of the same columns other rows and keeps its history."""
    given = statement.this
    found, words, may_replace = new_table(names, statement)
    exists = found.catalog.table_exists(found.full)
    if exists and statement.args.get("exists"):
        return
    replaces = exists and may_replace
    like = statement.find(exp.LikeProperty)
    if like is not None:
        _create_like(found, names.found(like.this).table.schema, words)
    elif statement.expression is not None:
        (_replace_rows if replaces else _create_with_rows)(names, found, statement.expression, words)
    else:
        _check_names(found, [one.name for one in given.expressions if isinstance(one, exp.ColumnDef)])
        stored = [one for one in given.expressions if isinstance(one, exp.ColumnDef) and not is_computed(one)]
        columns = ", ".join(map(_column_ddl, stored))
        words["options"] = {**flink_options(names, columns, given.expressions), **words["options"]}
        if replaces:
            replaced_table(found.catalog, found.full, schema=columns, **words).truncate()
        else:
            found.catalog.create_table(found.full, schema=columns, **words)


def new_table(names: SqlNames, statement: exp.Expr) -> tuple[FoundName, TableWords, bool]:
    """The name of a new table, what is said about it, and whether it may replace one. Raises NotFoundError."""
    given = statement.this
    found = names.found(given.this if isinstance(given, exp.Schema) else given)
    check_database(replace(found, full=found.full.partition(".")[0]))
    words = _words(names, found, statement, given.expressions if isinstance(given, exp.Schema) else [])
    return found, words, bool(statement.args.get("replace"))


def _create_like(found: FoundName, source: TableSchema, words: TableWords) -> None:
    kept = {key: value for key, value in source.options.items() if key not in SET_BY_CREATE}
    found.catalog.create_table(
        found.full,
        schema=source.fields,
        primary_keys=source.primary_keys,
        partition_keys=source.partition_keys,
        options={**kept, **words["options"]},
        comment=words["comment"] or source.comment,
    )


def _create_with_rows(names: SqlNames, found: FoundName, query: exp.Expr, words: TableWords) -> None:
    tables = QueryTables(names=names)
    rows = checked(tables.stream(query), f"CREATE TABLE {found}", noted=tables.noted)
    fields = fields_of_query(names, query, columns=rows.schema.names)
    staged = stage_table(found.catalog, found.full, schema=rows.schema, **words)
    try:
        with tables.own_errors():
            recording(tables, staged.table, fields).write(rows)
    except BaseException:
        staged.discard()
        raise
    staged.commit()


def _replace_rows(names: SqlNames, found: FoundName, query: exp.Expr, words: TableWords) -> None:
    base = found.table.store.snapshot()
    tables = QueryTables(names=names, bases={str(found): base})
    rows = checked(tables.stream(query), f"REPLACE TABLE {found}", noted=tables.noted)
    made = replaced_table(found.catalog, found.full, schema=rows.schema, **words)
    table = recording(tables, made, fields_of_query(names, query, columns=rows.schema.names))
    check_still(table, base, f"REPLACE TABLE {found}")
    with tables.own_errors():
        table.write(rows, mode="overwrite")


def _check_names(found: FoundName, names: list[str]) -> None:
    """Raise InvalidRequestError for two columns whose names differ in case alone."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidRequestError(f"table {found} has two columns {name!r}: case makes no difference in SQL")
        seen.add(name.lower())


def _column_ddl(column: exp.ColumnDef) -> str:
    if column.args.get("kind") is None:
        raise InvalidRequestError(f"column {column.name!r} has no type")
    words = [quoted_name(column.name), written_type(column.args["kind"], column.name)]
    for constraint in column.args.get("constraints") or ():
        kind = constraint.args["kind"]
        match kind:
            case exp.NotNullColumnConstraint():
                words.append("NULL" if kind.args.get("allow_null") else "NOT NULL")
            case exp.CommentColumnConstraint():
                words.append(f"COMMENT {written_text(kind.this.name)}")
            case exp.DefaultColumnConstraint():
                words.append(f"DEFAULT {default_ddl(kind.this)}")
            case exp.PrimaryKeyColumnConstraint():
                pass
            case _:
                raise UnsupportedError(f"column {column.name!r} has {kind.sql(dialect=LakelogDialect)}: leave it out")
    return " ".join(words)


def written_type(given: exp.Expr, column: str) -> str:
    """A type as lakelog's DDL has it: in the spellings of FLIP-188 and Spark, else in DuckDB's, such as `VARCHAR[]`.

    A type of DuckDB is the one that its values get in CREATE TABLE AS. Raises like `parse_ddl`.
    """
    text = given.sql(dialect=LakelogDialect)
    try:
        parse_ddl_type(text, column=column)
    except (InvalidRequestError, UnsupportedError):
        kind = None if _VARIANT.search(text) else _type_of_duckdb(text)
        if kind is None:
            raise
        return type_ddl(kind)
    return text


@lru_cache(maxsize=256)  # most tables have columns of one type, and an engine takes 15 ms
def _type_of_duckdb(text: str) -> DataType | None:
    engine = open_engine()
    try:
        found = engine.sql(f"SELECT CAST(NULL AS {text})").to_arrow_table().schema.field(0)
        return from_arrow_type(found.type, name=text)
    except (duckdb.Error, UnsupportedError):
        return None
    finally:
        engine.close()


def default_ddl(given: exp.Expr) -> str:
    """A default as `stored_default` reads it."""
    is_text = isinstance(given, exp.Literal) and given.is_string
    return written_text(given.name) if is_text else given.sql(dialect=LakelogDialect)


def _words(names: SqlNames, found: FoundName, statement: exp.Expr, columns: list[exp.Expr]) -> TableWords:
    options: dict[str, str] = {}
    partitions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    comment = None
    for one in columns:
        if isinstance(one, exp.PrimaryKey):
            keys = tuple(part.name for part in one.expressions)
        elif isinstance(one, exp.ColumnDef):
            constraints = one.args.get("constraints") or ()
            if any(isinstance(part.args["kind"], exp.PrimaryKeyColumnConstraint) for part in constraints):
                keys += (one.name,)
        elif isinstance(one, exp.Constraint):
            keys = tuple(part.name for part in one.expressions[0].expressions)
    for one in _properties(statement):
        match one:
            case exp.FileFormatProperty():
                if one.name.lower() not in _PROVIDERS:
                    raise UnsupportedError(
                        f"table {found}: USING {one.name}: tables here are USING lakelog; leave it out"
                    )
            case exp.PartitionedByProperty():
                named = one.this.expressions if isinstance(one.this, exp.Schema | exp.Tuple) else [one.this]
                partitions = tuple(_partition_column(found, part) for part in named)
            case exp.SchemaCommentProperty():
                comment = one.this.name
            case exp.ClusteredByProperty():
                options |= {
                    "bucket": one.args["buckets"].name,
                    "bucket-key": ",".join(part.name for part in one.expressions),
                }
            case exp.Property() if type(one) is exp.Property:
                options |= option_pairs([one])
    return TableWords(
        primary_keys=_one(found, "primary key", keys, parse_names(options.pop(_PRIMARY_KEY, ""))),
        partition_keys=_one(found, "partition", partitions, parse_names(options.pop(_PARTITION, ""))),
        comment=comment if comment is not None else options.pop("comment", None),
        options=with_defaults(options, names.defaults) if names.defaults else options,
    )


def option_pairs(given: Sequence[exp.Expr]) -> dict[str, str]:
    """{key: value} of TBLPROPERTIES, or of pairs in brackets alone. Raises UnsupportedError for something else."""
    found: dict[str, str] = {}
    for one in given:
        match one:
            case None:
                raise InvalidRequestError("SET ('key' = 'value'): there is no option behind SET")
            case exp.Properties():
                found |= option_pairs(one.expressions)
            case exp.SchemaCommentProperty():
                found["comment"] = one.this.name
            case exp.Property() if one.args.get("value") is not None:
                found[_key(one.this)] = one.args["value"].name
            case exp.EQ():
                found[_key(one.this)] = one.expression.name
            case _:
                raise UnsupportedError(f"{one.sql(dialect=LakelogDialect)}: expected 'key' = 'value'")
    return found


def _key(given: exp.Expr) -> str:
    """The key of an option: a string, or names with dots."""
    if isinstance(given, exp.Dot):
        return ".".join(part.name for part in given.flatten())
    return ".".join(part.name for part in given.parts) if isinstance(given, exp.Column) else given.name


def _partition_column(found: FoundName, given: exp.Expr) -> str:
    if isinstance(given, exp.Column | exp.Identifier):
        return given.name
    raise UnsupportedError(
        f"table {found}: PARTITIONED BY {given.sql(dialect=LakelogDialect)}: a table is partitioned by columns; add a "
        "column with that value"
    )


def _one(found: FoundName, what: str, first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    if first and second and first != second:
        raise InvalidRequestError(
            f"table {found}: the {what} is {', '.join(first)} in the statement and {', '.join(second)} in its "
            "properties: give it once"
        )
    return first or second


def _properties(statement: exp.Expr) -> list[exp.Expr]:
    properties = statement.args.get("properties")
    return [] if properties is None else list(properties.expressions)
