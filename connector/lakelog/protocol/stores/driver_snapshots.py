"""The port of the driver, implemented for a Paimon table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.filestore.commit import CommitRequest, TableCommit
from lakelog.filestore.compact import CompactResult, compact_request
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.snapshots import (
    LINEAGE_KEY,
    LOG_STATE_KEY,
    UNTRACKED_KEY,
    CommitKind,
    CommitUser,
    Snapshot,
    users_properties,
)
from lakelog.filestore.metadata.tables import PLACE_KEY, TableStore, carried_by
from lakelog.filestore.options import USERS_TIME_RETAINED
from lakelog.filestore.write import add_entry
from lakelog.protocol.state.ports import Decide, SnapshotChange
from lakelog.protocol.state.prepared import STATEMENT_RETAINED_MILLIS, PreparedCommits, user_of, without_old_statements
from lakelog.protocol.state.state import Batch, TableState
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

    def append(self, batch: Batch, decide: Decide) -> int | None:
        """Make an APPEND snapshot of the change that `decide` gives; it is called again at every attempt."""

        def resolve(latest: Snapshot | None) -> CommitRequest | None:
            change = decide(self._state(latest))
            return None if change is None else self._request(batch, change, latest)

        snapshot = TableCommit(self.table).commit(resolve)
        return None if snapshot is None else snapshot.id

    def compact(self, batch: Batch, buckets: Sequence[CompactResult]) -> int:
        """Make a COMPACT snapshot. Raises ConflictError when an input was replaced."""
        request = compact_request(self.table, buckets, user=batch.user, identifier=batch.identifier)
        snapshot = TableCommit(self.table).commit(lambda _latest: request)
        assert snapshot is not None
        return snapshot.id

    def _state(self, snapshot: Snapshot | None) -> TableState:
        return read_state(self.table, snapshot, topic_id=self.topic_id, allows_foreign=self.allows_foreign)

    def _request(self, batch: Batch, change: SnapshotChange, latest: Snapshot | None) -> CommitRequest:
        lineage = {"batches": [dict(entry) for entry in change.lineage]}
        taken = () if change.log is None else change.log.taken()
        users, held = self._statements_kept(change.users, latest)
        properties = users_properties(
            users,
            latest=latest,
            carried=carried_by(self.table, latest).properties,
            options=self.table.schema.options,
            in_use={batch.user, *held, *(user for user, _ in taken)},
        )
        properties[LINEAGE_KEY] = json.dumps(lineage)
        if change.untracked:
            properties[UNTRACKED_KEY] = json.dumps([dict(entry) for entry in change.untracked])
        if change.log is not None:
            properties |= {LOG_STATE_KEY: change.log.to_json(), PLACE_KEY: self.table.path}
        properties |= change.properties
        return CommitRequest(
            commit_user=batch.user,
            commit_identifier=batch.identifier,
            kind=CommitKind.APPEND,
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
        self, users: Mapping[str, CommitUser], latest: Snapshot | None
    ) -> tuple[Mapping[str, CommitUser], Collection[str]]:
        """The users without old batch statements whose prepared commits are deleted, and the old statements that stay.

        A statement is old after STATEMENT_RETAINED_MILLIS, or after `users.time-retained` if that is shorter.
        """
        if latest is None:
            return users, ()
        retained = min(USERS_TIME_RETAINED.of(self.table.schema.options), STATEMENT_RETAINED_MILLIS)
        before = latest.time_millis - retained
        commits = PreparedCommits(self.table)
        return without_old_statements(
            users, before_millis=before, held=lambda: {user_of(name) for name in commits.names()}
        )
