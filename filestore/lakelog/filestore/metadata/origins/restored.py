"""The restores of a table, in the snapshot property `lakelog.restored`: {protecting tag: id of the restore's snapshot}.

See `lakelog.filestore.refs.restore.restore_tags`. Only the snapshot of a restore also has `lakelog.restores`:
{"snapshot": id, "commit": uuid} of the state that it brings back, without the uuid for a snapshot that has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, optional, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins.older_sources import kept_sources
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import RESTORED_KEY, RESTORES_KEY, CarriedProperties


def parse_restored(properties: Mapping[str, str]) -> dict[str, int]:
    """The restores by their protecting tags; empty for a table that was never restored. Raises CorruptDataError."""
    try:
        found = parse_object(properties.get(RESTORED_KEY, "{}"))
        return {tag: whole(found, tag, COUNT) for tag in found}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"snapshot property {RESTORED_KEY} is not readable: {cause(error)}") from error


def restores_properties(target: Snapshot, then: CarriedProperties, now: Mapping[str, str]) -> dict[str, str]:
    """The properties of a restore's snapshot that name the state which it brings back, and the origin of its rows.

    `then` are the properties that the target carries on, `now` those of the newest snapshot.
    """
    commit = {} if target.uuid is None else {"commit": target.uuid}
    named = {RESTORES_KEY: json.dumps({"snapshot": target.id, **commit}, separators=(",", ":"))}
    return named | kept_sources(then, now)


def restored_state(properties: Mapping[str, str]) -> tuple[int, str | None] | None:
    """The id and the commit's uuid of the state that a restore's snapshot brings back; None if it names none.

    Raises CorruptDataError.
    """
    text = properties.get(RESTORES_KEY)
    if text is None:
        return None
    try:
        found = parse_object(text)
        return whole(found, "snapshot", COUNT), optional(string, found, "commit")
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"snapshot property {RESTORES_KEY} is not readable: {cause(error)}") from error
