"""What the part above, `lakelog.lineage`, does for tables: it fills the ports of the file store.

It is imported by its name when a port is used first, since most processes never need it. So lineage is fed before its
snapshots expire in every process that opens tables by a catalog.
"""

from __future__ import annotations

from importlib import import_module

from lakelog.filestore.expire.before_expiry import take_before_expiry
from lakelog.filestore.metadata.store import TableStore


def fill_ports() -> None:
    """Let `lakelog.lineage` do what it does for tables."""
    take_before_expiry("lakelog.lineage", _feed)


def _feed(table: TableStore) -> None:
    import_module("lakelog.lineage.feeding").feed_line(table)
