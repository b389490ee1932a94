"""The upkeep of a table without a log: compaction, expiry, consumers, and files that nothing names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.log_system import LOG_SYSTEM_KEY
from lakelog.common.quoting import listed
from lakelog.filestore.expire.retention_rules import DEFAULT_AGE_MILLIS
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.consumers import ConsumerManager, check_reader_id
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.options.writing import WRITE_ONLY
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager

if TYPE_CHECKING:
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.compact.picking import CompactUnit
    from lakelog.filestore.expire.orphans import NamedElsewhere, Orphans
    from lakelog.filestore.expire.retention_rules import Expired, Retention
    from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
    from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.metadata.tables.store import TableStore
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs.states.travel import AnyTable
    from lakelog.filestore.write.table_write import PartitionFilter


def check_has_no_log(table: TableStore) -> None:
    """Raise InvalidRequestError for a table with a log, which every write must go through."""
    if table.has_log:
        raise InvalidRequestError(
            f"table {table.name} has {LOG_SYSTEM_KEY}={table.schema.options[LOG_SYSTEM_KEY]}: a write must go through "
            "the log too; use the stream writer of lakelog.spark"
        )


def compact(
    table: TableStore, *, full: bool = False, where: str | Predicate | None = None, clock: CommitClock | None = None
) -> Snapshot | None:
    """Merge what is due, then expire. See `lakelog.catalog.Table.compact`."""
    buckets: Collection[BucketId] | None = None
    if where is not None:
        chosen, live = partitions_where(table, where), table.live_files.of(latest_of(table)).buckets
        partitions = chosen.matching({bucket.partition for bucket in live})
        buckets = [bucket for bucket in live if bucket.partition in partitions]
    snapshot = merge_due(table, buckets, is_full=full, clock=clock)
    if snapshot is not None:
        expire_after(table, snapshot, is_upkeep=True)
    return snapshot


def partitions_where(table: TableStore, where: str | Predicate) -> PartitionFilter:
    """The partitions that meet a condition."""
    from lakelog.filestore.predicate import required_predicate
    from lakelog.filestore.write.table_write import PartitionFilter

    return PartitionFilter(table.schema, required_predicate(where))


def rescale(table: AnyTable, bucket_count: int, *, clock: CommitClock | None = None) -> AnyTable:
    """Change the number of buckets, and return the changed table: every row is rewritten.

    Writers that opened the table before are refused afterwards. A call continues a rescale that was cut off. Moved rows
    are in no changelog; changes that are not in a changelog yet are compacted into one first, even if the table is
    write-only. Raises InvalidRequestError and UnsupportedError for tables whose rows cannot move, such as those with a
    log; ConflictError when other writers commit all the time.
    """
    from lakelog.filestore.alter.rescale import move_rows, rescale_schema
    from lakelog.filestore.commit.commit_clock import CommitClock

    check_has_no_log(table)
    clock = clock or CommitClock()
    rescaled = replace(table, schema=rescale_schema(table, bucket_count, clock=clock))
    is_moved = move_rows(rescaled, clock=clock) is not None
    if is_moved and not rescaled.schema.primary_keys and not WRITE_ONLY.of(rescaled.schema.options):
        merge_due(rescaled, None, is_full=False, clock=clock)
    return rescaled


def merge_due(
    table: TableStore,
    buckets: Collection[BucketId] | None,
    *,
    is_full: bool,
    clock: CommitClock | None,
    after: Snapshot | None = None,
) -> Snapshot | None:
    """Merge what is due; nothing if nothing was due in the snapshot `after`, which was just committed."""
    from lakelog.filestore.compact.bucket_work import due_work, pick_unit
    from lakelog.filestore.compact.buckets import compact_buckets
    from lakelog.filestore.compact.committing import commit_results, log_compaction

    def pick(_: BucketId, files: Sequence[DataFileMeta], marked: Collection[str]) -> CompactUnit | None:
        return pick_unit(table, files, is_full=is_full, marked=marked)

    lasted = Stopwatch()
    if after is not None and not due_work(table, after, buckets, pick):
        return None
    work = due_work(table, latest_of(table), buckets, pick)
    results = compact_buckets(table, work)
    if not results:
        return None
    snapshot = commit_results(table, results, clock=clock)
    log_compaction(table, results, snapshot_id=snapshot.id, lasted=lasted)
    return snapshot


def compact_after_write(
    table: TableStore,
    buckets: Collection[BucketId],
    clock: CommitClock | None = None,
    *,
    after: Snapshot | None = None,
) -> None:
    """Compact buckets unless the table is write-only; errors are only logged, since the write has succeeded.

    `after` is the snapshot of the write, if it was just committed.
    """
    if WRITE_ONLY.of(table.schema.options):
        return
    from lakelog.filestore.compact.committing import log_failed_compaction

    try:
        merge_due(table, buckets, is_full=False, clock=clock, after=after)
    except LakelogError as error:
        log_failed_compaction(table, "a write", error)


def compact_waiting(table: TableStore, clock: CommitClock | None = None) -> None:
    """Compact the buckets with rows that no read shows before, as `compact_after_write` does.

    A statement changes such rows too. A process that was killed between its commit and its compaction has left some,
    and the same statement finds nothing to change then.
    """
    from lakelog.filestore.read.waiting_rows import waiting_buckets

    if waiting := waiting_buckets(table):
        compact_after_write(table, waiting, clock)


def expire_after(table: TableStore, snapshot: Snapshot, *, is_upkeep: bool = False) -> bool:
    """Create the tags that are due after a commit, then expire what is due; errors are only logged.

    Returns whether an expiry was due.
    """
    from lakelog.filestore.expire.writer_expiry import expire_after_commit
    from lakelog.filestore.refs.tags.auto_tags import expire_tags_by_writer, tag_after_commit

    tag_after_commit(table, snapshot, is_upkeep=is_upkeep)
    if not expire_after_commit(table, snapshot.id, is_upkeep=is_upkeep):
        return False
    expire_tags_by_writer(table)
    if snapshot.properties.get(PropertyKey.RESTORED):
        from lakelog.filestore.refs.restore.restore_tags import release_after_commit

        release_after_commit(table)
    return True


def expire_snapshots(
    table: TableStore, *, retention: Retention | None = None, now_millis: int | None = None
) -> Expired:
    """Delete snapshots that are too old or too many by the table's options, or by `retention`.

    Files that a consumer, a tag, a branch or a newer snapshot needs are kept. Reads can only name kept snapshots.
    """
    from lakelog.filestore.expire.expiry import expire_snapshots
    from lakelog.filestore.refs.restore.restore_tags import release_restore_tags

    now = system_millis() if now_millis is None else now_millis
    expired = expire_snapshots(table, retention=retention, now_millis=now)
    release_restore_tags(table, now_millis=now)
    return expired


def reset_consumer(table: TableStore, consumer_id: str, next_snapshot: int) -> None:
    """Set or create a consumer. See `lakelog.catalog.Table.consumers.reset`."""
    check_reader_id(consumer_id)
    first = ChangelogManager(table.file_io, table.paths).earliest_id() or table.snapshots.earliest_id() or 1
    last = (table.snapshots.latest_id() or 0) + 1
    if not first <= next_snapshot <= last:
        raise InvalidRequestError(
            f"consumer {consumer_id!r} of {table.name} can read from snapshot {first} to {last} on, found "
            f"{next_snapshot}"
        )
    before = table.snapshots.find(next_snapshot - 1)
    commit = None if before is None else before.uuid
    ConsumerManager(table.file_io, table.paths).put(consumer_id, next_snapshot, commit=commit)


def delete_consumer(table: TableStore, consumer_id: str) -> None:
    """Delete a consumer. See `lakelog.catalog.Table.consumers.delete`."""
    consumers = ConsumerManager(table.file_io, table.paths)
    if consumer_id not in consumers.ids():
        known = listed(consumers.ids()) or "none"
        raise NotFoundError(f"table {table.name} has no consumer {consumer_id!r}; its consumers are {known}")
    consumers.delete(consumer_id)


def remove_orphan_files(
    table: TableStore,
    *,
    older_than_millis: int = DEFAULT_AGE_MILLIS,
    dry_run: bool = True,
    allow_young: bool = False,
    named_elsewhere: NamedElsewhere | None = None,
    now_millis: int | None = None,
) -> Orphans:
    """Find the files that no snapshot, changelog, tag or branch names, or without `dry_run` delete them.

    Raises InvalidRequestError for a logged table if `named_elsewhere` is not given: the log names files too.
    """
    from lakelog.filestore.expire.orphans import remove_orphan_files
    from lakelog.filestore.refs.branches.branch_finishing import drop_stale_tags, finish_cut_off

    if named_elsewhere is None:
        if table.has_log:
            raise InvalidRequestError(
                f"table {table.name} has a log, which names files that no snapshot names yet: give named_elsewhere, "
                "see lakelog.protocol.life.orphans, or use `lakelog table remove-orphan-files`"
            )
        logged = [name for name in table.branch_names()[1:] if _branch_has_log(table, name)]
        if logged:
            raise InvalidRequestError(
                f"branch {logged[0]!r} of table {table.name} has a log, which names files that no snapshot names yet: "
                "give named_elsewhere, or use `lakelog table remove-orphan-files`"
            )
        named_elsewhere = frozenset
    if not dry_run:
        finish_cut_off(table)
        drop_stale_tags(table)
    return remove_orphan_files(
        table,
        named_elsewhere=named_elsewhere,
        older_than_millis=older_than_millis,
        is_dry_run=dry_run,
        allows_young=allow_young,
        now_millis=now_millis,
    )


def _branch_has_log(table: TableStore, branch: str) -> bool:
    schema = SchemaManager(table.file_io, TablePaths(table.path, branch)).latest()
    if schema is None:
        return False
    line = replace(table, schema=schema, branch=branch)
    return line.has_log and not line.has_foreign_log
