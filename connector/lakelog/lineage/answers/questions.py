"""What a snapshot was made from and what was made from it, across catalogs; and the graph around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.metadata.origins import TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.lineage.answers.graph import LineageGraph, NodeKey, NodeKind, graph_of
from lakelog.lineage.answers.graph_page import graph_page
from lakelog.lineage.tables.beginnings import asked_line
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.edge_columns import EDGE_SCHEMA, Ints
from lakelog.lineage.tables.found_tables import FoundTables, check_is_read, line_key, unreadable_tables
from lakelog.lineage.tables.warehouse_lineage import known_frame
from lakelog.warehouse.warehouse import Warehouse

ANSWER_SCHEMA = pa.schema([pa.field("depth", pa.int64(), nullable=False), *EDGE_SCHEMA])


def lineage_graph(*catalogs: Warehouse) -> EdgeArrays:
    """All known edges of catalogs, including the beginnings of branches, for several questions.

    `unreadable` has the tables that could not be read.
    """
    with unreadable_tables() as unreadable:
        edges = pl.concat([known_frame(catalog, has_forks=True) for catalog in catalogs])
        tables = FoundTables(catalogs)
        return EdgeArrays(edges.to_arrow().cast(EDGE_SCHEMA), unreadable, living=tables.living_commits)


def upstream(
    catalog: Warehouse,
    table: str,
    snapshot_id: int,
    depth: int | None = None,
    *,
    commit: str | None = None,
    catalogs: Sequence[Warehouse] = (),
    graph: EdgeArrays | None = None,
) -> pa.Table:
    """The batches that made a snapshot, and the batches that made what these read, as an Arrow table of ANSWER_SCHEMA.

    One row per source of a batch, as in `lakelog.lineage.tables.edges`, with its `depth`: 1 for what the snapshot
    itself was made from, at most `depth`. A stream has read the snapshots of its source after `source_from` up to
    `source_to`, a batch write the state at `source_to`. A compaction was made from what the snapshot before it was made
    from. `catalogs` are further catalogs with upstream tables; tables are identified by their uuids. `commit`
    distinguishes snapshots whose number was reused after a rollback: by default it is the living one, or the newest.
    `graph` is the `lineage_graph` of the same catalogs, for several questions. Raises NotFoundError, and the error of
    this table if it cannot be read; for others see `known_edges`.
    """
    start = _Start([catalog, *catalogs], table, snapshot_id, commit=commit, graph=graph)
    version = start.writing()
    return start.answer(() if start.line is None else start.graph.up(start.line, version, depth))


def downstream(
    catalog: Warehouse,
    table: str,
    snapshot_id: int,
    depth: int | None = None,
    *,
    commit: str | None = None,
    catalogs: Sequence[Warehouse] = (),
    graph: EdgeArrays | None = None,
) -> pa.Table:
    """The batches that read a snapshot, and the batches that read what these wrote, as an Arrow table of ANSWER_SCHEMA.

    A stream has read the snapshots after `source_from` up to `source_to`, a batch write all up to `source_to`. The
    arguments are those of `upstream`.
    """
    start = _Start([catalog, *catalogs], table, snapshot_id, commit=commit, graph=graph)
    if start.line is None:
        return start.answer(())
    return start.answer(start.graph.down(start.line, start.version, depth, start.time_millis, also=start.other_lines()))


class _Start:
    """The snapshot in the question."""

    def __init__(
        self,
        catalogs: Sequence[Warehouse],
        table: str,
        snapshot_id: int,
        *,
        commit: str | None,
        graph: EdgeArrays | None,
    ) -> None:
        self.graph = lineage_graph(*catalogs) if graph is None else graph
        self._store: TableStore | None = None
        self._living: Snapshot | None = None
        try:
            asked = FoundTables(catalogs).named(table)
        except NotFoundError:
            self._key = self.graph.line_named(table)
        else:
            check_is_read(asked, self.graph.unreadable)
            self._store, commit = asked_line(self.graph, asked, snapshot_id, commit)
            self._key = line_key(self._store)
            for line in (self._store, asked):  # a branch still has the snapshot at which it began
                found = line.snapshots.find(snapshot_id)
                if found is not None and commit in {None, found.uuid}:
                    self._store, self._living = line, found
                    break
        self.line = self.graph.line(self._key)
        commits = [] if self.line is None else self.graph.commits_of(self.line, snapshot_id)
        if self._living is None and not (commit in commits or (commit is None and commits)):
            raise NotFoundError(
                f"snapshot {snapshot_id} of {table}{'' if commit is None else f' of commit {commit}'} does not exist, "
                "and no lineage names it; `lakelog table history` lists the existing snapshots"
            )
        named = self._living.uuid if self._living is not None else commit or commits[-1]
        self.version = TableVersion(snapshot_id=snapshot_id, commit=named)

    @property
    def time_millis(self) -> int | None:
        """When the snapshot was committed; None if it does not live."""
        return None if self._living is None else self._living.time_millis

    def other_lines(self) -> list[int]:
        """Other lines of the table that have or had the snapshot: they have it, or a living one after it."""
        version, lines = self.version, self.graph.lines_of(self._key.uuid)
        if version.commit is None:
            return []
        there, behind = self._living_lines(), [version]
        if self._living is not None and self._store is not None:
            behind = [_version(one) for one in self._store.snapshots.living(version.snapshot_id)]
        return [line for line in lines if line != self.line and (line in there or self.graph.names_any(line, behind))]

    def _living_lines(self) -> set[int | None]:
        """The lines of the table in which the snapshot lives."""
        table, version = self._store, self.version
        found: set[int | None] = set()
        for branch in [] if table is None else table.branch_names():
            line = replace(table, branch=branch) if table is not None else None
            try:
                living = None if line is None else line.snapshots.find(version.snapshot_id)
            except CorruptDataError:  # it is reported as unreadable when its edges are read
                continue
            if line is not None and living is not None and living.uuid == version.commit:
                found.add(self.graph.line(line_key(line)))
        return found

    def writing(self) -> TableVersion:
        """The snapshot, or if it wrote no rows, the earlier one that wrote its rows."""
        if self._living is None or self._store is None or self.line is None:
            return self.version
        found: Snapshot | None = None
        for before in self._store.snapshots.walk_back(self._living):
            if found is not None and (found.changes_rows(before) or self.graph.is_written(self.line, _version(found))):
                break
            found = before
        return self.version if found is None else _version(found)

    def answer(self, steps: Iterator[Ints] | Sequence[Ints]) -> pa.Table:
        """Edges by depth as a table."""
        found = list(steps)
        rows = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        depths = np.repeat(np.arange(1, len(found) + 1), [len(one) for one in found])
        edges = self.graph.edges.take(pa.array(rows, pa.int64()))
        return edges.add_column(0, ANSWER_SCHEMA.field(0), pa.array(depths, pa.int64())).cast(ANSWER_SCHEMA)


def _version(snapshot: Snapshot) -> TableVersion:
    return TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid)


def table_graph(
    catalog: Warehouse,
    table: str,
    snapshot_id: int | None = None,
    *,
    depth: int | None = None,
    up: bool = True,
    down: bool = True,
) -> LineageGraph:
    """What a table was made from (`up`) and what was made from it (`down`), up to `depth` tables; by default all.

    It has everything known about the table, or with `snapshot_id` what `upstream` and `downstream` answer for that
    snapshot. Notebooks show the graph as a page, which `to_html` gives as a file. Raises NotFoundError.
    """
    store = FoundTables([catalog]).named(table)
    key = line_key(store)
    known = lineage_graph(catalog)
    check_is_read(store, known.unreadable)
    above = below = known.edges
    if snapshot_id is not None:
        above = upstream(catalog, table, snapshot_id, depth, graph=known)
        below = downstream(catalog, table, snapshot_id, depth, graph=known)
    none = EDGE_SCHEMA.empty_table()
    found = graph_of(
        NodeKey(NodeKind.TABLE, key.uuid, key.branch),
        table.partition(BRANCH_INFIX)[0],
        above if up else none,
        below if down else none,
        snapshot_id=snapshot_id,
        depth=depth,
    )
    direction = "both" if up == down else "up" if up else "down"
    return replace(found, _page=partial(graph_page, catalog, snapshot_id, depth, direction))
