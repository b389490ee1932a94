"""The option that makes a stream of an upsert log give a full changelog."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option, parse_bool
from lakelog.streams.options.log_options import METADATA_COLUMNS, LogReading

SCAN_NORMALIZE = Option(
    key="scan.normalize",
    parse=parse_bool,
    default=False,
    doc="Whether a stream gives a full changelog where the log has no old values: they are looked up in the table. An "
    "insert is `+I`, an update `-U` and `+U`, a delete `-D` with the row as it was; what changes nothing is left out. "
    "For consumers that count or sum; those that upsert do not need it. Needs `row-kind`.",
)


def parse_normalize(options: Mapping[str, str], log: LogReading, *, has_row_kind: bool) -> bool:
    """Whether a read normalizes.

    Raises OptionError, and InvalidRequestError for options that it cannot be combined with.
    """
    if not SCAN_NORMALIZE.of(options):
        return False
    if not has_row_kind:
        raise InvalidRequestError(
            f"{SCAN_NORMALIZE.key}=true gives old rows with their row kinds, and row-kind is not true; set "
            f"row-kind=true too, or leave {SCAN_NORMALIZE.key} out"
        )
    if log.metadata:
        raise InvalidRequestError(
            f"{SCAN_NORMALIZE.key}=true gives old rows, which stand in no record of their own, and "
            f"{METADATA_COLUMNS.key} asks for columns of records; leave one of the two out"
        )
    return True
