"""A table of the file store with another schema, as `lakelog.catalog.Table.alter` changes one without a log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.filestore.alter import alter_schema

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.alter import SchemaChange
    from lakelog.filestore.commit.commit_clock import CommitClock


def altered(table: FileStoreTable, *changes: SchemaChange, clock: CommitClock | None = None) -> FileStoreTable:
    """The table with the changed schema; the handle that is given keeps its own."""
    return replace(table, schema=alter_schema(table, changes, clock=clock))
