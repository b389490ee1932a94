"""The lineage graph around a table or one of its snapshots, from what a catalog knows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.lineage.answers.graph import LineageGraph, NodeKey, NodeKind, graph_of
from lakelog.lineage.answers.graph_page import graph_page
from lakelog.lineage.answers.questions import downstream, lineage_graph, upstream
from lakelog.lineage.lines.line_graph import FoundTables
from lakelog.lineage.lines.lines import line_key
from lakelog.lineage.records.unreadable import check_is_read
from lakelog.lineage.tables.edges import EDGE_SCHEMA
from lakelog.warehouse.warehouse import Warehouse


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
