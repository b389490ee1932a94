"""The rules for how long snapshots and their changes are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.retention import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)

DEFAULT_AGE_MILLIS = 24 * 3_600_000  # the age from which an unnamed file is an orphan


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What an expiry deleted. `changelog_ids` are the ids of snapshots whose changes were deleted."""

    snapshot_ids: tuple[int, ...] = ()
    changelog_ids: tuple[int, ...] = ()
    consumers: tuple[str, ...] = ()
    data_files: int = 0
    metadata_files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The minimum and maximum number of kept snapshots, their age, and the most to delete at a time."""

    count_min: int
    count_max: int
    age_millis: int
    limit: int

    @classmethod
    def of(cls, table: TableStore) -> Retention:
        """The retention of snapshots in the table's options."""
        options = table.schema.options
        return cls(
            count_min=SNAPSHOT_NUM_RETAINED_MIN.of(options),
            count_max=SNAPSHOT_NUM_RETAINED_MAX.of(options),
            age_millis=SNAPSHOT_TIME_RETAINED.of(options),
            limit=SNAPSHOT_EXPIRE_LIMIT.of(options),
        )

    def for_changes(self, table: TableStore) -> Retention:
        """The retention of changes in the table's options; this retention if they have none.

        Its numbers count all snapshots up to the newest, expired or living.
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
        """Whether this retention keeps more than the other by any of its limits."""
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
    """The id of the oldest snapshot that stays, among `ids`: at least one, oldest first.

    `time_of` gives the commit time of an id; it is called only for snapshots that may expire and the next one. The age
    of a snapshot counts from the commit of the next one, since it was the newest until then. `consumed_up_to` is the
    first snapshot that some consumer has not read yet.
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
