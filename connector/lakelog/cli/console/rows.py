"""The rows of a statement or of a verb: as a grid, one value a line, CSV or JSON lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, to_json
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "NULL"
_NOTHING = "-"  # in an answer of a verb
Row = Sequence[object]


class Form(StrEnum):
    """How rows are printed."""

    GRID = "grid"
    EXPANDED = "expanded"
    CSV = "csv"
    JSON = "json"


def form_of(*, as_csv: bool, as_json: bool) -> Form:
    """The form that the options of a command name. Raises InvalidRequestError for two."""
    if as_csv and as_json:
        raise InvalidRequestError("--csv and --json are two forms of one answer: give one")
    return Form.JSON if as_json else Form.CSV if as_csv else Form.GRID


def print_rows(found: pa.Table, form: Form) -> None:
    """Print the rows of a statement."""
    rows = zip(*(map(_plain, column.to_pylist()) for column in found.columns), strict=True)
    _PRINTS[form](found.column_names, rows, NULL)


def print_answer(
    answer: Sequence[Mapping[str, object]],
    parts: Mapping[str, Sequence[Mapping[str, object]]],
    form: Form,
    *,
    is_list: bool,
    brief: Sequence[str] | None = None,
    cell_max: int | None = None,
) -> None:
    """Print the rows that a verb answers, and below them the parts that are rows themselves.

    A list is a grid, of the columns `brief` if they are given, whose cells have at most `cell_max` characters; one row
    is a line for each value. An answer of one column is its values alone.
    """
    if form is Form.JSON:
        print_lines(to_json({**row, **parts}) for row in answer)
        return
    names = list(brief if brief is not None and form is Form.GRID else answer[0] if answer else ())
    rows = [[_plain(row[name]) for name in names] for row in answer]
    if form is Form.CSV:
        _print_csv(names, rows, NULL)
    elif len(names) == 1 and not parts and brief is None:
        print_lines(_shown(row[0]) for row in rows)
    elif is_list and rows:
        _print_answers(names, rows, cell_max)
    else:
        _print_values(names, ([_shown(value) for value in row] for row in rows), _NOTHING)
    for title, part in parts.items():
        if part and form is Form.GRID:
            print_lines(["", title.replace("_", " ")])
            _print_answers(list(part[0]), [[_plain(value) for value in row.values()] for row in part], cell_max)


def _print_answers(names: Sequence[str], rows: Sequence[Row], cell_max: int | None) -> None:
    right = [name for at, name in enumerate(names) if all(_is_number(row[at]) for row in rows)]
    print_grid(names, ([_cut(_shown(value), cell_max) for value in row] for row in rows), right=right)


def _cut(text: str, cell_max: int | None) -> str:
    return text if cell_max is None or len(text) <= cell_max else f"{text[: cell_max - 3]}..."


def _shown(value: object) -> str:
    """A value in an answer of a verb: the members of a list or of a partition with commas between them."""
    match value:
        case None:
            return _NOTHING
        case datetime():
            return value.isoformat(sep=" ", timespec="milliseconds")
        case dict():
            return ", ".join(f"{name}={one}" for name, one in value.items()) or _NOTHING
        case list():
            return ", ".join(map(str, value)) or _NOTHING
    return _text(value)


def _plain(value: object) -> object:
    """A value in the types of JSON where it has them: bytes in hex, a map by its keys."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list() if value and isinstance(value[0], tuple):  # only maps have pairs
            return {key if isinstance(key, str) else _text(_plain(key)): _plain(one) for key, one in value}
        case list() | tuple():
            return [_plain(one) for one in value]
    return value


def _text(value: object) -> str:
    """A value in a cell: as SQL writes it, nested ones as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return to_json(value)
    return str(value)


def _cell(value: object, null: str) -> str:
    return null if value is None else _text(value)


def _print_grid(names: Sequence[str], rows: Iterable[Row], null: str) -> None:
    if len(names) == 1:  # a plan: its lines are not cut, since their beginnings say what is below what
        print_lines([*names, *(_cell(row[0], null) for row in rows)])
        return
    print_grid(names, (tuple(_cell(value, null) for value in row) for row in rows))


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _print_expanded(names: Sequence[str], rows: Iterable[Row], null: str) -> None:
    for number, row in enumerate(rows, 1):
        print_lines([f"-- row {number}"])
        _print_values(names, [row], null)


def _print_values(names: Sequence[str], rows: Iterable[Row], null: str) -> None:
    width = max(map(len, names), default=0)
    for row in rows:
        print_lines(f"{name:<{width}}  {_cell(value, null)}" for name, value in zip(names, row, strict=True))


def _print_csv(names: Sequence[str], rows: Iterable[Row], null: str) -> None:  # noqa: ARG001  # an empty cell
    for row in (names, *rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(["" if value is None else _text(value) for value in row])
        print_lines([line.getvalue().removesuffix("\n")], kept="\n\t")  # a quoted value may have several lines


def _print_json(names: Sequence[str], rows: Iterable[Row], null: str) -> None:  # noqa: ARG001  # null is JSON's
    print_lines(to_json(dict(zip(names, row, strict=True))) for row in rows)


_PRINTS: Mapping[Form, Callable[[Sequence[str], Iterable[Row], str], None]] = {
    Form.GRID: _print_grid,
    Form.EXPANDED: _print_expanded,
    Form.CSV: _print_csv,
    Form.JSON: _print_json,
}
