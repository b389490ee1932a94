"""Options for how long snapshots, changes and consumers are kept."""

from __future__ import annotations

from lakelog.common.options import Option, parse_duration_millis, positive

SNAPSHOT_NUM_RETAINED_MIN = Option(
    key="snapshot.num-retained.min",
    parse=positive,
    default=10,
    doc="Snapshots that an expiry keeps at least.",
)
SNAPSHOT_NUM_RETAINED_MAX = Option(
    key="snapshot.num-retained.max",
    parse=positive,
    default=2_147_483_647,
    doc="Snapshots that an expiry keeps at most.",
)
SNAPSHOT_TIME_RETAINED = Option(
    key="snapshot.time-retained",
    parse=parse_duration_millis,
    default=3_600_000,
    doc="How long snapshots are kept.",
)
SNAPSHOT_EXPIRE_LIMIT = Option(
    key="snapshot.expire.limit",
    parse=positive,
    default=50,
    doc="Snapshots that one expiry deletes at most.",
)
CHANGELOG_NUM_RETAINED_MIN: Option[int | None] = Option(
    key="changelog.num-retained.min",
    parse=positive,
    default=None,
    doc="Snapshots whose changes are kept at least, living ones among them; `snapshot.num-retained.min` by default. "
    "Where an option of changes is more than that of snapshots, changes outlive their snapshots.",
)
CHANGELOG_NUM_RETAINED_MAX: Option[int | None] = Option(
    key="changelog.num-retained.max",
    parse=positive,
    default=None,
    doc="Snapshots whose changes are kept at most; `snapshot.num-retained.max` by default.",
)
CHANGELOG_TIME_RETAINED: Option[int | None] = Option(
    key="changelog.time-retained",
    parse=parse_duration_millis,
    default=None,
    doc="How long changes are kept; `snapshot.time-retained` by default.",
)
CONSUMER_EXPIRATION_TIME: Option[int | None] = Option(
    key="consumer.expiration-time",
    parse=parse_duration_millis,
    default=None,
    doc="How long a consumer that records no progress keeps snapshots; without end by default, but for the leases of "
    "streams, which end after a day.",
)
USERS_TIME_RETAINED = Option(
    key="users.time-retained",
    parse=parse_duration_millis,
    default=90 * 86_400_000,
    doc="How long a table keeps the last batch of a stream that writes nothing any more. A stream that writes again "
    "later, in the middle of its batches, is refused. An option of lakelog.",
)
