"""CREATE, DROP and ALTER: databases, tables, temporary views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from lakelog.catalog import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnType,
)
from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.logstore.options import CHANGE_TRACKING, UNTRACKED_PARTITIONS
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import FoundName, SqlNames
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.selects import rows_of
from lakelog.sql.statements.created_tables import create_table, default_ddl, option_pairs, written_type
from lakelog.sql.statements.partitions import condition_of, partition_values_of, partition_where

if TYPE_CHECKING:
    from lakelog.catalog import Table

_OR = " OR "


def create(names: SqlNames, statement: exp.Expr) -> None:
    """CREATE DATABASE, CREATE TABLE [LIKE, AS SELECT], CREATE TEMPORARY VIEW."""
    match statement.args["kind"].upper():
        case "DATABASE" | "SCHEMA":
            found = names.found_database(statement.this)
            found.catalog.create_database(found.full, if_not_exists=bool(statement.args.get("exists")))
        case "VIEW":
            _create_view(names, statement)
        case "TABLE":
            create_table(names, statement)


def drop(names: SqlNames, statement: exp.Expr) -> None:
    """DROP DATABASE, TABLE and VIEW."""
    if_exists = bool(statement.args.get("exists"))
    for given in statement.args["tables"]:
        match statement.args["kind"].upper():
            case "DATABASE" | "SCHEMA":
                found = names.found_database(given)
                found.catalog.drop_database(
                    found.full, cascade=bool(statement.args.get("cascade")), if_exists=if_exists
                )
            case "VIEW":
                if names.views.pop(given.name.lower(), None) is None and not if_exists:
                    raise InvalidRequestError(f"there is no temporary view {shown(given.name)}")
            case "TABLE":
                found = names.found(given)
                found.catalog.drop_table(found.full, if_exists=if_exists)


def alter(names: SqlNames, statement: exp.Expr) -> None:
    """ALTER TABLE: all of its changes, or none."""
    found = names.found(statement.this)
    partition = statement.this.args.get("partition")
    changes: list[SchemaChange] = []
    if partition is not None:
        changes += _tracked(found.table, partition_where(found.table, partition), statement.args["actions"])
        statement.args["actions"].clear()
    for action in statement.args["actions"]:
        if isinstance(action, exp.AlterRename):
            _rename(names, found, action.this)
        elif isinstance(action, exp.DropPartition):
            asked = [partition_values_of(found.table, one) for one in action.expressions]
            if not action.args.get("exists"):
                _check_partitions(found, asked)
            found.table.upkeep.drop_partitions(" OR ".join(f"({condition_of(values)})" for values in asked))
        else:
            changes += _changes(found, action)
    if changes:
        found.table.alter(*changes)


def _check_partitions(found: FoundName, asked: Sequence[Mapping[str, object]]) -> None:
    """Raise NotFoundError for values that no partition has."""
    there = [{key: str(value) for key, value in one.values.items()} for one in found.table.system.partitions()]
    for values in asked:
        wanted = {key: str(value) for key, value in values.items()}
        if not any(wanted.items() <= one.items() for one in there):
            text = ", ".join(f"{key} = {value}" for key, value in wanted.items())
            raise NotFoundError(f"table {found} has no partition ({text})")


def use(names: SqlNames, statement: exp.Expr) -> None:
    """USE [catalog.]database."""
    names.use(statement.this)


def _tracked(table: Table, where: str, actions: list[exp.Expr]) -> Iterator[SchemaChange]:
    """ALTER TABLE ... PARTITION ... SET ('change-tracking' = ...): FLIP-188, "Partition"."""
    pairs = option_pairs(actions[0].expressions) if len(actions) == 1 and isinstance(actions[0], exp.AlterSet) else {}
    value = pairs.get(CHANGE_TRACKING.key, "").lower()
    if len(pairs) != 1 or value not in ("true", "false"):
        raise UnsupportedError(
            f"ALTER TABLE ... PARTITION sets {CHANGE_TRACKING.key} to 'true' or 'false' and nothing else"
        )
    key = UNTRACKED_PARTITIONS.key
    parts = [part for part in table.schema.options.get(key, "").split(_OR) if part]
    if value == "true" and parts and where not in parts:
        raise InvalidRequestError(
            f"table {table.name} has {key}={_OR.join(parts)!r}, which does not name the partition as {where!r}: set "
            "the option itself"
        )
    left = [part for part in parts if part != where] + ([] if value == "true" else [where])
    if left:
        yield SetOption(key, _OR.join(left))
    elif parts:
        yield RemoveOption(key)


def column_path(given: exp.Expr) -> tuple[str, ...]:
    """The name of a column, or the names down to a field of one."""
    if isinstance(given, exp.Dot):
        return tuple(name for part in given.flatten() for name in column_path(part))
    parts = given.parts if isinstance(given, exp.Column) else [given]
    return tuple(part.name for part in parts)


def comment(names: SqlNames, statement: exp.Expr) -> None:
    """COMMENT ON TABLE ... IS 'text'."""
    text = statement.expression
    names.found(statement.this).table.alter(SetTableComment(None if isinstance(text, exp.Null) else text.name))


def _rename(names: SqlNames, found: FoundName, to: exp.Expr) -> None:
    if not isinstance(to, exp.Table):
        raise UnsupportedError(
            f"ALTER TABLE {found} PARTITION ... RENAME: a partition is named by its rows: write them again with UPDATE"
        )
    new = (
        names.found(to)
        if to.db
        else FoundName(
            catalog_name=found.catalog_name, catalog=found.catalog, full=f"{found.full.partition('.')[0]}.{to.name}"
        )
    )
    if new.catalog_name != found.catalog_name:
        raise InvalidRequestError(f"{found} cannot move into the catalog {new.catalog_name}: copy its rows")
    found.catalog.rename_table(found.full, new.full)


def _changes(found: FoundName, action: exp.Expr) -> Iterator[SchemaChange]:
    match action:
        case exp.Schema():
            for one in action.expressions:
                yield from _added(found, one)
        case exp.ColumnDef():
            yield from _added(found, action)
        case exp.Drop():
            for given in action.args["tables"]:
                for one in given.expressions if isinstance(given, exp.Schema) else [given]:
                    path = column_path(one)
                    if not action.args.get("exists") or len(path) > 1 or _has_column(found, path[0]):
                        yield DropColumn(path)
        case exp.RenameColumn():
            yield RenameColumn(column_path(action.this), column_path(action.args["to"])[-1])
        case exp.AlterSet():
            for key, value in option_pairs(action.expressions).items():
                yield SetTableComment(value) if key == "comment" else SetOption(key, value)
        case exp.AlterColumn():
            yield from _altered(action)
        case _:
            raise UnsupportedError(
                f"ALTER TABLE {found} {shown(action.sql(dialect=LakelogDialect))}: no such change here"
            )


def _altered(action: exp.AlterColumn) -> Iterator[SchemaChange]:
    name = column_path(action.this)
    if action.args.get("dtype") is not None:
        yield UpdateColumnType(name, written_type(action.args["dtype"], name[-1]))
    default = action.args.get("default")
    if default is not None or (action.args.get("drop") and action.args.get("allow_null") is None):
        yield SetDefault(name, None if default is None else default_ddl(default))
    if isinstance(action.args.get("comment"), exp.Expr):
        yield SetComment(name, action.args["comment"].name)
    if action.args.get("allow_null") is not None:
        yield SetNullability(name, bool(action.args["allow_null"]))
    new = action.args.get("rename_to")
    if isinstance(new, exp.Expr) and new.name != name[-1]:
        yield RenameColumn(name, new.name)


def _has_column(found: FoundName, name: str) -> bool:
    return name.lower() in {field.name.lower() for field in found.table.schema.fields}


def _added(found: FoundName, column: exp.Expr) -> Iterator[AddColumn]:
    name = column_path(column.this)
    if column.args.get("exists") and len(name) == 1 and _has_column(found, name[0]):
        return
    comment = None
    for constraint in column.args.get("constraints") or ():
        kind = constraint.args["kind"]
        comment = kind.this.name
    place = column.args.get("position")
    position = None
    if place is not None:
        is_first = str(place.args["position"]).lower() == "first"
        if not is_first and place.this is None:
            raise InvalidRequestError(f"column {'.'.join(name)!r} is added AFTER nothing: name a column")
        position = Position(Place.FIRST) if is_first else Position(Place.AFTER, column_path(place.this)[-1])
    yield AddColumn(name, written_type(column.args["kind"], name[-1]), comment=comment, position=position)


def _create_view(names: SqlNames, statement: exp.Expr) -> None:
    properties = statement.args.get("properties")
    if properties is None or properties.find(exp.TemporaryProperty) is None:
        raise UnsupportedError("a warehouse has no views: write CREATE TEMPORARY VIEW")
    name = statement.this.name.lower()
    if name in names.views and statement.args.get("exists"):
        return
    if name in names.views and not statement.args.get("replace"):
        raise InvalidRequestError(f"there is a temporary view {shown(name)}: write CREATE OR REPLACE TEMPORARY VIEW")
    query = statement.expression
    if not isinstance(query, exp.Query):
        raise InvalidRequestError(f"temporary view {shown(name)} has no query: write AS SELECT ...")
    QueryTables(names=names).run(rows_of(query).limit(0))
    names.views[name] = query
