"""The rows of the system tables that follow from edges. Pure.

`barrier_id` is Spark's number of the micro-batch; for a batch write, which has none, it is the commit time of its
snapshot in milliseconds, so that the runs of a nightly job differ. Batches without a job are only in edges. A branch is
named as in other engines, `t$branch_b`. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any  # Any: the values of a row

from lakelog.filestore.metadata.origins import ReadMode
from lakelog.filestore.schema import MAIN_BRANCH, line_name
from lakelog.warehouse.lineage_tables import (
    SINK_JOBS,
    SINK_SNAPSHOTS,
    SNAPSHOT_EDGES,
    SOURCE_JOBS,
    SOURCE_SNAPSHOTS,
    StoredTable,
)

Edge = Mapping[str, Any]
Row = dict[str, Any]
Key = tuple[object, ...]
OF_JOBS = (SOURCE_JOBS, SINK_JOBS)
OF_SNAPSHOTS = (SOURCE_SNAPSHOTS, SINK_SNAPSHOTS)
_NUMBER = "source_number"
_BATCH = ("sink_uuid", "sink_branch", "sink_snapshot", "sink_commit", "user", "identifier")


def numbered(edges: Iterable[Edge]) -> list[Row]:
    """Edges as rows of `snapshot_edges`: those of a batch follow each other and are numbered from 0."""
    rows: list[Row] = []
    before: Key = ()
    for edge in edges:
        batch = tuple(edge.get(name) for name in _BATCH)
        number = rows[-1][_NUMBER] + 1 if batch == before else 0
        before = batch
        row = {name: edge.get(name) for name in SNAPSHOT_EDGES.columns if name in edge}
        line = edge.get("sink_branch") or MAIN_BRANCH
        rows.append(row | {"sink_line": line, "sink_commit": edge.get("sink_commit") or "", _NUMBER: number})
    return rows


def job_rows(edges: Iterable[Edge]) -> dict[StoredTable, list[Row]]:
    """The rows of `source_job_lineage` and `sink_job_lineage`: `create_time` is the first commit of these edges."""
    found: dict[str, dict[Key, Row]] = {table.name: {} for table in OF_JOBS}
    for edge in edges:
        if edge.get("job") is None:
            continue
        for table, side in ((SINK_JOBS, "sink"), (SOURCE_JOBS, "source")):
            if side == "source" and edge.get("source_kind") != "table":
                continue
            row = _named(edge, side) | {
                "create_time": edge["sink_time"],
                "table_uuid": edge.get(f"{side}_uuid"),
                "query_id": edge.get("query_id"),
            }
            keep_first(found[table.name], table, row)
    return {table: list(found[table.name].values()) for table in OF_JOBS}


def keep_first(rows: dict[Key, Row], table: StoredTable, row: Row) -> None:
    """Put a row of a job under its key: the newest row counts, with the earliest time."""
    key = key_of(table, row)
    before = rows.get(key)
    if before is None:
        rows[key] = row
        return
    newest = row if row["create_time"] >= before["create_time"] else before
    rows[key] = newest | {"create_time": min(row["create_time"], before["create_time"])}


def snapshot_rows(edges: Iterable[Edge]) -> dict[StoredTable, list[Row]]:
    """The rows of `source_snapshot_lineage` and `sink_snapshot_lineage`.

    Of several edges with one key, for example from a self-join, the stream counts, then the newest snapshot.
    """
    sources: dict[Key, tuple[Key, Row]] = {}
    sinks: dict[Key, Row] = {}
    for edge in edges:
        if edge.get("job") is None:
            continue
        sink = _of_batch(edge, "sink") | {
            "snapshot_id": edge["sink_snapshot"],
            "commit": edge.get("sink_commit"),
            "operation": edge.get("operation"),
            "commit_user": edge["user"],
            "commit_identifier": edge["identifier"],
        }
        before = sinks.get(key := key_of(SINK_SNAPSHOTS, sink))
        if before is None or before["commit_time"] <= sink["commit_time"]:
            sinks[key] = sink
        if edge.get("source_kind") == "table":
            source = _source_row(edge)
            key = key_of(SOURCE_SNAPSHOTS, source)
            rank = source["commit_time"], source["mode"] == ReadMode.STREAM, source["snapshot_id"] or -1
            if key not in sources or sources[key][0] <= rank:
                sources[key] = rank, source
    return {SOURCE_SNAPSHOTS: [row for _, row in sources.values()], SINK_SNAPSHOTS: list(sinks.values())}


def _source_row(edge: Edge) -> Row:
    return _of_batch(edge, "source") | {
        "snapshot_id": edge.get("source_to"),
        "commit": edge.get("source_to_commit"),
        "mode": edge.get("mode"),
        "start_snapshot_id": edge.get("source_from"),
        "start_commit": edge.get("source_from_commit"),
        "exact": edge.get("exact"),
        "why": edge.get("why"),
    }


def _of_batch(edge: Edge, side: str) -> Row:
    batch = edge.get("barrier_id")
    return _named(edge, side) | {
        "barrier_id": edge["sink_time"] if batch is None else batch,
        "table_uuid": edge.get(f"{side}_uuid"),
        "branch": edge.get(f"{side}_branch"),
        "query_id": edge.get("query_id"),
        "run_id": edge.get("run_id"),
        "commit_time": edge["sink_time"],
    }


def _named(edge: Edge, side: str) -> Row:
    database, table = name_parts(str(edge.get(f"{side}_table")))
    branch = edge.get(f"{side}_branch")
    return {
        "job": edge["job"],
        "database": database,
        "table": line_name(table, branch),
    }


def name_parts(name: str) -> tuple[str, str]:
    """The database and the table in a name; the database of a table outside a warehouse is empty."""
    database, _, table = name.rpartition(".")
    return database, table


def key_of(table: StoredTable, row: Mapping[str, Any]) -> Key:
    """The primary key of a row."""
    return tuple(row[name] for name in table.keys)
