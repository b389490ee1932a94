"""Lines whose snapshots are kept until their lineage is fed."""

from __future__ import annotations

import logging
from dataclasses import replace

from lakelog.common.errors import LakelogError
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.tables.progress import FedLine
from lakelog.warehouse.system_database import SystemDatabase

logger = logging.getLogger("lakelog.lineage")

_held: set[tuple[object, ...]] = set()  # lines that this process has already held


def hold_lineage(table: TableStore) -> None:
    """If lineage is recorded, keep the snapshots that a writer is about to make until their lineage is fed.

    Call it once per query or statement: it reads the options of the warehouse. Errors are logged: lineage fails no
    write.
    """
    try:
        if replace(SystemDatabase.beside(table, warehouse_of(table.path)), given={}).switches().is_on:
            FedLine(table, table.branch).hold()
    except LakelogError as error:
        logger.warning("%s: its snapshots are not held until their lineage is fed: %s", table.name, error)


def hold_once(table: TableStore) -> None:
    """Keep the snapshots of a line whose handle switches lineage on, at the first call for it in this process.

    The consumer has the options, so that an expiry by another program feeds. After an error, which is logged, the next
    call tries again.
    """
    key = (table.path, table.branch, table.uuid, *sorted(table.lineage_options.items()))
    if key in _held:
        return
    try:
        FedLine(table, table.branch).hold(table.lineage_options)
        _held.add(key)
    except LakelogError as error:
        logger.warning("%s: its snapshots are not held until their lineage is fed: %s", table.name, error)
