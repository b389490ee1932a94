"""Feeding: the system tables get what the snapshots of tables record, in groups, before the snapshots expire.

A group has the edges of many batches of one or more lines. Its rows are committed, with one commit per system table;
then the consumers of its lines move. All rows are upserts by key, so the next feed repeats a feed that was cut off, and
changes nothing twice. See `lakelog.lineage.tables.progress` for what is held until then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any  # Any: the values of a row

from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.quoting import escaped
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.tables.beginnings import fork_edge, fork_key, fork_keys, readable_forks, taken_edge
from lakelog.lineage.tables.edge_columns import Edge
from lakelog.lineage.tables.edges import Unfed, unfed
from lakelog.lineage.tables.feeding_fields import FedBatch, prune_fields, put_fields
from lakelog.lineage.tables.following import follow_tables
from lakelog.lineage.tables.found_tables import CopiedTableError, copy_error, note_unreadable, readable_tables
from lakelog.lineage.tables.progress import FedLine, lines_of
from lakelog.lineage.tables.projecting import (
    OF_JOBS,
    OF_SNAPSHOTS,
    job_rows,
    keep_first,
    key_of,
    numbered,
    snapshot_rows,
)
from lakelog.warehouse.lineage_options import DATA_LINEAGE, TABLE_LINEAGE
from lakelog.warehouse.lineage_tables import JOB_STARTUP, SNAPSHOT_EDGES
from lakelog.warehouse.system_database import JobStatus, SystemDatabase

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.warehouse.warehouse import Warehouse

logger = logging.getLogger("lakelog.lineage")

GROUP_EDGES = 20_000  # per commit, approximately
OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedResult:
    """What a feed took from the snapshots of tables: how many tables, batches and edges had something new."""

    tables: int = 0
    batches: int = 0
    edges: int = 0


def feed(catalog: Warehouse) -> FeedResult:
    """Put what the snapshots of a warehouse's tables record into its system tables, unless it was fed before.

    The catalog's options `table-lineage` and `data-lineage`, given here or at an earlier feed, say what is recorded.
    The lineage of tables that were renamed or dropped since is updated. When the options switch off what was on, this
    is stored, and snapshots are no longer held. A branch that cannot be read is left out, and named by a warning in the
    log and by `unreadable_tables`. Raises InvalidRequestError if neither option is on, and the error of a table whose
    snapshots cannot be read, after the others were fed.
    """
    return feed_catalog(catalog)


def feed_catalog(catalog: Warehouse, on_step: OnStep = lambda _: None) -> FeedResult:
    """Like `feed`; `on_step` is called after each step, with the name of the step."""
    database = SystemDatabase.of(catalog)
    if database.given and database.is_made() and not database.switches().is_on:
        _switch_off(catalog, database)
        return FeedResult()
    return feed_tables(catalog, database, on_step).fed


def feed_tables(catalog: Warehouse, database: SystemDatabase, on_step: OnStep, *, start: int | None = None) -> Feeder:
    """Feed all tables, or what they have from a snapshot on; then update the rows of renamed and dropped tables.

    Raises the error of the first table whose snapshots cannot be read, after the others were fed.
    """
    feeder = Feeder.of(database, on_step)
    errors: list[LakelogError] = []

    def note(name: str, _: str, error: LakelogError) -> None:
        logger.warning("the lineage of %s is not fed: %s", escaped(name), error)
        if not isinstance(error, CopiedTableError):
            errors.append(error)

    tables = list(readable_tables(catalog, note))
    names: dict[str, str] = {}
    for database_name, name, table in tables:
        if table.uuid:
            names.setdefault(table.uuid, f"{database_name}.{name}")
    feeder.dropped = database.dropped() - names.keys()
    for _, _, table in tables:
        try:
            feeder.take(table, start=start)
        except LakelogError as error:
            note(table.name, table.path, error)
    feeder.flush()
    follow_tables(database, names, on_step)
    prune_fields(database, on_step)
    if errors:
        raise errors[0]
    return feeder


def _switch_off(catalog: Warehouse, database: SystemDatabase) -> None:
    database.store_options()
    for _, _, table in catalog.stores(on_error=note_unreadable):  # copies hold snapshots, too
        for line in lines_of(table):
            line.release()


def feed_line(table: TableStore) -> None:
    """Feed one line before its snapshots expire; if lineage is switched off, stop holding them.

    Before the first feed of a warehouse, the handle's catalog, or the one that held the line, switches lineage on.
    """
    database = SystemDatabase.beside(table, warehouse_of(table.path))
    line = FedLine(table, table.branch)
    if not database.is_made():
        database = replace(database, given={**line.held_options(), **database.given})
    if not database.switches().is_on:
        if line.is_held():
            line.release()
        return
    error = copy_error(table, database)
    if error is not None:
        note_unreadable(table.name, table.path, error)
        line.release()
        return
    feeder = Feeder.of(database)
    feeder.dropped = database.dropped(is_done=True)  # the next feed of all tables finishes the others
    feeder.take_line(line)
    feeder.flush()
    if table.branch != MAIN_BRANCH:
        began = fork_edge(table, table.branch)
        feeder.put_forks([] if began is None or not feeder.has_data else [began])


def feed_taken(table: TableStore, branch: str, snapshot: Snapshot) -> None:
    """Record that a table has taken a branch up to a snapshot, if the branch was deleted with it."""
    database = SystemDatabase.beside(table, warehouse_of(table.path))
    if database.is_made() and database.switches().data:
        Feeder.of(database).put_forks([taken_edge(table, branch, snapshot, taken_millis=system_millis())])


@dataclass(kw_only=True)
class Feeder:
    """A feed: takes what lines have that was not fed yet, and commits it group by group.

    Sources that are `dropped` tables are only in edges.
    """

    database: SystemDatabase
    statuses: Mapping[str, JobStatus]
    has_tables: bool
    has_data: bool
    on_step: OnStep = lambda _: None
    dropped: Collection[str] = ()
    fed: FeedResult = field(default_factory=FeedResult)
    _edges: list[Edge] = field(default_factory=list)
    _named: list[FedBatch] = field(default_factory=list)
    _moves: list[tuple[FedLine, Unfed]] = field(default_factory=list)

    @classmethod
    def of(cls, database: SystemDatabase, on_step: OnStep = lambda _: None) -> Feeder:
        """A feed of the system tables, which are created if they are missing. Raises InvalidRequestError."""
        switches = database.switches()
        if not switches.is_on:
            raise InvalidRequestError(
                f"no lineage is recorded in {database.warehouse}: both {TABLE_LINEAGE.key} and {DATA_LINEAGE.key} are "
                "false; give one as an option of the catalog, such as Catalog(warehouse, "
                'options={"data-lineage": "true"}), or `lakelog lineage feed --data-lineage`, which keeps it'
            )
        database.store_options()
        on_step("options")
        of_data = (*OF_SNAPSHOTS, SNAPSHOT_EDGES, JOB_STARTUP)
        for table in (*(OF_JOBS if switches.table else ()), *(of_data if switches.data else ())):
            database.opened(table)
        return cls(
            database=database,
            statuses=database.job_statuses(),
            has_tables=switches.table,
            has_data=switches.data,
            on_step=on_step,
        )

    def take(self, table: TableStore, *, start: int | None = None) -> None:
        """Take all lines of a table; see `take_line`. A branch that cannot be read is reported as unreadable.

        Raises the error of the table's own line, after its branches were taken.
        """
        before = self.fed.batches
        own: LakelogError | None = None
        for line in lines_of(table):
            try:
                self.take_line(line, start=start)
            except LakelogError as error:
                if line.branch == MAIN_BRANCH:
                    own = error
                else:
                    note_unreadable(replace(table, branch=line.branch).name, table.path, error)
        self.take_forks(table)
        self.fed = replace(self.fed, tables=self.fed.tables + (self.fed.batches > before))
        if own is not None:
            raise own

    def take_line(self, line: FedLine, *, start: int | None = None) -> None:
        """Take what a line has that was not fed, or everything from a snapshot on; commits when a group is full."""
        for piece in unfed(line.table, line.branch, start=start, edges_max=GROUP_EDGES):
            self._edges += piece.edges
            self._named += (FedBatch(line.table, edge) for edge in piece.edges if edge.get("fields"))
            self._moves.append((line, piece))
            batches, edges = self.fed.batches + piece.batch_count, self.fed.edges + len(piece.edges)
            self.fed = replace(self.fed, batches=batches, edges=edges)
            if len(self._edges) >= GROUP_EDGES:
                self.flush()

    def take_forks(self, table: TableStore) -> None:
        """Record where the branches of a table began, for branches for which that is not recorded yet."""
        found = list(readable_forks(table))
        if self.has_data and found:
            known = fork_keys(self.database)
            self.put_forks([edge for edge in found if fork_key(edge) not in known])

    def put_forks(self, edges: Sequence[Edge]) -> None:
        """Commit the edges of branches, which are not batches of jobs: other system tables do not have them."""
        if edges:
            self.database.change(SNAPSHOT_EDGES, upserts=numbered(edges))
            self.on_step(f"branches in {SNAPSHOT_EDGES.name}")

    def flush(self) -> None:
        """Commit the group, then move the consumers of its lines."""
        edges = [edge for edge in self._edges if not is_deleted(self.statuses, edge)]
        if edges:
            self.put(edges)
        if self.has_data:
            named = [one for one in self._named if not is_deleted(self.statuses, one.edge)]
            put_fields(self.database, named, self.on_step)
        for line, piece in self._moves:
            line.move(piece)
            self.on_step("consumer")
        self._edges, self._named, self._moves = [], [], []

    def put(self, edges: Iterable[Edge]) -> None:
        """Commit the rows of edges, with one commit per table."""
        edges = list(edges)
        if self.has_data:
            self.database.change(SNAPSHOT_EDGES, upserts=numbered(edges))
            self.on_step(SNAPSHOT_EDGES.name)
        edges = [{**edge, "source_kind": None} if edge.get("source_uuid") in self.dropped else edge for edge in edges]
        if self.has_data:
            for table, rows in snapshot_rows(edges).items():
                self.database.change(table, upserts=rows)
                self.on_step(table.name)
        if self.has_tables:
            put_jobs(self.database, [edge for edge in edges if not is_ended(self.statuses, edge)], self.on_step)


def put_jobs(database: SystemDatabase, edges: Iterable[Edge], on_step: OnStep) -> None:
    """Put the rows of the jobs in edges that are new, belong to another query or began earlier."""
    for table, rows in job_rows(edges).items():
        stored = {key_of(table, row): row for row in database.found(table)} if rows else {}
        merged = dict(stored)
        for row in rows:
            keep_first(merged, table, row)
        changed = [row for key, row in merged.items() if row != stored.get(key)]
        database.change(table, upserts=changed)
        on_step(table.name)


def is_deleted(statuses: Mapping[str, JobStatus], edge: Mapping[str, Any]) -> bool:
    """Whether an edge belongs to a job that was deleted since."""
    status = statuses.get(str(edge.get("job")))
    return status is not None and status.covers_deleted(edge["sink_time"])


def is_ended(statuses: Mapping[str, JobStatus], edge: Edge) -> bool:
    """Whether an edge belongs to a job that was ended since."""
    status = statuses.get(str(edge.get("job")))
    return status is not None and status.covers_ended(edge["sink_time"])
