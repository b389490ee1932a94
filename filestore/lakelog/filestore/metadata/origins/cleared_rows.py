"""Which snapshots removed rows of a table as a whole, or brought them back: the property `lakelog.cleared`.

    {"cleared": [{"snapshot", "commit", "time", "how": "all"},
                 {"snapshot", "commit", "time", "how": "partitions", "partitions": [base64, ...]},
                 {"snapshot", "commit", "time", "how": "restore", "to": {"snapshot", "commit"}},
                 {"snapshot", "commit", "time", "how": "mended", "by", "of": [wrong, ...]}]}
    a wrong snapshot is {"uuid", "branch", "snapshot", "commit"}

A statement through a log removes the rows of the snapshot on which it was computed. What others have logged between
that snapshot and the statement is kept: its events also have "base": {"snapshot", "commit"}, with the snapshot 0 for an
empty table, and if several statements came at once. Before it is turned into an event, the statement's own snapshot has
`lakelog.replaces`: {} for all rows, {"partitions": [base64, ...]} for those of partitions, and `lakelog.base`, which a
restore through the log has too.

Each commit carries the property on and adds its own events. So they are known even for snapshots that have expired,
whether or not their lineage was fed: which snapshots are tainted depends on them, see `lakelog.lineage.answers.taint`.
The newest EVENTS_MAX are kept. An overwrite of more than PARTITIONS_MAX partitions is not recorded: their rows count as
rows that stayed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, items, member, objects, optional, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins.restored import restored_state
from lakelog.filestore.metadata.snapshots.snapshot import REPLACES_ROWS, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey

EVENTS_MAX = 64
PARTITIONS_MAX = 64
CLEARS_ROWS = REPLACES_ROWS | {"TRUNCATE"}


class Clearing(StrEnum):
    """What a snapshot does to the rows that existed before it."""

    ALL = "all"
    PARTITIONS = "partitions"
    RESTORE = "restore"
    MENDED = "mended"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongSnapshot:
    """A snapshot whose wrong rows have been mended in a table. `branch` None is the main line."""

    uuid: str
    branch: str | None = None
    snapshot_id: int
    commit: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return {"uuid": self.uuid, "snapshot": self.snapshot_id} | _known(branch=self.branch, commit=self.commit)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> WrongSnapshot:
        """Parse it. Raises ValueError or KeyError."""
        return cls(
            uuid=string(fields, "uuid"),
            branch=optional(string, fields, "branch"),
            snapshot_id=whole(fields, "snapshot", COUNT),
            commit=optional(string, fields, "commit"),
        )

    @staticmethod
    def mended(wrong: Sequence[WrongSnapshot], *, by: str) -> dict[str, str]:
        """The property of a snapshot which says that its table no longer holds a row of the wrong snapshots."""
        of = [one.to_json() for one in wrong]
        return {PropertyKey.MENDED: json.dumps({"by": by, "of": of}, separators=(",", ":"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clears:
    """Which rows a statement removes: those of `partitions`, serialized, or all of its snapshot."""

    partitions: frozenset[bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What one snapshot removed: all rows, those of `partitions`, serialized, or those that are not in `restored`.

    With a `base` these are rows of that snapshot: what was written since is kept. `mended` are wrong snapshots of which
    the table no longer holds a row, as stated by `mended_by`.
    """

    snapshot_id: int
    commit: str | None
    time_millis: int
    how: Clearing
    partitions: frozenset[bytes] = frozenset()
    restored: tuple[int, str | None] | None = None
    base: tuple[int, str | None] | None = None
    mended: Sequence[WrongSnapshot] = ()
    mended_by: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        states = _known(to=_state_json(self.restored), base=_state_json(self.base))
        return (
            {"snapshot": self.snapshot_id, "time": self.time_millis, "how": self.how.value}
            | _known(commit=self.commit, by=self.mended_by)
            | states
            | _known(partitions=_partitions_json(self.partitions) or None)
            | _known(of=[one.to_json() for one in self.mended] or None)
        )

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Cleared:
        """Parse it. Raises ValueError or KeyError."""
        return cls(
            snapshot_id=whole(fields, "snapshot", COUNT),
            commit=optional(string, fields, "commit"),
            time_millis=whole(fields, "time"),
            how=Clearing(string(fields, "how")),
            partitions=_partitions_of(fields) or frozenset(),
            restored=_state_of(member(fields, "to")) if "to" in fields else None,
            base=_state_of(member(fields, "base")) if "base" in fields else None,
            mended=[WrongSnapshot.of(one) for one in objects(fields, "of")] if "of" in fields else (),
            mended_by=optional(string, fields, "by"),
        )

    @classmethod
    def parsed(cls, text: str | None) -> list[Cleared]:
        """The events of the property, oldest first. Raises CorruptDataError."""
        if text is None:
            return []
        try:
            return [cls.of(one) for one in objects(parse_object(text), "cleared")]
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"snapshot property {PropertyKey.CLEARED} is not readable: {cause(error)}"
            ) from error


