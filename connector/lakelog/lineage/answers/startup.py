"""Where a new job starts: at snapshots of its source tables that are consistent with what other jobs have made.

A job that reads the same tables as other jobs begins at the versions from which those jobs have made their tables, so
its first result is consistent with theirs. Where it begins is recorded in the system table `job_startup`.
Source: the proposal of table and snapshot lineage, "Data Lineage".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.origins import LineKey, ReadMode, TableVersion
from lakelog.lineage.answers.advancing import first_agreement, why_not
from lakelog.lineage.answers.consistent import NotConsistentError
from lakelog.lineage.lines.line_graph import FoundLines, LineGraph, load_lines
from lakelog.lineage.tables.found_tables import line_key
from lakelog.lineage.tables.warehouse_lineage import known_edges
from lakelog.warehouse.lineage_tables import JOB_STARTUP
from lakelog.warehouse.system_database import SystemDatabase
from lakelog.warehouse.warehouse import Warehouse


def startup_snapshots(
    catalog: Warehouse, tables: Sequence[str], *, beside: Sequence[str] | None = None
) -> dict[str, TableVersion]:
    """The newest snapshots of tables at which a job that reads them may start, beside other jobs that read them.

    They are consistent with each other and with the tables `beside`, by default all tables that other jobs make from
    any of them. Raises NotConsistentError if there are none, saying what would help; NotFoundError.
    """
    others = made_from_any(catalog, tables) if beside is None else list(beside)
    stores = {name: catalog.store(name) for name in dict.fromkeys([*tables, *others])}
    heads = {line_key(store): store.snapshots.latest_id() or 0 for store in stores.values()}
    empty = [name for name, store in stores.items() if not heads[line_key(store)]]
    if empty:
        raise NotFoundError(
            f"table {empty[0]} has no snapshot yet, so a job that is to be consistent with it has no snapshot to "
            "start at"
        )
    graph = load_lines(stores.values(), FoundLines([catalog]))
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
    """The names of the catalog's tables that streams make from any of these tables, without these tables."""
    uuids = [line_key(catalog.store(name)).uuid for name in tables]
    edges = known_edges(catalog)
    streams = pc.and_(
        pc.is_in(edges["source_uuid"], pa.array(uuids, pa.string())), pc.equal(edges["mode"], ReadMode.STREAM.value)
    )
    found = sorted(set(edges.filter(streams)["sink_table"].to_pylist()) - set(tables))
    return [name for name in found if catalog.table_exists(name)]


def record_startup(catalog: Warehouse, job: str, start: Mapping[str, TableVersion]) -> None:
    """Write the snapshots of tables at which a job starts into `job_startup`, replacing an earlier start."""
    rows = []
    for name, at in start.items():
        table = catalog.store(name)
        key = line_key(table)
        database, _, short = name.partition(".")
        row = {"job": job, "database": database, "table": short, "table_uuid": key.uuid, "branch": key.branch}
        rows.append({**row, "snapshot_id": at.snapshot_id, "commit": at.commit})
    SystemDatabase.of(catalog).change(JOB_STARTUP, upserts=rows)
