"""CREATE TABLE, with columns, LIKE another table, or AS SELECT.

Source: Spark and FLIP-188, "CREATE TABLE"; Paimon, "Spark DDL", for the properties `primary-key` and `partition`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakelog.catalog.columns.session_defaults import with_defaults
from lakelog.catalog.logs.log_life import SET_BY_LAKELOG
from lakelog.catalog.staging import stage_table
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.options import parse_names
from lakelog.sql.language.dialect import LakelogDialect, WatermarkClause
from lakelog.sql.language.names import FoundName, SqlNames, check_database
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.statements.flink_columns import flink_options, is_computed

_PROVIDERS = ("lakelog", "paimon")
SET_BY_CREATE = frozenset(option.key for option in SET_BY_LAKELOG)
_PRIMARY_KEY, _PARTITION = "primary-key", "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What a CREATE TABLE says beside its columns."""

    options: dict[str, str]
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    comment: str | None


def create_table(names: SqlNames, statement: exp.Expr) -> None:
    given = statement.this
    target = given.this if isinstance(given, exp.Schema) else given
    found = names.found(target)
    if statement.args.get("replace") and found.catalog.table_exists(found.full):
        raise UnsupportedError(
            f"REPLACE TABLE {found} would drop the table with its snapshots, tags and branches: write new rows with "
            f"INSERT OVERWRITE {found}, which keeps them, and change columns with ALTER TABLE; or DROP TABLE before"
        )
    check_database(
        names.found_database(
            exp.Table(this=exp.to_identifier(found.full.partition(".")[0]), db=exp.to_identifier(found.catalog_name))
        )
    )
    if_not_exists = bool(statement.args.get("exists"))
    if if_not_exists and found.catalog.table_exists(found.full):
        return
    words = _words(names, found, statement, given.expressions if isinstance(given, exp.Schema) else [])
    made: dict[str, Any] = {
        "primary_keys": words.primary_keys,
        "partition_keys": words.partition_keys,
        "options": words.options,
        "comment": words.comment,
    }
    query = statement.expression
    like = statement.find(exp.LikeProperty)
    if like is not None:
        source = names.found(like.this).table.schema
        found.catalog.create_table(
            found.full,
            schema=source.fields,
            primary_keys=source.primary_keys,
            partition_keys=source.partition_keys,
            options={
                **{key: value for key, value in source.options.items() if key not in SET_BY_CREATE},
                **words.options,
            },
            comment=words.comment or source.comment,
        )
        return
    if query is not None:
        tables = QueryTables(names=names)
        rows = tables.stream(query)
        staged = stage_table(found.catalog, found.full, schema=rows.schema, **made)
        try:
            with tables.own_errors():
                tables.recording(staged.table).write(rows)
        except BaseException:
            staged.discard()
            raise
        staged.commit()
        return
    _check_names(found, [one.name for one in given.expressions if isinstance(one, exp.ColumnDef)])
    stored = [one for one in given.expressions if isinstance(one, exp.ColumnDef) and not is_computed(one)]
    columns = ", ".join(map(_column_ddl, stored))
    made["options"] = flink_options(columns, given.expressions) | words.options
    found.catalog.create_table(found.full, schema=columns, if_not_exists=if_not_exists, **made)


def _check_names(found: FoundName, names: list[str]) -> None:
    """Raise InvalidRequestError for two columns whose names differ in case alone."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidRequestError(f"table {found} has two columns {name!r}: case makes no difference in SQL")
        seen.add(name.lower())


def _column_ddl(column: exp.ColumnDef) -> str:
    name = "`" + column.name.replace("`", "``") + "`"
    words = [name, column.args["kind"].sql(dialect=LakelogDialect)]
    for constraint in column.args.get("constraints") or ():
        kind = constraint.args["kind"]
        match kind:
            case exp.NotNullColumnConstraint():
                words.append("NULL" if kind.args.get("allow_null") else "NOT NULL")
            case exp.CommentColumnConstraint():
                words.append(f"COMMENT {kind.this.sql(dialect=LakelogDialect)}")
            case exp.DefaultColumnConstraint():
                words.append(f"DEFAULT {kind.this.sql(dialect=LakelogDialect)}")
            case exp.PrimaryKeyColumnConstraint():
                pass
            case _:
                raise UnsupportedError(f"column {column.name!r} has {kind.sql(dialect=LakelogDialect)}: leave it out")
    return " ".join(words)


def _words(names: SqlNames, found: FoundName, statement: exp.Expr, columns: list[exp.Expr]) -> _Words:
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
        elif isinstance(one, WatermarkClause):
            pass
        elif isinstance(one, exp.Constraint) and one.find(exp.PrimaryKey):
            keys = tuple(part.name for part in one.find(exp.PrimaryKey).expressions)  # type: ignore[union-attr]
        else:
            raise UnsupportedError(
                f"table {found}: {one.sql(dialect=LakelogDialect)}: a table has a primary key and no other constraint"
            )
    for one in _properties(statement):
        match one:
            case exp.FileFormatProperty():
                if one.name.lower() not in _PROVIDERS:
                    raise UnsupportedError(
                        f"table {found}: USING {one.name}: tables here are USING lakelog; leave it out"
                    )
            case exp.PartitionedByProperty():
                partitions = tuple(_partition_column(found, part) for part in one.this.expressions)
            case exp.SchemaCommentProperty():
                comment = one.this.name
            case exp.ClusteredByProperty():
                options |= {
                    "bucket": one.args["buckets"].name,
                    "bucket-key": ",".join(part.name for part in one.expressions),
                }
            case exp.LocationProperty():
                raise UnsupportedError(
                    f"table {found}: LOCATION: tables of a catalog are in its warehouse; leave it out"
                )
            case exp.LikeProperty():
                pass
            case exp.Property():
                options[one.name] = one.args["value"].name
            case _:
                raise UnsupportedError(f"table {found}: {one.sql(dialect=LakelogDialect)} has no meaning here")
    return _Words(
        primary_keys=_one(found, "primary key", keys, parse_names(options.pop(_PRIMARY_KEY, ""))),
        partition_keys=_one(found, "partition", partitions, parse_names(options.pop(_PARTITION, ""))),
        comment=comment if comment is not None else options.pop("comment", None),
        options=with_defaults(options, names.defaults) if names.defaults else options,
    )


def _partition_column(found: FoundName, given: exp.Expr) -> str:
    if isinstance(given, exp.Column | exp.Identifier | exp.ColumnDef):
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
