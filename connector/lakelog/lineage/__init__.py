"""Where rows come from: which snapshots of which tables made a snapshot."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.lineage.answers.consistent import ConsistentSnapshots, NotConsistentError, consistent_snapshots
    from lakelog.lineage.answers.mending import mended
    from lakelog.lineage.answers.questions import downstream, lineage_graph, upstream
    from lakelog.lineage.answers.taint import Tainted, tainted
    from lakelog.lineage.pictures.around import table_graph
    from lakelog.lineage.records.declared import made_from
    from lakelog.lineage.records.unreadable import UnreadableTable, unreadable_tables
    from lakelog.lineage.tables.feeding import FeedResult, feed
    from lakelog.lineage.tables.job_verbs import Job, delete_job, end_job, jobs
    from lakelog.lineage.tables.known import known_edges
    from lakelog.lineage.tables.rebuilding import RebuildResult, rebuild

__all__ = [
    "ConsistentSnapshots",
    "FeedResult",
    "Job",
    "NotConsistentError",
    "RebuildResult",
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
    "table_graph": "lakelog.lineage.pictures.around",
    "ConsistentSnapshots": "lakelog.lineage.answers.consistent",
    "NotConsistentError": "lakelog.lineage.answers.consistent",
    "consistent_snapshots": "lakelog.lineage.answers.consistent",
    "downstream": "lakelog.lineage.answers.questions",
    "lineage_graph": "lakelog.lineage.answers.questions",
    "Tainted": "lakelog.lineage.answers.taint",
    "tainted": "lakelog.lineage.answers.taint",
    "UnreadableTable": "lakelog.lineage.records.unreadable",
    "unreadable_tables": "lakelog.lineage.records.unreadable",
    "upstream": "lakelog.lineage.answers.questions",
    "FeedResult": "lakelog.lineage.tables.feeding",
    "Job": "lakelog.lineage.tables.job_verbs",
    "RebuildResult": "lakelog.lineage.tables.rebuilding",
    "delete_job": "lakelog.lineage.tables.job_verbs",
    "end_job": "lakelog.lineage.tables.job_verbs",
    "feed": "lakelog.lineage.tables.feeding",
    "jobs": "lakelog.lineage.tables.job_verbs",
    "known_edges": "lakelog.lineage.tables.known",
    "made_from": "lakelog.lineage.records.declared",
    "mended": "lakelog.lineage.answers.mending",
    "rebuild": "lakelog.lineage.tables.rebuilding",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
