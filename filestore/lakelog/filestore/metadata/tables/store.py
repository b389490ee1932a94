"""A table as every verb of the file store needs it: its schema, its paths and its metadata files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

from lakelog.common.log_system import has_log
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.io.bounded_files import BoundedFileIO, bounded_io
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.network import First, Second, both
from lakelog.filestore.io.path_forms import plain_path
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.commit_line import CommitLine
from lakelog.filestore.metadata.snapshots.listeners import ListenersOf
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.state_keeping import StateKeeper
from lakelog.filestore.options.files import MANIFEST_COMPRESSION
from lakelog.filestore.options.layout import DATA_FILE_DIRECTORY, LOG_BRANCH, TABLE_UUID
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.options.retention import CONSUMER_EXPIRATION_TIME
from lakelog.filestore.schema.line_names import line_name
from lakelog.filestore.schema.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths, partition_path
from lakelog.filestore.schema.row_places import has_places, placed_schema
from lakelog.filestore.schema.schema import (
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_FIELD_ID,
    VALUE_KIND,
    VALUE_KIND_FIELD_ID,
    TableSchema,
)
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.schema.stored_schema import stored_schema

if TYPE_CHECKING:
    from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
    from lakelog.filestore.metadata.manifests.manifest import ManifestFiles
    from lakelog.filestore.metadata.snapshots.live_files import LiveFilesCache
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

SEQUENCE_FIELD = DataField(
    id=SEQUENCE_NUMBER_FIELD_ID, name=SEQUENCE_NUMBER, type=DataType(root=TypeRoot.BIGINT, nullable=False)
)
_OTHER_BRANCHES = (SCAN_FALLBACK_BRANCH.key, SCAN_PRIMARY_BRANCH.key)
KIND_FIELD = DataField(id=VALUE_KIND_FIELD_ID, name=VALUE_KIND, type=DataType(root=TypeRoot.TINYINT, nullable=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBranch:
    """What a merge takes from a branch, up to `snapshot`: its changes since a base, or all its rows.

    The base is named by its number, None for the state before the first snapshot, and its commit; for a whole branch it
    is where the branch began. `is_begin_known`: lakelog has created the branch, and recorded where it began. `record`
    is the property of the commit that says up to which snapshot the branch is merged. `combines_rows`: rows that both
    have changed are merged column by column.
    """

    main: TableStore
    branch: TableStore
    snapshot: Snapshot
    base_id: int | None
    base_commit: str | None
    is_whole: bool
    is_begin_known: bool
    record: str
    combines_rows: bool = False


class LineageKeeper(Protocol):
    """What a catalog does for the lineage of its tables: an interface that a part above the file store implements.

    `hold` and `of_branch` raise nothing, the others raise a LakelogError if the lineage is not taken.
    """

    def hold(self, table: TableStore) -> None:
        """Hold a line that is about to get a snapshot with lineage, so that each expiry takes the lineage first."""

    def take(self, table: TableStore) -> None:
        """Take the lineage of a line whose snapshots are to be deleted; moves, creates or deletes its consumer."""

    def take_branch(self, table: TableStore, branch: str, snapshot: Snapshot) -> None:
        """Record that the table has taken over a branch up to a snapshot, and that the branch was deleted with it."""

    def of_branch(self, taken: TakenBranch) -> Mapping[str, object]:
        """What the commit of a merge records about the origin of the branch's rows: an entry of `lakelog.lineage`."""
        ...


