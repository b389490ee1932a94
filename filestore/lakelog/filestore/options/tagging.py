"""Options for tags that writers create, and for how long tags are kept."""

from __future__ import annotations

import re
from datetime import tzinfo
from enum import StrEnum

from lakelog.common.options import Option, choice, parse_bool, parse_duration_millis, positive
from lakelog.common.timestamps import zone_of

DAY_MILLIS = 86_400_000
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class TagCreation(StrEnum):
    """When writers create tags."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class TagPeriod(StrEnum):
    """How often."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagFormat(StrEnum):
    """How the period is written in a tag's name."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


def _minutes(text: str) -> int:
    """Milliseconds after midnight of a time such as 03:30."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a time such as 03:30")
    return (int(found[1]) * 60 + int(found[2])) * 60_000


def _days(text: str) -> int:
    millis = parse_duration_millis(text)
    if millis < DAY_MILLIS or millis % DAY_MILLIS:
        raise ValueError("expected whole days, at least one")
    return millis


TAG_AUTOMATIC_CREATION: Option[TagCreation] = Option(
    key="tag.automatic-creation",
    parse=choice(TagCreation),
    default=TagCreation.NONE,
    doc="When writers create tags: `process-time`, by the time of commits, `watermark`, by the watermark of snapshots, "
    "`batch`, after each batch write, or `none`.",
)
TAG_CREATION_PERIOD: Option[TagPeriod] = Option(
    key="tag.creation-period",
    parse=choice(TagPeriod),
    default=TagPeriod.DAILY,
    doc="The period of automatic tags. The tag of a period is that of the first snapshot behind it, and has its name.",
)
TAG_CREATION_PERIOD_DURATION: Option[int | None] = Option(
    key="tag.creation-period-duration",
    parse=parse_duration_millis,
    default=None,
    doc="The period of automatic tags as a duration, in place of `tag.creation-period`. Names are as 202601311530.",
)
TAG_CREATION_DELAY = Option(
    key="tag.creation-delay",
    parse=parse_duration_millis,
    default=0,
    doc="How long after a period its tag is created, so that late rows are in it; less than a period.",
)
TAG_PERIOD_FORMATTER: Option[TagFormat] = Option(
    key="tag.period-formatter",
    parse=choice(TagFormat),
    default=TagFormat.WITH_DASHES,
    doc="How names of automatic tags are written: `2026-01-31 15`, `20260131 15` or `2026013115`.",
)
TAG_NUM_RETAINED_MAX: Option[int | None] = Option(
    key="tag.num-retained-max",
    parse=positive,
    default=None,
    doc="Automatic tags that are kept at most; the oldest are deleted.",
)
TAG_DEFAULT_TIME_RETAINED: Option[int | None] = Option(
    key="tag.default-time-retained",
    parse=parse_duration_millis,
    default=None,
    doc="How long a tag is kept that is created without a time of its own, automatic ones too.",
)
TAG_AUTOMATIC_COMPLETION = Option(
    key="tag.automatic-completion",
    parse=parse_bool,
    default=False,
    doc="Whether periods without a snapshot get tags too, one a snapshot, those of the snapshots behind them.",
)
TAG_CREATE_SUCCESS_FILE = Option(
    key="tag.create-success-file",
    parse=parse_bool,
    default=False,
    doc="Whether the creation of a tag is followed by the file `tag/tag-success-file/<tag>_SUCCESS`, for schedulers "
    "that wait for it. It is deleted with the tag.",
)
SNAPSHOT_WATERMARK_IDLE_TIMEOUT: Option[int | None] = Option(
    key="snapshot.watermark-idle-timeout",
    parse=parse_duration_millis,
    default=None,
    doc="With `tag.automatic-creation=watermark`: when the newest snapshot's watermark is this much older than now, a "
    "batch without rows makes a snapshot too if it has a later watermark, so that the tags up to it are created.",
)
TAG_BATCH_CUSTOMIZED_NAME: Option[str | None] = Option(
    key="tag.batch.customized-name",
    parse=str,
    default=None,
    doc="The name of the tag of `tag.automatic-creation=batch`; `batch-write-2026-01-31` without it.",
)
TAG_TIME_EXPIRE_ENABLED = Option(
    key="tag.time-expire-enabled",
    parse=parse_bool,
    default=True,
    doc="Whether writers delete tags whose time is over.",
)
SINK_WATERMARK_TIME_ZONE: Option[tzinfo] = Option(
    key="sink.watermark-time-zone",
    parse=zone_of,
    default=zone_of("UTC"),
    doc="The zone in which watermarks are named in automatic tags.",
    kind="a zone such as Europe/Berlin",
)
TAG_CREATE_TIME: Option[int | None] = Option(
    key="tag.create-time",
    parse=_minutes,
    default=None,
    doc="The time of day at which a tag is created, by the time of commits; as the proposal of tags has it.",
    kind="a time such as 03:30",
)
TAG_CREATE_INTERVAL: Option[int | None] = Option(
    key="tag.create-interval",
    parse=_days,
    default=None,
    doc="The days between two tags that are created by the time of commits; one with `tag.create-time` alone.",
    kind="whole days, such as 7 d",
)
