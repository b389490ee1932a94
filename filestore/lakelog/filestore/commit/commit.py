"""Commits: one snapshot, or nothing.

A commit reads the newest snapshot, resolves its request against it, writes manifests, and creates the next snapshot's
file. Only one of several racing writers can create this file; the others start again. Source: Paimon spec, "Snapshot";
Paimon, `FileStoreCommitImpl`.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.common.events import log_event
from lakelog.filestore.commit.commit_clock import CommitClock, next_commit_millis
from lakelog.filestore.commit.commit_tries import CommitTries
from lakelog.filestore.commit.conflicts import OvertakenError, check_conflicts, check_indexed
from lakelog.filestore.commit.giving_way import check_stays
from lakelog.filestore.commit.outcomes import UnknownAttempts, continues_table
from lakelog.filestore.index.hash_index import HashIndexChange
from lakelog.filestore.index.index_manifest import BucketDeletions, index_after
from lakelog.filestore.io.network import both
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry, ManifestFiles, merge_entries
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_merging import ENTRIES_MAX, pick_manifests
from lakelog.filestore.metadata.manifests.manifest_pruning import manifests_of_partitions
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.origins.cleared_rows import cleared_property
from lakelog.filestore.metadata.origins.row_source_changes import sources_property
from lakelog.filestore.metadata.origins.row_sources import LineKey
from lakelog.filestore.metadata.origins.unseen_changes import unseen_property
from lakelog.filestore.metadata.snapshots.commit_line import CommitTurn
from lakelog.filestore.metadata.snapshots.line_change import read_change
from lakelog.filestore.metadata.snapshots.listeners import notify_committed
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets
from lakelog.filestore.metadata.snapshots.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    OPERATION_KEY,
    PAIMON_OPERATIONS,
    SCHEMA_DIGEST_KEY,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import (
    LINEAGE_KEY,
    NO_USERS,
    SOURCES_KEY,
    USERS_KEY,
    CarriedProperties,
    lineage_property,
)
from lakelog.filestore.metadata.tables.identity import (
    UUID_KEY,
    OutdatedSnapshotError,
    carried_anyhow,
    carried_by,
    check_got_no_log,
    check_schema,
)
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import check_not_removed
from lakelog.filestore.options.files import MANIFEST_FULL_COMPACTION_SIZE, MANIFEST_MERGE_MIN_COUNT
from lakelog.filestore.schema.paths import MAIN_BRANCH, FileNames

logger = logging.getLogger("lakelog.filestore")

BEFORE_CREATE = "before snapshot create"
AFTER_CREATE = "after snapshot create"
_LOOK_SECONDS = 1.0  # so old may a look at the table be: a longer wait loses more races


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """The changes of one commit. An APPEND that deletes files becomes an OVERWRITE.

    `hashes` has the HASH index by which the buckets of rows were chosen, if a table has dynamic buckets. `properties`
    are added to those copied from the newest snapshot, see `filestore.metadata.snapshots.users`. With
    `takes_lost_state` the commit accepts that these were lost. An `operation` that Paimon lacks becomes a property too.
    `restores` is the snapshot whose live files the entries bring back: its indexes come back too, and the base
    manifests are joined, so that no file is deleted and added again in the manifests that a reader of the new snapshot
    reads. `unsynced` are the paths of new files that are not durable yet: they are before the snapshot is created.
    `lineage` is what is known of the origin of the rows, beside what the handle records.
    """

    commit_user: str
    commit_identifier: int
    kind: CommitKind
    entries: Sequence[ManifestEntry] = ()
    changelog: Sequence[ManifestEntry] = ()
    deletions: Sequence[BucketDeletions] = ()
    hashes: HashIndexChange | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    operation: str | None = None
    takes_lost_state: bool = False
    restores: Snapshot | None = None
    unsynced: Sequence[str] = ()
    lineage: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The newest snapshot, None before the first, and whether the table has got a schema after that of the handle.

    `at_seconds` is when it was read, by a monotonic clock.
    """

    snapshot: Snapshot | None
    has_newer_schema: bool
    at_seconds: float


def look_at(table: TableStore, clock: CommitClock) -> Look:
    """Read the newest snapshot, and beside it whether there is a newer schema."""
    at_seconds = clock.seconds()
    newer = table.paths.schema(table.schema.id + 1)
    latest, has_newer = both(table.file_io, table.snapshots.latest, lambda: table.file_io.exists(newer))
    return Look(snapshot=latest, has_newer_schema=has_newer, at_seconds=at_seconds)


_OF_STATEMENTS = frozenset({None, "DELETE", "MERGE", "OVERWRITE", "UPDATE", "WRITE"})

