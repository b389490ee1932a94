"""Offsets of the streaming source: how far a query has read a table. Spark keeps them as JSON in the checkpoint.

Every offset has {"lakelog": 1, "table": uuid, "name": "db.t"} and one of the following:

    start       {"start": "full" | "latest" | ...}    nothing is read; where to start is decided by the first batch
    snapshot    {"snapshot": id, "split": k, "commit": uuid, "tag": name}
                                                      the first k splits of this snapshot are read
    log         {"topic": topic id, "log": {bucket: offset}, "counts": {bucket: [records, bytes]}, "consumed": id,
                 "commit": uuid, "epochs": {bucket: leader epoch}, "rows": boolean, "exact": boolean}
    follow      {"consumed": id, "commit": uuid, "rows": boolean}
                                                      a table without a log: snapshots up to this one are read

`table` is the uuid, or for a table of another engine its creation time; `commit` is the uuid of the snapshot, if it has
one: a rollback gives its number to another snapshot. Offsets of older versions of lakelog have no `commit`, and an
empty `table` for tables of other engines. `tag` keeps the snapshot, if the query started from a tag.
`log` holds the next offset to read. `counts` are the running totals at the newest snapshot whose offset of the bucket
is not past `log`: their differences say exactly how many records lie between two snapshots. `consumed` is the newest
snapshot that is read completely; a `start` that reads a snapshot in one batch ends at the snapshot's own log offsets.
`epochs` were current when the log had reached these offsets: they show whether it is still the same log. Offsets from
older versions of lakelog have no epochs.
`exact` says whether these are exactly the offsets that the snapshot `consumed` holds; older versions of lakelog did not
write it. `group` is in the offsets of the streams of a group: {identity of a table: [snapshot, commit]} of all its
members. `rows` is in the offset at the end of a stream's first batch: whether the batch reads the rows of the snapshot
`consumed`, or only fixes where the stream starts. A batch that is run again does the same, whatever the options are by
then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any  # Any: JSON objects as Spark passes them

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.common.json_fields import COUNT, items, member, number_of, optional, string, whole
from lakelog.common.quoting import CAUSE_MAX, cause, cut, shown
from lakelog.filestore.metadata.origins import TableVersion
from lakelog.filestore.metadata.tables import MADE_PREFIX
from lakelog.protocol.state import LogState

OFFSET_MARK = "lakelog"
OFFSET_VERSION = 1

Positions = Mapping[str, TableVersion]
"""The snapshots up to which the streams of a group have read, by the identities of their tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMark:
    """Which table an offset belongs to. `uuid` is its identity, see `filestore.metadata.identity.identity_of`."""

    uuid: str
    name: str

    def is_of(self, given: object) -> bool:
        """Whether the table that an offset names may be this one."""
        return given == self.uuid or (given == "" and self.uuid.startswith(MADE_PREFIX))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOffset:
    """Nothing is read yet. It must be the same every time Spark asks, since Spark does not store it."""

    start: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOffset:
    """The first `split` splits of a snapshot, made by `commit`, are read. None means unknown.

    With `tag`, it is the snapshot that this tag keeps.
    """

    snapshot: int
    split: int
    commit: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCount:
    """Running totals of a bucket's log at a snapshot."""

    records: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffset:
    """The log is read up to these offsets, exclusive. `reads_rows` is set at the end of a first batch.

    `commit` made the snapshot `consumed`. `is_exact` says that nothing after that snapshot is read. None means unknown.
    """

    topic_id: str
    offsets: Mapping[int, int]
    counts: Mapping[int, BucketCount]
    consumed: int
    epochs: Mapping[int, int] = field(default_factory=dict)
    commit: str | None = None
    reads_rows: bool | None = None
    is_exact: bool | None = None
    group: Positions | None = None

    @classmethod
    def of_snapshot(cls, snapshot_id: int, log: LogState, bucket_count: int, *, commit: str | None = None) -> LogOffset:
        """Where the log continues after a snapshot, which `commit` made."""
        positions = {bucket: log.position(bucket) for bucket in range(bucket_count)}
        return cls(
            topic_id=log.topic_id,
            offsets={bucket: position.offset for bucket, position in positions.items()},
            counts={
                bucket: BucketCount(records=position.records, size_bytes=position.size_bytes)
                for bucket, position in positions.items()
            },
            consumed=snapshot_id,
            commit=commit,
            is_exact=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOffset:
    """The snapshots up to `consumed`, made by `commit`, are read. None means unknown.

    `reads_rows` is set at the end of a first batch.
    """

    consumed: int
    commit: str | None = None
    reads_rows: bool | None = None
    group: Positions | None = None


Offset = StartOffset | SnapshotOffset | LogOffset | FollowOffset


def offset_to_json(offset: Offset, mark: TableMark) -> dict[str, Any]:
    """The JSON object of an offset, always in the same order: Spark compares its text."""
    fields: dict[str, Any] = {OFFSET_MARK: OFFSET_VERSION, "table": mark.uuid, "name": mark.name}
    match offset:
        case StartOffset():
            fields["start"] = offset.start
        case SnapshotOffset():
            fields |= {"snapshot": offset.snapshot, "split": offset.split}
        case LogOffset():
            fields["topic"] = offset.topic_id
            fields["log"] = {str(bucket): offset.offsets[bucket] for bucket in sorted(offset.offsets)}
            fields["counts"] = {
                str(bucket): [count.records, count.size_bytes] for bucket, count in sorted(offset.counts.items())
            }
            fields["consumed"] = offset.consumed
            if offset.epochs:
                fields["epochs"] = {str(bucket): epoch for bucket, epoch in sorted(offset.epochs.items())}
        case FollowOffset():
            fields["consumed"] = offset.consumed
    if not isinstance(offset, StartOffset) and offset.commit is not None:
        fields["commit"] = offset.commit
    if isinstance(offset, SnapshotOffset) and offset.tag is not None:
        fields["tag"] = offset.tag
    if isinstance(offset, LogOffset | FollowOffset) and offset.reads_rows is not None:
        fields["rows"] = offset.reads_rows
    if isinstance(offset, LogOffset) and offset.is_exact is not None:
        fields["exact"] = offset.is_exact
    if isinstance(offset, LogOffset | FollowOffset) and offset.group is not None:
        fields["group"] = positions_to_json(offset.group)
    return fields


def offset_from_json(fields: Mapping[str, Any], mark: TableMark) -> Offset:
    """Parse an offset. Raises InvalidRequestError when it belongs to another table, CorruptDataError otherwise."""
    if not mark.is_of(fields.get("table", mark.uuid)):
        raise InvalidRequestError(
            f"the checkpoint belongs to table {cut(str(fields.get('name')))} "
            f"({cut(str(fields['table']))}), the query reads {mark.name} ({mark.uuid}): the "
            "table was created again, or another one is read. Use a new checkpoint location"
        )
    try:
        if fields[OFFSET_MARK] != OFFSET_VERSION:
            raise ValueError(f"version {shown(fields[OFFSET_MARK])}, expected {OFFSET_VERSION}")
        if "start" in fields:
            return StartOffset(start=string(fields, "start"))
        if "snapshot" in fields:
            return SnapshotOffset(
                snapshot=whole(fields, "snapshot", COUNT),
                split=whole(fields, "split", COUNT),
                commit=optional(string, fields, "commit"),
                tag=optional(string, fields, "tag"),
            )
        if "log" in fields:
            offsets, counts = member(fields, "log"), member(fields, "counts")
            epochs = member(fields, "epochs") if "epochs" in fields else {}
            return LogOffset(
                topic_id=string(fields, "topic"),
                offsets={number_of(bucket, COUNT): whole(offsets, bucket, COUNT) for bucket in offsets},
                counts={number_of(bucket, COUNT): _parse_count(counts, bucket) for bucket in counts},
                consumed=whole(fields, "consumed", COUNT),
                epochs={number_of(bucket, COUNT): whole(epochs, bucket, COUNT) for bucket in epochs},
                commit=optional(string, fields, "commit"),
                reads_rows=optional(_flag, fields, "rows"),
                is_exact=optional(_flag, fields, "exact"),
                group=_group_of(fields),
            )
        return FollowOffset(
            consumed=whole(fields, "consumed", COUNT),
            commit=optional(string, fields, "commit"),
            reads_rows=optional(_flag, fields, "rows"),
            group=_group_of(fields),
        )
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"the source offset {cut(str(dict(fields)), CAUSE_MAX)} in the checkpoint is not readable: {cause(error)}"
        ) from error


def positions_to_json(positions: Positions) -> dict[str, list[object]]:
    """The JSON object of positions, always in the same order."""
    return {table: [at.snapshot_id, at.commit] for table, at in sorted(positions.items())}


def positions_of(fields: Mapping[str, Any]) -> Positions:
    """Parse the JSON object. Raises ValueError or KeyError."""
    found: dict[str, TableVersion] = {}
    for table in fields:
        number, commit = items(fields, table, length=2)
        one = {"snapshot": number} | ({} if commit is None else {"commit": commit})
        found[table] = TableVersion(snapshot_id=whole(one, "snapshot", COUNT), commit=optional(string, one, "commit"))
    return found


def _group_of(fields: Mapping[str, Any]) -> Positions | None:
    return positions_of(member(fields, "group")) if "group" in fields else None


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    found = fields[key]
    if not isinstance(found, bool):
        raise ValueError(f"{key} must be true or false, found {shown(found)}")  # noqa: TRY004  # one error
    return found


def _parse_count(counts: Mapping[str, Any], bucket: str) -> BucketCount:
    records, size = items(counts, bucket, length=2)
    found = {"records": records, "bytes": size}
    return BucketCount(records=whole(found, "records", COUNT), size_bytes=whole(found, "bytes", COUNT))
