"""`lakelog statement`: unfinished batch statements of a table with a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import say
from lakelog.common.timestamps import shown_millis

if TYPE_CHECKING:
    from lakelog.protocol.statements import LoggedTable

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_statements(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the prepared statements that are not finished.

    A statement has begun once one of its buckets is in the log: then it will be finished.
    """
    found = _logged(table, warehouse).unfinished()
    for name, prepared, is_begun in found:
        at, state = shown_millis(prepared.time_millis), "begun" if is_begun else "not begun"
        say(
            as_json,
            f"{name}: {prepared.operation} of {prepared.row_count} rows, prepared at {at}, {state}",
            name=name,
            operation=prepared.operation,
            rows=prepared.row_count,
            time_millis=prepared.time_millis,
            is_begun=is_begun,
        )
    if not found and not as_json:
        print_lines(["no unfinished statement"])


@app.command()
def finish(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Finish every prepared statement, begun or not."""
    logged = _logged(table, warehouse)
    for name, _, _ in logged.unfinished():
        logged.resume(name)
        say(as_json, f"{name}: finished", name=name, fate="finished")


@app.command()
def cancel(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Cancel prepared statements that have not begun.

    Those that have begun are finished.
    """
    logged = _logged(table, warehouse)
    for name, _, _ in logged.unfinished():
        fate = logged.cancel(name)
        say(as_json, f"{name}: {fate.value}", name=name, fate=fate.value)


def _logged(table: str, warehouse: str) -> LoggedTable:
    from lakelog.catalog.logs.statements import logged_table

    return logged_table(find_table(table, warehouse))
