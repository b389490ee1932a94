"""`lakelog lineage feed|rebuild|jobs|end|delete`: the system tables of lineage, and the jobs in them."""

from __future__ import annotations

from typing import Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.door import ask, print_lines, write_error
from lakelog.cli.console.output import naming_unreadable, progress, say
from lakelog.cli.console.rows import form_of, print_answer

_OF_JOB = (
    "name",
    "query_ids",
    "sources",
    "sinks",
    "batches",
    "last_barrier_id",
    "first_time",
    "last_time",
    "has_ended",
)
_SHOWN = ("job", "sources", "sinks", "batches", "last_time", "has_ended")
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
TableLineage = Annotated[
    bool | None,
    typer.Option(help="Record from now on which jobs read and write which tables.", show_default="as it was"),
]
DataLineage = Annotated[
    bool | None, typer.Option(help="Record from now on which snapshots made which.", show_default="as it was")
]


def feed(
    table_lineage: TableLineage = None,
    data_lineage: DataLineage = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Put the lineage of new snapshots into system tables.

    Run it regularly: snapshots do not expire before it.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import feed as feed_tables

    given = {"table-lineage": table_lineage, "data-lineage": data_lineage}
    options = {key: str(value).lower() for key, value in given.items() if value is not None}
    with naming_unreadable(as_json=as_json):
        with progress("feeding"):
            fed = feed_tables(Catalog(warehouse, options=options))
        counts = {"tables": fed.tables, "batches": fed.batches, "edges": fed.edges}
        say(as_json, f"{fed.batches} batches of {fed.tables} tables, {fed.edges} edges", **counts)


def rebuild(as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Read the lineage of all living snapshots again.

    Lineage whose snapshots have expired stays unchanged, and is reported.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import rebuild as rebuild_tables

    with progress("reading all snapshots"):
        done = rebuild_tables(Catalog(warehouse))
    counts = {"tables": done.tables, "batches": done.batches, "edges": done.edges}
    say(as_json, f"{done.batches} batches of {done.tables} tables, {done.edges} edges", **counts, kept=done.kept)
    if not as_json:
        print_lines(f"{name}: {count} batches kept whose snapshots are deleted" for name, count in done.kept.items())


def list_jobs(as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print jobs, with the tables that they read and write."""
    from lakelog.catalog import Catalog
    from lakelog.lineage import jobs

    with naming_unreadable(as_json=as_json):
        found = jobs(Catalog(warehouse))
        if not found and not as_json:
            write_error(
                "lakelog: no batch names a job: statements of SQL and plain writes have none, and `lakelog lineage "
                "show TABLE` shows what they read; write_stream(job=...), made_from(job=...) and the option "
                "lineage.job give a name"
            )
        rows = [{"job" if name == "name" else name: getattr(job, name) for name in _OF_JOB} for job in found]
        print_answer(rows, {}, form_of(as_csv=False, as_json=as_json), is_list=True, brief=_SHOWN)


def end(
    job: JobName,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Record that a job has ended.

    Its tables are no longer listed, its snapshots still are.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import end_job

    with naming_unreadable(as_json=as_json):
        end_job(Catalog(warehouse), job)


def delete(
    job: JobName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete all lineage of a job from the system tables.

    Tables and their snapshots are not changed.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import delete_job

    catalog = Catalog(warehouse)
    if not yes:
        ask(f"Delete the lineage of job {job} in {catalog.warehouse} for good?")
    with naming_unreadable(as_json=as_json):
        delete_job(catalog, job)
