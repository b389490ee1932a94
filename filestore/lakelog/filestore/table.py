"""A table of the file store, without Spark and without Kafka: opened, created, written, compacted and read by path.

Opening a table imports little: each verb imports what it needs when it is called.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.log_system import LOG_SYSTEM_KEY
from lakelog.common.quoting import listed, shown
from lakelog.common.stopwatch import Stopwatch
from lakelog.filestore.expire.retention import DEFAULT_AGE_MILLIS
from lakelog.filestore.io.location import Location
from lakelog.filestore.metadata.consumers import Consumer, ConsumerManager, reset_consumer
from lakelog.filestore.metadata.identity import latest_of
from lakelog.filestore.metadata.restored import RESTORED_KEY
from lakelog.filestore.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.options.layout import PARTITION_EXPIRATION_TIME, TABLE_UUID
from lakelog.filestore.options.writing import WRITE_ONLY
from lakelog.filestore.readable_table import ReadableTable
from lakelog.filestore.refs.travel import SnapshotChoice, check_not_in_step
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager

if TYPE_CHECKING:
    from lakelog.filestore.alter.schema_changes import SchemaChange
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.commit.outcomes import FoundCommit
    from lakelog.filestore.compact.picking import CompactUnit
    from lakelog.filestore.expire.orphans import NamedElsewhere, Orphans
    from lakelog.filestore.expire.retention import Expired, Retention
    from lakelog.filestore.io.fileio import FileIO
    from lakelog.filestore.metadata.data_file import DataFileMeta
    from lakelog.filestore.metadata.manifest_entries import BucketId
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs.branch_merge import BranchMerge
    from lakelog.filestore.refs.branches import Branch
    from lakelog.filestore.refs.restore import Restored
    from lakelog.filestore.refs.rollback import RolledBack
    from lakelog.filestore.schema.schema import TableSchema
    from lakelog.filestore.system.history import History
    from lakelog.filestore.system.system_table import SystemTable
    from lakelog.filestore.system.table_diff import State, TableDiff
    from lakelog.filestore.write.changing import Plan
    from lakelog.filestore.write.deleting import TableChange
    from lakelog.filestore.write.row_kinds import RowKinds
    from lakelog.filestore.write.row_source import Rows
    from lakelog.filestore.write.table_write import PartitionFilter, Replaced, TableWrite

WriteMode = Literal["append", "overwrite", "overwrite-partitions"]


@dataclass(frozen=True, kw_only=True)
class FileStoreTable(ReadableTable):
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
        """The table in a folder, with its newest schema, or a branch of it. Raises NotFoundError when there is none.

        `options` configure the access to an object store (`s3.*`) or HDFS; they are not stored.
        """
        root, file_io = _located(path, file_io, options)
        schemas = SchemaManager(file_io, TablePaths(root, branch))
        schema = schemas.latest()
        if schema is None and branch != MAIN_BRANCH:
            raise NotFoundError(f"table {root} has no branch {branch!r}")
        if schema is None:
            raise NotFoundError(
                f"{root} holds no table: it has no schema/schema-N file; check the path, as a table may have been "
                "renamed, or create it"
            )
        table = cls(path=root, file_io=file_io, schema=schema, branch=branch)
        check_not_in_step(table)
        vars(table)["schemas"] = schemas  # with its cache
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
        """Create a table in a folder, with a new identity. Raises ConflictError when a table exists there.

        Raises InvalidRequestError or UnsupportedError for a merge engine that does not fit the columns.
        """
        from lakelog.filestore.new_tables import check_new_table

        check_new_table(schema)
        root, file_io = _located(path, file_io, options)
        stored = {TABLE_UUID.key: str(uuid.uuid4()), **schema.options}
        made = replace(schema, options=stored, time_millis=schema.time_millis or system_millis())
        SchemaManager(file_io, TablePaths(root)).create(made)
        return cls(path=root, file_io=file_io, schema=made)

    def alter(self, *changes: SchemaChange, clock: CommitClock | None = None) -> FileStoreTable:
        """Change columns, options or comments, all or none; gives the table with the new schema.

        This table handle and all others keep the schema that they were opened with. No row is written: files of older
        schemas are read with the columns of the newest. Raises InvalidRequestError or UnsupportedError for changes that
        do not fit and for tables with a log, which `lakelog.catalog.Table.alter` changes.
        """
        if self.has_log:
            raise InvalidRequestError(
                f"table {self.name} has a log, whose records must fit the new schema: open the table with "
                "lakelog.catalog, whose alter checks the log"
            )
        from lakelog.filestore.alter.alter import alter_schema

        return replace(self, schema=alter_schema(self, changes, clock=clock))

    @property
    def options(self) -> dict[str, str]:
        """The table's options as they are stored."""
        return dict(self.schema.options)

    def write(
        self,
        rows: Rows,
        *,
        mode: WriteMode = "append",
        where: str | Predicate | None = None,
        kinds: RowKinds | None = None,
        clock: CommitClock | None = None,
    ) -> Snapshot:
        """Write rows and commit them in one snapshot; `kinds` are row kinds, for all rows or one a row.

        `overwrite` replaces all rows of the table, or with `where`, a condition on partition columns, those of the
        partitions that meet it; the new rows must meet it too. `overwrite-partitions` replaces the partitions that the
        new rows are in. Afterwards the written buckets are compacted and old snapshots expire where that is due, unless
        the table is write-only.
        Raises InvalidRequestError for rows that do not fit and for tables with a log, ConflictError for an overwrite of
        a table that another writer changed meanwhile.
        """
        from lakelog.filestore.write.table_write import TableWrite

        write = TableWrite(self, rows, kinds, replaces=self.check_write(mode, where))
        snapshot = self._committed(write, clock)
        assert snapshot is not None
        return snapshot

    def delete(self, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the rows that meet a condition, in one snapshot; None when no row does.

        The rows are read and written again as retractions; when another commit came first, they are read again. They
        must fit in memory. Afterwards buckets are compacted and snapshots expire as after a write.
        Raises UnsupportedError for tables whose rows a retraction does not delete, such as append-only ones and those
        of other merge engines than deduplicate; InvalidRequestError for tables with a log; ConflictError when other
        writers commit all the time.
        """
        self._check_has_no_log()
        from lakelog.filestore.predicate import required_predicate
        from lakelog.filestore.write.changing import delete_plan
        from lakelog.filestore.write.deleting import check_deletable

        check_deletable(self.schema, table_name=self.name)
        return self._change(delete_plan(self, required_predicate(where)), clock=clock)

    def merge_changes(
        self,
        branch: str,
        *,
        base: str | int | None = None,
        on_conflict: str | Mapping[str, str] = "fail",
        dry_run: bool = False,
        clock: CommitClock | None = None,
    ) -> BranchMerge:
        """Merge what changed in a branch since it began, or since the last merge, into the table, in one snapshot.

        See `lakelog.catalog.Table.merge_changes`. Raises InvalidRequestError for tables with a log.
        """
        from lakelog.filestore.refs.merge_commit import MergeCommit
        from lakelog.filestore.refs.merging import BranchMerger

        merger = BranchMerger.of(self, self.on_branch(branch), base=base, on_conflict=on_conflict)
        if dry_run:
            return merger.plan(latest_of(self)).result
        self._check_has_no_log()
        commit = MergeCommit(self, merger)
        return commit.done(self._committed(commit, clock))

    def _change(self, plan: Plan, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Commit the changes of a statement of `lakelog.filestore.write.changing`; None when there are none.

        Planned again when another commit came first. Afterwards buckets are compacted and snapshots expire as after a
        write. Raises InvalidRequestError for tables with a log, ConflictError when other writers commit all the time.
        """
        self._check_has_no_log()
        from lakelog.filestore.write.deleting import TableChange

        latest_of(self)  # raises for a table that was created again
        return self._committed(TableChange(self, plan), clock)

    def _committed(self, write: TableWrite | TableChange, clock: CommitClock | None) -> Snapshot | None:
        """Commit, then compact and expire what is due. None when nothing is to be committed."""
        from lakelog.filestore.commit.commit import TableCommit

        snapshot = TableCommit(self, clock=clock).commit(
            write.resolve, discard=lambda: write.discard([*write.superseded, *write.paths])
        )
        write.discard(write.superseded)
        if snapshot is None:
            return None
        self._compact_after_write({entry.bucket_id for entry in write.entries}, clock)
        self._expire_after(snapshot)
        return snapshot

    def check_write(self, mode: WriteMode, where: str | Predicate | None) -> Replaced | None:
        """The partitions that a write replaces; None for a write that adds rows.

        Raises InvalidRequestError for a mode and a condition that do not fit, and for tables with a log.
        """
        self._check_has_no_log()
        return self._replaced(mode, where)

    def _replaced(self, mode: WriteMode, where: str | Predicate | None) -> Replaced | None:
        """As `check_write`, also for tables with a log."""
        if mode not in get_args(WriteMode):
            raise InvalidRequestError(f"write mode {shown(mode)} is not known; use {', '.join(get_args(WriteMode))}")
        if where is not None and mode != "overwrite":
            raise InvalidRequestError(f"a write with mode {mode!r} takes no condition; use mode='overwrite'")
        if mode == "append":
            return None
        from lakelog.filestore.write.table_write import Overwrite

        if where is None:
            return Overwrite.EVERYTHING if mode == "overwrite" else Overwrite.WRITTEN_PARTITIONS
        return self._partitions_where(where)

    def _partitions_where(self, where: str | Predicate) -> PartitionFilter:
        """The partitions that meet a condition."""
        from lakelog.filestore.predicate import required_predicate
        from lakelog.filestore.write.table_write import PartitionFilter

        return PartitionFilter(self.schema, required_predicate(where))

    def drop_partitions(self, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the partitions that meet a condition on partition columns; None when none does.

        Raises InvalidRequestError for a condition on other columns and for tables with a log, ConflictError for a table
        that changed meanwhile.
        """
        return self._drop(self._partitions_where(where).matching, clock)

    def expire_partitions(self, *, now_millis: int | None = None, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the partitions that are older than `partition.expiration-time`; None when none is.

        Partitions whose values are not times stay. Raises as `drop_partitions`, and InvalidRequestError without the
        option.
        """
        self._check_has_no_log()
        return self._drop(self._expired_partitions(now_millis=now_millis), clock)

    def _expired_partitions(self, *, now_millis: int | None = None) -> Callable[[set[bytes]], set[bytes]]:
        """The function that picks the partitions that are older than `partition.expiration-time`.

        Raises InvalidRequestError without partitions and without the option.
        """
        age = PARTITION_EXPIRATION_TIME.of(self.schema.options)
        if not self.schema.partition_keys:
            raise InvalidRequestError(f"table {self.name} has no partition columns, so no partition can expire")
        if age is None:
            raise InvalidRequestError(
                f"table {self.name} has no option {PARTITION_EXPIRATION_TIME.key}; set it, such as to '30 d'"
            )
        from lakelog.filestore.expire.partition_times import expired_partitions

        now = system_millis() if now_millis is None else now_millis
        return lambda partitions: expired_partitions(self.schema, list(partitions), age_millis=age, now_millis=now)

    def _drop(self, choose: Callable[[set[bytes]], set[bytes]], clock: CommitClock | None) -> Snapshot | None:
        from lakelog.filestore.commit.commit import CommitRequest, TableCommit
        from lakelog.filestore.index.hash_index import HashIndexChange
        from lakelog.filestore.metadata.manifest import FileKind
        from lakelog.filestore.write.table_write import partitions_of
        from lakelog.filestore.write.write import check_table_writable

        self._check_has_no_log()
        check_table_writable(self)
        base = latest_of(self)
        live = self.live_files.of(base)
        dropped = choose(partitions_of(self, base))
        entries = [replace(entry, kind=FileKind.DELETE) for entry in live.entries() if entry.partition in dropped]
        if not entries:
            return None
        request = CommitRequest(
            commit_user=str(uuid.uuid4()),
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.OVERWRITE,
            entries=entries,
            hashes=HashIndexChange(replaced=dropped),
            operation="OVERWRITE",
        )

        def resolve(latest: Snapshot | None) -> CommitRequest:
            if latest != base:
                raise ConflictError(f"{self.name} changed while partitions were dropped; drop them again")
            return request

        snapshot = TableCommit(self, clock=clock).commit(resolve)
        assert snapshot is not None
        self._expire_after(snapshot)
        return snapshot

    def compact(self, *, full: bool = False, clock: CommitClock | None = None) -> Snapshot | None:
        """Merge the runs that are due by the table's options, or with `full` all runs of every bucket; then expire.

        None when nothing was due. Raises ConflictError when another process compacted meanwhile.
        """
        snapshot = self._compact(None, is_full=full, clock=clock)
        if snapshot is not None:
            self._expire_after(snapshot, is_upkeep=True)
        return snapshot

    def rescale(self, bucket_count: int, *, clock: CommitClock | None = None) -> FileStoreTable:
        """Change the number of buckets, and give the changed table: every row is rewritten.

        Writers that opened the table before are refused afterwards. A call continues a rescale that was cut off.
        Moved rows are in no changelog; changes that are not in a changelog yet are compacted into one first, also when
        the table is write-only.
        Raises InvalidRequestError and UnsupportedError for tables whose rows cannot move, such as those with a log;
        ConflictError when other writers commit all the time.
        """
        from lakelog.filestore.alter.rescale import move_rows, rescale_schema
        from lakelog.filestore.commit.commit_clock import CommitClock

        self._check_has_no_log()
        clock = clock or CommitClock()
        rescaled = replace(self, schema=rescale_schema(self, bucket_count, clock=clock))
        is_moved = move_rows(rescaled, clock=clock) is not None
        if is_moved and not rescaled.schema.primary_keys and not WRITE_ONLY.of(rescaled.schema.options):
            rescaled._compact(None, is_full=False, clock=clock)
        return rescaled

    def _compact(
        self, buckets: Collection[BucketId] | None, *, is_full: bool, clock: CommitClock | None
    ) -> Snapshot | None:
        from lakelog.filestore.compact.bucket_work import due_work, pick_unit
        from lakelog.filestore.compact.buckets import compact_buckets
        from lakelog.filestore.compact.committing import commit_results, log_compaction

        def pick(_: BucketId, files: Sequence[DataFileMeta], marked: Collection[str]) -> CompactUnit | None:
            return pick_unit(self, files, is_full=is_full, marked=marked)

        lasted = Stopwatch()
        work = due_work(self, latest_of(self), buckets, pick)
        results = compact_buckets(self, work)
        if not results:
            return None
        snapshot = commit_results(self, results, clock=clock)
        log_compaction(self, results, snapshot_id=snapshot.id, lasted=lasted)
        return snapshot

    def _compact_after_write(self, buckets: set[BucketId], clock: CommitClock | None = None) -> None:
        """Compact buckets unless the table is write-only; errors are only logged, since the write has succeeded."""
        if WRITE_ONLY.of(self.schema.options):
            return
        from lakelog.filestore.compact.committing import log_failed_compaction

        try:
            self._compact(buckets, is_full=False, clock=clock)
        except LakelogError as error:
            log_failed_compaction(self, "a write", error)

    def _expire_after(self, snapshot: Snapshot, *, is_upkeep: bool = False) -> None:
        """Create the tags that are due after a commit, then expire what is; errors are only logged."""
        from lakelog.filestore.expire.writer_expiry import expire_after_commit
        from lakelog.filestore.refs.auto_tags import expire_tags_by_writer, tag_after_commit

        tag_after_commit(self, snapshot, is_upkeep=is_upkeep)

        if not expire_after_commit(self, snapshot.id, is_upkeep=is_upkeep):
            return
        expire_tags_by_writer(self)
        if snapshot.properties.get(RESTORED_KEY):
            from lakelog.filestore.refs.restore_tags import release_after_commit

            release_after_commit(self)

    def expire_snapshots(self, *, retention: Retention | None = None, now_millis: int | None = None) -> Expired:
        """Delete snapshots that are too old or too many by the table's options, or by `retention`.

        Files that a consumer, a tag, a branch or a newer snapshot needs are kept. Reads can only name kept snapshots.
        """
        from lakelog.filestore.expire.expiry import expire_snapshots
        from lakelog.filestore.refs.restore_tags import release_restore_tags

        now = system_millis() if now_millis is None else now_millis
        expired = expire_snapshots(self, retention=retention, now_millis=now)
        release_restore_tags(self, now_millis=now)
        return expired

    def restore(
        self,
        *,
        rewind_writers: bool = False,
        dry_run: bool = False,
        clock: CommitClock | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> Restored:
        """Bring an older state back, in a new snapshot. See `lakelog.catalog.Table.restore`."""
        from lakelog.filestore.refs.restore import restore_table
        from lakelog.filestore.restore_target import target_of

        self._check_has_no_log()
        target = target_of(self, which)
        return restore_table(self, target, rewind_writers=rewind_writers, dry_run=dry_run, clock=clock)

    def rollback(
        self, *, rewind_writers: bool = False, dry_run: bool = False, **which: Unpack[SnapshotChoice]
    ) -> RolledBack:
        """Delete all that is younger than a snapshot or tag. See `lakelog.catalog.Table.rollback`."""
        from lakelog.filestore.refs.rollback import roll_back
        from lakelog.filestore.restore_target import target_of

        if self.has_log:
            raise InvalidRequestError(
                f"table {self.name} has a log, which would still hold what a rollback deletes: use restore, which "
                "writes log and files"
            )
        return roll_back(self, target_of(self, which), rewind_writers=rewind_writers, dry_run=dry_run)

    def find_commit(self, commit_uuid: str, *, snapshot_id: int | None = None) -> FoundCommit:
        """The outcome of a commit that ended with UnknownOutcomeError, which names its uuid and its snapshot."""
        from lakelog.filestore.commit.outcomes import find_commit

        return find_commit(self, commit_uuid, snapshot_id=snapshot_id)

    def system_table(
        self, name: str, *, after: int | None = None, up_to: int | None = None, **which: Unpack[SnapshotChoice]
    ) -> SystemTable:
        """A system table, such as `files`, `snapshots` or `tags`. See `lakelog.catalog.Table.system_table`."""
        from lakelog.filestore.system.opening import Shown, open_system_table

        named = tuple(key for key, value in which.items() if value is not None and key != "branch")
        table, found = self.travelled(**which)
        branch = "" if table.branch == MAIN_BRANCH else f"$branch_{table.branch}"
        snapshot = (lambda: found) if named else table.snapshot
        state = Shown(snapshot=snapshot, named=named, after=after, up_to=up_to)
        return open_system_table(table, name, state, full_name=f"{table.name}{branch}${name}")

    def diff(
        self, from_: State, to: State | None = None, *, columns: str | Sequence[str] | None = None, sample: int = 10
    ) -> TableDiff:
        """The rows in which two states differ. See `lakelog.catalog.Table.diff`."""
        from lakelog.filestore.system.table_diff import diff_states, state_of

        after = state_of(self, {} if to is None else to)
        names = (columns,) if isinstance(columns, str) else columns
        return diff_states(self.name, state_of(self, from_), after, columns=names, sample=sample)

    def history(self, *, limit: int | None = None) -> History:
        """The snapshots of the table and its branches. See `lakelog.catalog.Table.history`."""
        from lakelog.filestore.system.history import history_of

        return history_of(self, name=self.name, limit=limit)

    def consumers(self) -> list[Consumer]:
        """The consumers of the table: no snapshot that one of them has not read expires."""
        return ConsumerManager(self.file_io, self.paths).all()

    def reset_consumer(self, consumer_id: str, next_snapshot: int) -> None:
        """Set the next snapshot of a consumer, or create it. Raises InvalidRequestError for an expired snapshot."""
        reset_consumer(self, consumer_id, next_snapshot)

    def delete_consumer(self, consumer_id: str) -> None:
        """Delete a consumer, so that snapshots it has not read can expire. Raises NotFoundError for a missing one."""
        consumers = ConsumerManager(self.file_io, self.paths)
        if consumer_id not in consumers.ids():
            known = listed(consumers.ids()) or "none"
            raise NotFoundError(f"table {self.name} has no consumer {consumer_id!r}; its consumers are {known}")
        consumers.delete(consumer_id)

    def create_branch(
        self,
        name: str,
        *,
        empty: bool = False,
        time_retained_millis: int | None = None,
        if_not_exists: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Branch:
        """Make a branch of the newest snapshot, of the one that arguments name, or an `empty` one with the columns.

        It shares the files of the table and copies metadata alone. Raises InvalidRequestError for a name that cannot
        be, ConflictError for one that is taken.
        """
        from lakelog.filestore.refs.branching import make_branch

        named = [key for key, value in which.items() if value is not None]
        if empty and named:
            raise InvalidRequestError(f"branch {shown(name)} is made empty or from {listed(named)}, not both")
        if which.get("branch"):
            raise InvalidRequestError(f"branch {shown(name)} is made from the table, not from another branch")
        return make_branch(
            self,
            name,
            None if empty else self.snapshot(**which),
            tag=which.get("tag"),
            retained_millis=time_retained_millis,
            if_not_exists=if_not_exists,
        )

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch; its writers are stopped before. Raises NotFoundError, ConflictError, InvalidRequestError."""
        from lakelog.filestore.refs.branching import renamed

        renamed(self, name, new_name)

    def delete_branch(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a branch; `remove_orphan_files` deletes the files that it alone named. Raises NotFoundError."""
        from lakelog.filestore.refs.branching import deleted

        deleted(self, name, if_exists=if_exists)

    def branches(self) -> list[Branch]:
        """The branches of the table, without the main one, by name."""
        from lakelog.filestore.refs.branches import branch_list

        return branch_list(self)

    def fast_forward(self, branch: str) -> Snapshot:
        """Give the table what a branch has since it began; gives the newest snapshot.

        Raises ConflictError where the table has changed since, and while a writer commits to either of them.
        """
        from lakelog.filestore.refs.from_branch import fast_forward

        return fast_forward(self, self.on_branch(branch))

    def merge_branch(self, branch: str) -> Snapshot:
        """As `fast_forward`, and what the table has since the branch began gives way. The branch stays."""
        from lakelog.filestore.refs.from_branch import merge_branch

        return merge_branch(self, self.on_branch(branch))

    def replace_main(self, branch: str) -> Snapshot:
        """As `merge_branch`, and the branch is deleted."""
        from lakelog.filestore.refs.from_branch import replace_main

        return replace_main(self, self.on_branch(branch))

    def expire_branches(self, *, age_millis: int | None = None, now_millis: int | None = None) -> list[str]:
        """Delete the branches whose time is over, and those not written for an age; gives their names."""
        from lakelog.filestore.refs.branching import expire_branches

        return expire_branches(self, age_millis=age_millis, now_millis=now_millis)

    def remove_orphan_files(
        self,
        *,
        older_than_millis: int = DEFAULT_AGE_MILLIS,
        dry_run: bool = True,
        allow_young: bool = False,
        named_elsewhere: NamedElsewhere | None = None,
        now_millis: int | None = None,
    ) -> Orphans:
        """Find the files that no snapshot, changelog, tag or branch names, or without `dry_run` delete them.

        Raises InvalidRequestError for a table with a log when `named_elsewhere` is not given: the log names files too.
        """
        from lakelog.filestore.expire.orphans import remove_orphan_files
        from lakelog.filestore.refs.branch_finishing import drop_stale_tags, finish_cut_off

        if named_elsewhere is None:
            if self.has_log:
                raise InvalidRequestError(
                    f"table {self.name} has a log, which names files that no snapshot names yet: give named_elsewhere, "
                    "see lakelog.protocol.orphans, or use `lakelog table remove-orphan-files`"
                )
            logged = [name for name in self.branch_names()[1:] if self._line_has_log(name)]
            if logged:
                raise InvalidRequestError(
                    f"branch {logged[0]!r} of table {self.name} has a log, which names files that no snapshot names "
                    "yet: give named_elsewhere, or use `lakelog table remove-orphan-files`"
                )
            named_elsewhere = frozenset
        if not dry_run:
            finish_cut_off(self)
            drop_stale_tags(self)
        return remove_orphan_files(
            self,
            named_elsewhere=named_elsewhere,
            older_than_millis=older_than_millis,
            is_dry_run=dry_run,
            allows_young=allow_young,
            now_millis=now_millis,
        )

    def _line_has_log(self, branch: str) -> bool:
        schema = SchemaManager(self.file_io, TablePaths(self.path, branch)).latest()
        if schema is None:
            return False
        line = replace(self, schema=schema, branch=branch)
        return line.has_log and not line.has_foreign_log

    def _check_has_no_log(self) -> None:
        if self.has_log:
            raise InvalidRequestError(
                f"table {self.name} has {LOG_SYSTEM_KEY}={self.schema.options[LOG_SYSTEM_KEY]}: a write must go "
                "through the log too; use the stream writer of lakelog.spark"
            )


def _located(path: str | Path, file_io: FileIO | None, options: Mapping[str, str] | None) -> tuple[str, FileIO]:
    """The path of the folder, and the FileIO of its files."""
    location = Location.of(path, options)
    return location.path, location.files_of_table(file_io)
