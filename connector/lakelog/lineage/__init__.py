"""Where rows come from: which snapshots of which tables made a snapshot.

What a process that has imported `lakelog.catalog` alone needs of it, it imports by itself: see
`lakelog.catalog.of_lineage`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.lineage.around import table_graph
    from lakelog.lineage.consistent import ConsistentSnapshots, NotConsistentError, consistent_snapshots
    from lakelog.lineage.declared import made_from
    from lakelog.lineage.feeding import Fed, feed
    from lakelog.lineage.job_verbs import Job, delete_job, end_job, jobs
    from lakelog.lineage.known import known_edges
    from lakelog.lineage.mending import mended
    from lakelog.lineage.questions import downstream, lineage_graph, upstream
    from lakelog.lineage.rebuilding import Rebuilt, rebuild
    from lakelog.lineage.taint import Tainted, tainted
    from lakelog.lineage.unreadable import UnreadableTable, unreadable_tables

__all__ = [
    "ConsistentSnapshots",
    "Fed",
    "Job",
    "NotConsistentError",
    "Rebuilt",
    "Tainted",
    "UnreadableTable",
    "consistent_snapshots",
    "delete_job",
    "downstream",
    "end_job",
    "feed",
    "jobs",
    "known_edges",
    "lineage_graph",
    "made_from",
    "mended",
    "rebuild",
    "table_graph",
    "tainted",
    "unreadable_tables",
    "upstream",
]
# A name is imported when it is used first: a writer needs nothing of those that ask.
_HOMES = {
    "table_graph": "lakelog.lineage.around",
    "ConsistentSnapshots": "lakelog.lineage.consistent",
    "NotConsistentError": "lakelog.lineage.consistent",
    "consistent_snapshots": "lakelog.lineage.consistent",
    "downstream": "lakelog.lineage.questions",
    "lineage_graph": "lakelog.lineage.questions",
    "Tainted": "lakelog.lineage.taint",
    "tainted": "lakelog.lineage.taint",
    "UnreadableTable": "lakelog.lineage.unreadable",
    "unreadable_tables": "lakelog.lineage.unreadable",
    "upstream": "lakelog.lineage.questions",
    "Fed": "lakelog.lineage.feeding",
    "Job": "lakelog.lineage.job_verbs",
    "Rebuilt": "lakelog.lineage.rebuilding",
    "delete_job": "lakelog.lineage.job_verbs",
    "end_job": "lakelog.lineage.job_verbs",
    "feed": "lakelog.lineage.feeding",
    "jobs": "lakelog.lineage.job_verbs",
    "known_edges": "lakelog.lineage.known",
    "made_from": "lakelog.lineage.declared",
    "mended": "lakelog.lineage.mending",
    "rebuild": "lakelog.lineage.rebuilding",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
