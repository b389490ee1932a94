"""The catalog options that switch lineage, and say how long it is kept."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.options import Option, parse_bool, parse_duration_millis

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
FIELD_LINEAGE_RETAINED = Option(
    key="field-lineage-retained",
    parse=parse_duration_millis,
    default=None,
    doc="How long `sys.lineage_runs` keeps a run after its last batch, and `sys.lineage_operations` and "
    "`sys.field_edges` what no other run names. Each feed deletes what is older; without the option, all is kept.",
)
_SWITCHES = (TABLE_LINEAGE, DATA_LINEAGE)
LINEAGE_OPTIONS = (*_SWITCHES, FIELD_LINEAGE_RETAINED)
_KEYS = {option.key for option in LINEAGE_OPTIONS}


def lineage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalog about lineage. Raises OptionError for a wrong value."""
    for option in LINEAGE_OPTIONS:
        option.of(options)
    return {key: value for key, value in options.items() if key in _KEYS}


def switched_on(options: Mapping[str, str]) -> dict[str, str]:
    """The options that switch lineage on. Only a feed switches it off."""
    return {option.key: options[option.key] for option in _SWITCHES if option.of(options)}


def without_lineage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are not about lineage."""
    return {key: value for key, value in options.items() if key not in _KEYS}
