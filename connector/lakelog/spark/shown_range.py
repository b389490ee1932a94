"""The options of batch reads of changes between two states, with Paimon's names.

| option | reads |
|---|---|
| `incremental-between` | `a,b`: two snapshots or two tags; what came after a, up to and with b |
| `incremental-between-timestamp` | `a,b`: two timestamps |
| `incremental-between-scan-mode` | `auto`, `delta`, `changelog`, or `diff`, the difference of the two states |
| `incremental-between-tag-to-snapshot` | with `true` two tags mean their snapshots, not a difference |
| `incremental-to-auto-tag` | a tag: the difference from the automatic tag before it |

Source: Paimon, `CoreOptions`, "incremental-between".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.options import Option, parse_bool
from lakelog.common.timestamps import parse_timestamp
from lakelog.filestore.read import ChangeSource
from lakelog.filestore.refs import RangeName

CHANGES_FROM = "__changes-from"  # by which an attached table says that a stream is one of changes, and from where on
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS_DIGITS_MAX = 15
_SOURCES = {
    "auto": ChangeSource.AUTO,
    "delta": ChangeSource.DELTA,
    "changelog": ChangeSource.CHANGELOG,
    "diff": ChangeSource.DIFFERENCE,
}


def _pair(text: str) -> tuple[str, str]:
    first, comma, last = (part.strip() for part in text.partition(","))
    if not (first and comma and last) or "," in last:
        raise ValueError("expected two names with a comma between")
    return first, last


BETWEEN: Option[tuple[str, str] | None] = Option(
    key="incremental-between",
    parse=_pair,
    default=None,
    doc="Two snapshots or two tags, as `3,5` or `monday,friday`: a batch reads what changed after the first, up to the "
    "second; with `row-kind` deletes too.",
    kind="two names with a comma",
)
BETWEEN_TIMESTAMP: Option[tuple[str, str] | None] = Option(
    key="incremental-between-timestamp",
    parse=_pair,
    default=None,
    doc="Two timestamps, in place of `incremental-between`.",
    kind="two timestamps with a comma",
)
BETWEEN_SCAN_MODE: Option[ChangeSource] = Option(
    key="incremental-between-scan-mode",
    parse=lambda text: _SOURCES[text.strip().lower()],
    default=ChangeSource.AUTO,
    doc="From what changes between two states are read: `changelog` files, added files (`delta`), or `diff`, the "
    "difference of the two states. `auto` is `diff` between two tags, else what the table has.",
    kind="auto, delta, changelog or diff",
)
BETWEEN_TAG_TO_SNAPSHOT = Option(
    key="incremental-between-tag-to-snapshot",
    parse=parse_bool,
    default=False,
    doc="Whether two tags in `incremental-between` mean their snapshots, whose changes are read, not the difference.",
)
TO_AUTO_TAG: Option[str | None] = Option(
    key="incremental-to-auto-tag",
    parse=str,
    default=None,
    doc="A tag: a batch reads the difference to it from the automatic tag before it.",
    kind="the name of a tag",
)
RANGE_OPTIONS: tuple[Option[object], ...] = (
    BETWEEN,
    BETWEEN_TIMESTAMP,
    BETWEEN_SCAN_MODE,
    BETWEEN_TAG_TO_SNAPSHOT,
    TO_AUTO_TAG,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRange:
    """The two states between which a batch reads changes; without `after`, those since the previous automatic tag."""

    after: RangeName | None
    up_to: RangeName
    source: ChangeSource
    tags_mean_snapshots: bool = False


def parse_range(options: Mapping[str, str], zone: tzinfo) -> ShownRange | None:
    """The range that the options name, each under its declared key; None for a read of one state.

    Raises OptionError for a bad value, InvalidRequestError for options that do not go together.
    """
    named = [option.key for option in (BETWEEN, BETWEEN_TIMESTAMP, TO_AUTO_TAG) if option.key in options]
    if len(named) > 1:
        raise InvalidRequestError(f"{' and '.join(named)} each name a range of changes: give one of them")
    source = BETWEEN_SCAN_MODE.of(options)
    if not named:
        for option in (BETWEEN_SCAN_MODE, BETWEEN_TAG_TO_SNAPSHOT):
            if option.key in options:
                raise InvalidRequestError(f"{option.key} goes with {BETWEEN.key}, which is not given")
        return None
    times, tag = BETWEEN_TIMESTAMP.of(options), TO_AUTO_TAG.of(options)
    if tag is not None:
        return ShownRange(after=None, up_to=tag, source=ChangeSource.DIFFERENCE)
    if times is not None:
        first, last = (_time(text, zone) for text in times)
        return ShownRange(after=first, up_to=last, source=source)
    between = BETWEEN.of(options)
    assert between is not None, "one of them is given"
    means_snapshots = BETWEEN_TAG_TO_SNAPSHOT.of(options)
    return ShownRange(after=between[0], up_to=between[1], source=source, tags_mean_snapshots=means_snapshots)


def _time(text: str, zone: tzinfo) -> datetime:
    try:
        is_millis = text.isascii() and text.isdigit() and len(text) < _MILLIS_DIGITS_MAX
        return _EPOCH + timedelta(milliseconds=int(text) if is_millis else parse_timestamp(text, zone))
    except (InvalidRequestError, OverflowError) as error:
        raise OptionError.bad_value(BETWEEN_TIMESTAMP.key, text, "timestamps such as 2026-01-31 12:00:00") from error
