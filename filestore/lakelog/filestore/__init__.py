"""Tables in the Apache Paimon format on a file system. Knows nothing of Spark, Kafka or lineage.

Here are the names that users import; `lakelog.catalog` has tables with databases and logs.
"""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable

__all__ = ["CommitKind", "FileStoreTable", "Snapshot", "TableSchema", "build_schema"]
