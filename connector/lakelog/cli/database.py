"""`lakelog database`: list and drop databases. A database is made with its first table."""

from __future__ import annotations

from typing import Annotated

import typer

from lakelog.catalog import Catalog
from lakelog.cli.arguments import HERE, Warehouse

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_databases(warehouse: Warehouse = HERE) -> None:
    """Print the names of the databases that hold a table."""
    for name in Catalog(warehouse).list_databases():
        typer.echo(name)


@app.command()
def drop(
    database: Annotated[str, typer.Argument(metavar="DATABASE")],
    cascade: Annotated[bool, typer.Option("--cascade", help="Delete its tables, their files and topics too.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing database is fine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a database: an empty one, or with --cascade one with all of its tables."""
    catalog = Catalog(warehouse)
    if not yes:
        tables = " and all of its tables" if cascade else ""
        typer.confirm(f"Delete the database {database}{tables} in {catalog.warehouse} for good?", abort=True)
    catalog.drop_database(database, cascade=cascade, if_exists=if_exists)
