"""The jobs that write tables: listed, ended and deleted.

A job is a name. The queries that have used it are all named: a name that another query takes over is refused by the
sink until its user says otherwise, and recorded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakelog.catalog.lineage_tables import JOB_STARTUP, SNAPSHOT_EDGES
from lakelog.catalog.system_database import SystemDatabase
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.lineage.edges import Edge
from lakelog.lineage.job_status import JobStatus, job_statuses, put_status
from lakelog.lineage.known import known
from lakelog.lineage.projecting import OF_JOBS, OF_SNAPSHOTS

if TYPE_CHECKING:
    from lakelog.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job by its batches that are known: the queries that ran it, the tables that it reads and writes.

    `sources` and `sinks` are names, those of foreign sources such as `kafka:orders`. `last_barrier_id` is Spark's
    number of the last micro-batch, None for batch writes. `has_ended` until the job commits again.
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


def jobs(catalog: Catalog) -> list[Job]:
    """The jobs that have written tables of a warehouse, by name, as far as their batches are known."""
    statuses = job_statuses(SystemDatabase.of(catalog))
    found: dict[str, list[Edge]] = {}
    for edge in known(catalog):
        if edge.get("job") is not None:
            found.setdefault(edge["job"], []).append(edge)
    return [_job(name, edges, statuses.get(name, JobStatus())) for name, edges in sorted(found.items())]


def end_job(catalog: Catalog, name: str) -> None:
    """Record that a job has ended: its tables leave `source_job_lineage` and `sink_job_lineage`, its snapshots stay.

    When the job commits again, it is back. Raises NotFoundError, naming the jobs, and InvalidRequestError where no
    lineage is recorded.
    """
    database = _recorded(catalog)
    last = _last_commit(catalog, name)
    status = job_statuses(database).get(name, JobStatus())
    put_status(database, name, JobStatus(ended_millis=last, deleted_millis=status.deleted_millis))
    for table in OF_JOBS:
        database.delete_where(table, "job", [name])


def delete_job(catalog: Catalog, name: str) -> None:
    """Delete all lineage of a job that is known until now; snapshots are not changed. It cannot be brought back.

    What the job commits afterwards is recorded again. Raises as `end_job`. After an error call it again: it continues.
    """
    database = _recorded(catalog)
    before = job_statuses(database).get(name)
    if before is None or before.deleted_millis is None or _has_edges(catalog, name):
        last = _last_commit(catalog, name)
        put_status(database, name, JobStatus(deleted_millis=last))
    for table in (*OF_JOBS, *OF_SNAPSHOTS, JOB_STARTUP, SNAPSHOT_EDGES):
        database.delete_where(table, "job", [name])


def _recorded(catalog: Catalog) -> SystemDatabase:
    database = SystemDatabase.of(catalog)
    if not database.switches().is_on:
        raise InvalidRequestError(
            f"no lineage is recorded in {catalog.warehouse}, so that a job is only in the snapshots of its tables; "
            "switch it on by lakelog.lineage.feed"
        )
    return database


def _has_edges(catalog: Catalog, name: str) -> bool:
    return any(edge.get("job") == name for edge in known(catalog))


def _last_commit(catalog: Catalog, name: str) -> int:
    edges = known(catalog)
    times = [int(edge["sink_time"]) for edge in edges if edge.get("job") == name]
    if times:
        return max(times)
    names = sorted({str(edge["job"]) for edge in edges if edge.get("job") is not None})
    near = get_close_matches(name, names, n=1)
    there = f"did you mean {near[0]!r}?" if near else f"the jobs are {listed(names) or 'none'}"
    raise NotFoundError(f"job {name!r} has written no table of {catalog.warehouse}; {there}")


def _job(name: str, edges: list[Edge], status: JobStatus) -> Job:
    last = max(edges, key=lambda edge: (edge["sink_time"], edge["sink_snapshot"]))
    batches = {(edge["sink_uuid"], edge.get("sink_branch"), edge["user"], edge["identifier"]) for edge in edges}
    return Job(
        name=name,
        query_ids=_names(edge.get("query_id") for edge in edges),
        sources=_names(edge.get("source_table") for edge in edges),
        sinks=_names(edge["sink_table"] for edge in edges),
        batches=len(batches),
        last_barrier_id=last.get("barrier_id"),
        first_time=_time(min(edge["sink_time"] for edge in edges)),
        last_time=_time(last["sink_time"]),
        has_ended=status.covers_ended(last["sink_time"]),
    )


def _names(found: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({name for name in found if name is not None}))


def _time(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1_000, UTC)
