"""The periods of automatic tags and the names of tags after them. Pure.

| period | name |
|---|---|
| daily, whole days | `2026-01-31`, or `20260131` |
| hourly | `2026-01-31 15`, `20260131 15`, or `2026013115` |
| two-hours | `2026-01-31 14` |
| another duration | `202601311430` |

A name is the beginning of its period. Source: Paimon, `TagPeriodHandler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.options import tagging
from lakelog.filestore.options.tagging import TagFormat, TagPeriod

_EPOCH = datetime(1970, 1, 1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_DAYS = {TagFormat.WITH_DASHES: "%Y-%m-%d"}
_HOURS = {
    TagFormat.WITH_DASHES: "%Y-%m-%d %H",
    TagFormat.WITHOUT_DASHES: "%Y%m%d %H",
    TagFormat.WITHOUT_DASHES_AND_SPACES: "%Y%m%d%H",
}
_MINUTES = "%Y%m%d%H%M"


@dataclass(frozen=True, slots=True)
class TagPeriods:
    """Periods of one length from midnight of 1970-01-01 on, the delay after which each is tagged, and their names."""

    length: timedelta
    delay: timedelta
    format: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TagPeriods:
        """The periods in the options of a table. Raises InvalidRequestError for a delay that is not below a period."""
        made = cls(*_length_and_delay(options), _format(options))
        if not timedelta(0) < made.length or made.delay >= made.length:
            raise InvalidRequestError(
                f"automatic tags have the period {made.length} and the delay {made.delay} "
                f"({tagging.TAG_CREATION_DELAY.key}, {tagging.TAG_CREATE_TIME.key}); expected a delay below the period"
            )
        return made

    def name_of(self, time: datetime) -> str:
        """The name of the tag of the period that begins at a time."""
        return time.strftime(self.format)

    def time_of(self, name: str) -> datetime | None:
        """The beginning of the period of a tag; None for a tag of another kind."""
        try:
            found = datetime.strptime(name, self.format)
        except ValueError:
            return None
        return found if self.name_of(found) == name else None

    def before(self, time: datetime) -> datetime:
        """The beginning of the period before that of a time."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length


def _length_and_delay(options: Mapping[str, str]) -> tuple[timedelta, timedelta]:
    delay = timedelta(milliseconds=tagging.TAG_CREATION_DELAY.of(options))
    at, interval = tagging.TAG_CREATE_TIME.of(options), tagging.TAG_CREATE_INTERVAL.of(options)
    if at is not None or interval is not None:
        days = timedelta(milliseconds=tagging.DAY_MILLIS if interval is None else interval)
        return days, delay if at is None else timedelta(milliseconds=at)
    duration = tagging.TAG_CREATION_PERIOD_DURATION.of(options)
    if duration is not None:
        return timedelta(milliseconds=duration), delay
    lengths = {TagPeriod.DAILY: _DAY, TagPeriod.HOURLY: _HOUR, TagPeriod.TWO_HOURS: 2 * _HOUR}
    return lengths[tagging.TAG_CREATION_PERIOD.of(options)], delay


def _format(options: Mapping[str, str]) -> str:
    chosen = tagging.TAG_PERIOD_FORMATTER.of(options)
    is_of_days = any(one.of(options) is not None for one in (tagging.TAG_CREATE_TIME, tagging.TAG_CREATE_INTERVAL))
    if not is_of_days and tagging.TAG_CREATION_PERIOD_DURATION.of(options) is not None:
        return _MINUTES
    period = TagPeriod.DAILY if is_of_days else tagging.TAG_CREATION_PERIOD.of(options)
    if period is TagPeriod.DAILY:
        return _DAYS.get(chosen, "%Y%m%d")
    return _HOURS[TagFormat.WITH_DASHES] if period is TagPeriod.TWO_HOURS else _HOURS[chosen]
