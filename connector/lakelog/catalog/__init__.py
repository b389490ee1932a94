"""Databases and tables without Spark: create, open, read, write, alter and maintain them.

A table has files and may have a log. This module has the names that users import: the catalog and its tables, the
changes that `Table.alter` takes, and the errors.
"""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.catalog.catalog import Catalog, open_table
from lakelog.catalog.verbs.table import Table
from lakelog.catalog.verbs.table_merge import TableMerge
from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    FencedError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    OptionError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
    UnsupportedError,
)
from lakelog.filestore.alter import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.metadata.snapshots import CommitListener
from lakelog.filestore.refs import BranchConflictError, BranchMerge
from lakelog.protocol.access import TableLog

__all__ = [
    "AddColumn",
    "BranchConflictError",
    "BranchMerge",
    "Catalog",
    "CommitListener",
    "ConflictError",
    "CorruptDataError",
    "DropColumn",
    "FencedError",
    "InvalidRequestError",
    "LakelogError",
    "NotFoundError",
    "OptionError",
    "Place",
    "Position",
    "RemoveOption",
    "RenameColumn",
    "SchemaChange",
    "SetComment",
    "SetDefault",
    "SetNullability",
    "SetOption",
    "SetTableComment",
    "StalledError",
    "Table",
    "TableLog",
    "TableMerge",
    "TransactionTimeoutError",
    "UnavailableError",
    "UnknownOutcomeError",
    "UnsupportedError",
    "UpdateColumnPosition",
    "UpdateColumnType",
    "open_table",
]
