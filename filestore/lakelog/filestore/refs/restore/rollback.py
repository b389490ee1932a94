"""Rollback: the snapshots after an older one are deleted, with their changelogs and tags, as Paimon does it.

    1  tags of younger snapshots are deleted
    2  a target that only a tag keeps gets its snapshot's file again, and the hint EARLIEST
    3  the consumers `lakelog-state` and `lakelog-lineage` go back; the hint LATEST names the target
    4  from the newest snapshot down: the one before gets the users of the newest, then the snapshot is deleted
    5  younger changelogs are deleted, and tags that were made meanwhile

So at each time the newest snapshot has the users: a stream continues with its next batch, and batches that were rolled
back are not written again. With `rewind_writers` users are those of the target. A call that is cut off leaves one of
the snapshots in between as the newest one, and the next call finishes it. Data files are kept: `remove_orphan_files`
deletes them.

A writer that created a snapshot meanwhile is rolled back too, or finds its base deleted and commits again, see
`lakelog.filestore.commit.outcomes`. Ids are used again: offsets and consumers name the uuid of a snapshot beside its
id. Source: Paimon, `RollbackHelper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.origins.state_before import has_merged, properties_after_rollback
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot, is_same_commit
from lakelog.filestore.metadata.snapshots.snapshot_rewrites import rewritten
from lakelog.filestore.metadata.snapshots.users import PropertyKey, carried_properties
from lakelog.filestore.metadata.tables.consumers import LINEAGE_CONSUMER, STATE_CONSUMER, ConsumerManager
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.restore.restore import RestoredWriter, check_rewindable, writers_since
from lakelog.filestore.refs.restore.restored_state import StateDifference, row_counts
from lakelog.filestore.refs.tags.success_files import delete_success_file
from lakelog.filestore.refs.tags.tags import tags_of
from lakelog.filestore.write.write import check_table_writable


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """What a rollback deleted, or would delete, and the rows that it adds, removes and changes.

    `writers` have written since the target; with `rewinds_writers` their last batch is that of the target again.
    """

    target: Snapshot
    snapshot_ids: tuple[int, ...]
    changelog_ids: tuple[int, ...]
    tags: tuple[str, ...]
    rows_added: int
    rows_removed: int
    rows_changed: int
    writers: tuple[RestoredWriter, ...]
    rewinds_writers: bool


def roll_back(
    table: TableStore, target: Snapshot, *, rewind_writers: bool = False, dry_run: bool = False
) -> RolledBack:
    """Delete all that is younger than `target`, a snapshot of the table or one that a tag keeps; or only report it.

    A call continues one that was cut off. Raises NotFoundError for a table without snapshots.
    """
    check_table_writable(table)
    newest = latest_of(table)
    if newest is None:
        raise NotFoundError(f"table {table.name} has no snapshot yet: there is nothing to roll back")
    _check_never_logged(table, newest, target)
    _check_same_line(table, target)
    run = _Rollback(table, target, rewind_writers)
    run.check_known()
    found = run.found(newest)
    if not dry_run:
        run.run()
    return found


def _check_never_logged(table: TableStore, newest: Snapshot, target: Snapshot) -> None:
    """Raise InvalidRequestError if the table had a log at the target that no schema names any more."""
    for snapshot in (newest, target):
        if carried_properties(snapshot, table.snapshots).properties.get(PropertyKey.LOG_STATE):
            raise InvalidRequestError(
                f"table {table.name} had a log at snapshot {snapshot.id}, which a rollback would not bring back: use "
                "restore"
            )


def _check_same_line(table: TableStore, target: Snapshot) -> None:
    """Raise InvalidRequestError for a tagged snapshot of another line, whose number another commit has in the table."""
    has_number = table.file_io.exists(table.paths.snapshot(target.id))
    living = table.snapshots.find(target.id) if has_number else None
    if living is not None and not is_same_commit(living, target):
        raise InvalidRequestError(
            f"snapshot {target.id} of table {table.name} is of the commit {living.uuid or 'without a uuid'} now, and "
            f"the tag keeps that of {target.uuid or 'a commit without a uuid'}: the table was rolled back, or a branch "
            "took its place since. Use restore, which brings the rows of the tag back"
        )


class _Rollback:
    """One rollback of a table."""

    def __init__(self, table: TableStore, target: Snapshot, rewinds_writers: bool) -> None:
        self._table = table
        self._target = target
        self._rewinds_writers = rewinds_writers
        self._changelogs = ChangelogManager(table.file_io, table.paths)

    def check_known(self) -> None:
        """Raise InvalidRequestError if the state at the target, which becomes the newest snapshot, is not known.

        For a target of another engine whose earlier snapshots have expired, the next snapshot of lakelog has the state,
        except for what its own commit has changed.
        """
        table, target = self._table, self._target
        if self._rewinds_writers:
            check_rewindable(table, target)
        if carried_properties(target, table.snapshots).is_known:
            return
        younger = (table.snapshots.find(number) for number in self._younger())
        following = next((one for one in younger if one is not None and one.has_own_properties), None)
        if following is not None and has_merged(following):
            raise InvalidRequestError(
                f"snapshot {target.id} of table {table.name} is of another engine, and those of lakelog before it have "
                "expired: it is not known up to which snapshot branches were merged before the merge in snapshot "
                f"{following.id}. Use restore, which brings the rows of the snapshot back"
            )

    def found(self, newest: Snapshot) -> RolledBack:
        """What is younger than the target."""
        counts = row_counts(StateDifference(self._table, newest, self._target))
        return RolledBack(
            target=self._target,
            snapshot_ids=tuple(self._younger()),
            changelog_ids=tuple(number for number in self._changelogs.ids() if number > self._target.id),
            tags=tuple(self._younger_tags()),
            rows_added=counts.added,
            rows_removed=counts.removed,
            rows_changed=counts.changed,
            writers=writers_since(self._table, newest, self._target),
            rewinds_writers=self._rewinds_writers,
        )

    def run(self) -> None:
        """Delete it, step by step."""
        self._delete_tags()
        self._put_target()
        self._put_hints()
        while younger := self._younger():  # again if a writer was quicker
            for number in reversed(younger):
                self._delete(number)
        for number in self._changelogs.ids():
            if number > self._target.id:
                self._changelogs.delete(number)
        self._changelogs.write_hints()
        self._delete_tags()
        self._table.snapshots.write_latest_hint(self._target.id)

    def _younger(self) -> list[int]:
        return [number for number in self._table.snapshots.ids() if number > self._target.id]

    def _younger_tags(self) -> list[str]:
        return [tag.name for tag in tags_of(self._table) if tag.snapshot.id > self._target.id]

    def _delete_tags(self) -> None:
        for name in self._younger_tags():
            delete_success_file(self._table, name)
            self._table.file_io.delete(self._table.paths.tag(name))

    def _put_target(self) -> None:
        """Write the file of an expired target again, with the newest snapshot's users: it may become the newest."""
        table = self._table
        if table.snapshots.find(self._target.id) is not None:
            return
        put = replace(self._target, properties=self._kept(self._target, latest_of(table)))
        if not table.file_io.exists(table.paths.changelog(put.id)):  # a tag keeps no changelog, so it has expired
            put = replace(
                put, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
            )
        table.snapshots.create_new(put)
        table.snapshots.write_earliest_hint(self._target.id)

    def _put_hints(self) -> None:
        table = self._table
        consumers = ConsumerManager(table.file_io, table.paths)
        held = consumers.find(STATE_CONSUMER)
        if held is not None and held > self._target.id:
            consumers.put(STATE_CONSUMER, self._target.id)
        fed = consumers.find(LINEAGE_CONSUMER)
        if fed is not None and fed > self._target.id + 1:
            consumers.put(LINEAGE_CONSUMER, self._target.id + 1, commit=self._target.uuid)
        table.snapshots.write_latest_hint(self._target.id)

    def _delete(self, number: int) -> None:
        """Delete a snapshot, after the one before it has got its users."""
        table = self._table
        snapshot, before = table.snapshots.find(number), self._before(number)
        if snapshot is None:
            return
        if before is not None:
            self._put_properties(before, self._kept(before, snapshot))
        table.file_io.delete(table.paths.snapshot(number))

    def _before(self, number: int) -> Snapshot | None:
        ids = [one for one in self._table.snapshots.ids() if self._target.id <= one < number]
        return self._table.snapshots.find(max(ids)) if ids else None

    def _kept(self, snapshot: Snapshot, newest: Snapshot | None) -> Mapping[str, str]:
        """The properties of a snapshot that becomes the newest one after `newest`."""
        if self._rewinds_writers:
            return snapshot.properties
        newer, older = (carried_properties(one, self._table.snapshots) for one in (newest, snapshot))
        return properties_after_rollback(snapshot, older, newer)

    def _put_properties(self, snapshot: Snapshot, properties: Mapping[str, str]) -> None:
        """Replace the properties in a snapshot's file."""
        if properties == snapshot.properties:
            return
        table = self._table
        path = table.paths.snapshot(snapshot.id)
        text = rewritten(table.file_io.read_bytes(path), replace(snapshot, properties=properties), path=path)
        table.file_io.write_bytes(path, text.encode())
