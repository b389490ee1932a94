"""Commits: one snapshot, or nothing.

A commit reads the newest snapshot, resolves its request against it, writes manifests, and creates the next snapshot's
file. Only one of several racing writers can create this file; the others start again. Source: Paimon spec, "Snapshot";
Paimon, `FileStoreCommitImpl`.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.common.events import log_event
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.commit_tries import CommitTries
from lakelog.filestore.commit.conflicts import OvertakenError, check_conflicts, check_indexed
from lakelog.filestore.commit.giving_way import check_stays
from lakelog.filestore.commit.looks import Look, look_at, newest_schema_id
from lakelog.filestore.commit.next_snapshot import snapshot_after
from lakelog.filestore.commit.outcomes import UnknownAttempts, continues_table
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.commit.written_manifests import WrittenManifests, delete_manifests, write_manifests
from lakelog.filestore.io.network import both
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.snapshots.commit_line import CommitTurn
from lakelog.filestore.metadata.snapshots.line_change import read_change
from lakelog.filestore.metadata.snapshots.listeners import notify_committed
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.identity import (
    OutdatedSnapshotError,
    carried_anyhow,
    carried_by,
    check_got_no_log,
    check_schema,
)
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import check_not_removed

logger = logging.getLogger("lakelog.filestore")

BEFORE_CREATE = "before snapshot create"
AFTER_CREATE = "after snapshot create"
_LOOK_SECONDS = 1.0  # so old may a look at the table be: a longer wait loses more races


Resolve = Callable[[Snapshot | None], CommitRequest | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """A snapshot ready to be created, and the manifests that were written for it."""

    base: Snapshot | None
    snapshot: Snapshot
    live: LiveBuckets
    manifests: WrittenManifests


class TableCommit:
    """Commits to one table."""

    def __init__(self, table: TableStore, *, clock: CommitClock | None = None) -> None:
        self._table = table
        self._clock = clock or CommitClock()
        self._file_counts: dict[int, tuple[int, int]] = {}  # by attempted snapshot: numbers of files added and deleted

    def commit(
        self,
        resolve: Resolve,
        *,
        look: Look | None = None,
        on_step: Callable[[str], None] | None = None,
        discard: Callable[[], None] | None = None,
    ) -> Snapshot | None:
        """Commit the request that `resolve` returns, and return the snapshot; None if `resolve` returns None.

        `resolve` is called at every attempt, with the newest snapshot (None before the first); its errors are raised
        unchanged. `look` is used in place of another one if it is new: a request of an object store takes long.
        `on_step` is called with "before snapshot create" and "after snapshot create". Raises ConflictError
        if the change does not fit the newest snapshot, or if races were lost for too long; UnknownOutcomeError if the
        change may be in the table, or may still get there: call `find_commit`, or commit again with a `resolve` that
        finds its own commit. Logs a line of INFO, `commit`, and calls the handle's listeners.

        `discard` deletes the files that were written for the commit. It is called when the commit has failed with
        ConflictError or NotFoundError: then no snapshot names the files, and none will. `UnknownAttempts.reported`
        decides whether that is known, and raises UnknownOutcomeError if it is not.
        """
        lasted = Stopwatch()
        try:
            snapshot = self._commit(resolve, look, on_step)
        except (ConflictError, NotFoundError):
            if discard is not None:
                discard()
            raise
        if snapshot is not None:
            self._log(snapshot, lasted)
            notify_committed(self._table.listeners_of, snapshot, table_name=self._table.name)
        return snapshot

    def _log(self, snapshot: Snapshot, lasted: Stopwatch) -> None:
        added, deleted = self._file_counts[snapshot.id]
        log_event(
            logger,
            "commit",
            table=self._table.name,
            snapshot=snapshot.id,
            kind=snapshot.commit_kind.value,
            rows=snapshot.delta_record_count,
            files_added=added,
            files_deleted=deleted,
            user=snapshot.commit_user,
            identifier=snapshot.commit_identifier,
            millis=lasted.millis(),
        )

    def _commit(self, resolve: Resolve, given: Look | None, on_step: Callable[[str], None] | None) -> Snapshot | None:
        tries = CommitTries(self._table.schema.options, self._clock)
        commit_uuid = str(uuid.uuid4())
        unknown = UnknownAttempts(self._table, commit_uuid)
        with unknown.reported(), self._in_line() as turn:
            for attempt in itertools.count():
                look = self._first_look(given) if attempt == 0 else look_at(self._table, self._clock)
                if attempt == 0 and tries.begin(turn, 1 if look.snapshot is None else look.snapshot.id + 1):
                    look = look_at(self._table, self._clock)
                own = unknown.find()
                if own is not None:
                    return self._finish(own, None)
                try:
                    prepared = self._resolved(resolve, look, unknown, commit_uuid, may_merge=attempt == 0)
                except NotFoundError as error:
                    # Other writers may have been so fast that the base has expired: this is another lost race.
                    is_outdated = isinstance(error, OutdatedSnapshotError) or self._has_expired(look.snapshot)
                    if is_outdated and tries.has_another(turn):
                        continue
                    raise
                if prepared is None:
                    return None
                done = self._tried(prepared, unknown, on_step)
                if done is not None:
                    return done
                if not tries.has_another(turn):
                    own = unknown.find()
                    if own is not None:
                        return self._finish(own, None)
                    raise ConflictError(f"{self._table.name}: the commit {tries}")
        raise AssertionError("unreachable")

    def _first_look(self, given: Look | None) -> Look:
        """The given look at the table, unless it is old, or other writers commit too."""
        now = self._clock.seconds()
        is_new = given is not None and 0 <= now - given.at_seconds < _LOOK_SECONDS
        if given is None or not is_new or self._table.commit_line.has_met_others_lately(now):
            return look_at(self._table, self._clock)
        return given

    @contextmanager
    def _in_line(self) -> Iterator[CommitTurn]:
        """The turn of this commit. An overtaken commit leaves its place to the commit of its rewritten rows."""
        turn = CommitTurn(self._table.commit_line, seconds=self._clock.seconds, sleep=self._clock.sleep)
        is_overtaken = False
        try:
            yield turn
        except OvertakenError:
            is_overtaken = True
            raise
        finally:
            turn.end(keeps_place=is_overtaken)

    def _resolved(
        self, resolve: Resolve, look: Look, unknown: UnknownAttempts, commit_uuid: str, *, may_merge: bool
    ) -> _Attempt | None:
        request = resolve(look.snapshot)
        if request is None:
            return None
        if request.commit_identifier == BATCH_COMMIT_IDENTIFIER:  # otherwise `resolve` has searched for its own commit
            unknown.check_none_expired(look.snapshot)
        return self._prepare(look, request, commit_uuid, may_merge=may_merge)

    def _tried(
        self, prepared: _Attempt, unknown: UnknownAttempts, on_step: Callable[[str], None] | None
    ) -> Snapshot | None:
        """The snapshot if it was created; None if another writer has the id, or if the outcome is unknown."""
        if on_step is not None:
            on_step(BEFORE_CREATE)
        try:
            is_created = self._create(prepared)
        except (UnavailableError, NotFoundError) as error:
            number = prepared.snapshot.id
            logger.warning("%s: the outcome of snapshot %d is unknown: %s", self._table.name, number, error)
            unknown.add(number, error)
            return None
        if not is_created:
            return None
        if on_step is not None:
            on_step(AFTER_CREATE)
        return self._finish(prepared.snapshot, prepared.live)

    def _has_expired(self, snapshot: Snapshot | None) -> bool:
        return snapshot is not None and not self._table.file_io.exists(self._table.paths.snapshot(snapshot.id))

    def _create(self, prepared: _Attempt) -> bool:
        """Create the snapshot's file. False if another writer has the id.

        Raises UnavailableError and NotFoundError if the outcome is unknown.
        """
        snapshot = prepared.snapshot
        if not self._table.snapshots.create_new(snapshot):
            winner = self._table.snapshots.get(snapshot.id)
            if winner != snapshot:  # otherwise the client has retried, and lost against its own first try
                delete_manifests(self._table, prepared.manifests)
                return False
        table = self._table
        before, change = both(
            table.file_io,
            lambda: table.snapshots.find(snapshot.id - 1),
            lambda: read_change(table.file_io, table.path),
        )
        if continues_table(table, snapshot, prepared.live, before=before, base=prepared.base):
            check_stays(table, snapshot, change)
            return True
        delete_manifests(self._table, prepared.manifests)
        return False

    def _finish(self, snapshot: Snapshot, live: LiveBuckets | None) -> Snapshot:
        table = self._table
        if live is not None:
            table.live_files.put(snapshot, live)
        table.snapshots.note(snapshot)
        keep = partial(
            table.state_keeper.after_commit, snapshot.id, snapshot.properties, now_millis=snapshot.time_millis
        )
        both(table.file_io, keep, lambda: self._write_hint(snapshot.id))
        return snapshot

    def _write_hint(self, snapshot_id: int) -> None:
        try:
            self._table.snapshots.write_latest_hint(snapshot_id)
        except UnavailableError as error:
            logger.warning("%s: the hint to snapshot %d was not written: %s", self._table.name, snapshot_id, error)

    def _prepare(self, look: Look, request: CommitRequest, commit_uuid: str, *, may_merge: bool) -> _Attempt:
        """Check the change against the newest snapshot and write its manifests. Raises ConflictError."""
        table, latest = self._table, look.snapshot
        check_schema(table, latest)
        state = (carried_anyhow if request.takes_lost_state else carried_by)(table, latest)
        kind = request.committed_kind
        if kind is not CommitKind.COMPACT:
            check_got_no_log(table, {**state.properties, **request.properties})
        if table.schema.has_dynamic_buckets and kind is not CommitKind.COMPACT and request.restores is None:
            check_indexed(request.entries, request.hashes, table_name=table.name)
        live = check_conflicts(table.live_files.near(latest), request.entries, kind=kind, key_types=table.key_types)
        schema_id = newest_schema_id(table, look)
        manifests = write_manifests(table, latest, request, schema_id=schema_id, may_merge=may_merge)
        now_millis = self._clock.now_millis()
        self._check_files(request, now_millis)
        snapshot = snapshot_after(
            table,
            latest,
            request,
            kind=kind,
            commit_uuid=commit_uuid,
            schema_id=schema_id,
            manifests=manifests,
            state=state,
            now_millis=now_millis,
        )
        if PropertyKey.LINEAGE in snapshot.properties and table.lineage_keeper is not None and table.lineage_options:
            table.lineage_keeper.hold(table)
        table.state_keeper.before_commit(snapshot.id, snapshot.properties, carried=state.properties)
        self._count_files(snapshot.id, request)
        return _Attempt(base=latest, snapshot=snapshot, live=live, manifests=manifests)

    def _check_files(self, request: CommitRequest, now_millis: int) -> None:
        """Raise ConflictError if new files may have been removed as orphans meanwhile."""
        hashes = () if request.hashes is None else request.hashes.files.values()
        index_files = map(self._table.paths.index, (file.file_name for file in hashes))
        check_not_removed(self._table, [*request.entries, *request.changelog], index_files, now_millis=now_millis)

    def _count_files(self, snapshot_id: int, request: CommitRequest) -> None:
        added = sum(entry.kind is FileKind.ADD for entry in request.entries)
        self._file_counts[snapshot_id] = added, len(request.entries) - added
