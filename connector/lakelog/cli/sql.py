"""`lakelog sql`: statements of SQL without Spark, from an argument, a file, a pipe, or typed."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.door import ask, is_terminal, print_lines, write_error
from lakelog.cli.console.output import print_grid, show_error, to_json
from lakelog.common.errors import InvalidRequestError, LakelogError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.sql import SqlConnection

_HISTORY = Path("~/.lakelog_history")
_HISTORY_LINES = 10_000
_NULL = "NULL"
_HELP = (
    "A statement ends with ; and may have several lines.",
    "\\d         the tables of the current database     \\d TABLE   the columns of a table",
    "\\l         the databases                          \\timing    show how long a statement takes",
    "\\?         this help                              \\q         end; Ctrl-D does so too",
)
_PROMPT, _MORE = "lakelog> ", "    ...> "


def sql(  # noqa: PLR0917  # typer's arguments are the command line's
    execute: Annotated[str | None, typer.Option("--execute", "-e", help="Run these statements, and end.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Run the statements of a file, and end.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print rows as CSV, with a line of names.")] = False,
    as_json: AsJson = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before rows are dropped.")] = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Run SQL without Spark: Spark's statements on tables.

    Without -e and -f, statements are typed, or come from a pipe. The warehouse is the catalog `lake`.
    """
    from lakelog.catalog import Catalog

    try:
        from lakelog.sql import connect
        from lakelog.sql.language.parsing import is_destructive, split_statements
    except ImportError as error:
        raise InvalidRequestError("lakelog sql needs duckdb and sqlglot: pip install 'lakelog[sql]'") from error
    if execute is not None and file is not None:
        raise InvalidRequestError("-e and -f both give statements: give one")
    if as_csv and as_json:
        raise InvalidRequestError("--csv and --json are two forms: give one")
    connection = connect(Catalog(warehouse))

    def run(text: str) -> None:
        if not yes and is_terminal() and sys.stdin.isatty() and is_destructive(text):
            ask(f"{text}: this drops rows. Go on?")
        found = connection.sql(text)
        if found.num_columns:
            (_print_json if as_json else _print_csv if as_csv else _print_table)(found)

    if execute is None and file is None and sys.stdin.isatty():
        _Shell(connection, run, split_statements).loop()
        return
    text = execute if execute is not None else sys.stdin.read() if file is None else file.read_text("utf-8")
    for statement in split_statements(text):
        run(statement)


class _Shell:
    """Reads statements from a terminal until its end. An error or Ctrl-C ends a statement, not the shell."""

    def __init__(
        self, connection: SqlConnection, run: Callable[[str], None], split: Callable[[str], list[str]]
    ) -> None:
        self._connection = connection
        self._run = run
        self._split = split
        self._shows_time = False

    def loop(self) -> None:
        """Read and run."""
        self._with_history()
        print_lines(["\\? shows help, \\q ends."])
        held = ""
        while True:
            try:
                line = input(_MORE if held else _PROMPT)
            except EOFError:
                print_lines([""])
                return
            except KeyboardInterrupt:
                held = ""
                print_lines([""])
                continue
            if not held and line.strip().startswith("\\"):
                if line.strip() == "\\q":
                    return
                self._safely(lambda line=line: self._command(line.strip()))  # type: ignore[misc]  # bound now
                continue
            held = f"{held}\n{line}" if held else line
            if held.rstrip().endswith(";"):
                text, held = held, ""
                self._safely(lambda text=text: self._all(text))  # type: ignore[misc]  # bound now
            elif not held.strip():
                held = ""

    def _all(self, text: str) -> None:
        for statement in self._split(text):
            begin = time.perf_counter()
            self._run(statement)
            if self._shows_time:
                print_lines([f"{time.perf_counter() - begin:.3f} s"])

    def _command(self, line: str) -> None:
        word, _, name = line.partition(" ")
        match word:
            case "\\d":
                self._run(f"DESCRIBE {name}" if name.strip() else "SHOW TABLES")
            case "\\l":
                self._run("SHOW DATABASES")
            case "\\timing":
                self._shows_time = not self._shows_time
                print_lines([f"timing is {'on' if self._shows_time else 'off'}"])
            case "\\?":
                print_lines(_HELP)
            case _:
                raise InvalidRequestError(f"{word} is not a command; \\? shows them")

    def _safely(self, run: Callable[[], None]) -> None:
        try:
            run()
        except KeyboardInterrupt:
            write_error("interrupted")
        except typer.Abort:
            write_error("not done")
        except LakelogError as error:
            show_error(error, as_json=False)

    def _with_history(self) -> None:
        try:
            import atexit
            import readline
        except ImportError:  # a Python without it reads lines without history
            return
        path = _HISTORY.expanduser()
        with suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(_HISTORY_LINES)
        readline.set_completer(self._completed)
        readline.parse_and_bind("tab: complete")
        atexit.register(_keep_history, path)

    def _completed(self, begin: str, number: int) -> str | None:
        """The name or word that completes what is typed."""
        found = [word for word in self._connection.known_words() if word.lower().startswith(begin.lower())]
        return found[number] if number < len(found) else None


def _keep_history(path: Path) -> None:
    import readline

    with suppress(OSError):
        readline.write_history_file(path)


def _rows(found: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(column.to_pylist() for column in found.columns), strict=True)


def _print_table(found: pa.Table) -> None:
    shown = (tuple(_NULL if value is None else str(value) for value in row) for row in _rows(found))
    print_grid(found.column_names, shown)


def _print_json(found: pa.Table) -> None:
    print_lines(to_json(dict(zip(found.column_names, row, strict=True))) for row in _rows(found))


def _print_csv(found: pa.Table) -> None:
    for row in (found.column_names, *_rows(found)):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(["" if value is None else value for value in row])
        print_lines([line.getvalue()])