def cleared_property(
    snapshot: Snapshot, carried: Mapping[str, str], *, replaced: Collection[bytes], replaces_all: bool
) -> dict[str, str]:
    """The property of a new snapshot, from its own properties and those that it carries on; nothing without an event.

    `replaced` are the partitions whose files are removed, `replaces_all` says that the snapshot has no earlier row.
    """
    found = [event.to_json() for event in _events_of(snapshot, replaced=replaced, replaces_all=replaces_all)]
    if not found:
        return {}
    before = [event.to_json() for event in Cleared.parsed(carried.get(PropertyKey.CLEARED))]
    return {PropertyKey.CLEARED: _text_of([*before, *found][-EVENTS_MAX:])}


def events_up_to(properties: Mapping[str, str], snapshot_id: int) -> str | None:
    """The value of the property as it was at an older snapshot; None if it had none. Raises CorruptDataError."""
    events = Cleared.parsed(properties.get(PropertyKey.CLEARED))
    found = [event.to_json() for event in events if event.snapshot_id <= snapshot_id]
    return _text_of(found) if found else None


def _text_of(events: Sequence[Mapping[str, object]]) -> str:
    return json.dumps({"cleared": events}, separators=(",", ":"))


def clears_properties(clears: Clears | None, base: Snapshot | None) -> dict[str, str]:
    """The properties of the snapshot of a logged statement that removes rows of `base`, None for no snapshot.

    Rows of more than PARTITIONS_MAX partitions count as rows that stayed. Without `clears` the statement brings an
    older state back, which other properties name.
    """
    if clears is not None and clears.partitions is not None and not 0 < len(clears.partitions) <= PARTITIONS_MAX:
        return {}
    state = (0, None) if base is None else (base.id, base.uuid)
    named = {PropertyKey.BASE: json.dumps(_state_json(state), separators=(",", ":"))}
    if clears is None:
        return named
    parts = {} if clears.partitions is None else {"partitions": _partitions_json(clears.partitions)}
    return {PropertyKey.REPLACES: json.dumps(parts, separators=(",", ":")), **named}


def _events_of(snapshot: Snapshot, *, replaced: Collection[bytes], replaces_all: bool) -> list[Cleared]:
    properties = snapshot.properties
    base = _state_of(parse_object(properties[PropertyKey.BASE])) if PropertyKey.BASE in properties else None
    own = partial(Cleared, snapshot_id=snapshot.id, commit=snapshot.uuid, time_millis=snapshot.time_millis)
    found: list[Cleared] = []
    restored = restored_state(properties)
    is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.operation_name in CLEARS_ROWS
    if restored is not None:
        found.append(own(how=Clearing.RESTORE, restored=restored, base=base))
    elif PropertyKey.REPLACES in properties:
        partitions = _partitions_of(parse_object(properties[PropertyKey.REPLACES]))
        how = Clearing.ALL if partitions is None else Clearing.PARTITIONS
        found.append(own(how=how, partitions=partitions or frozenset(), base=base))
    elif is_overwrite and replaces_all:
        found.append(own(how=Clearing.ALL))
    elif is_overwrite and 0 < len(replaced) <= PARTITIONS_MAX:
        found.append(own(how=Clearing.PARTITIONS, partitions=frozenset(replaced)))
    if PropertyKey.MENDED in properties:
        said = parse_object(properties[PropertyKey.MENDED])
        wrong = [WrongSnapshot.of(one) for one in objects(said, "of")]
        found.append(own(how=Clearing.MENDED, mended=wrong, mended_by=string(said, "by")))
    return found


def _state_json(state: tuple[int, str | None] | None) -> dict[str, object] | None:
    return None if state is None else {"snapshot": state[0]} | _known(commit=state[1])


def _state_of(fields: Mapping[str, Any]) -> tuple[int, str | None]:
    return whole(fields, "snapshot", COUNT), optional(string, fields, "commit")


def _partitions_json(partitions: Collection[bytes]) -> list[str]:
    return [base64.b64encode(one).decode() for one in sorted(partitions)]


def _partitions_of(fields: Mapping[str, Any]) -> frozenset[bytes] | None:
    """The partitions that an object names; None if it names none."""
    if "partitions" not in fields:
        return None
    return frozenset(base64.b64decode(str(one), validate=True) for one in items(fields, "partitions"))


def _known(**values: object | None) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
