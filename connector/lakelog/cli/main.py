"""The root of the command line: its groups of commands, and its errors.

A command line that begins with the name of a command loads that command alone: typer makes an object for each argument
of each command that it knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from lakelog.cli.console.door import foreign_lines, print_lines, write_error, write_trace, write_wrong_arguments
from lakelog.cli.console.helps import unwrap_helps
from lakelog.cli.console.output import Asked, show_error
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


def _add_table(app: typer.Typer) -> None:
    from lakelog.cli.tables import table

    app.add_typer(table.app, name="table", help="Tables, without Spark.")


def _add_database(app: typer.Typer) -> None:
    from lakelog.cli.tables import database

    app.add_typer(database.app, name="database", help="Databases, without Spark.")


def _add_log(app: typer.Typer) -> None:
    from lakelog.cli.logs import log

    app.add_typer(log.app, name="log", help="Logs of tables: see, verify, check, repair, add, renew and remove.")


def _add_lineage(app: typer.Typer) -> None:
    from lakelog.cli.lineage import lineage

    app.add_typer(lineage.app, name="lineage", help="What tables were made from, and into.")


def _add_statement(app: typer.Typer) -> None:
    from lakelog.cli.logs import statement

    app.add_typer(statement.app, name="statement", help="Unfinished batch statements of tables with a log.")


def _add_broker(app: typer.Typer) -> None:
    from lakelog.cli.logs import broker

    app.add_typer(broker.app, name="broker", help="The embedded Kafka broker of a folder.")


def _add_ingest(app: typer.Typer) -> None:
    from lakelog.cli.logs.ingest import ingest

    app.command(name="ingest")(ingest)


def _add_dead_letter(app: typer.Typer) -> None:
    from lakelog.cli.logs.ingest import letters

    app.add_typer(letters, name="dead-letter", help="Records that an ingest could not take.")


def _add_sql(app: typer.Typer) -> None:
    from lakelog.cli.sql import sql

    app.command(name="sql")(sql)


def _add_options(app: typer.Typer) -> None:
    from lakelog.cli.options import show_options

    app.command(name="options")(show_options)


def _add_doctor(app: typer.Typer) -> None:
    from lakelog.cli.logs.doctor import doctor

    app.command(name="doctor")(doctor)


_COMMANDS: Mapping[str, Callable[[typer.Typer], None]] = {
    "table": _add_table,
    "database": _add_database,
    "log": _add_log,
    "lineage": _add_lineage,
    "statement": _add_statement,
    "broker": _add_broker,
    "ingest": _add_ingest,
    "dead-letter": _add_dead_letter,
    "sql": _add_sql,
    "options": _add_options,
    "doctor": _add_doctor,
}

_LISTS = "`lakelog database list` and `lakelog table list DATABASE`"
_MEANT = {
    "list": _LISTS,
    "ls": _LISTS,
    "tables": _LISTS,
    "databases": _LISTS,
    "history": "`lakelog table log TABLE` and `lakelog table snapshots TABLE`",
    "snapshots": "`lakelog table snapshots TABLE`",
    "describe": "`lakelog table describe TABLE`",
    "show": "`lakelog table show TABLE` and `lakelog table cat TABLE`",
    "query": '`lakelog sql -e "SELECT 1"`',
    "tail": "`lakelog log tail TABLE`",
    "serve": "`lakelog lineage serve`",
}


def _write_hint(given: Sequence[str]) -> None:
    """Behind typer's error, what a command line meant that begins like one of other programs."""
    meant = _MEANT.get(given[0])
    if given[0] == "sql" and any(not one.startswith("-") for one in given[1:2]):
        meant = '`lakelog sql -e "SELECT 1"`: a statement follows -e'
    if meant is not None:
        write_error(f"lakelog: perhaps you mean {meant}")


def make_app(name: str | None = None) -> typer.Typer:
    """The command line with the command `name` alone, or with all if there is none of this name."""
    app = typer.Typer(
        no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["--help", "-h"]}
    )
    app.callback()(root)
    for command, add in _COMMANDS.items():
        if name == command or name not in _COMMANDS:
            add(app)
    unwrap_helps(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A lakelog error is a message and exit code 1; any other is a bug, with its traceback."""
    asked = Asked()
    given = sys.argv[1:] if arguments is None else arguments
    with foreign_lines():
        try:
            app = make_app(given[0] if given else None)
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
