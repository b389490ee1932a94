"""Spark Structured Streaming on lakelog tables: the importer of pyspark."""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.spark.bucketing import bucket_column
from lakelog.spark.compaction_job import compact
from lakelog.spark.read import read, register
from lakelog.spark.session import name_worker_python
from lakelog.spark.sink import LakelogSink, write_stream

name_worker_python()

__all__ = ["LakelogSink", "bucket_column", "compact", "read", "register", "write_stream"]
