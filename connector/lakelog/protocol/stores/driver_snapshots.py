"""The port of the driver, implemented for a Paimon table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.common.clock import system_millis
from lakelog.filestore.commit import CommitRequest, TableCommit
from lakelog.filestore.compact import CompactResult, compact_request
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.snapshots import CommitUser, PropertyKey, Snapshot, parse_users, users_properties
from lakelog.filestore.metadata.tables import TableStore, carried_by
from lakelog.filestore.write import add_entry
from lakelog.protocol.state.ports import Decide, SnapshotChange
from lakelog.protocol.state.prepared import PreparedCommits, user_of, without_ended_statements
from lakelog.protocol.state.state import Batch, TableState
from lakelog.protocol.state.transaction_ends import ends_json
from lakelog.protocol.state.writer_marks import WriterMarks, with_marks
from lakelog.protocol.stores.removing import without_removed
from lakelog.protocol.stores.table_states import newest_state, read_state


@dataclass(frozen=True, slots=True)
class DriverSnapshots:
    """The file store for the driver. `topic_id` None means a table without a log.

    `kafka` are the user's own settings of Kafka clients, for the expiry of the log. `allows_foreign` is that of
    `read_state`.
    """

    table: TableStore
    topic_id: str | None
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    allows_foreign: bool = False

    def newest(self) -> TableState:
        """The newest snapshot, read now."""
        return newest_state(self.table, topic_id=self.topic_id, allows_foreign=self.allows_foreign)

    def first_with(self, user: str, *, after: int) -> Snapshot | None:
        """The first living snapshot after a number in which a statement was taken in.

        Once its prepared commit is deleted, the snapshots after it do not name it.
        """
        found: Snapshot | None = None
        latest = self.table.snapshots.latest()
        for snapshot in () if latest is None else self.table.snapshots.walk_back(latest):
            if snapshot.id <= after:
                break
            if PropertyKey.USERS in snapshot.properties and user in parse_users(snapshot.properties):
                found = snapshot
        return found

    def took_in(self, user: str, *, after: int) -> bool | None:
        """Whether a snapshot after a number took a statement in; None if snapshots that may have done so expired."""
        if self.first_with(user, after=after) is not None:
            return True
        earliest = self.table.snapshots.earliest_id()
        return False if earliest is None or earliest <= after + 1 else None

    def append(self, batch: Batch, decide: Decide) -> int | None:
        """Make an APPEND snapshot of the change that `decide` gives; it is called again at every attempt."""

        def resolve(latest: Snapshot | None) -> CommitRequest | None:
            change = decide(self._state(latest))
            return None if change is None else self._request(batch, self._with_marks(change), latest)

        snapshot = TableCommit(self.table).commit(resolve)
        return None if snapshot is None else snapshot.id

    def compact(self, batch: Batch, buckets: Sequence[CompactResult]) -> int:
        """Make a COMPACT snapshot. Raises ConflictError when an input was replaced."""
        request = compact_request(self.table, buckets, user=batch.user, identifier=batch.identifier)
        snapshot = TableCommit(self.table).commit(lambda _latest: request)
        assert snapshot is not None
        return snapshot.id

    def _with_marks(self, change: SnapshotChange) -> SnapshotChange:
        """The change with the users of other writers whose batches it has as a whole. Reads their marks."""
        if self.topic_id is None:
            return change
        return with_marks(change, WriterMarks(self.table, self.topic_id).find, now_millis=system_millis())

    def _state(self, snapshot: Snapshot | None) -> TableState:
        return read_state(self.table, snapshot, topic_id=self.topic_id, allows_foreign=self.allows_foreign)

    def _request(self, batch: Batch, change: SnapshotChange, latest: Snapshot | None) -> CommitRequest:
        lineage = {"batches": [dict(entry) for entry in change.lineage]}
        taken = () if change.log is None else change.log.taken()
        users, held = self._statements_kept(batch, change.users)
        properties = users_properties(
            users,
            latest=latest,
            carried=carried_by(self.table, latest).properties,
            options=self.table.schema.options,
            in_use={batch.user, *held, *(user for user, _ in taken)},
        )
        properties[PropertyKey.LINEAGE] = json.dumps(lineage)
        if change.untracked:
            properties[PropertyKey.UNTRACKED] = json.dumps([dict(entry) for entry in change.untracked])
        if change.ends:
            number = 1 if latest is None else latest.id + 1
            properties[PropertyKey.LOG_ENDS] = ends_json(change.ends, snapshot_id=number)
        if change.log is not None:
            properties |= {PropertyKey.LOG_STATE: change.log.to_json(), PropertyKey.PLACE: self.table.path}
        properties |= change.properties
        return CommitRequest(
            commit_user=batch.user,
            commit_identifier=batch.identifier,
            entries=self._entries(change, latest),
            changelog=[add_entry(self.table, file.bucket_id(b), file.meta) for b, file in change.changelog],
            properties=properties,
            watermark=change.watermark_millis,
        )

    def _entries(self, change: SnapshotChange, latest: Snapshot | None) -> list[ManifestEntry]:
        if change.removed:
            return without_removed(self.table, latest, change.files, change.removed)
        return [add_entry(self.table, file.bucket_id(bucket), file.meta) for bucket, file in change.files]

    def _statements_kept(
        self, batch: Batch, users: Mapping[str, CommitUser]
    ) -> tuple[Mapping[str, CommitUser], Collection[str]]:
        """The users without other batch statements whose prepared commits are deleted, and those that stay."""
        commits = PreparedCommits(self.table)
        return without_ended_statements(users, own=batch.user, held=lambda: {user_of(name) for name in commits.names()})
