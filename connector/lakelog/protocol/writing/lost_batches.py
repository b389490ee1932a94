"""What a writer has acknowledged by the log alone: a snapshot or the log has it, or nothing more is written.

Source: docs/rfcs/0049-log-first.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakelog.common.errors import CorruptDataError
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import Snapshots
from lakelog.protocol.state.state import Batch, TableState
from lakelog.protocol.state.writer_marks import WriterMark
from lakelog.protocol.writing.attempts import OvertakenError, StaleAttemptError

LOOKS_WITHOUT_FENCE = 2
LATE_SECONDS = 2.0  # in less time another run of a writer cannot have begun, and done the batch

Tails = Callable[[TableState, bool], Mapping[int, Sequence[CommitHeader]]]
"""The transactions behind a snapshot, by bucket: what is readable at once, or, if the second is True, after a fence.

Raises OvertakenError where another writer has taken a tail in since, and its records have expired.
"""


def check_acknowledged(mark: WriterMark, *, snapshots: Snapshots, tails: Tails) -> None:
    """Raise LostBatchesError unless a snapshot or the log has what a writer has acknowledged by its mark.

    The mark must have been read before. An open transaction of a dead producer hides what is behind it, and snapshots
    come between: so the last look fences the buckets.
    """
    looks = 0
    while True:
        state = snapshots.newest()
        last = state.users.get(mark.user)
        if last is not None and last.identifier >= mark.identifier:
            return
        try:
            check_mark(mark, state, tails(state, looks >= LOOKS_WITHOUT_FENCE))
        except OvertakenError:
            continue
        except LostBatchesError:
            if looks >= LOOKS_WITHOUT_FENCE:
                raise
            looks += 1
        else:
            return


def check_mark(mark: WriterMark, state: TableState, tails: Mapping[int, Sequence[CommitHeader]]) -> None:
    """Raise LostBatchesError unless the batches of a mark are in a snapshot, or in the `tails` behind it. Pure."""
    for bucket, (end, identifier) in sorted(mark.ends.items()):
        own = (head.identifier for head in tails.get(bucket, ()) if head.user == mark.user)
        if not is_taken(mark.user, identifier, bucket, state) and identifier not in own:
            raise lost(mark.user, bucket, identifier, end)


def check_newest(mark: WriterMark | None, batch: Batch) -> None:
    """Raise StaleAttemptError for a batch that is older than the one that its user's mark names.

    It is asked before the first batch of a run is marked, and any that took longer than LATE_SECONDS: an older process
    that was fenced only in between would put its mark over the newer one, and what batches without rows were made from
    would be lost.
    """
    if mark is not None and mark.identifier > batch.identifier:
        raise StaleAttemptError(
            f"a later run of {batch.user} has acknowledged batch {mark.identifier}; this attempt of batch "
            f"{batch.identifier} is a leftover and stops"
        )


def is_taken(user: str, identifier: int, bucket: int, state: TableState) -> bool:
    """Whether a snapshot has a writer's batch, or its part in a bucket. Pure."""
    last, taken = state.users.get(user), state.logged.ledger.get(bucket, {}).get(user)
    return any(one is not None and one.identifier >= identifier for one in (last, taken))


def lost(user: str, bucket: int, identifier: int, end: int) -> LostBatchesError:
    """The error for a batch that the log of a bucket no longer has. Pure."""
    return LostBatchesError(
        f"the log of bucket {bucket} no longer has what batch {identifier} of {user} or a later one has written up to "
        f"offset {end}, which was acknowledged, and no snapshot has it: records were deleted, the topic was made "
        "again, or a broker that lacked them became the leader. Nothing more is written. Restore the topic; or write "
        "the missing batches again, with a new checkpoint that begins before them, after `lakelog log renew`"
    )


class LostBatchesError(CorruptDataError):
    """The log no longer has batches that were acknowledged, and no snapshot has them."""
