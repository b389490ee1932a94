"""The restores of a table, in the snapshot property `lakelog.restored`: {protecting tag: id of the restore's snapshot}.

See `lakelog.filestore.refs.restore.restore_tags`. Only the snapshot of a restore also has `lakelog.restores`:
{"snapshot": id, "commit": uuid} of the state that it brings back, without the uuid for a snapshot that has none.

The origin of the rows of the state that is brought back, or with which a branch begins: for a snapshot of another
engine it is known from the snapshots of lakelog before it. If these have expired, it is unknown: the rows may come from
any source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, optional, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins.row_sources import Break, Reason, RowSource, RowSources
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import CarriedProperties, PropertyKey


def kept_sources(then: CarriedProperties, now: Mapping[str, str]) -> dict[str, str]:
    """The property of a table that is restored: `then` is of the old snapshot, `now` of the newest one."""
    before = RowSources.of(now)
    found = _sources_then(then, before)
    if found is None and before is None:
        return {}
    found = RowSources() if found is None else found
    if before is not None:
        found = found.in_place_of(before)
    return {PropertyKey.SOURCES: found.to_json()}


def forked_sources(then: CarriedProperties, now: Mapping[str, str]) -> dict[str, str]:
    """The property of a branch that begins at a snapshot: `then` is of it, `now` of the table's newest one."""
    found = _sources_then(then, RowSources.of(now))
    return {} if found is None else {PropertyKey.SOURCES: found.to_json()}


def _sources_then(then: CarriedProperties, now: RowSources | None) -> RowSources | None:
    """What the rows came from; if that is lost, each source that the table has now is shown at no version."""
    lost = _lost(then)
    if lost is None or now is None:  # if there is no source now, there was none then
        return carried_sources(then)
    sources = {key: RowSource(source.table, broken=lost) for key, source in now.sources.items()}
    return RowSources(sources=sources, is_complete=now.is_complete, unknown=lost)


def _lost(then: CarriedProperties) -> Break | None:
    """Why the origin is unknown: the snapshots of lakelog before those of other engines have expired."""
    if then.is_known:
        return None
    oldest = then.foreign[-1].id
    return Break(oldest, Reason.RESTORED, f"the snapshots before snapshot {oldest}, of another engine, have expired")


def carried_sources(carried: CarriedProperties) -> RowSources | None:
    """The sources of the snapshot before: as carried on, and as later snapshots of other engines have changed them."""
    found = RowSources.of(carried.properties)
    for older, newer in pairwise([carried.snapshot, *reversed(carried.foreign)]):
        if found is not None and newer is not None and newer.changes_rows(older):
            found.break_all(Break(newer.id, Reason.FOREIGN_WRITER, newer.commit_kind.value))
    return found


def parse_restored(properties: Mapping[str, str]) -> dict[str, int]:
    """The restores by their protecting tags; empty for a table that was never restored. Raises CorruptDataError."""
    try:
        found = parse_object(properties.get(PropertyKey.RESTORED, "{}"))
        return {tag: whole(found, tag, COUNT) for tag in found}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"snapshot property {PropertyKey.RESTORED} is not readable: {cause(error)}") from error


def restores_properties(target: Snapshot, then: CarriedProperties, now: Mapping[str, str]) -> dict[str, str]:
    """The properties of a restore's snapshot that name the state which it brings back, and the origin of its rows.

    `then` are the properties that the target carries on, `now` those of the newest snapshot.
    """
    commit = {} if target.uuid is None else {"commit": target.uuid}
    named = {PropertyKey.RESTORES: json.dumps({"snapshot": target.id, **commit}, separators=(",", ":"))}
    return named | kept_sources(then, now)


def restored_state(properties: Mapping[str, str]) -> tuple[int, str | None] | None:
    """The id and the commit's uuid of the state that a restore's snapshot brings back; None if it names none.

    Raises CorruptDataError.
    """
    text = properties.get(PropertyKey.RESTORES)
    if text is None:
        return None
    try:
        found = parse_object(text)
        return whole(found, "snapshot", COUNT), optional(string, found, "commit")
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"snapshot property {PropertyKey.RESTORES} is not readable: {cause(error)}") from error