Resolve = Callable[[Snapshot | None], CommitRequest | None]


@cache
def _writer_version() -> str:
    try:
        return f"lakelog-{version('lakelog')}"
    except PackageNotFoundError:  # lakelog runs from a source tree that is not installed
        return "lakelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """A snapshot ready to be created, and the manifests that were written for it."""

    base: Snapshot | None
    snapshot: Snapshot
    live: LiveBuckets
    written: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    """The manifest lists of a snapshot, each its name and size, its index manifest, and the files new among them."""

    base: tuple[str, int]
    delta: tuple[str, int]
    changelog: tuple[str | None, int | None]
    index: str | None
    written: Sequence[str]


class TableCommit:
    """Commits to one table."""

    def __init__(self, table: TableStore, *, clock: CommitClock | None = None) -> None:
        self._table = table
        self._clock = clock or CommitClock()
        self._has_newer_schema = False  # than that of the handle
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
                latest, self._has_newer_schema = look.snapshot, look.has_newer_schema
                own = unknown.find()
                if own is not None:
                    return self._finish(own, None)
                try:
                    prepared = self._resolved(resolve, latest, unknown, commit_uuid, may_merge=attempt == 0)
                except NotFoundError as error:
                    # Other writers may have been so fast that the base has expired: this is another lost race.
                    is_outdated = isinstance(error, OutdatedSnapshotError) or self._has_expired(latest)
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
        self, resolve: Resolve, latest: Snapshot | None, unknown: UnknownAttempts, commit_uuid: str, *, may_merge: bool
    ) -> _Attempt | None:
        request = resolve(latest)
        if request is None:
            return None
        if request.commit_identifier == BATCH_COMMIT_IDENTIFIER:  # otherwise `resolve` has searched for its own commit
            unknown.check_none_expired(latest)
        return self._prepare(latest, request, commit_uuid, may_merge=may_merge)

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
                self._delete_manifests(prepared.written)
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
        self._delete_manifests(prepared.written)
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

    def _prepare(
        self, latest: Snapshot | None, request: CommitRequest, commit_uuid: str, *, may_merge: bool
    ) -> _Attempt:
        """Check the change against the newest snapshot and write its manifests. Raises ConflictError."""
        table = self._table
        check_schema(table, latest)
        state = (carried_anyhow if request.takes_lost_state else carried_by)(table, latest)
        carried = state.properties
        kind = _kind_of(request)
        if kind is not CommitKind.COMPACT:
            check_got_no_log(table, {**carried, **request.properties})
        restored = request.restores
        if table.schema.has_dynamic_buckets and kind is not CommitKind.COMPACT and restored is None:
            check_indexed(request.entries, request.hashes, table_name=table.name)
        live = check_conflicts(table.live_files.near(latest), request.entries, kind=kind, key_types=table.key_types)
        schema_id = self._newest_schema_id(latest)
        lists = self._write_manifests(latest, request, kind, schema_id, may_merge=may_merge)
        delta_count = sum(entry.file.row_count * (1 if entry.kind is FileKind.ADD else -1) for entry in request.entries)
        now_millis = self._clock.now_millis()
        self._check_files(request, now_millis)
        snapshot = Snapshot(
            id=1 if latest is None else latest.id + 1,
            uuid=commit_uuid,
            schema_id=schema_id,
            base_manifest_list=lists.base[0],
            base_manifest_list_size=lists.base[1],
            delta_manifest_list=lists.delta[0],
            delta_manifest_list_size=lists.delta[1],
            changelog_manifest_list=lists.changelog[0],
            changelog_manifest_list_size=lists.changelog[1],
            changelog_record_count=sum(entry.file.row_count for entry in request.changelog) or None,
            index_manifest=lists.index,
            commit_user=request.commit_user,
            writer_version=_writer_version(),
            commit_identifier=request.commit_identifier,
            commit_kind=kind,
            time_millis=next_commit_millis(latest, now_millis, table_name=table.name),
            total_record_count=delta_count + (0 if latest is None else latest.total_record_count),
            delta_record_count=delta_count,
            watermark=_later(None if latest is None else latest.watermark, request.watermark),
            statistics=None if latest is None or latest.schema_id != schema_id or restored else latest.statistics,
            properties=self._properties(carried, request) | {SCHEMA_DIGEST_KEY: table.schemas.digest_of(schema_id)},
            next_row_id=None if latest is None else latest.next_row_id,
            operation=request.operation if request.operation in PAIMON_OPERATIONS else None,
        )
        snapshot = self._with_sources(snapshot, latest, state, request)
        snapshot = _with_cleared(snapshot, carried, request)
        if LINEAGE_KEY in snapshot.properties and table.lineage_keeper is not None and table.lineage_options:
            table.lineage_keeper.hold(table)
        table.state_keeper.before_commit(snapshot.id, snapshot.properties, carried=carried)
        self._count_files(snapshot.id, request)
        return _Attempt(base=latest, snapshot=snapshot, live=live, written=lists.written)

    def _write_manifests(
        self, latest: Snapshot | None, request: CommitRequest, kind: CommitKind, schema_id: int, *, may_merge: bool
    ) -> _Lists:
        """Write the manifests and lists of the new snapshot, durably. Raises ConflictError as `index_after`."""
        names = FileNames()
        files = self._table.manifests.collecting()
        index = self._index_after(latest, request, kind, names, files)
        base = self._base_manifests(
            latest, files, names, schema_id, may_merge=may_merge, is_restore=request.restores is not None
        )
        delta = files.write(request.entries, names=names, schema_id=schema_id)
        base_list, delta_list = files.write_list(base, names=names), files.write_list(delta, names=names)
        named = (*(manifest.file_name for manifest in (*base, *delta)), index or "")
        written = [base_list[0], delta_list[0], *(name for name in named if names.uuid in name)]
        changelog_list = _write_changelog(request, files, names, schema_id, written)
        files.create_collected(unsynced=request.unsynced)
        return _Lists(base=base_list, delta=delta_list, changelog=changelog_list, index=index, written=written)

    def _check_files(self, request: CommitRequest, now_millis: int) -> None:
        """Raise ConflictError if new files may have been removed as orphans meanwhile."""
        hashes = () if request.hashes is None else request.hashes.files.values()
        index_files = map(self._table.paths.index, (file.file_name for file in hashes))
        check_not_removed(self._table, [*request.entries, *request.changelog], index_files, now_millis=now_millis)

    def _count_files(self, snapshot_id: int, request: CommitRequest) -> None:
        added = sum(entry.kind is FileKind.ADD for entry in request.entries)
        self._file_counts[snapshot_id] = added, len(request.entries) - added

    def _index_after(
        self,
        latest: Snapshot | None,
        request: CommitRequest,
        kind: CommitKind,
        names: FileNames,
        manifests: ManifestFiles,
    ) -> str | None:
        """The name of the index manifest of the new snapshot. Raises ConflictError as `index_after`."""
        if request.restores is not None:
            return request.restores.index_manifest
        return index_after(
            self._table,
            latest,
            deleted=_deleted_files(request.entries),
            deletions=request.deletions,
            hashes=request.hashes,
            is_compaction=kind is CommitKind.COMPACT,
            names=names,
            manifests=manifests,
        )

    def _base_manifests(
        self,
        latest: Snapshot | None,
        files: ManifestFiles,
        names: FileNames,
        schema_id: int,
        *,
        may_merge: bool,
        is_restore: bool,
    ) -> list[ManifestFileMeta]:
        """The manifests of everything before the new snapshot; small ones are joined if there are enough.

        Those of a restore are rewritten, since files come back under their names.
        """
        if is_restore:
            entries = list(self._table.live_files.of(latest).entries())
            return files.write(entries, names=names, schema_id=schema_id)
        if latest is None:
            return []
        manifests = list(self._table.live_files.manifests_of(latest))
        if not may_merge:
            return manifests
        options = self._table.schema.options
        picked = pick_manifests(
            manifests,
            count_min=MANIFEST_MERGE_MIN_COUNT.of(options),
            full_size_bytes=MANIFEST_FULL_COMPACTION_SIZE.of(options),
        )
        if not picked:
            return manifests
        kept, joined = self._without_untouched(manifests, picked)
        merged = merge_entries(files.read_entries(joined))
        return kept + files.write(merged, names=names, schema_id=schema_id)

    def _without_untouched(
        self, manifests: Sequence[ManifestFileMeta], picked: Sequence[ManifestFileMeta]
    ) -> tuple[list[ManifestFileMeta], Sequence[ManifestFileMeta]]:
        """The manifests that stay, and those to join. Where all are picked, because of the DELETE entries in some, full
        ones without files of the partitions of these stay."""
        if len(picked) < len(manifests):
            return [*manifests[: len(manifests) - len(picked)]], picked
        with_deletes = [manifest for manifest in picked if manifest.num_deleted_files]
        deleted = {
            entry.partition
            for entry in self._table.manifests.read_entries(with_deletes)
            if entry.kind is FileKind.DELETE
        }
        touched = manifests_of_partitions(picked, deleted, self._table.manifests.partition_types)
        names = {manifest.file_name for manifest in [*with_deletes, *touched]}
        kept = [one for one in picked if one.file_name not in names and one.num_added_files >= ENTRIES_MAX]
        stays = {manifest.file_name for manifest in kept}
        return kept, [manifest for manifest in picked if manifest.file_name not in stays]

    def _properties(self, carried: Mapping[str, str], request: CommitRequest) -> dict[str, str]:
        """The properties, always with the users, so that a search for users ends at the newest snapshot of lakelog."""
        own = {UUID_KEY: self._table.uuid} if self._table.uuid else {}
        operation = request.operation
        named = {} if operation is None or operation in PAIMON_OPERATIONS else {OPERATION_KEY: operation}
        return {USERS_KEY: NO_USERS, **carried, **own, **named, **self._lineage(request), **request.properties}

    def _with_sources(
        self, snapshot: Snapshot, latest: Snapshot | None, state: CarriedProperties, request: CommitRequest
    ) -> Snapshot:
        """The snapshot with the origin of its rows, and with the snapshots whose changes streams do not get."""
        added = sum(entry.file.row_count for entry in request.entries if entry.kind is FileKind.ADD)
        sources = sources_property(
            snapshot,
            latest,
            state,
            is_restore=SOURCES_KEY in request.properties,
            own=LineKey(self._table.uuid, None if self._table.branch == MAIN_BRANCH else self._table.branch),
            replaces_all=snapshot.commit_kind is CommitKind.OVERWRITE and added == snapshot.total_record_count,
        )
        added_properties = {**sources, **unseen_property(snapshot, state)}
        if not added_properties:
            return snapshot
        return replace(snapshot, properties={**snapshot.properties, **added_properties})

    def _lineage(self, request: CommitRequest) -> dict[str, str]:
        """What the handle records about the origin of the rows of its statements."""
        is_statement = request.kind is not CommitKind.COMPACT and request.operation in _OF_STATEMENTS
        if self._table.lineage is None or not is_statement:
            return {}
        named = {} if request.operation is None else {"operation": request.operation}
        found = {**named, **self._table.lineage, **request.lineage}
        return lineage_property(request.commit_user, request.commit_identifier, found)

    def _newest_schema_id(self, latest: Snapshot | None) -> int:
        newest = max(self._table.schema.id, 0 if latest is None else latest.schema_id)
        if newest == self._table.schema.id and not self._has_newer_schema:
            return newest
        while self._table.file_io.exists(self._table.paths.schema(newest + 1)):
            newest += 1
        return newest

    def _delete_manifests(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self._table.file_io.delete(self._table.paths.manifest(name))
            except UnavailableError as error:
                logger.warning("%s: manifest %s is left behind: %s", self._table.name, name, error)


def _write_changelog(
    request: CommitRequest, manifests: ManifestFiles, names: FileNames, schema_id: int, written: list[str]
) -> tuple[str | None, int | None]:
    """The manifest list of the changelog files and its size, None without changelog files; its files are added to
    `written`."""
    if not request.changelog:
        return None, None
    changelog = manifests.write(request.changelog, names=names, schema_id=schema_id)
    name, size = manifests.write_list(changelog, names=names)
    written += [*(manifest.file_name for manifest in changelog), name]
    return name, size


def _with_cleared(snapshot: Snapshot, carried: Mapping[str, str], request: CommitRequest) -> Snapshot:
    """The snapshot with the rows that it removes from its table as a whole."""
    added = sum(entry.file.row_count for entry in request.entries if entry.kind is FileKind.ADD)
    cleared = cleared_property(
        snapshot,
        carried,
        replaced={entry.partition for entry in request.entries if entry.kind is FileKind.DELETE},
        replaces_all=added == snapshot.total_record_count,
    )
    return replace(snapshot, properties={**snapshot.properties, **cleared}) if cleared else snapshot


def _kind_of(request: CommitRequest) -> CommitKind:
    """An append that deletes files is an overwrite."""
    has_deletes = any(entry.kind is FileKind.DELETE for entry in request.entries)
    return CommitKind.OVERWRITE if request.kind is CommitKind.APPEND and has_deletes else request.kind


def _later(previous: int | None, given: int | None) -> int | None:
    """The later of the known watermarks."""
    known = [watermark for watermark in (previous, given) if watermark is not None]
    return max(known, default=None)


def _deleted_files(entries: Sequence[ManifestEntry]) -> dict[BucketId, set[str]]:
    """The names of files that a change removes. A file that only changes its level is not removed."""
    added = {entry.file.file_name for entry in entries if entry.kind is FileKind.ADD}
    deleted: dict[BucketId, set[str]] = {}
    for entry in entries:
        if entry.kind is FileKind.DELETE and entry.file.file_name not in added:
            deleted.setdefault(entry.bucket_id, set()).add(entry.file.file_name)
    return deleted
