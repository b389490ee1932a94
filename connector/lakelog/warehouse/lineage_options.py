"""The catalog options that switch lineage."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.options import Option, parse_bool

TABLE_LINEAGE = Option(
    key="table-lineage",
    parse=parse_bool,
    default=False,
    doc="Whether `sys.source_job_lineage` and `sys.sink_job_lineage` record which jobs read and write which tables. "
    "`lakelog.lineage.feed` does so, and each expiry before it deletes snapshots.",
)
DATA_LINEAGE = Option(
    key="data-lineage",
    parse=parse_bool,
    default=False,
    doc="Whether `sys.source_snapshot_lineage`, `sys.sink_snapshot_lineage` and `sys.snapshot_edges` record which "
    "snapshots of sources made which snapshots. `lakelog.lineage.feed` does so, and each expiry before it deletes "
    "snapshots.",
)
LINEAGE_OPTIONS = (TABLE_LINEAGE, DATA_LINEAGE)
_KEYS = {option.key for option in LINEAGE_OPTIONS}


def lineage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalog that switch lineage. Raises OptionError for a wrong value."""
    for option in LINEAGE_OPTIONS:
        option.of(options)
    return {key: value for key, value in options.items() if key in _KEYS}


def switched_on(options: Mapping[str, str]) -> dict[str, str]:
    """The options that switch lineage on. Only a feed switches it off."""
    return {option.key: options[option.key] for option in LINEAGE_OPTIONS if option.of(options)}


def without_lineage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that do not switch lineage."""
    return {key: value for key, value in options.items() if key not in _KEYS}
