"""The command line's root: its groups of commands, and how errors end."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from lakelog.cli import broker, database, log, options, table
from lakelog.common.errors import LakelogError


def _flush(*_result: object, **_arguments: object) -> None:
    """Write what is buffered while a reader that went away still ends the program quietly; at exit it is an error."""
    sys.stdout.flush()


app = typer.Typer(
    result_callback=_flush,
    help="Tables with two stores: a Kafka changelog and Apache Paimon files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(broker.app, name="broker", help="The embedded Kafka broker of a folder.")
app.add_typer(database.app, name="database", help="Databases, without Spark.")
app.add_typer(table.app, name="table", help="Tables, without Spark.")
app.add_typer(log.app, name="log", help="The logs of tables: check and repair.")
app.command(name="options")(options.show_options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. An error of lakelog is a message and exit code 1; any other is a bug with its trace."""
    try:
        app(arguments, prog_name="lakelog")
    except LakelogError as error:
        typer.echo(f"lakelog: {error}", err=True)
        sys.exit(1)
