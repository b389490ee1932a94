"""A position of a table: what a read has seen, or a write has made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import COUNT, member, number_of, optional, parse_object, string, whole
from lakelog.common.quoting import cause, typed
from lakelog.logstore.options import TOPIC_ID

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.metadata.tables import TableStore

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePosition:
    """How far a read of a table goes: a snapshot, and the records of each bucket before an offset of the log.

    `str()` gives a token, which `parse` reads again: {"v": 1, "table": uuid, "branch": name, "snapshot": number, 0
    before the first, "topic": topic id, "offsets": {bucket: next offset}, "stream": object}; without a log "topic" and
    "offsets" are absent. `stream` is what a stream knows of its own place, for the stream that goes on there.
    """

    table_uuid: str
    branch: str
    snapshot_id: int
    topic_id: str | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    stream: Mapping[str, object] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        fields: dict[str, object] = {
            "v": _VERSION,
            "table": self.table_uuid,
            "branch": self.branch,
            "snapshot": self.snapshot_id,
        }
        if self.topic_id is not None:
            fields["topic"] = self.topic_id
            fields["offsets"] = {str(bucket): at for bucket, at in sorted(self.offsets.items())}
        if self.stream is not None:
            fields["stream"] = dict(self.stream)
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def parse(cls, token: str) -> TablePosition:
        """The position of a token. Raises InvalidRequestError."""
        try:
            fields = parse_object(token.encode())
            if whole(fields, "v") != _VERSION:
                raise ValueError(f"version {fields['v']}, expected {_VERSION}")
            topic_id = optional(string, fields, "topic")
            offsets = {} if topic_id is None else member(fields, "offsets")
            return cls(
                table_uuid=string(fields, "table"),
                branch=string(fields, "branch"),
                snapshot_id=whole(fields, "snapshot", COUNT),
                topic_id=topic_id,
                offsets={number_of(bucket): whole(offsets, bucket, COUNT) for bucket in offsets},
                stream=optional(member, fields, "stream"),
            )
        except (KeyError, ValueError) as error:
            raise InvalidRequestError(
                f"{token!r} is not the position of a table: {cause(error)}; a position is what `position` of a read "
                "gives, as it is or by str()"
            ) from error

    @classmethod
    def given(cls, table: TableStore, position: object) -> TablePosition:
        """A position as users give it: as it is, as its text, or as a snapshot. Raises InvalidRequestError."""
        from lakelog.filestore.metadata.snapshots import Snapshot  # noqa: PLC0415  # needs Arrow

        if isinstance(position, cls):
            return position
        if isinstance(position, str):
            return cls.parse(position)
        if isinstance(position, Snapshot):
            return cls.of_snapshot(table, position)
        raise InvalidRequestError(
            f"found {typed(position)}; expected a snapshot, or the position of a batch or read, as it is or by str()"
        )

    @classmethod
    def of_snapshot(cls, table: TableStore, snapshot: Snapshot | None) -> TablePosition:
        """The position of a snapshot of a table; None is the state before the first. Raises CorruptDataError."""
        from lakelog.filestore.metadata.tables import carried_by  # noqa: PLC0415  # needs Arrow
        from lakelog.protocol.state.log_generations import state_of_log  # noqa: PLC0415  # likewise

        snapshot_id = 0 if snapshot is None else snapshot.id
        where = f"table {table.path}, snapshot {snapshot_id}"
        log = state_of_log(carried_by(table, snapshot).properties, where=where) if table.has_log else None
        topic_id = TOPIC_ID.of(table.schema.options) if table.has_log else None  # of a log that begins
        return cls(
            table_uuid=table.uuid,
            branch=table.branch,
            snapshot_id=snapshot_id,
            topic_id=topic_id if log is None else log.topic_id,
            offsets={} if log is None else {bucket: at.offset for bucket, at in sorted(log.positions.items())},
        )

    def check_is_of(self, table_uuid: str, branch: str) -> None:
        """Raise InvalidRequestError unless this is a position of a branch of a table."""
        if (self.table_uuid, self.branch) != (table_uuid, branch):
            raise InvalidRequestError(
                f"the position is of table {self.table_uuid}, branch {self.branch}; this is table {table_uuid}, "
                f"branch {branch}"
            )

    def covers(self, other: TablePosition) -> bool:
        """Whether a read up to here has everything that one up to the other position has.

        Positions of two logs, as before and after a rescale, are compared by their snapshots: a log ends in one. Raises
        InvalidRequestError for the position of another table or branch.
        """
        other.check_is_of(self.table_uuid, self.branch)
        if other.topic_id is None or self.topic_id is None:
            return self.snapshot_id >= other.snapshot_id
        if self.topic_id != other.topic_id:
            return self.snapshot_id > other.snapshot_id
        return covers(self.offsets, other.offsets)


def covers(offsets: Mapping[int, int], others: Mapping[int, int]) -> bool:
    """Whether offsets of a log, bucket -> next offset, are at others or behind them. Pure."""
    return all(offsets.get(bucket, 0) >= at for bucket, at in others.items())
