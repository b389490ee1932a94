"""`lakelog lineage`: which snapshots of which tables a table was made from, and what was made from it."""

from __future__ import annotations

import typer

from lakelog.cli import lineage_show

app = typer.Typer(no_args_is_help=True)
app.command(name="show")(lineage_show.show)
