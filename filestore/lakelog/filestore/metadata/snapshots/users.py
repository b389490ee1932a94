"""Lakelog's state in snapshot properties: the last batch of each user, and the state of the log.

Properties whose keys start with `lakelog.` are copied from snapshot to snapshot. Snapshots of other engines have none:
then the newest earlier snapshot that has some is searched for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.common.json_fields import member, optional, parse_object, string, whole
from lakelog.common.quoting import cause, cut, shown
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.metadata.snapshots.snapshot import OPERATION_KEY, PROPERTY_PREFIX, Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.options.layout import TABLE_PLACE, TABLE_UUID
from lakelog.filestore.options.retention import USERS_TIME_RETAINED

NO_USERS = "{}"
# Up to which snapshot a branch is merged, see `filestore.refs`; empty once the branch was deleted.
MERGED_PREFIX = f"{PROPERTY_PREFIX}merged."


class PropertyKey:
    """The keys of lakelog's properties."""

    USERS = "lakelog.users"
    LINEAGE = "lakelog.lineage"
    SOURCES = "lakelog.sources"  # what the rows come from, see `origins.row_sources`
    UNSEEN = "lakelog.unseen"  # whose changes streams are not given, see `origins.unseen_changes`
    LOG_STATE = "lakelog.log"  # its value belongs to tables with a log, see the protocol; empty once it was removed
    LOG_ENDS = "lakelog.log-ends"  # of the transactions that a snapshot took in, see the protocol
    FORGOTTEN = "lakelog.users-forgotten"  # epoch milliseconds: the last batch of the youngest user that was dropped
    UNTRACKED = "lakelog.untracked"  # what a snapshot of a logged table has that is not in the log, see the protocol
    RESTORED = "lakelog.restored"  # the restores of a table, see `origins.restored`
    RESTORES = "lakelog.restores"  # the state that the snapshot of a restore brings back, see `origins.restored`
    CLEARED = "lakelog.cleared"  # which snapshots removed rows as a whole, see `origins.cleared_rows`
    REPLACES = "lakelog.replaces"  # which rows a statement through a log removes as a whole
    BASE = "lakelog.base"  # the snapshot on which a statement was computed that removes rows, or brings them back
    UUID = TABLE_UUID.key  # of the table
    PLACE = TABLE_PLACE.key  # the folder of the table
    MENDED = "lakelog.mended"  # the wrong snapshots of which a table no longer holds a row, as a user has stated


# They belong to one snapshot alone.
_NOT_CARRIED = {
    PropertyKey.LINEAGE,
    PropertyKey.UNTRACKED,
    PropertyKey.LOG_ENDS,
    OPERATION_KEY,
    PropertyKey.RESTORES,
    PropertyKey.REPLACES,
    PropertyKey.BASE,
    PropertyKey.MENDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedJob:
    """The job that writes under a user, and the id of the query that has its name."""

    name: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUser:
    """The last batch of one user. `digest` stands for the source offsets of the batch; None is unknown.

    See `is_same_source` for the content of digests. `job` is that of the batch, None for a job without a name.
    """

    identifier: int
    digest: str | None
    time_millis: int
    job: NamedJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedProperties:
    """The properties that the next commit copies, their snapshot, and the newer ones of other engines, newest first."""

    properties: Mapping[str, str]
    foreign: tuple[Snapshot, ...]
    snapshot: Snapshot | None = None

    @property
    def is_known(self) -> bool:
        """Whether nothing is missing: a snapshot is lakelog's, or those of other engines are the table's first."""
        return self.snapshot is not None or not self.foreign or self.foreign[-1].id == 1


def carried_properties(snapshot: Snapshot | None, manager: SnapshotManager) -> CarriedProperties:
    """The properties of lakelog as of a snapshot. Reads older snapshots only if newer ones are of other engines."""
    foreign: list[Snapshot] = []
    for found in () if snapshot is None else manager.walk_back(snapshot):
        own = {key: text for key, text in found.properties.items() if key.startswith(PROPERTY_PREFIX)}
        if own:
            carried = {key: text for key, text in own.items() if key not in _NOT_CARRIED and not _is_over(key, text)}
            return CarriedProperties(properties=carried, foreign=tuple(foreign), snapshot=found)
        foreign.append(found)
    return CarriedProperties(properties={}, foreign=tuple(foreign))


def deleted_origins(properties: Mapping[str, str]) -> set[str]:
    """The origins of branches that were deleted, which the snapshot of a merge names."""
    return {key.removeprefix(MERGED_PREFIX) for key, text in properties.items() if _is_over(key, text)}


def _is_over(key: str, text: str) -> bool:
    return key.startswith(MERGED_PREFIX) and not text


def read_users(snapshot: Snapshot | None, manager: SnapshotManager) -> dict[str, CommitUser]:
    """The users as of a snapshot: {user: its last batch}."""
    return parse_users(carried_properties(snapshot, manager).properties)


def parse_users(properties: Mapping[str, str]) -> dict[str, CommitUser]:
    """The users in properties. Stored as JSON {user: {"id", "digest", "time", "job", "query"}}.

    The last two are left out for a user whose job has no name. Raises CorruptDataError.
    """
    try:
        users = parse_object(properties.get(PropertyKey.USERS, "{}"))
        return {user: _parse_user(member(users, user)) for user in users}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"snapshot property {PropertyKey.USERS} is not readable: {cause(error)}") from error


def _parse_user(last: Mapping[str, Any]) -> CommitUser:
    name, query = optional(string, last, "job"), optional(string, last, "query")
    return CommitUser(
        identifier=whole(last, "id"),
        digest=optional(string, last, "digest"),
        time_millis=whole(last, "time"),
        job=None if name is None or query is None else NamedJob(name=name, query=query),
    )


