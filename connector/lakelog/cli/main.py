"""The root of the command line: its groups of commands, and its errors.

A command line that begins with the name of a command loads that command alone: typer makes an object for each argument
of each command that it knows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from lakelog.cli.console.door import foreign_lines, print_lines, write_error, write_trace, write_wrong_arguments
from lakelog.cli.console.helps import no_command, only_named, unwrap_helps
from lakelog.cli.console.output import Asked, show_error
from lakelog.cli.renamed import hint_of_option, name_new_form
from lakelog.common.errors import LakelogError


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print_lines([f"lakelog {version('lakelog')}"])
        raise typer.Exit


def root(
    version: Annotated[  # its callback prints it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Tables with two stores: a Kafka changelog and Apache Paimon files.

    Exit codes: 0 done, 1 an error, 2 a wrong argument, 3 a problem was found.
    """


Words = Sequence[str] | None  # of the command line, behind the group's name; None: all commands are asked for
_COMPLETES = "_LAKELOG_COMPLETE"  # set while a shell completes a command line


def _table(words: Words) -> typer.Typer:
    from lakelog.cli.tables.table import table_app

    return table_app(words)


def _database(words: Words) -> typer.Typer:  # noqa: ARG001  # it is small
    from lakelog.cli.tables import database

    return database.app


def _log(words: Words) -> typer.Typer:
    from lakelog.cli.logs.log import log_app

    return log_app(words)


def _lineage(words: Words) -> typer.Typer:  # noqa: ARG001  # likewise
    from lakelog.cli.lineage import lineage

    return lineage.app


def _statement(words: Words) -> typer.Typer:  # noqa: ARG001  # likewise
    from lakelog.cli.logs import statement

    return statement.app


def _broker(words: Words) -> typer.Typer:  # noqa: ARG001  # likewise
    from lakelog.cli.logs import broker

    return broker.app


def _dead_letter(words: Words) -> typer.Typer:  # noqa: ARG001  # likewise
    from lakelog.cli.logs.ingest import letters

    return letters


def _ingest() -> Callable[..., None]:
    from lakelog.cli.logs.ingest import ingest

    return ingest


def _sql() -> Callable[..., None]:
    from lakelog.cli.sql import sql

    return sql


def _options() -> Callable[..., None]:
    from lakelog.cli.options import show_options

    return show_options


def _doctor() -> Callable[..., None]:
    from lakelog.cli.logs.doctor import doctor

    return doctor


_GROUPS: Mapping[str, tuple[str, Callable[[Words], typer.Typer]]] = {
    "table": ("Tables, without Spark.", _table),
    "database": ("Databases, without Spark.", _database),
    "log": ("Logs of tables: see, verify, check, repair, add, renew and remove.", _log),
    "lineage": ("What tables were made from, and into.", _lineage),
    "statement": ("Unfinished batch statements of tables with a log.", _statement),
    "broker": ("The embedded Kafka broker of a folder.", _broker),
    "dead-letter": ("Records that an ingest could not take.", _dead_letter),
}
_COMMANDS: Mapping[str, tuple[str, Callable[[], Callable[..., None]]]] = {
    "ingest": ("Take the changes of a Debezium topic into a table.", _ingest),
    "sql": ("Run SQL without Spark: Spark's statements on tables.", _sql),
    "options": ("Print every option with its type, default and meaning.", _options),
    "doctor": ("Check Kafka, rights, clock, topic and table.", _doctor),
}

_LISTS = "`lakelog database list` and `lakelog table list DATABASE`"
_MEANT = {
    "list": _LISTS,
    "ls": _LISTS,
    "tables": _LISTS,
    "databases": _LISTS,
    "history": "`lakelog table history TABLE` and `lakelog table snapshots TABLE`",
    "snapshots": "`lakelog table snapshots TABLE`",
    "describe": "`lakelog table describe TABLE`",
    "show": "`lakelog table show TABLE` and `lakelog table cat TABLE`",
    "query": '`lakelog sql -e "SELECT 1"`',
    "tail": "`lakelog log tail TABLE`",
    "serve": "`lakelog lineage serve`",
}


def _write_hint(given: Sequence[str]) -> None:
    """Behind typer's error, what a command line meant that begins like one of other programs."""
    meant = _MEANT.get(given[0]) or hint_of_option(given)
    if given[0] == "sql" and any(not one.startswith("-") for one in given[1:2]):
        meant = '`lakelog sql -e "SELECT 1"`: a statement follows -e'
    if meant is not None:
        write_error(f"lakelog: perhaps you mean {meant}")


def make_app(words: Words = None) -> typer.Typer:
    """The command line: what `words` name alone, and of the others the names; all of it without words."""
    app = typer.Typer(
        no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["--help", "-h"]}
    )
    app.callback()(root)
    for group, (text, make) in _GROUPS.items():
        inner = make(None) if words is None else make(words[1:]) if [*words[:1]] == [group] else only_named()
        app.add_typer(inner, name=group, help=text)
    for command, (text, load) in _COMMANDS.items():
        is_asked = words is None or [*words[:1]] == [command]
        app.command(name=command, help=None if is_asked else text)(load() if is_asked else no_command)
    unwrap_helps(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A lakelog error is a message and exit code 1; any other is a bug, with its traceback."""
    asked = Asked()
    given = sys.argv[1:] if arguments is None else arguments
    with foreign_lines():
        try:
            name_new_form(given)
            app = make_app(None if _COMPLETES in os.environ else given)
            sys.exit(app(arguments, prog_name="lakelog", obj=asked, standalone_mode=False) or 0)
        except typer.Abort:
            write_error("Aborted.")
        except LakelogError as error:
            show_error(error, as_json=asked.as_json)
        except Exception as error:  # noqa: BLE001  # the trace goes through the door
            code = write_wrong_arguments(error)
            if code is not None:
                if given:
                    _write_hint(given)
                sys.exit(code)
            write_trace(error)
        sys.exit(1)
