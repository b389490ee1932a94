"""Options of streams for changes that no writer made: restores, and merges of branches."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from lakelog.common.options import Option, choice
from lakelog.filestore.metadata.snapshots import MERGE_OPERATION, RESTORE_OPERATION, BranchVerb


class FeedOrFail(StrEnum):
    """What a stream does at changes that no writer made: continue with them, or stop."""

    FEED = "feed"
    FAIL = "fail"


STREAM_ON_RESTORE = Option(
    key="stream.on-restore",
    parse=choice(FeedOrFail),
    default=FeedOrFail.FEED,
    doc="What a stream does where an older state of the table was restored, or where a table with a log got the rows "
    "of a branch as a whole: `feed` the changes of its rows, each once, or `fail` before the first of them.",
)
STREAM_ON_MERGE = Option(
    key="stream.on-merge",
    parse=choice(FeedOrFail),
    default=FeedOrFail.FEED,
    doc="What a stream does where what changed in a branch was merged into the table (`branches.merge`): `feed` the "
    "changes of its rows, each once, or `fail` before the first of them.",
)
STOP_OPTIONS: tuple[Option[FeedOrFail], ...] = (STREAM_ON_RESTORE, STREAM_ON_MERGE)
_OF_OPERATION = {MERGE_OPERATION: STREAM_ON_MERGE, RESTORE_OPERATION: STREAM_ON_RESTORE} | {
    verb.value: STREAM_ON_RESTORE for verb in BranchVerb
}


def stops_of(given: Mapping[str, str]) -> dict[str, str]:
    """The operations at which a stream stops, and the key of the option that says so. Raises OptionError."""
    return {operation: one.key for operation, one in _OF_OPERATION.items() if one.of(given) is FeedOrFail.FAIL}
