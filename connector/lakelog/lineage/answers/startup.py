"""Where a new job starts: at snapshots of the tables that it reads which go together with what other jobs have made.

A job that reads tables which other jobs read too begins at the versions that those have made their tables from, so its
first result goes together with theirs. What it begins at is recorded in the system table `job_startup`.
Source: the proposal of table and snapshot lineage, "Data Lineage".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.origins import LineKey
from lakelog.lineage.answers.advancing import first_agreement, why_not
from lakelog.lineage.answers.consistent import NotConsistentError
from lakelog.lineage.lines.line_graph import FoundTables, LineGraph, load_lines
from lakelog.lineage.lines.lines import line_key
from lakelog.lineage.records.record import ReadMode, TableVersion
from lakelog.lineage.tables.known import known_edges
from lakelog.warehouse.lineage_tables import JOB_STARTUP
from lakelog.warehouse.system_database import SystemDatabase
from lakelog.warehouse.warehouse import Warehouse


def startup_snapshots(
    catalog: Warehouse, tables: Sequence[str], *, beside: Sequence[str] | None = None
) -> dict[str, TableVersion]:
    """The newest snapshots of tables at which a job that reads them may start, beside jobs that read them too.

    They go together with each other and with the tables `beside`; without these, with all tables that other jobs make
    from any of them. Raises NotConsistentError where there are none, with what would help; NotFoundError.
    """
    others = made_from_any(catalog, tables) if beside is None else list(beside)
    stores = {name: catalog.store(name) for name in dict.fromkeys([*tables, *others])}
    heads = {line_key(store): store.snapshots.latest_id() or 0 for store in stores.values()}
    empty = [name for name, store in stores.items() if not heads[line_key(store)]]
    if empty:
        raise NotFoundError(f"table {empty[0]} has no snapshot yet: a job beside it has nothing to start at")
    graph = load_lines(stores.values(), FoundTables([catalog]))
    found = first_agreement(graph, heads)
    if found is None:
        raise _no_start(graph, tables, others, {name: line_key(store) for name, store in stores.items()})
    return {name: found[line_key(stores[name])] for name in tables}


def _no_start(
    graph: LineGraph, tables: Sequence[str], others: Sequence[str], lines: Mapping[str, LineKey]
) -> NotConsistentError:
    why = why_not(graph, lines)
    without = f"without {listed(others)} (beside=[]), or " if others else ""
    return NotConsistentError(
        f"a job that reads {listed(tables)} has no snapshots to start at: {why}. Start it once the slower of those "
        f"jobs has gone on, {without}with the streams each by itself; or write the tables again from their sources "
        "with aligned streams",
        hindrances=() if why is None else why.hindrances,
    )


def made_from_any(catalog: Warehouse, tables: Sequence[str]) -> list[str]:
    """The tables of a catalog that streams make from any of these, and that are not among them, by name."""
    uuids = [line_key(catalog.store(name)).uuid for name in tables]
    edges = known_edges(catalog)
    streams = pc.and_(
        pc.is_in(edges["source_uuid"], pa.array(uuids, pa.string())), pc.equal(edges["mode"], ReadMode.STREAM.value)
    )
    found = sorted(set(edges.filter(streams)["sink_table"].to_pylist()) - set(tables))
    return [name for name in found if catalog.table_exists(name)]


def record_startup(catalog: Warehouse, job: str, start: Mapping[str, TableVersion]) -> None:
    """Write at which snapshots of tables a job starts into `job_startup`, in the place of an earlier start."""
    rows = []
    for name, at in start.items():
        table = catalog.store(name)
        key = line_key(table)
        database, _, short = name.partition(".")
        row = {"job": job, "database": database, "table": short, "table_uuid": key.uuid, "branch": key.branch}
        rows.append({**row, "snapshot_id": at.snapshot_id, "commit": at.commit})
    SystemDatabase.of(catalog).change(JOB_STARTUP, upserts=rows)
