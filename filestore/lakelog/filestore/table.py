"""A table of the file store, without Spark and without Kafka: opened, created, written, compacted and read by path.

Opening a table imports little: each verb imports what it needs when it is called.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.file_names import check_user_name
from lakelog.filestore.io.location import Location
from lakelog.filestore.io.network import both
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.options.layout import TABLE_UUID
from lakelog.filestore.refs.states.travel import check_not_in_step
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.verbs.branch_verbs import BranchedTable
from lakelog.filestore.verbs.show_verbs import ShownTable

if TYPE_CHECKING:
    from lakelog.filestore.alter.schema_changes import SchemaChange
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.io.fileio import FileIO
    from lakelog.filestore.metadata.snapshots.listeners import ListenersOf
    from lakelog.filestore.metadata.tables.store import LineageKeeper
    from lakelog.filestore.schema.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class FileStoreTable(BranchedTable, ShownTable):
    """One table: LSM files in the Paimon format."""

    @classmethod
    def open(
        cls,
        path: str | Path,
        file_io: FileIO | None = None,
        *,
        branch: str = MAIN_BRANCH,
        options: Mapping[str, str] | None = None,
    ) -> FileStoreTable:
        """The table in a folder, with its newest schema, or a branch of it. Raises NotFoundError if there is none.

        `options` configure the access to an object store (`s3.*`) or HDFS; they are not stored.
        """
        root, file_io = _located(path, file_io, options)
        paths = TablePaths(root, branch)
        schemas, snapshots = SchemaManager(file_io, paths), SnapshotManager(file_io, paths)
        schema, _ = both(file_io, schemas.latest, snapshots.look_ahead)
        if schema is None and branch != MAIN_BRANCH:
            check_user_name(branch, "branch")
            raise NotFoundError(f"table {root} has no branch {branch!r}")
        if schema is None:
            raise NotFoundError(
                f"{root} holds no table: it has no schema/schema-N file; check the path, as a table may have been "
                "renamed, or create it"
            )
        table = cls(path=root, file_io=file_io, schema=schema, branch=branch)
        check_not_in_step(table)
        vars(table).update(schemas=schemas, snapshots=snapshots)  # with their caches
        return table

    @classmethod
    def create(
        cls,
        path: str | Path,
        schema: TableSchema,
        file_io: FileIO | None = None,
        *,
        options: Mapping[str, str] | None = None,
    ) -> FileStoreTable:
        """Create a table in a folder, with a new identity. Raises ConflictError if a table exists there.

        Raises InvalidRequestError or UnsupportedError for a merge engine that does not fit the columns.
        """
        from lakelog.filestore.verbs.new_tables import check_new_table

        check_new_table(schema)
        root, file_io = _located(path, file_io, options)
        stored = {TABLE_UUID.key: str(uuid.uuid4()), **schema.options}
        made = replace(schema, options=stored, time_millis=schema.time_millis or system_millis())
        SchemaManager(file_io, TablePaths(root)).create(made)
        return cls(path=root, file_io=file_io, schema=made)

    def alter(self, *changes: SchemaChange, clock: CommitClock | None = None) -> FileStoreTable:
        """Change columns, options or comments, all or none; returns the table with the new schema.

        This table handle and all others keep the schema with which they were opened. No row is written: files of older
        schemas are read with the columns of the newest schema. Raises InvalidRequestError or UnsupportedError for
        changes that do not fit and for tables with a log, which `lakelog.catalog.Table.alter` changes.
        """
        if self.has_log:
            raise InvalidRequestError(
                f"table {self.name} has a log, whose records must fit the new schema: open the table with "
                "lakelog.catalog, whose alter checks the log"
            )
        from lakelog.filestore.alter.alter import alter_schema

        return replace(self, schema=alter_schema(self, changes, clock=clock))

    def in_catalog(
        self,
        keeper: LineageKeeper,
        *,
        listeners_of: ListenersOf | None = None,
        lineage_options: Mapping[str, str] | None = None,
    ) -> FileStoreTable:
        """The table as a catalog opens it: with the catalog's support for lineage, and with the listeners of
        commits."""
        found = replace(
            self, lineage_keeper=keeper, listeners_of=listeners_of, lineage_options=dict(lineage_options or {})
        )
        kept = {"schemas", "snapshots"}  # with their caches
        vars(found).update({name: value for name, value in vars(self).items() if name in kept})
        return found

    @property
    def options(self) -> dict[str, str]:
        """The table's options as they are stored."""
        return dict(self.schema.options)


def _located(path: str | Path, file_io: FileIO | None, options: Mapping[str, str] | None) -> tuple[str, FileIO]:
    """The path of the folder, and the FileIO of its files."""
    location = Location.of(path, options)
    return location.path, location.files_of_table(file_io)
