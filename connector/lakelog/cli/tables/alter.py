"""`lakelog table alter`: change the columns and options of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.output import say
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakelog.catalog import AddColumn, Position, SchemaChange, UpdateColumnPosition

_PLACE = re.compile(r"(?P<head>.+?)\s+(?:(?P<end>first|last)|(?P<side>after|before)\s+(?P<beside>\S+))", re.IGNORECASE)
Strings = list[str] | None


def alter(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    drop: Annotated[Strings, typer.Option(help="A column to drop; repeat.")] = None,
    rename: Annotated[Strings, typer.Option(help="OLD=NEW; repeat.")] = None,
    widen: Annotated[Strings, typer.Option(help="A column and its wider type, such as 'a BIGINT'; repeat.")] = None,
    nullable: Annotated[Strings, typer.Option(help="A NOT NULL column that takes nulls from now on; repeat.")] = None,
    add: Annotated[Strings, typer.Option(help="A new column, such as 'c INT' or 'c INT after a'; repeat.")] = None,
    move: Annotated[Strings, typer.Option(help="'c after a', 'c before a', 'c first' or 'c last'; repeat.")] = None,
    comment: Annotated[Strings, typer.Option(help="What a column holds: COLUMN=TEXT; repeat.")] = None,
    table_comment: Annotated[str | None, typer.Option(help="What the table holds.")] = None,
    set_option: Annotated[Strings, typer.Option("--set", help="An option: KEY=VALUE; repeat.")] = None,
    unset: Annotated[Strings, typer.Option(help="Remove an option, back to its default; repeat.")] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Change columns, options and comments.

    All changes are made, or none, in this order: unset, drop, rename, widen, nullable, add, move, comment, set. A
    member of a nested column is named by its path, such as r.x, items.element.x or pairs.value.x.
    """
    from lakelog.catalog import (
        DropColumn,
        RemoveOption,
        RenameColumn,
        SetComment,
        SetNullability,
        SetOption,
        SetTableComment,
        UpdateColumnType,
    )

    changes: list[SchemaChange] = [RemoveOption(key) for key in unset or ()]
    changes += [DropColumn(_path(text)) for text in drop or ()]
    changes += [RenameColumn(_path(old), new) for old, new in _pairs(rename, "OLD=NEW")]
    changes += [UpdateColumnType(_path(name), kind) for name, kind in _typed(widen, "a BIGINT")]
    changes += [SetNullability(_path(text), nullable=True) for text in nullable or ()]
    changes += [_added(text) for text in add or ()]
    changes += [_moved(text) for text in move or ()]
    changes += [SetComment(_path(name), text or None) for name, text in _pairs(comment, "COLUMN=TEXT")]
    changes += [SetOption(key, value) for key, value in _pairs(set_option, "KEY=VALUE")]
    if table_comment is not None:
        changes.append(SetTableComment(table_comment or None))
    altered = find_table(table, warehouse, is_to_be_mended=True).alter(*changes)
    say(as_json, f"schema {altered.schema.id}", schema_id=altered.schema.id)


def _path(text: str) -> Sequence[str]:
    return text.strip().split(".")


def _pairs(strings: Strings, form: str) -> list[tuple[str, str]]:
    pairs = []
    for text in strings or ():
        left, equals, right = text.partition("=")
        if not equals or not left.strip():
            raise InvalidRequestError(f"{text!r} has another form than {form}")
        pairs.append((left.strip(), right.strip()))
    return pairs


def _typed(strings: Strings, form: str) -> list[tuple[str, str]]:
    return [_name_and_type(text, form) for text in strings or ()]


def _name_and_type(text: str, form: str) -> tuple[str, str]:
    name, _, kind = text.strip().partition(" ")
    if not kind.strip():
        raise InvalidRequestError(f"{text!r} has another form than {form!r}")
    return name, kind


def _added(text: str) -> AddColumn:
    from lakelog.catalog import AddColumn

    placed = _PLACE.fullmatch(text.strip())
    name, kind = _name_and_type(placed["head"] if placed else text, "c INT after a")
    return AddColumn(_path(name), kind, position=_position(placed) if placed else None)


def _moved(text: str) -> UpdateColumnPosition:
    from lakelog.catalog import UpdateColumnPosition

    placed = _PLACE.fullmatch(text.strip())
    if placed is None:
        raise InvalidRequestError(f"{text!r} has another form than 'c after a', 'c before a', 'c first' or 'c last'")
    return UpdateColumnPosition(_path(placed["head"]), _position(placed))


def _position(placed: re.Match[str]) -> Position:
    from lakelog.catalog import Place, Position

    if placed["end"]:
        return Position(Place(placed["end"].lower()))
    return Position(Place(placed["side"].lower()), placed["beside"].rpartition(".")[2])
