"""The state of the log in a snapshot: positions and ledger; and the identity of batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.common.json_fields import COUNT, items, member, number_of, optional, parse_object, whole
from lakelog.common.json_fields import string as take_text
from lakelog.common.quoting import cause
from lakelog.filestore.commit import CHECKPOINT_CHANGED, is_done
from lakelog.filestore.metadata.snapshots import CommitUser, NamedJob, PropertyKey, is_same_source


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The position of a snapshot in one bucket of the log.

    `offset` is the next record to read. `records` and `size_bytes` count everything before it since the topic was
    created: offsets have gaps (control records, aborted transactions) and must not be subtracted. `sequence` is the
    next sequence number of the bucket's files. The log had reached `epoch_offset` in `leader_epoch`: it is the same
    log as long as that epoch does not end before.
    """

    offset: int = 0
    leader_epoch: int | None = None
    records: int = 0
    size_bytes: int = 0
    sequence: int = 0
    epoch_offset: int = 0


_START = LogPosition()
_BUCKETS = range(1, 1 << 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBatch:
    """A batch that another writer took in before the batch's own snapshot. `digest` is that of its header."""

    identifier: int
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedParts:
    """Parts of unfinished batches that were in a table when it was rescaled.

    `ledger` is that of its log state at that time, when it had `bucket_count` buckets: the rows of such a batch in
    these buckets are in the table.
    """

    bucket_count: int
    ledger: Mapping[int, Mapping[str, TakenBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The state of the log in one snapshot. Stored as JSON in the snapshot's property `lakelog.log`:

    {"topicId": string, "positions": {bucket: [offset, leader epoch or null, records, bytes, sequence, epoch offset]},
     "ledger": {bucket: {user: [identifier, digest or null]}}, "abandoned": {user: identifier},
     "moved": [{"buckets": number, "ledger": as above}]}

    The ledger names transactions in the snapshot that belong to a batch whose own snapshot is still to come;
    `abandoned` names those of these batches for which readers do not wait, see
    `lakelog.protocol.statements.unfinished`. `moved` has the parts that were in the table before it got its present
    buckets, the oldest first. Ledgers of older snapshots have only the identifier, and their positions have no epoch
    offset; without abandoned batches or moved parts the key is absent.
    """

    topic_id: str
    positions: Mapping[int, LogPosition] = field(default_factory=dict)
    ledger: Mapping[int, Mapping[str, TakenBatch]] = field(default_factory=dict)
    abandoned: Mapping[str, int] = field(default_factory=dict)
    moved: tuple[MovedParts, ...] = ()

    def position(self, bucket: int) -> LogPosition:
        """The position of `bucket`; the start of the log if the bucket has none."""
        return self.positions.get(bucket, _START)

    def to_json(self) -> str:
        """The JSON of the snapshot property."""
        positions = {
            str(bucket): [at.offset, at.leader_epoch, at.records, at.size_bytes, at.sequence, at.epoch_offset]
            for bucket, at in sorted(self.positions.items())
        }
        ledger = _ledger_fields(self.ledger)
        fields: dict[str, object] = {"topicId": self.topic_id, "positions": positions, "ledger": ledger}
        if self.abandoned:
            fields["abandoned"] = dict(sorted(self.abandoned.items()))
        if self.moved:
            fields["moved"] = [
                {"buckets": one.bucket_count, "ledger": _ledger_fields(one.ledger)} for one in self.moved
            ]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str, *, where: str) -> LogState:
        """Parse the property; `where` names the snapshot in errors. Raises CorruptDataError."""
        try:
            fields = parse_object(text)
            positions, ledger = member(fields, "positions"), member(fields, "ledger")
            abandoned = member(fields, "abandoned") if "abandoned" in fields else {}
            moved = items(fields, "moved") if "moved" in fields else []
            return cls(
                topic_id=take_text(fields, "topicId"),
                positions={number_of(bucket): _parse_position(positions, bucket) for bucket in positions},
                ledger=_parse_ledgers(ledger),
                abandoned={user: whole(abandoned, user) for user in abandoned},
                moved=tuple(_parse_moved(one) for one in moved),
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"property {PropertyKey.LOG_STATE} of {where} is not readable: {cause(error)}"
            ) from error

    def is_whole(self) -> bool:
        """True when the snapshot holds no part of another writer's unfinished batch."""
        return not any(self.ledger.values()) and not self.moved

    def taken(self) -> list[tuple[str, TakenBatch]]:
        """The user and the batch of each part that is in the snapshot."""
        ledgers = [self.ledger, *(one.ledger for one in self.moved)]
        return [(user, one) for ledger in ledgers for users in ledger.values() for user, one in users.items()]

    def pruned(self, users: Mapping[str, CommitUser]) -> LogState:
        """The state without the batches whose own snapshot exists, according to the users of a snapshot."""
        ledgers = [(one, prune_ledger(one.ledger, users)) for one in self.moved]
        left = replace(
            self,
            ledger=prune_ledger(self.ledger, users),
            moved=tuple(replace(one, ledger=ledger) for one, ledger in ledgers if ledger),
        )
        named = {(user, one.identifier) for user, one in left.taken()}
        abandoned = {user: number for user, number in self.abandoned.items() if (user, number) in named}
        return replace(left, abandoned=abandoned)


def _ledger_fields(ledger: Mapping[int, Mapping[str, TakenBatch]]) -> dict[str, object]:
    return {
        str(bucket): {user: [taken.identifier, taken.digest] for user, taken in users.items()}
        for bucket, users in sorted(ledger.items())
        if users
    }


def _parse_position(positions: Mapping[str, Any], bucket: str) -> LogPosition:
    names = ["offset", "leader epoch", "records", "bytes", "sequence", "epoch offset"]
    values = items(positions, bucket)
    length = len(names) - 1 if len(values) == len(names) - 1 else len(names)  # positions of older snapshots are shorter
    found = {"epoch offset": 0} | dict(zip(names, items(positions, bucket, length=length), strict=False))
    return LogPosition(
        offset=whole(found, "offset", COUNT),
        leader_epoch=optional(whole, found, "leader epoch"),
        records=whole(found, "records", COUNT),
        size_bytes=whole(found, "bytes", COUNT),
        sequence=whole(found, "sequence", COUNT),
        epoch_offset=whole(found, "epoch offset", COUNT),
    )


def _parse_moved(given: object) -> MovedParts:
    fields = member({"moved": given}, "moved")
    return MovedParts(bucket_count=whole(fields, "buckets", _BUCKETS), ledger=_parse_ledgers(member(fields, "ledger")))


def _parse_ledgers(ledger: Mapping[str, Any]) -> dict[int, dict[str, TakenBatch]]:
    return {number_of(bucket): _parse_ledger(member(ledger, bucket)) for bucket in ledger}


def _parse_ledger(users: Mapping[str, Any]) -> dict[str, TakenBatch]:
    return {user: _parse_taken(users, user) for user in users}


def _parse_taken(users: Mapping[str, Any], user: str) -> TakenBatch:
    if not isinstance(users[user], list):
        return TakenBatch(identifier=whole(users, user))
    identifier, digest = items(users, user, length=2)
    found = {"identifier": identifier, "digest": digest}
    return TakenBatch(identifier=whole(found, "identifier"), digest=optional(take_text, found, "digest"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What the protocol knows of the newest snapshot; `snapshot_id` 0 is the state before the first snapshot.

    `log` is None for a table without a log. `forgotten_millis` is the latest commit of any user that was dropped; None
    when no user was dropped. `place` is the folder that a table with a log has recorded as its own.
    """

    snapshot_id: int
    users: Mapping[str, CommitUser]
    log: LogState | None
    forgotten_millis: int | None = None
    place: str | None = None

    def holds(self, user: str, identifier: int) -> bool:
        """Whether the snapshot has a user's batch, as a whole."""
        return user in self.users and self.users[user].identifier >= identifier

    @property
    def logged(self) -> LogState:
        """The log state of a table that has a log."""
        assert self.log is not None, "a table without a log was given to a step of the log protocol"
        return self.log


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The identity of a micro-batch in the table's history.

    `user` is stable for (query, table), `identifier` is Spark's batch id. `source_digest` distinguishes a replay
    (same source offsets) from a reset checkpoint (same id, other data); None when it cannot be known.
    `watermark_millis` is the event-time watermark in force, milliseconds since 1970; None without one. `job` is None
    for a batch whose job has no name.
    """

    user: str
    identifier: int
    source_digest: str | None
    lineage: Mapping[str, object] = field(default_factory=dict)
    watermark_millis: int | None = None
    job: NamedJob | None = None


def batches_behind(batches: Iterable[Batch], users: Mapping[str, CommitUser]) -> tuple[Batch, ...]:
    """The batches that a snapshot with these users does not have. Pure."""
    return tuple(one for one in batches if one.user not in users or users[one.user].identifier < one.identifier)


def check_same_batch(batch: Batch, identifier: int, digest: str | None, *, where: str) -> None:
    """Raise InvalidRequestError when an earlier attempt of this batch had other source offsets.

    `identifier` and `digest` are those of the found batch, `where` names where it was found.
    """
    if identifier == batch.identifier and is_same_source(digest, batch.source_digest):
        return
    found = "was written with other source offsets" if identifier == batch.identifier else "is too old"
    raise InvalidRequestError(
        f"batch {batch.identifier} of {batch.user} {found}: {where} holds batch {identifier} with the source digest "
        f"{digest}, this one has {batch.source_digest}. Nothing of it is written. {CHECKPOINT_CHANGED}; records of "
        "the batch in the log are taken in as they are by the next writer"
    )


def is_committed(state: TableState, batch: Batch) -> bool:
    """Whether the newest snapshot holds the batch, or a later one of its user.

    Raises InvalidRequestError when it holds it with other source offsets.
    """
    what = f"batch {batch.identifier} of {batch.user} (newest snapshot: {state.snapshot_id})"
    return is_done(state.users.get(batch.user), batch.identifier, batch.source_digest, what=what)


def prune_ledger(
    ledger: Mapping[int, Mapping[str, TakenBatch]], users: Mapping[str, CommitUser]
) -> dict[int, dict[str, TakenBatch]]:
    """The ledger without the batches whose own snapshot exists."""
    kept: dict[int, dict[str, TakenBatch]] = {}
    for bucket, taken in ledger.items():
        left = {
            user: one for user, one in taken.items() if user not in users or users[user].identifier < one.identifier
        }
        if left:
            kept[bucket] = left
    return kept


def advance(
    position: LogPosition,
    *,
    offset: int,
    leader_epoch: int | None,
    epoch_offset: int = 0,
    records: int,
    size_bytes: int,
    sequence: int,
) -> LogPosition:
    """The position after `records` more records of `size_bytes` bytes, up to `offset`."""
    return replace(
        position,
        offset=offset,
        leader_epoch=leader_epoch if leader_epoch is not None else position.leader_epoch,
        epoch_offset=epoch_offset if leader_epoch is not None else position.epoch_offset,
        records=position.records + records,
        size_bytes=position.size_bytes + size_bytes,
        sequence=max(position.sequence, sequence),
    )
