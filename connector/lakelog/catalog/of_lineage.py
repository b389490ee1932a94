"""What the part above, `lakelog.lineage`, does for tables: it fills the ports of the file store.

It is imported by its name when a port is used first, since most processes never need it. So lineage is fed before its
snapshots expire in every process that opens tables by a catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from lakelog.filestore.expire.before_expiry import take_before_expiry
from lakelog.filestore.metadata.tables.before_lineage import hold_before_commits_by
from lakelog.filestore.refs.merges.branch_lineage import describe_branches_by

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables.store import TableStore
    from lakelog.filestore.refs.merges.branch_lineage import TakenBranch


def fill_ports() -> None:
    """Let `lakelog.lineage` do what it does for tables."""
    take_before_expiry("lakelog.lineage", _feed)
    hold_before_commits_by(_hold)
    describe_branches_by(_describe_branch)


def _feed(table: TableStore) -> None:
    import_module("lakelog.lineage.tables.feeding").feed_line(table)


def _hold(table: TableStore) -> None:
    import_module("lakelog.lineage.tables.feeding").hold_once(table)


def _describe_branch(taken: TakenBranch) -> Mapping[str, object]:
    found: Mapping[str, object] = import_module("lakelog.lineage.answers.brought").lineage_of_branch(taken)
    return found
