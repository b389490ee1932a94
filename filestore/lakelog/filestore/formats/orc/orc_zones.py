"""Local times as in Java's ORC writers, by the zone of the writer.

A writer in Java uses the offsets of `java.util.TimeZone`. This class has the rules of the time zone database from 1900
on, and before 1900 the standard time of today. This was found with files of ORC for Java in many zones, and with its
reader. The calendar is Gregorian at all times, as in Paimon's reader, whatever the footer says about the writer's.
"""

from __future__ import annotations

import re
from datetime import UTC as UTC_ZONE
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.int64]

SINCE_2015 = 1_420_070_400  # seconds from 1970 to 2015
UTC = ("UTC", "GMT", "Etc/UTC", "Z")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_CUSTOM = re.compile(r"GMT([+-])(\d{1,2}):?(\d\d)?")
_DAY = 86_400
_FIRST_RULE = -2_208_988_800  # 1900-01-01 in UTC
_YEAR_2037 = 2_114_380_800
_CYCLE = 146_097 * _DAY  # 400 years, after which weekdays and leap years repeat
_STEP = 7 * _DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC_ZONE)


class UnknownZoneError(ValueError):
    """A name that may be a time zone in Java, but is not one in Python."""

    def __init__(self, zone: str) -> None:
        super().__init__(f"its writer was in the time zone {zone!r}, which is not known")
        self.zone = zone


def start_of_2015(zone: str) -> int:
    """When 2015 began in a zone, in seconds since 1970 in UTC. Raises ValueError for a zone that is not known."""
    if zone in UTC:
        return SINCE_2015
    return int(datetime(2015, 1, 1, tzinfo=_zone(zone)).timestamp())


def local_seconds(instants: Seconds, zone: str) -> Seconds:
    """What the clocks of a zone showed, as seconds since 1970, at instants that are seconds since 1970 in UTC."""
    if zone in UTC:
        return instants
    starts, offsets = _offsets(zone)
    last = _FIRST_RULE + 2 * _CYCLE
    cycles = np.maximum(0, (instants - last) // _CYCLE + 1)  # the rules of the last years hold for all later ones
    places = np.searchsorted(starts, instants - cycles * _CYCLE, side="right") - 1
    shown: Seconds = instants + offsets[places]
    return shown


def _zone(name: str) -> tzinfo:
    custom = _CUSTOM.fullmatch(name)
    if custom is not None:
        offset = timedelta(hours=int(custom[2]), minutes=int(custom[3] or 0))
        return timezone(-offset if custom[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError as error:
        if _NAME.fullmatch(name):
            raise UnknownZoneError(name) from error
        raise ValueError(f"its writer was in the time zone {name!r}, which is not known") from error
    except (ValueError, OSError) as error:
        raise ValueError(f"its writer was in the time zone {name!r}, which is not known") from error


@lru_cache(maxsize=16)
def _offsets(name: str) -> tuple[Seconds, Seconds]:
    """The times from which a zone has each offset to UTC, and the offsets, in seconds. 800 years from 1900."""
    zone = _zone(name)

    def offset(instant: int) -> int:
        found = (_EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
        assert found is not None
        return int(found.total_seconds())

    standard = min(
        map(offset, range(_YEAR_2037, _YEAR_2037 + 365 * _DAY, _STEP))
    )  # the rest of the year is summer time
    starts, offsets = [-(1 << 62), _FIRST_RULE], [standard, offset(_FIRST_RULE)]
    for week in range(_FIRST_RULE, _FIRST_RULE + 2 * _CYCLE, _STEP):
        later = offset(week + _STEP)
        if later == offsets[-1]:
            continue
        first, last = week, week + _STEP
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if offset(middle) == offsets[-1] else (first, middle)
        starts.append(last)
        offsets.append(later)
    return np.array(starts, np.int64), np.array(offsets, np.int64)
