"""The jobs that write tables: listed, ended and deleted.

A job is a name. All queries that have used it are listed: a sink refuses a name that another query has, until its user
allows the takeover, which is recorded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any  # Any: the values of a row

import polars as pl

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.lineage.tables.feeding_fields import prune_fields
from lakelog.lineage.tables.projecting import OF_JOBS, OF_SNAPSHOTS
from lakelog.lineage.tables.warehouse_lineage import known_frame
from lakelog.warehouse.lineage_tables import JOB_STARTUP, LINEAGE_RUNS, SNAPSHOT_EDGES
from lakelog.warehouse.system_database import JobStatus, SystemDatabase

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse

_NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job, according to its known batches: the queries that ran it, the tables that it reads and writes.

    `sources` and `sinks` are names, those of foreign sources such as `kafka:orders`. `last_barrier_id` is Spark's
    number of the last micro-batch, None for batch writes. `has_ended` stays true until the job commits again.
    """

    name: str
    query_ids: tuple[str, ...]
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    batches: int
    last_barrier_id: int | None
    first_time: datetime
    last_time: datetime
    has_ended: bool


def jobs(catalog: Warehouse) -> list[Job]:
    """The jobs that have written tables of a warehouse, by name, as far as their batches are known."""
    statuses = SystemDatabase.of(catalog).job_statuses()
    batch = pl.struct("sink_uuid", "sink_branch", "user", "identifier")
    found = (
        known_frame(catalog)
        .filter(pl.col("job").is_not_null())
        .with_columns(pl.col("sink_time").dt.epoch("ms").alias("millis"))
        .sort("millis", "sink_snapshot")
        .group_by("job")
        .agg(
            *(pl.col(column).drop_nulls().unique().sort() for column in ("query_id", "source_table", "sink_table")),
            batch.n_unique().alias("batches"),
            pl.col("barrier_id").last(),
            pl.col("millis").min().alias("first"),
            pl.col("millis").max().alias("last"),
        )
        .sort("job")
    )
    return [_job(row, statuses.get(row["job"], JobStatus())) for row in found.to_dicts()]


def end_job(catalog: Warehouse, name: str) -> None:
    """Record that a job has ended: its tables leave `source_job_lineage` and `sink_job_lineage`, its snapshots stay.

    When the job commits again, it is listed again. Raises NotFoundError, naming the jobs, and InvalidRequestError if no
    lineage is recorded.
    """
    database = _recorded(catalog)
    last = _last_commit(catalog, name)
    status = database.job_statuses().get(name, JobStatus())
    database.put_status(name, JobStatus(ended_millis=last, deleted_millis=status.deleted_millis))
    for table in OF_JOBS:
        database.delete_where(table, "job", [name])


def delete_job(catalog: Warehouse, name: str) -> None:
    """Delete all lineage of a job that is known so far; snapshots are not changed. It cannot be restored.

    What the job commits afterwards is recorded again. Raises like `end_job`. After an error call it again: it
    continues.
    """
    database = _recorded(catalog)
    before = database.job_statuses().get(name)
    if before is None or before.deleted_millis is None or _has_edges(catalog, name):
        last = _last_commit(catalog, name)
        database.put_status(name, JobStatus(deleted_millis=last))
    for table in (*OF_JOBS, *OF_SNAPSHOTS, JOB_STARTUP, SNAPSHOT_EDGES, LINEAGE_RUNS):
        database.delete_where(table, "job", [name])
    prune_fields(database)


def _recorded(catalog: Warehouse) -> SystemDatabase:
    database = SystemDatabase.of(catalog)
    if not database.switches().is_on:
        raise InvalidRequestError(
            f"no lineage is recorded in {catalog.warehouse}, so that a job is only in the snapshots of its tables; "
            "switch it on by lakelog.lineage.feed"
        )
    return database


def _has_edges(catalog: Warehouse, name: str) -> bool:
    return not known_frame(catalog).filter(pl.col("job") == name).is_empty()


def _last_commit(catalog: Warehouse, name: str) -> int:
    """The commit time of the last known batch of a job. Raises NotFoundError."""
    edges = known_frame(catalog)
    found = edges.filter(pl.col("job") == name)["sink_time"].dt.epoch("ms").max()
    if isinstance(found, int):
        return found
    names = edges["job"].drop_nulls().unique().sort().to_list()
    near = get_close_matches(name, names, n=1)
    there = f"did you mean {near[0]!r}?" if near else f"the jobs are {listed(names, names_max=_NAMES_SHOWN) or 'none'}"
    raise NotFoundError(f"job {name!r} has written no table of {catalog.warehouse}; {there}")


def _job(row: Mapping[str, Any], status: JobStatus) -> Job:
    return Job(
        name=row["job"],
        query_ids=tuple(row["query_id"]),
        sources=tuple(row["source_table"]),
        sinks=tuple(row["sink_table"]),
        batches=row["batches"],
        last_barrier_id=row["barrier_id"],
        first_time=datetime.fromtimestamp(row["first"] / 1_000, UTC),
        last_time=datetime.fromtimestamp(row["last"] / 1_000, UTC),
        has_ended=status.covers_ended(row["last"]),
    )
