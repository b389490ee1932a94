"""The root of the command line: its groups of commands, and its errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from lakelog.cli import options
from lakelog.cli import sql as sql_command
from lakelog.cli.console.door import foreign_lines, print_lines, write_error, write_trace, write_wrong_arguments
from lakelog.cli.console.helps import unwrap_helps
from lakelog.cli.console.output import Asked, show_error
from lakelog.cli.lineage import lineage
from lakelog.cli.logs import broker, ingest, log, statement
from lakelog.cli.logs import doctor as doctor_command
from lakelog.cli.tables import database, table
from lakelog.common.errors import LakelogError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(table.app, name="table", help="Tables, without Spark.")
app.add_typer(database.app, name="database", help="Databases, without Spark.")
app.add_typer(log.app, name="log", help="Logs of tables: see, verify, check, repair, add, renew and remove.")
app.add_typer(lineage.app, name="lineage", help="What tables were made from, and into.")
app.add_typer(statement.app, name="statement", help="Unfinished batch statements of tables with a log.")
app.add_typer(broker.app, name="broker", help="The embedded Kafka broker of a folder.")
app.command(name="ingest")(ingest.ingest)
app.add_typer(ingest.letters, name="dead-letter", help="Records that an ingest could not take.")
app.command(name="sql")(sql_command.sql)
app.command(name="options")(options.show_options)
app.command(name="doctor")(doctor_command.doctor)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print_lines([f"lakelog {version('lakelog')}"])
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[  # its callback prints it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Tables with two stores: a Kafka changelog and Apache Paimon files.

    Exit codes: 0 done, 1 an error, 2 a wrong argument, 3 a problem was found.
    """


unwrap_helps(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A lakelog error is a message and exit code 1; any other is a bug, with its traceback."""
    asked = Asked()
    with foreign_lines():
        try:
            sys.exit(app(arguments, prog_name="lakelog", obj=asked, standalone_mode=False) or 0)
        except typer.Abort:
            write_error("Aborted.")
        except LakelogError as error:
            show_error(error, as_json=asked.as_json)
        except Exception as error:  # noqa: BLE001  # the trace goes through the door
            code = write_wrong_arguments(error)
            if code is not None:
                sys.exit(code)
            write_trace(error)
        sys.exit(1)
