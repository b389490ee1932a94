"""Which state of a table a read by `format("lakelog")` shows: the options for it.

| lakelog, as everywhere else | Paimon, as for its own connectors |
|---|---|
| `snapshot_id` | `scan.snapshot-id` |
| `timestamp` | `scan.timestamp`, `scan.timestamp-millis` |
| `watermark` | `scan.watermark` |
| `tag` | `scan.tag-name` |
| `version` | `scan.version` |
| `branch` | `branch`, `scan.branch` |

A read takes one of them, and in addition a branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.options import Option, parse_whole, positive
from lakelog.common.timestamps import parse_timestamp
from lakelog.filestore.options import SCAN_SNAPSHOT_ID, SCAN_TIMESTAMP, SCAN_TIMESTAMP_MILLIS, parse_branch
from lakelog.filestore.refs import SnapshotChoice
from lakelog.logstore.options import SCAN_TIMESTAMP_MILLIS as LOG_SCAN_TIMESTAMP_MILLIS
from lakelog.logstore.options import SCAN_TIMESTAMP_MILLS as LOG_SCAN_TIMESTAMP_MILLS

SNAPSHOT_ID: Option[int | None] = Option(
    key="snapshot_id",
    parse=positive,
    default=None,
    doc="The snapshot to read, by its number. `scan.snapshot-id` is the same.",
)
TIMESTAMP: Option[str | None] = Option(
    key="timestamp",
    parse=str,
    default=None,
    doc="The newest snapshot at this time or before is read: a time such as 2026-01-31 12:00:00, in the zone of "
    "`timezone` unless it has one, or milliseconds since 1970. `scan.timestamp`, `scan.timestamp-millis` and "
    "`timestampAsOf` are the same.",
    kind="a timestamp",
)
WATERMARK: Option[int | None] = Option(
    key="watermark",
    parse=parse_whole,
    default=None,
    doc="The oldest snapshot with this watermark or a later one is read. `scan.watermark` is the same.",
)
VERSION: Option[str | None] = Option(
    key="version",
    parse=str,
    default=None,
    doc="What is read: a tag of this name, a snapshot of this number, `branch.tag`, `branch.snapshot` or a branch, the "
    "first of these that exists. `scan.version` and `versionAsOf` are the same.",
    kind="a tag, snapshot or branch",
)
TAG: Option[str | None] = Option(
    key="tag",
    parse=str,
    default=None,
    doc="The snapshot that this tag keeps is read; a stream reads its rows, then the changes behind it. "
    "`scan.tag-name` is the same.",
    kind="the name of a tag",
)
BRANCH: Option[str | None] = Option(
    key="branch",
    parse=parse_branch,
    default=None,
    doc="The branch of the table that is read or written; `main` without it. `scan.branch` is the same.",
)
_SCAN_WATERMARK = Option(key="scan.watermark", parse=parse_whole, default=None, doc=WATERMARK.doc, kind=WATERMARK.kind)
_SCAN_VERSION = Option(key="scan.version", parse=str, default=None, doc=VERSION.doc, kind=VERSION.kind)
SCAN_BRANCH: Option[str | None] = Option(
    key="scan.branch", parse=parse_branch, default=None, doc=BRANCH.doc, kind=BRANCH.kind
)
_SCAN_TAG_NAME = Option(key="scan.tag-name", parse=str, default=None, doc=TAG.doc, kind=TAG.kind)
VERSION_AS_OF = Option(key="versionAsOf", parse=str, default=None, doc=VERSION.doc, kind=VERSION.kind)
TIMESTAMP_AS_OF = Option(key="timestampAsOf", parse=str, default=None, doc=TIMESTAMP.doc, kind=TIMESTAMP.kind)
# What Spark itself takes for `VERSION AS OF` and `TIMESTAMP AS OF` of tables in its catalogs.
OF_SPARK = frozenset({VERSION_AS_OF.key.lower(), TIMESTAMP_AS_OF.key.lower()})

STATE_OPTIONS: tuple[Option[object], ...] = (SNAPSHOT_ID, TIMESTAMP, WATERMARK, TAG, VERSION, BRANCH)
PAIMON_STATE_OPTIONS: tuple[Option[object], ...] = (
    SCAN_SNAPSHOT_ID,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    _SCAN_WATERMARK,
    _SCAN_TAG_NAME,
    _SCAN_VERSION,
    LOG_SCAN_TIMESTAMP_MILLIS,
    LOG_SCAN_TIMESTAMP_MILLS,
    VERSION_AS_OF,
    TIMESTAMP_AS_OF,
)
# In lower case, as Spark's maps of options compare them.
NAMES_OF_STATES = frozenset(one.key.lower() for one in (*STATE_OPTIONS, *PAIMON_STATE_OPTIONS) if one is not BRANCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownState:
    """The state that the options of a read name: at most one field is not None; if all are, it is the newest state."""

    snapshot_id: int | None = None
    timestamp_millis: int | None = None
    watermark: int | None = None
    tag: str | None = None
    version: str | None = None

    @property
    def choice(self) -> SnapshotChoice:
        """The keywords of `Table.snapshot`."""
        return {
            "snapshot_id": self.snapshot_id,
            "timestamp": self.timestamp_millis,
            "watermark": self.watermark,
            "tag": self.tag,
            "version": self.version,
        }

    def options(self) -> dict[str, str]:
        """The options of a read that name the state."""
        named = {
            SNAPSHOT_ID.key: self.snapshot_id,
            TIMESTAMP.key: self.timestamp_millis,
            WATERMARK.key: self.watermark,
            TAG.key: self.tag,
            VERSION.key: self.version,
        }
        return {key: str(value) for key, value in named.items() if value is not None}


NEWEST = ShownState()


def parse_state(options: Mapping[str, str], zone: tzinfo) -> ShownState:
    """The state that the options name, each under its declared key.

    Raises OptionError for a bad value, InvalidRequestError for two options that both name a state.
    """
    given = [option.key for option in (*STATE_OPTIONS, *PAIMON_STATE_OPTIONS) if option.key in options]
    given = [key for key in given if key != BRANCH.key]
    if len(given) > 1:
        raise InvalidRequestError(
            f"{' and '.join(f'{key}={options[key]}' for key in given)} each name a state of the table, and a read "
            "shows one: give one of them"
        )
    given_millis = (SCAN_TIMESTAMP_MILLIS, LOG_SCAN_TIMESTAMP_MILLIS, LOG_SCAN_TIMESTAMP_MILLS)
    millis = next((found for option in given_millis if (found := option.of(options)) is not None), None)
    return ShownState(
        snapshot_id=SNAPSHOT_ID.of(options) or SCAN_SNAPSHOT_ID.of(options),
        timestamp_millis=_parsed_time(options, zone) if millis is None else millis,
        watermark=next((at for one in (WATERMARK, _SCAN_WATERMARK) if (at := one.of(options)) is not None), None),
        tag=TAG.of(options) or _SCAN_TAG_NAME.of(options),
        version=VERSION.of(options) or _SCAN_VERSION.of(options) or VERSION_AS_OF.of(options),
    )


def named_version(given: Mapping[str, str]) -> str | None:
    """The version that the options of a read name, which may name a branch."""
    options = {key.lower(): value for key, value in given.items()}
    return VERSION.of(options) or _SCAN_VERSION.of(options) or options.get(VERSION_AS_OF.key.lower())


def branch_of(options: Mapping[str, str]) -> str | None:
    """The branch that options name; None without one. Raises InvalidRequestError for two."""
    branch, other = BRANCH.of(options), SCAN_BRANCH.of(options)
    if branch is not None and other is not None and branch != other:
        raise InvalidRequestError(f"{BRANCH.key}={branch} and {SCAN_BRANCH.key}={other} name two branches: give one")
    return branch or other


def _parsed_time(options: Mapping[str, str], zone: tzinfo) -> int | None:
    for option in (TIMESTAMP, SCAN_TIMESTAMP, TIMESTAMP_AS_OF):
        text = option.of(options)
        if text is None:
            continue
        try:
            return parse_timestamp(text, zone)
        except InvalidRequestError as error:
            raise OptionError.bad_value(option.key, text, "a timestamp such as 2026-01-31 12:00:00") from error
    return None
