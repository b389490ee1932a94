"""The state of lakelog after a rollback: the next commit carries on what the newest snapshot then has. Pure.

If the snapshots of lakelog before a snapshot of another engine have expired, the next snapshot of lakelog has carried
on the state: without what happened since, it is the state at the older snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lakelog.filestore.metadata.origins.cleared_rows import events_up_to
from lakelog.filestore.metadata.origins.restored import kept_sources, parse_restored
from lakelog.filestore.metadata.origins.unseen_changes import unseen_up_to
from lakelog.filestore.metadata.snapshots.snapshot import MERGE_OPERATION, SCHEMA_DIGEST_KEY, BranchVerb, Snapshot
from lakelog.filestore.metadata.snapshots.users import (
    MERGED_PREFIX,
    CarriedProperties,
    PropertyKey,
    forgotten_millis,
    later_users,
    parse_users,
    users_to_json,
)

_MERGES = {MERGE_OPERATION, *BranchVerb}


def properties_after_rollback(
    target: Snapshot, older: CarriedProperties, newer: CarriedProperties
) -> Mapping[str, str]:
    """The properties of a snapshot that becomes the newest one: they have the users of the next living snapshot.

    `older` is what it carries on, `newer` what the next living snapshot carries on; if that is nothing, or is lost, the
    target gets no properties that would look like state. Raises CorruptDataError.
    """
    if newer.snapshot is None:
        return target.properties
    then, now = older.properties if older.is_known else _state_before(newer, target.id), newer.properties
    users = later_users(parse_users(then), parse_users(now))
    if older.is_known and users == parse_users(then):
        return target.properties
    forgotten = [at for at in (forgotten_millis(now), forgotten_millis(then)) if at is not None]
    carried = {key: text for key, text in then.items() if key != SCHEMA_DIGEST_KEY}  # of the schema of another snapshot
    named = {PropertyKey.USERS: users_to_json(users)} | (
        {PropertyKey.FORGOTTEN: str(max(forgotten))} if forgotten else {}
    )
    return {**carried, **target.properties, **named, **kept_sources(older, now)}


def _state_before(following: CarriedProperties, snapshot_id: int) -> dict[str, str]:
    """The properties that a commit after a snapshot carries on, found from those after the next one that has some.

    The origin of the rows is not among them, see `kept_sources`. Raises CorruptDataError.
    """
    given = following.properties
    restored = {tag: number for tag, number in parse_restored(given).items() if number <= snapshot_id}
    cut = {
        PropertyKey.UNSEEN: unseen_up_to(given, snapshot_id),
        PropertyKey.CLEARED: events_up_to(given, snapshot_id),
        PropertyKey.RESTORED: json.dumps(restored, separators=(",", ":")) if restored else None,
    }
    kept = {key: text for key, text in given.items() if key not in {PropertyKey.SOURCES, *cut}}
    return kept | {key: text for key, text in cut.items() if text is not None}


def has_merged(snapshot: Snapshot) -> bool:
    """Whether the commit of a snapshot has changed the record of a merged branch."""
    return snapshot.operation_name in _MERGES and any(key.startswith(MERGED_PREFIX) for key in snapshot.properties)
