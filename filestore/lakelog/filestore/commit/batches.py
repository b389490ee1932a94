"""Batches of a writer: each is committed once, and only if its rows are the youngest of its table.

A batch has a commit user and an identifier, which grows from batch to batch; its digest is a hash of the source offsets
from which it was planned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.conflicts import OvertakenError, is_overtaken
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.index.hash_index import HashIndexChange
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import (
    CommitUser,
    NamedJob,
    PropertyKey,
    check_job_is_free,
    check_not_forgotten,
    forgotten_millis,
    is_same_source,
    parse_users,
    users_properties,
    with_user,
)
from lakelog.filestore.metadata.tables.identity import carried_by
from lakelog.filestore.metadata.tables.store import TableStore

CHECKPOINT_CHANGED = (
    "The checkpoint was reset, restored or copied, or a file of it was lost: start with a new checkpoint location (and "
    "another commit_user, where one is given), or with the checkpoint that goes with the table"
)


def is_done(last: CommitUser | None, identifier: int, digest: str | None, *, what: str) -> bool:
    """Whether a user's last batch is this one, or a later one.

    `what` names this batch in errors. Raises InvalidRequestError if the last batch is this one with other source
    offsets.
    """
    if last is None or last.identifier < identifier:
        return False
    if last.identifier == identifier and not is_same_source(last.digest, digest):
        raise _refused(what, last, "the same batch with other source offsets")
    return True


def is_replay(last: CommitUser | None, identifier: int, digest: str | None, *, what: str) -> bool:
    """Whether a user's last batch is this one. As `is_done`, but raises for a later batch too."""
    if last is None or not is_done(last, identifier, digest, what=what):
        return False
    if last.identifier > identifier:
        raise _refused(what, last, "a later batch")
    return True


def _refused(what: str, last: CommitUser, found: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{what} cannot be written: the table holds {found} ({last.identifier}). {CHECKPOINT_CHANGED}"
    )


def append_commit(
    table: TableStore,
    *,
    user: str,
    identifier: int,
    digest: str | None,
    entries: Sequence[ManifestEntry],
    changelog: Sequence[ManifestEntry] = (),
    hashes: HashIndexChange | None = None,
    lineage: Mapping[str, object] | None = None,
    watermark_millis: int | None = None,
    job: NamedJob | None = None,
    clock: CommitClock | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Snapshot | None:
    """Commit one batch of a user to a table without log, once; None if it is in the table already.

    `hashes` is the change that the assigner made to the HASH index, `watermark_millis` the event-time watermark of the
    batch. Raises InvalidRequestError for an identifier below the user's last one, or the same one with another digest;
    OvertakenError, see `is_overtaken`.
    """
    clock = clock or CommitClock()

    def resolve(latest: Snapshot | None) -> CommitRequest | None:
        properties = batch_properties(
            table, latest, user=user, identifier=identifier, digest=digest, job=job, clock=clock
        )
        if properties is None:
            return None
        check_not_overtaken(table, latest, entries, hashes)
        return CommitRequest(
            commit_user=user,
            commit_identifier=identifier,
            entries=entries,
            changelog=changelog,
            hashes=hashes,
            properties=properties if lineage is None else properties | {PropertyKey.LINEAGE: json.dumps(lineage)},
            operation="WRITE",
            watermark=watermark_millis,
        )

    return TableCommit(table, clock=clock).commit(resolve, on_step=on_step)


def batch_properties(
    table: TableStore,
    latest: Snapshot | None,
    *,
    user: str,
    identifier: int,
    digest: str | None,
    job: NamedJob | None = None,
    is_taking_over: bool = True,
    clock: CommitClock | None = None,
) -> dict[str, str] | None:
    """The users of the snapshot with a batch, after `latest`; None if the batch is in the table already.

    Raises InvalidRequestError for an identifier below the user's last one, or the same one with another digest; and for
    a job that belongs to another query, unless it `is_taking_over`, or this was checked before.
    """
    carried = carried_by(table, latest).properties
    users = parse_users(carried)
    check_not_forgotten(user, identifier, users, forgotten_millis(carried))
    if is_replay(users.get(user), identifier, digest, what=f"batch {identifier} of {user} in {table.name}"):
        return None
    if not is_taking_over:
        check_job_is_free(job, users, table_name=table.name)
    now_millis = (clock or CommitClock()).now_millis()
    return users_properties(
        with_user(users, user, CommitUser(identifier=identifier, digest=digest, time_millis=now_millis, job=job)),
        latest=latest,
        carried=carried,
        options=table.schema.options,
        in_use=(user,),
    )


def check_not_overtaken(
    table: TableStore, latest: Snapshot | None, entries: Sequence[ManifestEntry], hashes: HashIndexChange | None
) -> None:
    """Raise OvertakenError for new files whose rows must be written again after `latest`."""
    if is_overtaken(table, latest, entries, hashes):
        raise OvertakenError(
            f"snapshot {0 if latest is None else latest.id} of table {table.name} appeared while rows were written: it "
            "has younger rows, or another writer assigned buckets to their keys. Nothing was committed: write again"
        )
