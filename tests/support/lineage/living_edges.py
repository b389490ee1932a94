"""The edges of one table, as its living snapshots record them."""

from __future__ import annotations

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.tables.edges import edge_table, unfed, unfed_edges


def edges_of(table: Table | TableStore) -> pa.Table:
    """The edges of the whole batches of a table and its branches, or of one branch, line by line, oldest first."""
    store = table if isinstance(table, TableStore) else table.store
    if store.branch == MAIN_BRANCH:
        return edge_table(unfed_edges(store, was_fed=False))
    return edge_table(edge for piece in unfed(store, store.branch, start=1) for edge in piece.edges)
