"""Spark Structured Streaming on lakelog tables: the importer of pyspark."""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.spark.compaction.compaction_job import compact
from lakelog.spark.data_source import register
from lakelog.spark.session import name_worker_python
from lakelog.spark.sink.bucketing import bucket_column
from lakelog.spark.sink.sink import LakelogSink, write_stream
from lakelog.spark.source.read import read

name_worker_python()

__all__ = ["LakelogSink", "bucket_column", "compact", "read", "register", "write_stream"]