def users_to_json(users: Mapping[str, CommitUser]) -> str:
    """The JSON of the snapshot property."""
    return json.dumps(
        {
            user: {"id": last.identifier, "digest": last.digest, "time": last.time_millis}
            | ({} if last.job is None else {"job": last.job.name, "query": last.job.query})
            for user, last in sorted(users.items())
        },
        separators=(",", ":"),
    )


def is_same_source(one: str | None, other: str | None) -> bool:
    """True unless the two digests are known to be of different source offsets.

    A digest has parts separated by dots; a part that only one of the two has, or that is empty, is not compared.
    """
    if one is None or other is None:
        return True
    parts = zip(one.split("."), other.split("."), strict=False)
    return all(mine == yours for mine, yours in parts if mine and yours)


def forgotten_millis(properties: Mapping[str, str]) -> int | None:
    """The last commit of the youngest user that the table has dropped; None when no user was dropped."""
    found = properties.get(PropertyKey.FORGOTTEN)
    try:
        return None if found is None else int(found)
    except ValueError as error:
        raise CorruptDataError(f"snapshot property {PropertyKey.FORGOTTEN} is {found!r}, expected a number") from error


def without_old_users(
    users: Mapping[str, CommitUser], *, before_millis: int, in_use: Collection[str]
) -> tuple[dict[str, CommitUser], int | None]:
    """The users that commit or are in use, and the last commit of the youngest other one, if any. Pure."""
    kept = {user: last for user, last in users.items() if last.time_millis >= before_millis or user in in_use}
    return kept, max((last.time_millis for user, last in users.items() if user not in kept), default=None)


def users_properties(
    users: Mapping[str, CommitUser],
    *,
    latest: Snapshot | None,
    carried: Mapping[str, str],
    options: Mapping[str, str],
    in_use: Collection[str],
) -> dict[str, str]:
    """The properties of the snapshot on top of `latest` with these users, except those that have not written for long.

    `carried` are the properties that `latest` carries on, `options` the table's: `users.time-retained` is the time. The
    date of `latest` may be wrong, and so may the clock of this process, by which the users `in_use` have written: a
    user is dropped only if it is old by both, and a user that writes now never counts as older than `latest`.
    """
    if latest is None:
        return {PropertyKey.USERS: users_to_json(users)}
    base_millis, kept_millis = latest.time_millis, USERS_TIME_RETAINED.of(options)
    now_millis = min([base_millis, *(users[user].time_millis for user in in_use if user in users)])
    users = {
        user: replace(last, time_millis=max(last.time_millis, base_millis)) if user in in_use else last
        for user, last in users.items()
    }
    kept, youngest = without_old_users(users, before_millis=now_millis - kept_millis, in_use=in_use)
    properties = {PropertyKey.USERS: users_to_json(kept)}
    if youngest is not None:
        properties[PropertyKey.FORGOTTEN] = str(max(youngest, forgotten_millis(carried) or 0))
    return properties


def check_not_forgotten(user: str, identifier: int, users: Mapping[str, CommitUser], forgotten: int | None) -> None:
    """Raise InvalidRequestError for a batch in the middle of a stream that the table may have dropped."""
    if user in users or identifier == 0 or forgotten is None:
        return
    raise InvalidRequestError(
        f"batch {identifier} of {user} cannot be distinguished from one that is in the table already: the table has "
        f"no batch of this writer, and has dropped writers whose last batch was at {shown_millis(forgotten)} or before "
        "(users.time-retained). Check whether the rows of the batch are in the table, then start the stream with a new "
        "checkpoint location (and another commit_user, where one is given)"
    )


def with_user(users: Mapping[str, CommitUser], user: str, last: CommitUser) -> dict[str, CommitUser]:
    """The users with one user's last batch replaced. A job that belonged to another query now belongs to this one."""
    others = {
        name: replace(other, job=None) if _other_query(last.job, other.job) else other for name, other in users.items()
    }
    return {**others, user: last}


def check_job_is_free(job: NamedJob | None, users: Mapping[str, CommitUser], *, table_name: str) -> None:
    """Raise InvalidRequestError if another query has written the table under the name of this job."""
    for other in users.values():
        if job is not None and other.job is not None and _other_query(job, other.job):
            raise InvalidRequestError(
                f"the job {shown(job.name)} of table {table_name} is that of query {cut(other.job.query)}, and query "
                f"{cut(job.query)} has the same name: what both wrote could not be told apart. Give this one another "
                "name (job=, the option lineage.job, or the query's name); or, where it replaces that query for good, "
                "say so (job_takeover=True, or the option lineage.job.takeover)"
            )


def _other_query(job: NamedJob | None, other: NamedJob | None) -> bool:
    return job is not None and other is not None and job.name == other.name and job.query != other.query


def later_users(one: Mapping[str, CommitUser], other: Mapping[str, CommitUser]) -> dict[str, CommitUser]:
    """The users of both, each with the later of its last batches."""
    found = dict(one)
    for user, last in other.items():
        if user not in found or found[user].identifier < last.identifier:
            found[user] = last
    return found


def lineage_property(user: str, identifier: int, lineage: Mapping[str, object]) -> dict[str, str]:
    """The snapshot property that records one batch, or nothing for a batch without lineage."""
    if not lineage:
        return {}
    return {PropertyKey.LINEAGE: json.dumps({"batches": [{"user": user, "identifier": identifier, **lineage}]})}
