"""The rows of a statement: as a grid, one value a line, CSV or JSON lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, to_json

if TYPE_CHECKING:
    import pyarrow as pa

_NULL = "NULL"


class Form(StrEnum):
    """How rows are printed."""

    GRID = "grid"
    EXPANDED = "expanded"
    CSV = "csv"
    JSON = "json"


def print_rows(found: pa.Table, form: Form) -> None:
    """Print the rows."""
    _PRINTS[form](found)


def _rows(found: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(map(_plain, column.to_pylist()) for column in found.columns), strict=True)


def _plain(value: object) -> object:
    """A value in the types of JSON where it has them: bytes in hex, a map by its keys."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list() if value and isinstance(value[0], tuple):  # only maps have pairs
            return {key if isinstance(key, str) else _text(_plain(key)): _plain(one) for key, one in value}
        case list():
            return [_plain(one) for one in value]
    return value


def _text(value: object) -> str:
    """A value in a cell: as SQL writes it, nested ones as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return to_json(value)
    return str(value)


def _cell(value: object) -> str:
    return _NULL if value is None else _text(value)


def _print_grid(found: pa.Table) -> None:
    if found.num_columns == 1:  # a plan: its lines are not cut, since their beginnings say what is below what
        print_lines([*found.column_names, *(_cell(row[0]) for row in _rows(found))])
        return
    print_grid(found.column_names, (tuple(map(_cell, row)) for row in _rows(found)))


def _print_expanded(found: pa.Table) -> None:
    width = max(map(len, found.column_names))
    for number, row in enumerate(_rows(found), 1):
        print_lines([f"-- row {number}"])
        print_lines(f"{name:<{width}}  {_cell(value)}" for name, value in zip(found.column_names, row, strict=True))


def _print_csv(found: pa.Table) -> None:
    for row in (found.column_names, *_rows(found)):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(["" if value is None else _text(value) for value in row])
        print_lines([line.getvalue().removesuffix("\n")], kept="\n\t")  # a quoted value may have several lines


def _print_json(found: pa.Table) -> None:
    print_lines(to_json(dict(zip(found.column_names, row, strict=True))) for row in _rows(found))


_PRINTS: Mapping[Form, Callable[[pa.Table], None]] = {
    Form.GRID: _print_grid,
    Form.EXPANDED: _print_expanded,
    Form.CSV: _print_csv,
    Form.JSON: _print_json,
}
