"""A process that writes a micro-batch as Spark's does for `writeStream.format("lakelog")`, or dies at it.

Run by `tests.filestore.processes.zygote`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any  # Any: the writers of pyspark's data sources are not typed
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.types import LongType, StructType

from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.sink import files_writer
from lakelog.spark.sink.alignment import QUERY_ID
from tests.support.kills.dying_at_changes import die_before_change

QUERY = "4b1f2c5e-56f7-4c0c-8a39-0c5d2f7a9b11"


def main(table: str, checkpoint: str, version: str, dies_at: str) -> None:
    """Write batch 0, one row that was joined to this version of db.side; die before a change of a file, or behind."""
    context = SimpleNamespace(partitionId=lambda: 0, getLocalProperty={QUERY_ID: QUERY}.get)
    options = {"path": table, "checkpointLocation": checkpoint, "lineage.sources": f"db.side@{version}"}
    schema = StructType().add("id", LongType(), nullable=False).add("side", LongType())
    rows = pa.record_batch({"id": [1], "side": [int(version)]})
    with patch.object(files_writer, "TaskContext", SimpleNamespace(get=lambda: context)):
        die_before_change(int(dies_at))
        writer: Any = LakelogDataSource(options).streamWriter(schema, False)
        writer.commit([writer.write(iter([rows]))], 0)
