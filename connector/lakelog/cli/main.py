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


# The groups and the commands of the root with what `--help` says of them, which loads none of them.
_GROUPS: Mapping[str, str] = {
    "table": "Tables, without Spark.",
    "database": "Databases, without Spark.",
    "log": "Logs of tables: see, verify, check, repair, add, renew and remove.",
    "lineage": "What tables were made from, and into.",
    "statement": "Unfinished batch statements of tables with a log.",
    "broker": "The embedded Kafka broker of a folder.",
    "dead-letter": "Records that an ingest could not take.",
}
_COMMANDS: Mapping[str, str] = {
    "ingest": "Take the changes of a Debezium topic into a table.",
    "sql": "Run SQL without Spark: Spark's statements on tables.",
    "options": "Print every option with its type, default and meaning.",
    "doctor": "Check Kafka, rights, clock, topic and table.",
}


def load_group(name: str, words: Words) -> typer.Typer:
    """The app of a group, with the commands that `words` name."""
    match name:
        case "table":
            from lakelog.cli.tables.table import table_app

            return table_app(words)
        case "database":
            from lakelog.cli.tables import database

            return database.app
        case "log":
            from lakelog.cli.logs.log import log_app

            return log_app(words)
        case "lineage":
            from lakelog.cli.lineage import lineage

            return lineage.app
        case "statement":
            from lakelog.cli.logs import statement

            return statement.app
        case "broker":
            from lakelog.cli.logs import broker

            return broker.app
    from lakelog.cli.logs.ingest import letters

    return letters


def load_command(name: str) -> Callable[..., None]:
    """The function of a command of the root."""
    match name:
        case "ingest":
            from lakelog.cli.logs.ingest import ingest

            return ingest
        case "sql":
            from lakelog.cli.sql import sql

            return sql
        case "options":
            from lakelog.cli.options import show_options

            return show_options
    from lakelog.cli.logs.doctor import doctor

    return doctor


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
    """The command line: what `words` name alone; the names of all where they name nothing; all of it without words."""
    app = typer.Typer(
        no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["--help", "-h"]}
    )
    app.callback()(root)
    asked = None if words is None else {*words[:1]} & (_GROUPS.keys() | _COMMANDS.keys())
    for name, text in _GROUPS.items():
        if asked is None or name in asked:
            app.add_typer(load_group(name, None if words is None else words[1:]), name=name, help=text)
        elif not asked:
            app.add_typer(only_named(), name=name, help=text)
    for name, text in _COMMANDS.items():
        if asked is None or name in asked:
            app.command(name=name)(load_command(name))
        elif not asked:
            app.command(name=name, help=text)(no_command)
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
