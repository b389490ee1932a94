"""Runs of jobs that wrote fields: from which batch to which a job made a table in one way.

A run ends where the job stops, or where the lineage of its fields changes. A batch write is a run of its own, with the
uuid of its commit in place of the id of a run. What warehouses know are runs, their documents, and the columns of
tables: runs come from the system tables and from snapshots that were not fed yet, documents from the system tables and
from the folders of tables, columns from the newest schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any  # Any: the values of a row

from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset

RunKey = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRun:
    """Batches of one job that made a table in one way, the document with this checksum.

    `sink` is the table by its present name, with `$branch_b` for a branch; `sink_line` is the branch, `main` without
    one. Batches are numbers of Spark's micro-batches, None for a batch write. Times are those of commits, in
    milliseconds since 1970, first and last one included; snapshots are those in which batches are whole. `is_foreign`:
    taken from events of another producer, which has no snapshots.
    """

    sink: Dataset
    sink_uuid: str
    sink_line: str = MAIN_BRANCH
    job: str | None = None
    run_id: str = ""
    query_id: str | None = None
    operation: str | None = None
    checksum: str
    first_batch: int | None = None
    last_batch: int | None = None
    first_millis: int
    last_millis: int
    first_snapshot: int | None = None
    last_snapshot: int | None = None
    is_foreign: bool = False

    @property
    def key(self) -> RunKey:
        """What identifies the run."""
        return (self.sink_uuid, self.sink_line, self.job or "", self.run_id, self.checksum)

    def overlaps(self, start_millis: int, end_millis: int) -> bool:
        """Whether a batch of the run was committed in [start, end), or the run was between two batches then."""
        return self.first_millis < end_millis and self.last_millis >= start_millis


def runs_of(edges: Iterable[Mapping[str, Any]]) -> dict[RunKey, FieldRun]:
    """The runs in edges of batches, as `lakelog.lineage.tables.edges` reads them from snapshots."""
    found: dict[RunKey, FieldRun] = {}
    for edge in edges:
        for checksum in edge.get("fields", ()):
            put_run(found, _run_of(edge, checksum))
    return found


def put_run(runs: dict[RunKey, FieldRun], run: FieldRun) -> None:
    """Put a run under its key: one that is there grows by its batches."""
    before = runs.get(run.key)
    runs[run.key] = run if before is None else _joined(before, run)


def _run_of(edge: Mapping[str, Any], checksum: str) -> FieldRun:
    branch, snapshot, millis, number = (
        edge.get("sink_branch"),
        edge["sink_snapshot"],
        edge["sink_time"],
        edge.get("barrier_id"),
    )
    return FieldRun(
        sink=dataset_of_table(str(edge["sink_table"]), branch),
        sink_uuid=str(edge["sink_uuid"]),
        sink_line=branch or MAIN_BRANCH,
        job=edge.get("job"),
        run_id=edge.get("run_id") or edge.get("sink_commit") or "",
        query_id=edge.get("query_id"),
        operation=edge.get("operation"),
        checksum=checksum,
        first_batch=number,
        last_batch=number,
        first_millis=millis,
        last_millis=millis,
        first_snapshot=snapshot,
        last_snapshot=snapshot,
    )


def _joined(one: FieldRun, other: FieldRun) -> FieldRun:
    """A run of the batches of both; what the later one names counts."""
    later = other if other.last_millis >= one.last_millis else one
    return replace(
        later,
        first_batch=_least(one.first_batch, other.first_batch),
        last_batch=_most(one.last_batch, other.last_batch),
        first_millis=min(one.first_millis, other.first_millis),
        last_millis=max(one.last_millis, other.last_millis),
        first_snapshot=_least(one.first_snapshot, other.first_snapshot),
        last_snapshot=_most(one.last_snapshot, other.last_snapshot),
    )


def _least(*numbers: int | None) -> int | None:
    return min((one for one in numbers if one is not None), default=None)


def _most(*numbers: int | None) -> int | None:
    return max((one for one in numbers if one is not None), default=None)


@dataclass(frozen=True, slots=True)
class PresentColumn:
    """A column in the newest schema of a table: its number, which a rename keeps, and the text of its type."""

    name: str
    id: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentTable:
    """A table of a warehouse, or a branch of it, as it is now."""

    dataset: Dataset
    uuid: str
    columns: tuple[PresentColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFields:
    """What questions about fields are answered from.

    `documents` has the document of each checksum that a run names, except those that are lost. `tables` are all tables
    of the warehouses with their branches, also those without lineage.
    """

    runs: Sequence[FieldRun]
    documents: Mapping[str, FieldDocument]
    tables: Sequence[PresentTable] = ()
    lost: Mapping[str, str] = field(default_factory=dict)  # why the document of a checksum cannot be read
