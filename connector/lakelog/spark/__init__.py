"""Spark Structured Streaming on lakelog tables: the importer of pyspark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.spark.session import name_worker_python, session_of_another_python

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.listeners import CommitListener
    from lakelog.spark.compaction.compaction_job import compact
    from lakelog.spark.data_source import register
    from lakelog.spark.failures import error_of
    from lakelog.spark.ingesting.ingest import ingest
    from lakelog.spark.merge import merge
    from lakelog.spark.replay import replay_dead_letters
    from lakelog.spark.sink.bucketing import bucket_column
    from lakelog.spark.sink.commits import progress_with_commits
    from lakelog.spark.sink.sink import LakelogSink, write_stream
    from lakelog.spark.sink.write import write
    from lakelog.spark.source.batch.consistent_read import consistent_read
    from lakelog.spark.source.batch.group_streams import read_streams
    from lakelog.spark.source.batch.read import read
    from lakelog.spark.source.streams.normalize import normalize

name_worker_python()

__all__ = [
    "CommitListener",
    "LakelogSink",
    "bucket_column",
    "compact",
    "consistent_read",
    "error_of",
    "ingest",
    "merge",
    "normalize",
    "progress_with_commits",
    "read",
    "read_streams",
    "register",
    "replay_dead_letters",
    "write",
    "write_stream",
]
# A name is imported when it is used first. Each Python process that Spark starts for a query imports this package, and
# a process that reads needs nothing of those that write.
_HOMES = {
    "CommitListener": "lakelog.filestore.metadata.snapshots.listeners",
    "LakelogSink": "lakelog.spark.sink.sink",
    "bucket_column": "lakelog.spark.sink.bucketing",
    "compact": "lakelog.spark.compaction.compaction_job",
    "consistent_read": "lakelog.spark.source.batch.consistent_read",
    "error_of": "lakelog.spark.failures",
    "ingest": "lakelog.spark.ingesting.ingest",
    "merge": "lakelog.spark.merge",
    "normalize": "lakelog.spark.source.streams.normalize",
    "progress_with_commits": "lakelog.spark.sink.commits",
    "read": "lakelog.spark.source.batch.read",
    "read_streams": "lakelog.spark.source.batch.group_streams",
    "register": "lakelog.spark.data_source",
    "replay_dead_letters": "lakelog.spark.replay",
    "write": "lakelog.spark.sink.write",
    "write_stream": "lakelog.spark.sink.sink",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


_running = session_of_another_python()
if _running is not None:
    import_module(_HOMES["register"]).register(_running)