@dataclass(frozen=True, kw_only=True)
class TableStore:
    """One table with one schema. Pickled without its caches and listeners.

    `lineage` is what the statements of this handle record about the origin of their rows; None for nothing.
    `listeners_of` gives the listeners of a table's commits by its name, see `filestore.metadata.snapshots.listeners`.
    `lineage_options` are the options of its catalog that switch lineage on, `lineage_keeper` is what the catalog does
    for lineage; a table that is opened without a catalog has none. `is_stored` says that the schema is already that of
    the files: see `stored`. `pinned` is the state that reads show in place of the newest snapshot.
    """

    path: str
    file_io: FileIO
    schema: TableSchema
    branch: str = MAIN_BRANCH
    lineage: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    listeners_of: ListenersOf | None = field(default=None, compare=False, repr=False)
    lineage_options: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    lineage_keeper: LineageKeeper | None = field(default=None, compare=False, repr=False)
    is_stored: bool = field(default=False, repr=False)
    pinned: Snapshot | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {
            "path": self.path,
            "file_io": self.file_io,
            "schema": self.schema,
            "branch": self.branch,
            "lineage": self.lineage,
            "lineage_options": self.lineage_options,
            "lineage_keeper": self.lineage_keeper,
            "is_stored": self.is_stored,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    @cached_property
    def name(self) -> str:
        """`database.table` from the last two folders, or the folder's name outside of a database folder.

        For a branch `database.table$branch_<name>`, as other engines name it.
        """
        folder, _, table = self.path.rpartition("/")
        database = folder.rpartition("/")[2]
        name = f"{database.removesuffix('.db')}.{table}" if database.endswith(".db") else table
        return line_name(name, self.branch)

    @property
    def uuid(self) -> str:
        """The identity that lakelog gave the table; empty for tables of other engines."""
        return TABLE_UUID.of(self.schema.options)

    @property
    def has_log(self) -> bool:
        """Whether the table has a log that its snapshots must agree with."""
        return has_log(self.schema.options)

    @property
    def has_foreign_log(self) -> bool:
        """Whether the log that the schema names belongs to another line: to the table, if this is a branch.

        This is so if another engine has created the branch, since it copies schemas unchanged.
        """
        return self.has_log and (self.branch == MAIN_BRANCH) == bool(LOG_BRANCH.of(self.schema.options))

    @property
    def bucket_count(self) -> int:
        """Fixed number of buckets; -1 for dynamic buckets or no buckets, -2 for postponed ones."""
        return self.schema.bucket_count

    @cached_property
    def paths(self) -> TablePaths:
        """The paths of the table's files."""
        return TablePaths(self.path, self.branch)

    def branch_names(self) -> list[str]:
        """The names of all branches, the main branch first, including those that are not complete. Lists a folder.

        A plain file is not a branch, whatever its name: no engine writes one, and it names no files. A link counts, as
        it may lead to a branch: it is refused when it is read.
        """
        entries = self.file_io.list_entries(self.paths.branches_dir)
        names = (entry.name for entry in entries if entry.is_folder or entry.is_link)
        found = sorted(name.removeprefix(BRANCH_PREFIX) for name in names if name.startswith(BRANCH_PREFIX))
        return [MAIN_BRANCH, *filter(None, found)]  # no engine creates a branch without a name

    @cached_property
    def schemas(self) -> SchemaManager:
        """The table's schemas."""
        return SchemaManager(self.file_io, self.paths)

    @cached_property
    def snapshots(self) -> SnapshotManager:
        """The table's snapshots."""
        return SnapshotManager(self.file_io, self.paths)

    @cached_property
    def manifests(self) -> ManifestFiles:
        """The table's manifests and manifest lists."""
        from lakelog.filestore.metadata.manifests.manifest import ManifestFiles

        return ManifestFiles(
            file_io=self.file_io,
            paths=self.paths,
            partition_types=tuple(field.type for field in self.schema.partition_fields),
            compression=MANIFEST_COMPRESSION.of(self.schema.options),
        )

    @cached_property
    def live_files(self) -> LiveFilesCache:
        """The live files of snapshots, cached between calls."""
        from lakelog.filestore.metadata.snapshots.live_files import LiveFilesCache

        return LiveFilesCache(self.manifests)

    @cached_property
    def state_keeper(self) -> StateKeeper:
        """Keeps lakelog's state through the expiry of other engines."""
        consumer_millis = CONSUMER_EXPIRATION_TIME.of(self.schema.options)
        return StateKeeper(self.file_io, self.paths, consumer_millis=consumer_millis)

    @cached_property
    def commit_line(self) -> CommitLine:
        """The line of the commits that have lost a race."""
        return CommitLine(self.file_io, self.paths)

    @property
    def stored(self) -> TableStore:
        """The table with the schema of its files.

        It differs for value-count tables, whose files count rows, for tables that are merged with each batch, or whose
        changelog is written with each batch, and for tables that are read with places. The stored table of a stored
        table is itself: a rule of the schema that users see must not be applied to the schema of the files again.
        """
        if self.is_stored:
            return self
        schema = self.schema
        is_written_otherwise = schema.is_change_log or schema.is_merged_at_write or schema.has_changelog_at_write
        has_others = is_written_otherwise or has_places(schema)
        return self._of_files if has_others else self

    @cached_property
    def _of_files(self) -> TableStore:
        return self._sharing(replace(self, schema=stored_schema(self.schema), is_stored=True))

    @cached_property
    def placed(self) -> Self:
        """A table without primary key, with the places of its rows as columns, for reads.

        A read of it has the rows of its own files alone, and none of a branch that fills in for partitions.
        """
        options = {key: value for key, value in self.schema.options.items() if key not in _OTHER_BRANCHES}
        return self._sharing(replace(self, schema=placed_schema(replace(self.schema, options=options))))

    def with_schema(self, schema: TableSchema) -> Self:
        """The table with another schema of its line, and what was read of it."""
        return self._sharing(replace(self, schema=schema))

    def _sharing(self, other: Self) -> Self:
        """The other handle of this table, with what this one has read."""
        shared = {"schemas": self.schemas, "snapshots": self.snapshots, "live_files": self.live_files}
        vars(other).update(shared, state_keeper=self.state_keeper, commit_line=self.commit_line)
        return other

    @cached_property
    def key_types(self) -> tuple[DataType, ...]:
        """Types of the key by which the rows of a bucket are sorted: those of the trimmed primary key."""
        return tuple(field.type for field in self.stored.schema.key_fields)

    def bucket_dir(self, bucket: BucketId) -> str:
        """The folder of a bucket's data files."""
        folder = DATA_FILE_DIRECTORY.of(self.schema.options)
        root = TablePaths(f"{self.path}/{folder}") if folder else self.paths
        return root.bucket_dir(partition_path(self.schema, bucket.partition), bucket.number)

    def data_path(self, bucket: BucketId, file: DataFileMeta) -> str:
        """The path of a data file."""
        if file.external_path is not None:
            return plain_path(file.external_path)
        return f"{self.bucket_dir(bucket)}/{file.file_name}"

    def asked_at_once(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """What two calls return that ask the store; in a local one they are made one after the other."""
        return both(self.file_io, first, second)

    def files_at(self, folder: str) -> FileIO:
        """The FileIO for only one other folder, such as that of another table or the warehouse, in the same store."""
        return bounded_io(self.file_io, folder, ())

    def readable_path(self, bucket: BucketId, file: DataFileMeta) -> str:
        """The path of a data file for a library that opens it itself. Raises as `BoundedFileIO.check_readable`."""
        path = self.data_path(bucket, file)
        if isinstance(self.file_io, BoundedFileIO):
            self.file_io.check_readable(path)
        return path
