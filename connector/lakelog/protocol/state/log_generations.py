"""The generations of a table's log: one topic each, or a time without a log, in which streams follow the files.

The snapshot property `lakelog.log-generations`, carried from snapshot to snapshot, is a JSON list of the ended
generations, the oldest first:

    [{"topicId": string, "topic": string, "ends": {bucket: offset}, "snapshot": id, "lost": true}]

`snapshot` is the first snapshot of the next generation, which changes no row: a log begins there with offset 0 in each
bucket. `ends` has the offsets after the last record of each bucket. A time without a log has an empty topic id. `lost`
is present for a log that was deleted or cut before it ended: its records are those of the files.
Source: docs/rfcs/0028-life-of-a-log.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.common.errors import ConflictError, CorruptDataError
from lakelog.common.json_fields import COUNT, items, member, number_of, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, carried_properties
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.options import TOPIC, TOPIC_ID
from lakelog.protocol.state.header import CommitHeader, LogMark
from lakelog.protocol.state.state import LogState

GENERATIONS_KEY = "lakelog.log-generations"
NO_LOG_STATE = ""  # the value of the property `lakelog.log` in a table whose log was removed
KEPT_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedGeneration:
    """A generation that ended. `topic_id` and `topic` are empty, and so are `ends`, for a time without a log.

    `is_lost` says that its topic, if it exists, may hold other records than those that were read from it.
    """

    topic_id: str
    topic: str
    ends: Mapping[int, int] = field(default_factory=dict)
    snapshot_id: int
    is_lost: bool = False

    def is_read_to_its_end(self, offsets: Mapping[int, int]) -> bool:
        """Whether no record is left after the offsets. The last record is followed by a control record."""
        return all(offsets.get(bucket, 0) >= end - 1 for bucket, end in self.ends.items())

    def read_beyond(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Bucket -> the offset that was read, if it is after the end: those records were lost with the log."""
        return {bucket: at for bucket, at in offsets.items() if at > self.ends.get(bucket, 0) + 1}


def ended_generations(properties: Mapping[str, str], *, where: str) -> list[EndedGeneration]:
    """The generations that ended before a snapshot, the oldest first, from its properties. Raises CorruptDataError.

    `where` names the snapshot in errors.
    """
    text = properties.get(GENERATIONS_KEY)
    if text is None:
        return []
    try:
        return [_parsed(one) for one in items(parse_object(f'{{"ended":{text}}}'), "ended")]
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"property {GENERATIONS_KEY} of {where} is not readable: {cause(error)}") from error


def ended_before(table: TableStore, snapshot: Snapshot | None) -> list[EndedGeneration]:
    """The generations that ended before a snapshot of a table, the oldest first. Raises CorruptDataError."""
    where = f"table {table.path}, snapshot {snapshot.id if snapshot else 0}"
    return ended_generations(carried_properties(snapshot, table.snapshots).properties, where=where)


def _parsed(given: object) -> EndedGeneration:
    fields = member({"generation": given}, "generation")
    ends = member(fields, "ends")
    return EndedGeneration(
        topic_id=string(fields, "topicId"),
        topic=string(fields, "topic"),
        ends={number_of(bucket, COUNT): whole(ends, bucket, COUNT) for bucket in ends},
        snapshot_id=whole(fields, "snapshot", COUNT),
        is_lost=fields.get("lost") is True,
    )


def with_ended(
    table: TableStore,
    carried: Mapping[str, str],
    *,
    latest: Snapshot | None,
    ends: Mapping[int, int] | None = None,
    is_lost: bool,
) -> dict[str, str]:
    """The property of a snapshot that begins another generation after `latest`, whose properties are `carried`.

    `ends` has the ends of the log of `latest`; None stands for the offsets that `latest` holds.
    """
    number = 0 if latest is None else latest.id
    where = f"table {table.path}, snapshot {number}"
    older = state_of_log(carried, where=where)
    if older is None:
        ended = EndedGeneration(topic_id="", topic="", snapshot_id=number + 1)
    else:
        schema = older_schema(table, older.topic_id)
        held = {bucket: at.offset for bucket, at in older.positions.items()}
        ended = EndedGeneration(
            topic_id=older.topic_id,
            topic="" if schema is None else TOPIC.of(schema.options),
            ends=held if ends is None else ends,
            snapshot_id=number + 1,
            is_lost=is_lost,
        )
    return {GENERATIONS_KEY: generations_to_json([*ended_generations(carried, where=where), ended])}


def generations_to_json(ended: Sequence[EndedGeneration]) -> str:
    """The JSON of the snapshot property, with the last `KEPT_MAX` generations."""
    return json.dumps(
        [
            {
                "topicId": one.topic_id,
                "topic": one.topic,
                "ends": {str(bucket): offset for bucket, offset in sorted(one.ends.items())},
                "snapshot": one.snapshot_id,
                **({"lost": True} if one.is_lost else {}),
            }
            for one in ended[-KEPT_MAX:]
        ],
        separators=(",", ":"),
    )


def state_of_log(properties: Mapping[str, str], *, where: str) -> LogState | None:
    """The state of the log in the properties of a snapshot; None for a table without a log. Raises CorruptDataError."""
    text = properties.get(PropertyKey.LOG_STATE)
    return LogState.from_json(text, where=where) if text else None


def is_ended(headers: Iterable[CommitHeader]) -> bool:
    """Whether a tail with these headers, in log order, belongs to a log that ended: the last mark counts."""
    marks = [header.mark for header in headers if header.mark in (LogMark.END, LogMark.OPEN)]
    return bool(marks) and marks[-1] is LogMark.END


def check_goes_on(headers: Iterable[CommitHeader], *, where: str) -> None:
    """Raise ConflictError if these headers end the log; `where` names the bucket."""
    if is_ended(headers):
        raise ConflictError(
            f"{where} has ended: the table's log was or is being removed or replaced. Nothing was written after the "
            "end. Start the stream again: it continues with its checkpoint. If it fails with this error again, "
            "`lakelog log renew`, `lakelog log remove` or `lakelog table rescale` was cut off: run that command again"
        )


def older_schema(table: TableStore, topic_id: str) -> TableSchema | None:
    """The newest schema of a table that names the topic with this id; None without one."""
    schemas = (table.schemas.get(number) for number in sorted(table.schemas.list_ids(), reverse=True))
    return next((schema for schema in schemas if TOPIC_ID.of(schema.options) == topic_id), None)


def other_log_text(where: str, *, found: str, expected: str, ended: Sequence[EndedGeneration]) -> str:
    """The message about a snapshot whose log is `found`, for a handle of the table with the log `expected`.

    The ids are those of topics; `ended` are the generations that the snapshot names.
    """
    now = f"the log {found}" if found else "no log"
    before = next((one for one in ended if one.topic_id == expected), None)
    if before is not None:
        return (
            f"{where} has {now}: the log {expected} ended at snapshot {before.snapshot_id}, after this reader or "
            "writer had opened the table. Start it again: it continues with its checkpoint"
        )
    return (
        f"{where} belongs to {now}, and the table has the log {expected}: the table got another one since. Name a "
        "newer snapshot; where this is the newest, the call that gave it the log was cut off: run it again (`lakelog "
        "log add`, `lakelog log renew`, `lakelog table rescale` or `lakelog table new-identity PATH`)"
    )
