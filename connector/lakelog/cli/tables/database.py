"""`lakelog database`: create, list and drop databases. Creating a table creates its database, too."""

from __future__ import annotations

from typing import Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.door import ask
from lakelog.cli.console.output import say

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_databases(as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the names of the databases."""
    from lakelog.catalog import Catalog

    for name in Catalog(warehouse).list_databases():
        say(as_json, name, database=name)


@app.command()
def create(
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="The database's name.")],
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing database is fine.")] = False,
    as_json: AsJson = False,  # noqa: ARG001  # prints only errors
    warehouse: Warehouse = HERE,
) -> None:
    """Create a database without tables."""
    from lakelog.catalog import Catalog

    Catalog(warehouse).create_database(database, if_not_exists=if_not_exists)


@app.command()
def drop(  # noqa: PLR0917  # typer's arguments are the command line's
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="The database's name.")],
    cascade: Annotated[bool, typer.Option("--cascade", help="Delete its tables, their files and topics too.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing database is fine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,  # noqa: ARG001  # prints only errors
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a database; with --cascade also its tables."""
    from lakelog.catalog import Catalog

    catalog = Catalog(warehouse)
    if not yes:
        tables = " and all of its tables" if cascade else ""
        ask(f"Delete the database {database}{tables} in {catalog.warehouse} for good?")
    catalog.drop_database(database, cascade=cascade, if_exists=if_exists)
