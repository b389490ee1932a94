"""`lakelog sql`: statements of SQL without Spark, from an argument, a file, a pipe, or typed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.door import ask, is_terminal, print_lines, write_error, write_trace
from lakelog.cli.console.output import show_error
from lakelog.cli.console.rows import Form, print_rows
from lakelog.cli.console.signals import ending_by_signal
from lakelog.common.errors import InvalidRequestError, LakelogError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.sql import SqlConnection

_HISTORY = Path("~/.lakelog_history")
_HISTORY_LINES = 10_000
_HELP = (
    "A statement ends with ; and may have several lines.",
    "\\d         the tables of the current database     \\d TABLE   the columns of a table",
    "\\l         the databases                          \\timing    show how long a statement takes",
    "\\x         show rows with one value a line        \\?         this help",
    "\\q         end; Ctrl-D does so too. Ctrl-C ends a statement, Tab completes names",
)
# What people type who know another shell.
_ENDS = ("\\q", "quit", "exit")
_PLAIN = ("help", *_ENDS[1:])
_PROMPT, _MORE = "lakelog> ", "    ...> "


def sql(  # noqa: PLR0917  # typer's arguments are the command line's
    execute: Annotated[str | None, typer.Option("--execute", "-e", help="Run these statements, and end.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Run the statements of a file, and end.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print rows as CSV, with a line of names.")] = False,
    as_json: AsJson = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Read the logs behind the newest snapshots too.")] = False,
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
    connection = connect(Catalog(warehouse), fresh=fresh)
    form = Form.JSON if as_json else Form.CSV if as_csv else Form.GRID

    def run(text: str) -> pa.Table:
        if not yes and is_terminal() and sys.stdin.isatty() and is_destructive(text):
            ask(f"{text}: this drops rows. Go on?")
        with ending_by_signal(connection.interrupt):
            return connection.sql(text, frames={})

    if execute is None and file is None and sys.stdin.isatty():
        _Shell(connection, run, split_statements, form).loop()
        return
    text = execute if execute is not None else sys.stdin.read() if file is None else _text_of(file)
    for statement in split_statements(text):
        found = run(statement)
        if found.num_columns:
            print_rows(found, form)


def _text_of(file: Path) -> str:
    """The statements of a file. Raises InvalidRequestError for a file that cannot be read."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidRequestError(f"-f {file}: {why}; expected a file of statements, in UTF-8") from error


class _Shell:
    """Reads statements from a terminal until its end. An error or Ctrl-C ends a statement, not the shell."""

    def __init__(
        self,
        connection: SqlConnection,
        run: Callable[[str], pa.Table],
        split: Callable[[str], list[str]],
        form: Form,
    ) -> None:
        self._connection = connection
        self._form = form
        self._run = run
        self._split = split
        self._shows_time = False
        self._held = ""  # the lines of a statement that has not ended
        self._completions: list[str] = []

    def loop(self) -> None:
        """Read and run."""
        self._with_history()
        print_lines(["\\? shows help, \\q ends."])
        self._held = ""
        while True:
            try:
                line = input(_MORE if self._held else _PROMPT)
            except EOFError:
                print_lines([""])
                return
            except KeyboardInterrupt:
                self._held = ""
                print_lines([""])
                continue
            word = line.strip().rstrip(";").lower()
            if not self._held and (word.startswith("\\") or word in _PLAIN):
                if word in _ENDS:
                    return
                self._safely(lambda line=line: self._command(line.strip()))  # type: ignore[misc]  # bound now
                continue
            self._held = f"{self._held}\n{line}" if self._held else line
            if self._held.rstrip().endswith(";"):
                text, self._held = self._held, ""
                self._safely(lambda text=text: self._all(text))  # type: ignore[misc]  # bound now
            elif not self._held.strip():
                self._held = ""

    def _all(self, text: str) -> None:
        for statement in self._split(text):
            begin = time.perf_counter()
            self._show(statement)
            if self._shows_time:
                print_lines([f"{time.perf_counter() - begin:.3f} s"])

    def _show(self, statement: str) -> None:
        """Run a statement, and print its rows and how many they are."""
        found = self._run(statement)
        if found.num_columns:
            print_rows(found, self._form)
        if self._form in (Form.GRID, Form.EXPANDED):
            count = found.num_rows
            print_lines([f"({count:,} {'row' if count == 1 else 'rows'})" if found.num_columns else "ok"])

    def _command(self, line: str) -> None:
        word, _, name = line.partition(" ")
        match word:
            case "\\d":
                name = name.strip().rstrip(";")
                self._show(f"DESCRIBE {name}" if name else "SHOW TABLES")
            case "\\l":
                self._show("SHOW DATABASES")
            case "\\x":
                self._form = Form.GRID if self._form is Form.EXPANDED else Form.EXPANDED
                print_lines([f"rows are shown with one value a line: {'on' if self._form is Form.EXPANDED else 'off'}"])
            case "\\timing":
                self._shows_time = not self._shows_time
                print_lines([f"timing is {'on' if self._shows_time else 'off'}"])
            case "\\?" | "help" | "help;":
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
        except Exception as error:  # noqa: BLE001  # a bug ends a statement, not what was typed before
            write_trace(error)

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
        if number == 0:
            import readline

            known = self._connection.known_words(f"{self._held} {readline.get_line_buffer()}")
            self._completions = [word for word in known if word.lower().startswith(begin.lower())]
        return self._completions[number] if number < len(self._completions) else None


def _keep_history(path: Path) -> None:
    import readline

    with suppress(OSError):
        readline.write_history_file(path)
