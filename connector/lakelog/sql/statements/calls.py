"""CALL, and the other statements that sqlglot gives as text."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog import RemoveOption, SetTableComment, UpdateColumnPosition
from lakelog.catalog.procedures.procedure import Parameter, Procedure
from lakelog.catalog.procedures.procedures import find_procedure
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.alter import Place, Position
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import SqlNames
from lakelog.sql.language.parsing import parsed_one, table_named
from lakelog.sql.language.patterns import patterns, run_by, unquoted
from lakelog.sql.statements.explaining import explain
from lakelog.sql.statements.partitions import where_of
from lakelog.sql.statements.showing import show


def run_command(names: SqlNames, statement: exp.Expr) -> pa.Table | None:
    """A statement that sqlglot leaves as text. Raises UnsupportedError."""
    word = statement.name.upper()
    rest = statement.expression  # None behind a word that stands alone
    text = rest if isinstance(rest, str) else "" if rest is None else rest.name
    match word:
        case "CALL":
            return call(names, text)
        case "SHOW":
            return show(names, f"SHOW {text}")
        case "EXPLAIN":
            return explain(names, text)
        case "ALTER":
            return run_by(_ALTERS, names, f"ALTER {text}")
    raise UnsupportedError(f"{word}{text and f' {shown(text)}'}: there is no such statement here")


def call(names: SqlNames, text: str) -> pa.Table:
    """CALL [catalog.]sys.procedure(parameter => value, ...)."""
    made = parsed_one(f"SELECT {text}")
    given = made.expressions[0] if len(made.expressions) == 1 else None
    parts: list[exp.Expr] = [*given.flatten()] if isinstance(given, exp.Dot) else []
    function = parts[-1] if parts else None
    if len(parts) not in (2, 3) or not isinstance(function, exp.Anonymous) or parts[-2].name.lower() != "sys":
        raise InvalidRequestError(f"CALL {shown(text)}: expected catalog.sys.procedure(parameter => value, ...)")
    catalog = names.catalog_named(parts[0].name if len(parts) == 3 else None)
    procedure = find_procedure(function.name)
    values = _values(procedure, function.expressions)
    if "table" in values:
        found = names.found(table_named(str(values["table"])))
        values["table"] = found.full
    return procedure.call(catalog, values, zone="UTC")


def _values(procedure: Procedure, given: list[exp.Expr]) -> dict[str, Any]:
    by_name = {one.name.lower(): one for one in procedure.parameters}
    found: dict[str, Any] = {}
    for at, one in enumerate(given):
        if isinstance(one, exp.Kwarg):
            parameter = by_name.get(one.this.name.lower())
            if parameter is None:
                has = listed(sorted(by_name))
                raise InvalidRequestError(
                    f"procedure {procedure.name} has no parameter {shown(one.this.name)}; it has {has}"
                )
            value = one.expression
        else:
            if at >= len(procedure.parameters):
                raise InvalidRequestError(f"procedure {procedure.name} has {len(procedure.parameters)} parameters")
            parameter, value = procedure.parameters[at], one
        if parameter.name in found:
            raise InvalidRequestError(f"procedure {procedure.name}: {parameter.name} is given twice")
        found[parameter.name] = _value(procedure, parameter, value)
    return found


def _value(procedure: Procedure, parameter: Parameter, given: exp.Expr) -> object:
    try:
        value: object = given.to_py() if not isinstance(given, exp.Cast) else given.this.name
    except ValueError as error:  # an expression
        text = shown(given.sql(dialect=LakelogDialect))
        raise InvalidRequestError(f"procedure {procedure.name}: {text} is not {parameter.name} => value") from error
    if value is None:
        return None
    try:
        match parameter.kind:
            case "BOOLEAN":
                return _flag(value)
            case "BIGINT":
                return int(str(value))
    except ValueError as error:
        raise InvalidRequestError(
            f"procedure {procedure.name}: {parameter.name} is {parameter.kind}, found {shown(str(value))}"
        ) from error
    return str(value)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise ValueError(value)
    return str(value).lower() == "true"


def _unset(names: SqlNames, asked: re.Match[str]) -> None:
    """ALTER TABLE ... UNSET TBLPROPERTIES."""
    keys = [key.strip().strip("'\"`") for key in asked["keys"].split(",")]
    table = names.found(table_named(asked["name"])).table
    table.alter(*(SetTableComment(None) if key == "comment" else RemoveOption(key) for key in keys))


def _compact(names: SqlNames, asked: re.Match[str]) -> None:
    """ALTER TABLE ... COMPACT, of all partitions or of one."""
    table, partition = names.found(table_named(asked["name"])).table, asked["partition"]
    table.compact(full=True, where=None if partition is None else where_of(table, partition))


def _move(names: SqlNames, asked: re.Match[str]) -> None:
    """ALTER TABLE ... ALTER COLUMN ... FIRST or AFTER another one."""
    after = asked["after"]
    position = Position(Place.FIRST) if after is None else Position(Place.AFTER, unquoted(after))
    names.found(table_named(asked["name"])).table.alter(UpdateColumnPosition(unquoted(asked["column"]), position))


_ALTERS = patterns(
    {
        r"ALTER TABLE {name} UNSET TBLPROPERTIES\s*(?:IF EXISTS\s*)?\((?P<keys>.*)\)": _unset,
        r"ALTER TABLE {name} COMPACT(?: {partition})?": _compact,
        r"ALTER TABLE {name} {partition} COMPACT": _compact,
        r"ALTER TABLE {name} (?:ALTER|CHANGE) COLUMN {column} (?:FIRST|AFTER (?P<after>\S+))": _move,
    }
)
