"""Marks of writers: what each has acknowledged that may be in the log alone.

A mark is the JSON object {"v": 1, "table": uuid, "topicId": string, "user": string, "identifier": number, "digest":
string or null, "ends": {bucket: [end of its last transaction, identifier of that batch]}, "rowless": [{"identifier":
number, "lineage": object, "watermark": number or absent}], "unreported": [identifier]} in
`consumer/log-writer-<digest of the user>`. It is put after a batch is whole in the log and before the batch is
acknowledged; the last one counts. The next run of the writer finds by it that the log has lost what no batch writes
again. Source: docs/rfcs/0049-log-first.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.json_fields import (
    COUNT,
    items,
    member,
    number_of,
    objects,
    optional,
    parse_object,
    string,
    whole,
)
from lakelog.common.quoting import cause
from lakelog.filestore.io import FileEntry
from lakelog.filestore.metadata.snapshots import CommitUser, with_user
from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.state.batch_lineage import lineage_of, unique_batches
from lakelog.protocol.state.ports import SnapshotChange
from lakelog.protocol.state.state import Batch, LogState, TableState, batches_behind, check_same_batch

VERSION = 1
_PREFIX = "log-writer-"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterMark:
    """The last batch of a writer that was whole in the log, with the source digest of its offsets.

    `ends` are those of its last transaction in each bucket that was in no snapshot: bucket -> (end, identifier).
    `rowless` are its batches without a transaction that were in no snapshot: only the mark says what they were made
    from. `unreported` are the batches that its listeners may not have heard of, in order.
    """

    table_uuid: str
    topic_id: str
    user: str
    identifier: int
    digest: str | None
    ends: Mapping[int, tuple[int, int]]
    rowless: tuple[Batch, ...] = ()
    unreported: tuple[int, ...] = ()

    def rowless_behind(self, users: Mapping[str, CommitUser]) -> tuple[Batch, ...]:
        """Its batches without a transaction that a snapshot with these users does not have. Pure."""
        return batches_behind(self.rowless, users)

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps(
            {
                "v": VERSION,
                "table": self.table_uuid,
                "topicId": self.topic_id,
                "user": self.user,
                "identifier": self.identifier,
                "digest": self.digest,
                "ends": {str(bucket): list(at) for bucket, at in sorted(self.ends.items())},
                "rowless": [_rowless_json(one) for one in self.rowless],
                "unreported": list(self.unreported),
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> WriterMark:
        """Parse a mark; `where` is its file. Raises CorruptDataError."""
        try:
            fields = parse_object(text)
            if whole(fields, "v") != VERSION:
                raise ValueError(f"version {fields['v']}, expected {VERSION}")
            ends, user = member(fields, "ends"), string(fields, "user")
            identifier = whole(fields, "identifier", COUNT)
            to_it = range(identifier + 1)
            return cls(
                table_uuid=string(fields, "table"),
                topic_id=string(fields, "topicId"),
                user=user,
                identifier=identifier,
                digest=optional(string, fields, "digest"),
                ends={number_of(bucket): _end(ends, bucket) for bucket in ends},
                rowless=tuple(_rowless(user, one, to_it) for one in optional(objects, fields, "rowless") or ()),
                unreported=tuple(
                    whole({"one": one}, "one", to_it) for one in optional(items, fields, "unreported") or ()
                ),
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"the mark of a writer, {where}, is not readable: {cause(error)}. It says what must be in the log; "
                "delete it where nothing was lost"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBatches:
    """What earlier runs have left: the buckets with records behind the snapshot, and what only the writer's mark says.

    `rowless` are its batches without a transaction that are in no snapshot, `unreported` those that its listeners may
    not have heard of; the oldest first.
    """

    buckets: tuple[int, ...] = ()
    rowless: tuple[Batch, ...] = ()
    unreported: tuple[int, ...] = ()

    @classmethod
    def of(cls, mark: WriterMark, batch: Batch, state: TableState, *, buckets: Iterable[int] = ()) -> LeftBatches:
        """What a mark has of the batches before one that is written on a snapshot. Pure.

        Raises InvalidRequestError for a batch that was acknowledged with other source offsets, or is before such a one.
        """
        if mark.identifier >= batch.identifier:
            check_same_batch(batch, mark.identifier, mark.digest, where="the mark of its writer")
        return cls(
            buckets=tuple(buckets),
            rowless=tuple(one for one in mark.rowless_behind(state.users) if one.identifier < batch.identifier),
            unreported=tuple(one for one in mark.unreported if one < batch.identifier),
        )

    @property
    def waits(self) -> bool:
        """Whether the next snapshot of the writer is made for them too."""
        return bool(self.rowless or self.unreported)


NOTHING_LEFT = LeftBatches()


def _rowless_json(batch: Batch) -> dict[str, object]:
    fields: dict[str, object] = {"identifier": batch.identifier, "lineage": dict(batch.lineage)}
    return fields if batch.watermark_millis is None else {**fields, "watermark": batch.watermark_millis}


def _rowless(user: str, fields: Mapping[str, object], allowed: range) -> Batch:
    return Batch(
        user=user,
        identifier=whole(fields, "identifier", allowed),
        source_digest=None,
        lineage=member(fields, "lineage"),
        watermark_millis=optional(whole, fields, "watermark"),
    )


def _end(ends: Mapping[str, object], bucket: str) -> tuple[int, int]:
    end, identifier = items(ends, bucket, length=2)
    found = {"end": end, "identifier": identifier}
    return whole(found, "end", COUNT), whole(found, "identifier", COUNT)


class WriterMarks:
    """The marks of the writers of one table."""

    def __init__(self, table: TableStore, topic_id: str) -> None:
        """Marks that belong to the topic with this id; those of other topics do not count. Does no I/O."""
        self._table = table
        self._topic_id = topic_id

    def put(self, mark: WriterMark) -> None:
        """Replace the mark of its user: one small file."""
        self._table.file_io.write_bytes(self._path(mark.user), mark.to_json().encode())

    def find(self, user: str) -> WriterMark | None:
        """The mark of a user; None without one, and for one of another topic or table. Raises CorruptDataError."""
        found = self._read(self._path(user))
        return found if found is not None and found.user == user else None

    def all(self) -> list[WriterMark]:
        """The marks of all writers, in no order. One listing. Raises CorruptDataError."""
        folder, found = self._table.paths.consumer_dir, []
        for name in self._table.file_io.list_names(folder):
            if name.startswith(_PREFIX) and (mark := self._read(f"{folder}/{name}")) is not None:
                found.append(mark)
        return found

    def ended(self, state: TableState, *, before_millis: int) -> list[tuple[str, FileEntry]]:
        """The files, by their paths, of marks that no run of a writer asks for. One listing. Raises CorruptDataError.

        They are older than a time, and of another topic or table; or a snapshot of this `state` has what they name, and
        has dropped the writer (`users.time-retained`), who is refused when it comes back. A writer of batches without
        a transaction may be one that no snapshot knows yet: its mark ends when writers as old as it were dropped.
        """
        folder, found = self._table.paths.consumer_dir, []
        for entry in self._table.file_io.list_entries(folder):
            path = f"{folder}/{entry.name}"
            if not entry.name.startswith(_PREFIX) or entry.modified_millis >= before_millis:
                continue
            mark = self._read(path)
            if mark is None:
                found.append((path, entry))
                continue
            was_known = not mark.rowless or entry.modified_millis <= (state.forgotten_millis or 0)
            if mark.user not in state.users and was_known and is_reached(mark, state.logged):
                found.append((path, entry))
        return found

    def _read(self, path: str) -> WriterMark | None:
        """The mark in a file; None without the file, and for one of another topic or table."""
        try:
            found = WriterMark.from_json(self._table.file_io.read_bytes(path), where=path)
        except NotFoundError:
            return None
        return found if (found.table_uuid, found.topic_id) == (self._table.uuid, self._topic_id) else None

    def _path(self, user: str) -> str:
        return f"{self._table.paths.consumer_dir}/{_PREFIX}{hashlib.sha256(user.encode()).hexdigest()[:32]}"


def is_reached(mark: WriterMark, log: LogState) -> bool:
    """Whether a snapshot has each bucket up to the end that a mark names. Pure."""
    return all(log.position(bucket).offset >= end for bucket, (end, _) in mark.ends.items())


def with_marks(
    change: SnapshotChange,
    find: Callable[[str], WriterMark | None],
    *,
    now_millis: int,
    also: Iterable[str] = (),
) -> SnapshotChange:
    """The snapshot with the last whole batch of each writer in its ledger, and `also` of others, if it has reached it.

    `find` reads the mark of a writer. A mark says that all batches up to its own are whole in the log. Where the
    snapshot has each bucket up to the end that the mark names, it has these batches, and they need no ledger. What the
    batches without a transaction were made from is recorded with them.
    """
    waiting = {*also, *(() if change.log is None else (user for user, _ in change.log.taken()))}
    users, rowless = dict(change.users), list[Batch]()
    for mark in filter(None, map(find, sorted(waiting))):
        assert change.log is not None, "a ledger is that of a log"
        last = users.get(mark.user)
        if is_reached(mark, change.log) and (last is None or last.identifier < mark.identifier):
            rowless += mark.rowless_behind(users)
            job = None if last is None else last.job
            done = CommitUser(identifier=mark.identifier, digest=mark.digest, time_millis=now_millis, job=job)
            users = with_user(users, mark.user, done)
    found = replace(change, users=users, log=None if change.log is None else change.log.pruned(users))
    if not rowless:
        return found
    marked = (lineage_of(one.user, one.identifier, one.lineage) for one in rowless)
    watermarks = (change.watermark_millis, *(one.watermark_millis for one in rowless))
    return replace(
        found,
        lineage=unique_batches([*change.lineage, *marked]),
        watermark_millis=max((one for one in watermarks if one is not None), default=None),
    )
