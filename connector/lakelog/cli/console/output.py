"""What commands print: lines, grids, trees and JSON lines on standard output, progress and errors on standard error.

All of it is plain text that `door` escapes; commands know neither the streams nor rich.

With `--json` standard output holds JSON lines, one object per item, and an error is one object on standard error. When
the reader of a pipe ends first, as `head` does, the command ends too, with the exit code of a program that was ended by
SIGPIPE.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from math import isfinite, isnan
from typing import TYPE_CHECKING, Self, TypeAlias

import typer

from lakelog.cli.console.door import is_error_terminal, is_terminal, print_lines, write_drawn, write_error
from lakelog.common.errors import LakelogError
from lakelog.common.progress import listening
from lakelog.common.quoting import escaped

if TYPE_CHECKING:
    from rich.table import Table as Grid
    from rich.text import Text
    from rich.tree import Tree

PROBLEM_CODE = 3  # see `main.root`
_PIPE_WIDTH = 160  # columns when no terminal shows the output


@dataclass
class Asked:
    """The options of a command line that its errors need."""

    as_json: bool = False


def remember_json(context: typer.Context, as_json: bool) -> bool:
    """Record `--json` for the error that may end the command."""
    asked = context.find_root().obj
    if isinstance(asked, Asked):
        asked.as_json = as_json
    return as_json


def say(as_json: bool, text: str, **fields: object) -> None:
    """Print one line: `text`, or the JSON object of `fields`."""
    print_lines([to_json(fields) if as_json else text])


def to_json(fields: object) -> str:
    """One line of JSON; values that JSON lacks, such as dates, decimals and NaN, as strings."""
    try:
        return json.dumps(fields, ensure_ascii=False, default=_as_string, allow_nan=False)
    except ValueError:
        return json.dumps(_with_finite(fields), ensure_ascii=False, default=_as_string)


def _with_finite(value: object) -> object:
    """The value, with `NaN`, `Infinity` and `-Infinity` as strings, as the log and `cat` have them."""
    match value:
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _with_finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_with_finite(one) for one in value]
    return value


def show_error(error: LakelogError, *, as_json: bool, message: str | None = None) -> None:
    """Print an error to standard error, on one line; `message` replaces the error's own, with more detail."""
    message = str(error) if message is None else message
    fields = {"error": type(error).__name__, "message": message}
    write_error(to_json(fields) if as_json else f"lakelog: {message}")


@contextmanager
def naming_unreadable(*, as_json: bool) -> Iterator[None]:
    """After the block, print the tables that its queries could not read, and end with exit code 3 if there are any.

    They are printed to standard error, one error per line, and so are copies, of whose rows no lineage is missing.
    """
    from lakelog.lineage import unreadable_tables
    from lakelog.lineage.tables.found_tables import CopiedTableError, missing_lineage

    with unreadable_tables(logs=False) as unreadable:
        yield
    for one in unreadable:
        show_error(one.error, as_json=as_json, message=missing_lineage(one.name, one.error))
    if not all(isinstance(one.error, CopiedTableError) for one in unreadable):
        raise typer.Exit(PROBLEM_CODE)


def print_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> None:
    """Print rows under headings; the columns `right` are aligned to the right, the columns `whole` are not wrapped."""
    from rich.table import Column
    from rich.table import Table as Grid

    columns = (
        Column(_text(one), overflow="fold", no_wrap=one in whole, justify="right" if one in right else "left")
        for one in headings
    )
    grid = Grid(*columns, box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*map(_text, row))
    _draw(grid)


Piece: TypeAlias = str | tuple[str, str]


@dataclass(slots=True)
class Node:
    """A node of a tree that is printed: pieces of text, each alone or with its style, and the nodes below it."""

    pieces: list[Piece]
    style: str = ""
    children: list[Node] = field(default_factory=list)

    def add(self, *pieces: Piece, style: str = "") -> Node:
        """A new node below this one."""
        return self.put(Node(list(pieces), style))

    def put(self, node: Node) -> Node:
        """Put a node below this one; returns it."""
        self.children.append(node)
        return node

    def append(self, *pieces: Piece) -> Self:
        """Append text to this node; returns the node."""
        self.pieces.extend(pieces)
        return self


def print_tree(root: Node) -> None:
    """Print a tree."""
    _draw(_tree(root), colours=is_terminal())


def _tree(node: Node) -> Tree:
    from rich.tree import Tree

    tree = Tree(_text(*node.pieces, style=node.style))
    tree.children.extend(map(_tree, node.children))
    return tree


def _text(*pieces: Piece, style: str = "") -> Text:
    """Pieces of text that rich draws literally: escaped, and without its markup."""
    from rich.text import Text

    pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
    return Text.assemble(*((escaped(text), one) for text, one in pairs), style=style)


def _draw(drawn: Grid | Tree, *, colours: bool = False) -> None:
    from rich.console import Console

    text = StringIO()
    width = None if is_terminal() else _PIPE_WIDTH
    Console(file=text, width=width, force_terminal=colours, highlight=False).print(drawn)
    write_drawn(line.rstrip() for line in text.getvalue().split("\n")[:-1])


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show the progress of the work in this block, when standard error is a terminal."""
    if not is_error_terminal():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(escaped(what), total=None)

        def show(counted: str, done: int, total: int | None) -> None:
            bars.update(bar, description=escaped(f"{what}: {counted}"), completed=done, total=total)

        with listening(show):
            yield


def _as_string(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
