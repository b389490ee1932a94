"""What commands print: lines, grids and JSON lines on standard output, progress and errors on standard error.

With `--json` standard output holds JSON lines, one object a thing, and an error is one object on standard error. When
the reader of a pipe ends first, as `head` does, the command ends too, with the exit code of a program that was ended
by SIGPIPE.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

import typer

from lakelog.common.errors import LakelogError
from lakelog.common.progress import listening

if TYPE_CHECKING:
    from rich.tree import Tree

PROBLEM_CODE = 3  # see `main.root`
CLOSED_PIPE_CODE = 141  # 128 and the number of SIGPIPE
_PIPE_WIDTH = 160  # columns of what no terminal shows


@dataclass
class Asked:
    """The options of a command line that its errors need."""

    as_json: bool = False


def remember_json(context: typer.Context, as_json: bool) -> bool:
    """Keep `--json` for the error that may end the command."""
    asked = context.find_root().obj
    if isinstance(asked, Asked):
        asked.as_json = as_json
    return as_json


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output, at once. Ends the program when the reader of a pipe has ended."""
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter would write the buffer again at its end, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE_CODE) from None


def say(as_json: bool, text: str, **fields: object) -> None:
    """Print one line: `text`, or the JSON object of `fields`."""
    print_lines([to_json(fields) if as_json else text])


def to_json(fields: object) -> str:
    """One line of JSON; values that JSON lacks, such as dates and decimals, as strings."""
    return json.dumps(fields, ensure_ascii=False, default=_as_string)


def show_error(error: LakelogError, *, as_json: bool, message: str | None = None) -> None:
    """Print an error to standard error, on one line; `message` says more than the error's own."""
    message = str(error) if message is None else message
    fields = {"error": type(error).__name__, "message": message}
    sys.stderr.write(f"{to_json(fields) if as_json else f'lakelog: {message}'}\n")


@contextmanager
def naming_unreadable(*, as_json: bool) -> Iterator[None]:
    """Print behind the block which tables its questions could not read, and end with exit code 3 where there are any.

    They are on standard error, an error a line.
    """
    from lakelog.lineage import unreadable_tables
    from lakelog.lineage.unreadable import missing_lineage

    with unreadable_tables(logs=False) as unreadable:
        yield
    for one in unreadable:
        show_error(one.error, as_json=as_json, message=missing_lineage(one.name, one.error))
    if unreadable:
        raise typer.Exit(PROBLEM_CODE)


def print_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> None:
    """Print rows under headings; the columns `right` end at their right side, the columns `whole` are not wrapped."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(*headings, box=None, pad_edge=False)
    for column in grid.columns:
        column.overflow = "fold"
        column.no_wrap = column.header in whole
        if column.header in right:
            column.justify = "right"
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    text = StringIO()
    Console(file=text, width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(grid)
    print_lines(line.rstrip() for line in text.getvalue().splitlines())


def print_tree(tree: Tree) -> None:
    """Print a tree."""
    from rich.console import Console

    text = StringIO()
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else _PIPE_WIDTH
    Console(file=text, width=width, force_terminal=is_terminal, highlight=False).print(tree)
    print_lines(line.rstrip() for line in text.getvalue().splitlines())


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show the progress of the work in this block, when standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(what, total=None)

        def show(counted: str, done: int, total: int | None) -> None:
            bars.update(bar, description=f"{what}: {counted}", completed=done, total=total)

        with listening(show):
            yield


def _as_string(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
