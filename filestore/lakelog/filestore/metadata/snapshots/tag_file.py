"""Tags: snapshots that have a name, and do not expire."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any  # Any: parsed JSON

from lakelog.common.html import html_table
from lakelog.common.json_fields import parse_object
from lakelog.common.quoting import cause, shown
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

NAME_KEY = "lakelogTag"
RENAMED_KEY = "lakelogRenamedFrom"
_CREATE_TIME_KEY = "tagCreateTime"
_TIME_RETAINED_KEY = "tagTimeRetained"
_SECONDS_MAX = 999_999_999 * 86_400  # of a timedelta
_PARTS_MIN, _PARTS_MAX = 3, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One tag, in the file `tag/tag-<name>`.

    The file is a copy of the snapshot's, with two more keys for a tag that expires: `tagCreateTime`, an array of year,
    month, day, hour, minute, second and nanosecond in the time zone of the machine that created it, and
    `tagTimeRetained`, seconds. Tags of lakelog also have a key `lakelogTag` with the name, by which swapped files are
    found. Source: Paimon, `Tag`.
    """

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained: timedelta | None = None
    renamed_from: str | None = None

    @property
    def expires_at(self) -> datetime | None:
        """When the tag expires, in the time zone of `create_time`; None for a tag that does not expire."""
        if self.create_time is None or self.time_retained is None:
            return None
        try:
            return self.create_time + self.time_retained
        except OverflowError:
            return None

    def __repr__(self) -> str:
        until = "" if self.expires_at is None else f", expires {self.expires_at:%Y-%m-%d %H:%M:%S}"
        return f"Tag({self.name!r}, snapshot {self.snapshot.id}, {shown_millis(self.snapshot.time_millis)}{until})"

    def _repr_html_(self) -> str:
        """The tag as notebooks show it; no I/O."""
        rows = [
            ("snapshot", self.snapshot.id),
            ("time of the snapshot", shown_millis(self.snapshot.time_millis)),
            ("rows in files", self.snapshot.total_record_count),
            ("created", "" if self.create_time is None else f"{self.create_time}"),
            ("kept for", "" if self.time_retained is None else f"{self.time_retained}"),
        ]
        return html_table(f"tag {self.name}", ("of the tag", "value"), rows)

    def to_json(self) -> str:
        """The JSON of the tag's file."""
        more: dict[str, object] = {NAME_KEY: self.name}
        if self.renamed_from is not None:
            more[RENAMED_KEY] = self.renamed_from
        time = self.create_time
        if time is not None and self.time_retained is not None:
            nanos = time.microsecond * 1_000
            more[_CREATE_TIME_KEY] = [time.year, time.month, time.day, time.hour, time.minute, time.second, nanos]
            more[_TIME_RETAINED_KEY] = self.time_retained.total_seconds()
        return self.snapshot.to_json(**more)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str, name: str) -> tuple[Tag, str]:
        """Parse the file at `path` of the tag `name`; also returns the name that the file gives the tag, else `name`.

        Raises CorruptDataError.
        """
        try:
            given = parse_object(text)
        except ValueError as error:
            raise damaged(path, f"it is not a readable tag: {cause(error)}") from error
        snapshot = Snapshot.from_fields(given, path=path)
        try:
            named = given.get(NAME_KEY, name)
            renamed = given.get(RENAMED_KEY)
            if not isinstance(named, str) or not isinstance(renamed, str | None):
                raise TypeError(f"its name is {shown(named)}, expected a string")
            tag = cls(
                name=name,
                snapshot=snapshot,
                create_time=_time(given),
                time_retained=_duration(given),
                renamed_from=renamed,
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise damaged(path, f"it is not a readable tag: {cause(error)}") from error
        return tag, named


def _time(given: Mapping[str, Any]) -> datetime | None:
    """A time as Java's Jackson writes it: an array that ends before parts that are 0, or a string."""
    value = given.get(_CREATE_TIME_KEY)
    if value is None:
        return None
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=None)
    is_array = isinstance(value, list) and _PARTS_MIN <= len(value) <= _PARTS_MAX
    if not is_array or not all(isinstance(part, int) for part in value):
        raise ValueError(f"its {_CREATE_TIME_KEY} is {shown(value)}, expected an array of 3 to 7 numbers")
    year, month, day, hour, minute, second, nanos = [*value, 0, 0, 0, 0][:_PARTS_MAX]
    return datetime(year, month, day, hour, minute, second, nanos // 1_000)


def _duration(given: Mapping[str, Any]) -> timedelta | None:
    value = given.get(_TIME_RETAINED_KEY)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value <= _SECONDS_MAX:
        raise ValueError(f"its {_TIME_RETAINED_KEY} is {shown(value)}, expected seconds")
    return timedelta(seconds=value)
