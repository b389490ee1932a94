"""Restore: a new snapshot whose live files are those of an older one or of a tag.

The snapshots in between are kept until they expire. Lakelog's users stay as they are, so a stream continues with its
next batch, and batches that were rolled back are not written again. With `rewind_writers` the users are those of the
target, and streams that are set back too write their batches again.

The table keeps its newest schema: the restored rows have its columns. Values of columns that were dropped since are not
restored; columns that were added since are null.

The files are live again under their names. A tag protects them: it is created before the snapshot and deleted when no
snapshot before the restore is left, see `lakelog.filestore.refs.restore.restore_tags`. The snapshot has changelog files
with the changes of the rows, whatever the table's changelog producer is, for readers that follow the changes of the
table.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.html import ShowsFields
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.merge.counting import counted_rows
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.origins.restored import restores_properties
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles
from lakelog.filestore.metadata.snapshots.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    RESTORE_OPERATION,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import CommitUser, PropertyKey, parse_users, read_users, users_to_json
from lakelog.filestore.metadata.tables.identity import carried_anyhow, carried_by, latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.read.changes import check_followable
from lakelog.filestore.refs.restore.restore_tags import (
    RESTORE_TAG_PREFIX,
    release_after_commit,
    release_restore_tags,
    restored_after,
)
from lakelog.filestore.refs.restore.restored_state import StateDifference, row_counts
from lakelog.filestore.refs.states.differences import Difference
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.write.write import check_table_writable, write_changelog_files


@dataclass(repr=False, frozen=True, slots=True, kw_only=True)
class RestoredWriter:
    """A writer whose last batch in the table differs from the one in the target, or that the target does not have.

    `identifier` is its last batch now, `at_target` its last batch in the target, None if the target has no batch of it.
    """

    user: str
    identifier: int
    at_target: int | None


@dataclass(repr=False, frozen=True, slots=True, kw_only=True)
class Restored(ShowsFields):
    """What a restore changed, or would change.

    `base` is the newest snapshot before the restore, `snapshot` the new one: None for a dry run, and if nothing
    differs. `writers` have written since the target; with `rewinds_writers` their last batch is that of the target
    again. `columns_missing` are columns of the target that the table has dropped since, whose values are not restored.
    `renews_log` says that the table gets another topic, instead of the changes in its log.
    """

    target: Snapshot
    base: Snapshot
    snapshot: Snapshot | None
    rows_added: int
    rows_removed: int
    rows_changed: int
    files_added: int
    files_removed: int
    writers: tuple[RestoredWriter, ...]
    rewinds_writers: bool
    columns_missing: tuple[str, ...]
    renews_log: bool = False

    @classmethod
    def of(cls, found: StateDifference, *, rewinds_writers: bool, renews_log: bool = False) -> Restored:
        """What a restore would change, from the difference between its base and its target. Reads their buckets."""
        counts = row_counts(found)
        return cls(
            target=found.target,
            base=found.base,
            snapshot=None,
            rows_added=counts.added,
            rows_removed=counts.removed,
            rows_changed=counts.changed,
            files_added=len(found.added),
            files_removed=len(found.removed),
            writers=writers_since(found.table, found.base, found.target),
            rewinds_writers=rewinds_writers,
            columns_missing=found.columns_missing,
            renews_log=renews_log,
        )


def restore_table(
    table: TableStore,
    target: Snapshot,
    *,
    rewind_writers: bool = False,
    dry_run: bool = False,
    clock: CommitClock | None = None,
) -> Restored:
    """Make the state of `target` the newest one, in a new snapshot; with `dry_run` only find out what would change.

    `target` is a snapshot of the table, or one that a tag keeps. What others commit meanwhile is undone too. Raises
    NotFoundError for a table without snapshots and for a target that expires meanwhile, InvalidRequestError for a
    target that does not fit the table, ConflictError when other writers commit all the time.
    """
    check_table_writable(table)
    base = latest_of(table)
    if base is None:
        raise NotFoundError(f"table {table.name} has no snapshot yet: there is nothing to restore")
    if rewind_writers:
        check_rewindable(table, target)
    run = _Run(table, target, rewind_writers)
    run.difference(base).check()
    if dry_run or run.changes_nothing(base):
        return run.result(base)
    release_restore_tags(table)
    write_tag(table, run.tag, target)
    clock = clock or CommitClock()
    snapshot = TableCommit(table, clock=clock).commit(run.resolve, discard=run.discard)
    run.discard_superseded()
    release_after_commit(table)  # from here on no error may be raised: the restore is in the table
    return replace(run.result(run.base), snapshot=snapshot)


class _Run:
    """One restore: computed on the newest snapshot, and again if another commit comes first."""

    def __init__(self, table: TableStore, target: Snapshot, rewinds_writers: bool) -> None:
        self._table = table
        self._target = target
        self._rewinds_writers = rewinds_writers
        self._user = str(uuid.uuid4())
        self._found: tuple[Snapshot, StateDifference] | None = None
        self._changelog: tuple[Snapshot, list[ManifestEntry]] | None = None
        self._superseded: list[ManifestEntry] = []
        self._result: Restored | None = None
        self.tag = f"{RESTORE_TAG_PREFIX}{self._user}"

    @property
    def base(self) -> Snapshot:
        """The snapshot on which the restore was computed last."""
        assert self._found is not None
        return self._found[0]

    def difference(self, base: Snapshot) -> StateDifference:
        """What differs between a snapshot and the target."""
        if self._found is None or self._found[0] != base:
            self._found = base, StateDifference(self._table, base, self._target)
        return self._found[1]

    def changes_nothing(self, base: Snapshot) -> bool:
        """Whether a restore would create a snapshot equal to the one before."""
        return self.difference(base).is_empty and not (
            self._rewinds_writers and writers_since(self._table, base, self._target)
        )

    def resolve(self, latest: Snapshot | None) -> CommitRequest | None:
        """The commit after `latest`; None if another commit has made it superfluous."""
        if latest is None:
            raise NotFoundError(f"table {self._table.name} has lost its snapshots while it was restored")
        if self.changes_nothing(latest):
            return None
        found = self.difference(latest)
        found.check()
        self.result(latest)
        return CommitRequest(
            commit_user=self._user,
            kind=CommitKind.OVERWRITE,
            entries=[*found.removed, *found.added],
            changelog=self._changes(latest),
            properties=self._properties(latest),
            operation=RESTORE_OPERATION,
            restores=self._target,
        )

    def discard(self) -> None:
        """Delete the changelog files that were written, since the commit has failed."""
        self._delete(self._superseded)
        if self._changelog is not None:
            self._delete(self._changelog[1])

    def discard_superseded(self) -> None:
        """Delete the changelog files of attempts that came too late."""
        self._delete(self._superseded)

    def result(self, base: Snapshot) -> Restored:
        """What the restore changes on `base`; computed before the commit, and cached."""
        if self._result is None or self._result.base != base:
            self._result = Restored.of(self.difference(base), rewinds_writers=self._rewinds_writers)
        return self._result

    def _users_then(self) -> dict[str, CommitUser]:
        return read_users(self._target, self._table.snapshots)

    def _properties(self, latest: Snapshot) -> Mapping[str, str]:
        carried = carried_by(self._table, latest).properties
        users = self._users_then() if self._rewinds_writers else parse_users(carried)
        restored = restored_after(self._table, carried, self.tag, latest.id + 1)
        rows = restores_properties(self._target, carried_anyhow(self._table, self._target), carried)
        return {PropertyKey.USERS: users_to_json(users), PropertyKey.RESTORED: restored, **rows}

    def _changes(self, base: Snapshot) -> list[ManifestEntry]:
        """The changelog files of the restore; none for a table whose changes cannot be followed."""
        if self._changelog is not None and self._changelog[0] == base:
            return self._changelog[1]
        if self._changelog is not None:
            self._superseded += self._changelog[1]
            self._changelog = None
        try:
            check_followable(self._table)
        except UnsupportedError:
            return []
        live = self._table.live_files.of(base)
        written = write_changes(self._table, live, self.difference(base).rows(is_followed=True))
        self._changelog = base, written
        return written

    def _delete(self, entries: list[ManifestEntry]) -> None:
        table = self._table
        discard_files(table, (table.data_path(entry.bucket_id, entry.file) for entry in entries))


def check_rewindable(table: TableStore, target: Snapshot) -> None:
    """Raise InvalidRequestError if the last batch of each writer at a snapshot is not known.

    The snapshot is then of another engine, and the snapshots of lakelog before it have expired.
    """
    if not carried_anyhow(table, target).is_known and read_users(table.snapshots.latest(), table.snapshots):
        raise InvalidRequestError(
            f"snapshot {target.id} of table {table.name} is of another engine, and those of lakelog before it have "
            "expired: the last batch of each writer is not known, so writers are not rewound to it. Leave "
            "rewind_writers out: the rows go back, and streams go on with their next batch"
        )


def writers_since(table: TableStore, base: Snapshot, target: Snapshot) -> tuple[RestoredWriter, ...]:
    """The writers whose last batch at `base` is not the one at `target`, by name, without batch statements."""
    now, then = read_users(base, table.snapshots), read_users(target, table.snapshots)
    found = []
    for user, last in sorted(now.items()):
        before = then.get(user)
        if last.identifier != BATCH_COMMIT_IDENTIFIER and (before is None or before.identifier != last.identifier):
            at_target = None if before is None else before.identifier
            found.append(RestoredWriter(user=user, identifier=last.identifier, at_target=at_target))
    return tuple(found)


def write_changes(
    table: TableStore, live: LiveFiles, found: Iterable[tuple[BucketId, Difference]]
) -> list[ManifestEntry]:
    """Write changes, bucket by bucket, to changelog files; their rows are numbered after those of the files `live`.

    After an error the files written so far are deleted.
    """
    written: list[ManifestEntry] = []
    sequences: dict[BucketId, int] = {}
    try:
        for bucket, one in found:
            first = sequences.get(bucket, live.next_sequence(bucket))
            entries = _write_changes(table, bucket, one, first_sequence=first)
            sequences[bucket] = first + sum(entry.file.row_count for entry in entries)
            written += entries
    except BaseException:
        discard_files(table, [table.data_path(entry.bucket_id, entry.file) for entry in written])
        raise
    return written


def _write_changes(
    table: TableStore, bucket: BucketId, found: Difference, *, first_sequence: int
) -> list[ManifestEntry]:
    """Write the changes of a bucket, or of a part of its keys, to changelog files.

    Rows of tables without primary key have no row kind in files: so their deletes are in files of their own.
    """
    rows, numbers = found.changes_by_key(table.schema.select(table.schema.primary_keys))
    rows, kinds = rows.cast(table.schema.arrow_schema), pa.array(numbers)
    if table.schema.is_change_log:
        rows, kinds = counted_rows(rows, kinds)
    sequences = pa.array(np.arange(rows.num_rows, dtype=np.int64) + first_sequence)
    changes = StoredRows(rows=rows, sequences=sequences, kinds=kinds)
    write = partial(write_changelog_files, table.stored)
    if table.schema.primary_keys or table.schema.is_change_log:
        return write([(bucket, changes)])
    deletes = found.removed.num_rows
    parts = (0, deletes), (deletes, rows.num_rows - deletes)
    return [entry for start, length in parts if length for entry in write([(bucket, _part(changes, start, length))])]


def _part(changes: StoredRows, start: int, length: int) -> StoredRows:
    return replace(
        changes,
        rows=changes.rows.slice(start, length),
        sequences=changes.sequences.slice(start, length),
        kinds=changes.kinds.slice(start, length),
    )
