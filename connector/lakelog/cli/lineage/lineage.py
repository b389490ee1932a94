"""`lakelog lineage`: which snapshots of which tables a table was made from, and what was made from it."""

from __future__ import annotations

import typer

from lakelog.cli.lineage import (
    lineage_feed,
    lineage_fields,
    lineage_questions,
    lineage_serve,
    lineage_show,
    lineage_tainted,
)

app = typer.Typer(no_args_is_help=True)
app.command(name="show")(lineage_show.show)
app.command(name="upstream")(lineage_questions.upstream)
app.command(name="downstream")(lineage_questions.downstream)
app.command(name="fields")(lineage_fields.fields)
app.command(name="impact")(lineage_fields.impact)
app.command(name="serve")(lineage_serve.serve)
app.command(name="tainted")(lineage_tainted.tainted)
app.command(name="mended")(lineage_tainted.mended)
app.command(name="consistent")(lineage_questions.consistent)
app.command(name="feed")(lineage_feed.feed)
app.command(name="rebuild")(lineage_feed.rebuild)
app.command(name="jobs")(lineage_feed.list_jobs)
app.command(name="end")(lineage_feed.end)
app.command(name="delete")(lineage_feed.delete)
