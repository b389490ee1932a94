"""What users and other parts import of `lakelog.filestore`."""

from lakelog.filestore.metadata.snapshots.snapshot import CommitKind as CommitKind
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot as Snapshot
from lakelog.filestore.schema.new_schema import build_schema as build_schema
from lakelog.filestore.schema.schema import TableSchema as TableSchema
from lakelog.filestore.table import FileStoreTable as FileStoreTable
