"""How long snapshots and their changes are kept: the rules, without any file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.options.retention import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)

DEFAULT_AGE_MILLIS = 24 * 3_600_000  # of a file that nothing names, before it is an orphan


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What an expiry deleted. `changelog_ids` are snapshots whose changes were deleted, long after the snapshots."""

    snapshot_ids: tuple[int, ...] = ()
    changelog_ids: tuple[int, ...] = ()
    consumers: tuple[str, ...] = ()
    data_files: int = 0
    metadata_files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many snapshots are kept at least and at most, how long, and how many go at a time."""

    count_min: int
    count_max: int
    age_millis: int
    limit: int

    @classmethod
    def of(cls, table: TableStore) -> Retention:
        """What the table's options say of snapshots."""
        options = table.schema.options
        return cls(
            count_min=SNAPSHOT_NUM_RETAINED_MIN.of(options),
            count_max=SNAPSHOT_NUM_RETAINED_MAX.of(options),
            age_millis=SNAPSHOT_TIME_RETAINED.of(options),
            limit=SNAPSHOT_EXPIRE_LIMIT.of(options),
        )

    def for_changes(self, table: TableStore) -> Retention:
        """What the table's options say of the changes of snapshots that are kept by this; the same where they do not.

        Numbers count all snapshots up to the newest, expired or living.
        """
        options = table.schema.options
        count_min = CHANGELOG_NUM_RETAINED_MIN.of(options) or self.count_min
        count_max = CHANGELOG_NUM_RETAINED_MAX.of(options)
        age_millis = CHANGELOG_TIME_RETAINED.of(options)
        return replace(
            self,
            count_min=count_min,
            count_max=max(self.count_max, count_min) if count_max is None else count_max,
            age_millis=self.age_millis if age_millis is None else age_millis,
        )

    def exceeds(self, other: Retention) -> bool:
        """Whether something is kept longer than by the other in some respect."""
        is_more = self.count_min > other.count_min or self.count_max > other.count_max
        return is_more or self.age_millis > other.age_millis


def first_kept(
    ids: Sequence[int],
    retention: Retention,
    *,
    time_of: Callable[[int], int],
    now_millis: int,
    consumed_up_to: int | None,
) -> int:
    """The id of the oldest snapshot that stays, of ids oldest first; at least one.

    `time_of` gives the commit time of an id; only those that may go are asked for, and the one behind. A snapshot was
    the newest until the next one came: that time counts for its age. `consumed_up_to` is the first snapshot that some
    consumer has not read yet.
    """
    end = 0
    while end < min(len(ids) - 1, retention.limit):
        is_one_too_many = len(ids) - end > retention.count_max
        is_protected = consumed_up_to is not None and ids[end] >= consumed_up_to
        if is_protected:
            break
        if not is_one_too_many:
            is_spare = len(ids) - end > retention.count_min
            if not is_spare or time_of(ids[end + 1]) >= now_millis - retention.age_millis:
                break
        end += 1
    return ids[end]
