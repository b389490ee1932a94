"""A table of the file store, without Spark and without Kafka: opened, created, written, compacted and read by path.

Opening a table imports little: each verb imports what it needs when it is called.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from lakelog.common.clock import system_millis
from lakelog.common.errors import NotFoundError
from lakelog.common.file_names import check_user_name
from lakelog.filestore.io.location import Location
from lakelog.filestore.io.network import both
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import TABLE_UUID
from lakelog.filestore.refs.states.travel import (
    SnapshotChoice,
    check_not_in_step,
    check_words,
    on_branch,
    snapshot_of,
    travelled,
)
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.io.fileio import FileIO
    from lakelog.filestore.metadata.snapshots.listeners import ListenersOf
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.metadata.tables.store import LineageKeeper
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.read.planned_read import PlannedRead
    from lakelog.filestore.schema.schema import TableSchema
    from lakelog.filestore.verbs.read_verbs import Selection
    from lakelog.filestore.verbs.write_verbs import WriteMode
    from lakelog.filestore.write.row_input import Rows
    from lakelog.filestore.write.row_kinds import RowKinds
    from lakelog.filestore.write.table_write import Naming


@dataclass(frozen=True, kw_only=True)
class FileStoreTable(TableStore):
    """One table: LSM files in the Paimon format.

    It is the handle that the functions of `lakelog.filestore.verbs` and of other rooms take as their first argument;
    the few that nearly every caller needs are its methods.
    """

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

    def in_catalog(
        self,
        keeper: LineageKeeper,
        *,
        listeners_of: ListenersOf | None = None,
        lineage_options: Mapping[str, str] | None = None,
    ) -> FileStoreTable:
        """The table as a catalog opens it: with its support for lineage and its listeners of commits."""
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

    def on_branch(self, branch: str | None) -> FileStoreTable:
        """The branch as a table, with its newest schema; None means the table itself.

        Raises NotFoundError, naming the branches.
        """
        return on_branch(self, branch)

    def snapshot(self, **which: Unpack[SnapshotChoice]) -> Snapshot | None:
        """The snapshot to read: the newest, or the one that the keywords name; None for a table without snapshots.

        Raises NotFoundError for a snapshot, timestamp, watermark, tag or branch that does not exist.
        """
        return snapshot_of(self, which)

    def travelled(self, **which: Unpack[SnapshotChoice]) -> tuple[FileStoreTable, Snapshot | None]:
        """The table or the branch that the keywords name, in the columns of the named state, and its snapshot.

        See `snapshot`.
        """
        check_words(which)
        return travelled(self, which)

    def planned(self, **what: Unpack[Selection]) -> PlannedRead:
        """A read whose files are chosen, and not read yet."""
        from lakelog.filestore.verbs.read_verbs import planned

        return planned(self, **what)

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as one Arrow table, in no order. Reads on all cores, which share the memory budget."""
        return self.planned(**what).to_table()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams, in bounded memory."""
        return self.planned().__arrow_c_stream__(requested_schema)

    def write(
        self,
        rows: Rows,
        *,
        mode: WriteMode = "append",
        where: str | Predicate | None = None,
        kinds: RowKinds | None = None,
        clock: CommitClock | None = None,
        named: Naming | None = None,
        keeps_up: bool = True,
    ) -> Snapshot:
        """Write rows and commit them in one snapshot, see `lakelog.filestore.verbs.write_verbs.write`."""
        from lakelog.filestore.verbs.write_verbs import write

        return write(self, rows, mode=mode, where=where, kinds=kinds, clock=clock, named=named, keeps_up=keeps_up)

    def compact(
        self, *, full: bool = False, where: str | Predicate | None = None, clock: CommitClock | None = None
    ) -> Snapshot | None:
        """Merge what is due. See `lakelog.catalog.Table.compact`."""
        from lakelog.filestore.verbs.upkeep_verbs import compact

        return compact(self, full=full, where=where, clock=clock)


def _located(path: str | Path, file_io: FileIO | None, options: Mapping[str, str] | None) -> tuple[str, FileIO]:
    """The path of the folder, and the FileIO of its files."""
    location = Location.of(path, options)
    return location.path, location.files_of_table(file_io)
