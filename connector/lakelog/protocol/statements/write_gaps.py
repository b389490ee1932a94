"""Writes that the logs lack, although they have later ones: the writes of a user have consecutive numbers."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.common.quoting import shown
from lakelog.protocol.state.state import TableState
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.lost_batches import LostBatchesError


def missing_write(state: TableState, answers: Iterable[BucketAnswer]) -> tuple[str, int] | None:
    """The user and the number of a write that neither a snapshot nor the logs have, although they have a later one.

    Buckets are looked at one after the other, so an older write may be missing at the first look. Pure.
    """
    numbers: dict[str, set[int]] = {}
    for header in (header for answer in answers for header in answer.transactions if header.parts):
        numbers.setdefault(header.user, set()).add(header.identifier)
    for user, there in sorted(numbers.items()):
        first = min(there) if state.forgotten_millis is not None else 0
        if user in state.users:
            first = state.users[user].identifier + 1
        left = set(range(first, max(there))) - there
        if left:
            return user, min(left)
    return None


def lost_write(user: str, number: int) -> LostBatchesError:
    """The error for a write that the logs lack, although they have a later one of its writer."""
    return LostBatchesError(
        f"write {number} of {shown(user)} is missing: the log has a later one, and no snapshot has it. The topic has "
        "lost records (an unclean election, a deleted topic, retention by another program). Nothing is taken in; "
        "`lakelog table log renew` with --skip-unreadable leaves the log out, and the writer's source is to be read "
        "again from its last identifier"
    )
