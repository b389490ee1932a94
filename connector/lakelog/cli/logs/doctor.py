"""`lakelog doctor`: check Kafka, and the log and the files of a table, and say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import PROBLEM_CODE, say
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakelog.protocol.upkeep import Finding

_ROLES = ("reader", "writer", "admin")


def doctor(  # typer's arguments are the command line's
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="The table's folder, or database.table; else Kafka alone.")
    ] = None,
    role: Annotated[str, typer.Option("--as", help="Whose rights are needed: reader, writer or admin.")] = "writer",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Create no topic for the check of the broker's clock.")
    ] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Check Kafka, rights, clock, topic and table.

    Each line has a check, its finding, and what to do. Exit code 3 when there is a problem.
    """
    if role not in _ROLES:
        raise InvalidRequestError(f"--as is {role!r}; expected {', '.join(_ROLES)}")
    has_problem = False
    for one in _findings(table, warehouse, role, may_write=not read_only):
        has_problem = has_problem or one.status == "problem"
        text = f"{one.status.value:<8} {one.check}: {one.found}"
        say(as_json, text, check=one.check, status=one.status.value, found=one.found, advice=one.advice)
        if one.advice and not as_json:
            print_lines([f"{'':>9}do: {one.advice}"])
    if has_problem:
        raise typer.Exit(PROBLEM_CODE)


def _findings(table: str | None, warehouse: str, role: str, *, may_write: bool) -> Iterator[Finding]:
    if table is None:
        from lakelog.catalog import Catalog

        return Catalog(warehouse)._examine(role, may_write=may_write)
    from lakelog.catalog.logs.log_verbs import examine_table

    found = find_table(table, warehouse)
    return examine_table(found.store, found.log, role, may_write=may_write)
