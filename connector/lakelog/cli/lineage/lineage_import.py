"""`lakelog lineage import`: the lineage of fields that other producers tell in OpenLineage events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.output import say

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of events, one JSON object a line.")]
Skips = Annotated[bool, typer.Option("--skip-unreadable", help="Leave out lines that are no events, with a warning.")]


def import_events(
    files: Files, skip_unreadable: Skips = False, as_json: AsJson = False, warehouse: Warehouse = HERE
) -> None:
    """Take in lineage of columns from OpenLineage events.

    It is marked as foreign: other producers have told it. A dataset that is a table of the warehouse is known by its
    location. Events that were taken in before change nothing.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import import_events as take_in

    on_unreadable = (lambda error: typer.echo(str(error), err=True)) if skip_unreadable else None
    found = take_in(Catalog(warehouse), files, on_unreadable=on_unreadable)
    counts = {"events": found.events, "runs": found.runs, "programs": found.programs}
    say(as_json, f"{found.events} events of {found.runs} runs, {found.programs} programs", **counts)
