"""Snapshots whose changes streams of the table do not get, kept after they have expired: `lakelog.unseen`.

    {"snapshots": [{"snapshot": id, "commit": uuid}, {"from": id, "snapshot": id, "commit": uuid}, ...]}

A stream that follows the files passes over an overwrite: it is not a change, unless it has a changelog. Each commit
carries the property on, so that the oldest living snapshot names all of them, oldest first. With more than `UNSEEN_MAX`
the two oldest become one range, `from` the first up to the last: any snapshot in it may be unseen. Tables without
overwrites, and those with a log, have no property.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, objects, optional, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.snapshots.snapshot import KEEPS_ROWS, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import CarriedProperties, PropertyKey

UNSEEN_MAX = 32  # each commit copies them


class UnseenChanges(NamedTuple):
    """One unseen snapshot, both first and last, or a range with some of them. `commit` made the last one."""

    first: int
    last: int
    commit: str | None = None

    @classmethod
    def parsed(cls, text: str) -> tuple[UnseenChanges, ...]:
        """The unseen changes in the value of the property. Raises CorruptDataError."""
        try:
            return tuple(
                cls(
                    first=whole(one, "from" if "from" in one else "snapshot", COUNT),
                    last=whole(one, "snapshot", COUNT),
                    commit=optional(string, one, "commit"),
                )
                for one in objects(parse_object(text), "snapshots")
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(f"snapshot property {PropertyKey.UNSEEN} is not readable: {cause(error)}") from error


def is_unseen(snapshot: Snapshot, *, log: str) -> bool:
    """Whether streams of the table do not get the changes of a snapshot. `log` is the state of its log, if any."""
    keeps_rows = snapshot.operation_name in KEEPS_ROWS
    is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE
    return not log and is_overwrite and not _has_changes(snapshot) and not keeps_rows


def _has_changes(snapshot: Snapshot) -> bool:
    """Whether a snapshot has changelog files."""
    return snapshot.has_own_changelog or snapshot.changelog_manifest_list is not None


def unseen_of(properties: Mapping[str, str]) -> tuple[UnseenChanges, ...]:
    """The unseen changes up to a snapshot with these properties, oldest first. Raises CorruptDataError."""
    text = properties.get(PropertyKey.UNSEEN)
    return () if text is None else UnseenChanges.parsed(text)


def carried_unseen(carried: CarriedProperties) -> dict[str, str]:
    """The property, including the snapshots of other engines after that of `carried`; nothing if it does not change."""
    return _with_new([], carried)


def unseen_property(snapshot: Snapshot, carried: CarriedProperties) -> dict[str, str]:
    """The property of a new snapshot; nothing if the property of `carried`, which it carries on, does not change."""
    is_new = is_unseen(snapshot, log=snapshot.properties.get(PropertyKey.LOG_STATE, ""))
    return _with_new([snapshot] if is_new else [], carried)


def _with_new(newest: Sequence[Snapshot], carried: CarriedProperties) -> dict[str, str]:
    log = carried.properties.get(PropertyKey.LOG_STATE, "")
    new = [*(one for one in reversed(carried.foreign) if is_unseen(one, log=log)), *newest]
    if not new:
        return {}
    found = [*unseen_of(carried.properties), *(UnseenChanges(one.id, one.id, one.uuid) for one in new)]
    while len(found) > UNSEEN_MAX:
        oldest, older, *_ = found
        found[:2] = [older._replace(first=oldest.first)]
    return {PropertyKey.UNSEEN: _text_of(found)}


def unseen_up_to(properties: Mapping[str, str], snapshot_id: int) -> str | None:
    """The value of the property as it was at an older snapshot; None if it had none. Raises CorruptDataError."""
    found = [one for one in unseen_of(properties) if one.first <= snapshot_id]
    if found and found[-1].last > snapshot_id:
        found[-1] = UnseenChanges(found[-1].first, snapshot_id)
    return _text_of(found) if found else None


def _text_of(found: Sequence[UnseenChanges]) -> str:
    return json.dumps({"snapshots": [_to_json(one) for one in found]}, separators=(",", ":"))


def _to_json(one: UnseenChanges) -> dict[str, object]:
    start = {} if one.first == one.last else {"from": one.first}
    return {**start, "snapshot": one.last} | ({} if one.commit is None else {"commit": one.commit})
