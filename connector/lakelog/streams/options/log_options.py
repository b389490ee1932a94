"""Options of reads of the log by `format("lakelog")`: where they start and end, and what they show of each record.

| option | of |
|---|---|
| `log.scan`, `startingOffsets` | where a stream, or a batch read of the log, starts |
| `endingOffsets` | where a batch read of the log ends |
| `failOnDataLoss` | what deleted offsets mean |
| `metadata-columns` | columns about each record |
| `stream.align` and those that begin with it | where the batches of a stream end, see `align_options` |
| `stream.on-restore`, `stream.on-merge` | whether a stream goes on at a restore, and at a merge of a branch |

Source: FLIP-188, "Table Options" (`log.scan`); Spark, "Structured Streaming + Kafka Integration Guide" (offsets).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option, choice, parse_bool, parse_names
from lakelog.logstore.options import SCAN, SCAN_TIMESTAMP_MILLIS, SCAN_TIMESTAMP_MILLS, LogScan
from lakelog.streams.options.align_options import ALIGN_OPTIONS, NOT_ALIGNED, Alignment, parse_alignment
from lakelog.streams.options.log_offsets import OFFSETS_KIND, Edge, GivenOffsets, parse_offsets
from lakelog.streams.options.shown_state import SNAPSHOT_ID, TAG, TIMESTAMP, VERSION, WATERMARK, ShownState
from lakelog.streams.options.stop_options import STOP_OPTIONS, stops_of


class MetadataColumn(StrEnum):
    """A column about a record of the log, or a row of a snapshot."""

    BUCKET = "bucket"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    USER = "user"
    BATCH_ID = "batch_id"
    SNAPSHOT_ID = "snapshot_id"
    WATERMARK = "watermark"

    @property
    def column(self) -> str:
        """The name of the column."""
        return f"_{self.value}"


def _parse_metadata(text: str) -> tuple[MetadataColumn, ...]:
    if text.strip().lower() == "all":
        return tuple(MetadataColumn)
    return tuple(map(choice(MetadataColumn), parse_names(text)))


STARTING_OFFSETS: Option[GivenOffsets | None] = Option(
    key="startingOffsets",
    parse=parse_offsets,
    default=None,
    doc="Where a stream with `log.scan`=`from-offsets`, which this implies, or a batch read of the log starts. A "
    "number is the next offset to read; -2 is the earliest, -1 the latest. Every bucket is named; the topic may be, as "
    "for Spark's Kafka source. A batch that has `endingOffsets` alone starts at the earliest offset.",
    kind=OFFSETS_KIND,
)
ENDING_OFFSETS: Option[GivenOffsets | None] = Option(
    key="endingOffsets",
    parse=parse_offsets,
    default=None,
    doc="Where a batch read of the log ends, exclusive. `latest`, the default where the start is given, is behind the "
    "last committed transaction.",
    kind=OFFSETS_KIND,
)
FAIL_ON_DATA_LOSS = Option(
    key="failOnDataLoss",
    parse=parse_bool,
    default=True,
    doc="Whether a read of the log fails when offsets that it is to read were deleted, and a stream does not find them "
    "in the files. With `false` it continues at the first offset that there is, with a warning. A log that lost or "
    "replaced its newest records is an error all the same.",
)
METADATA_COLUMNS: Option[tuple[MetadataColumn, ...]] = Option(
    key="metadata-columns",
    parse=_parse_metadata,
    default=(),
    doc="Columns about each record of the log, with commas, or `all`: `bucket`, `offset`, `timestamp`, `user`, "
    "`batch_id`, `snapshot_id`, `watermark`. Their names in the rows begin with `_`.",
    kind=f"all, or names of {', '.join(MetadataColumn)}",
)
LOG_READ_OPTIONS: tuple[Option[object], ...] = (
    STARTING_OFFSETS,
    ENDING_OFFSETS,
    FAIL_ON_DATA_LOSS,
    METADATA_COLUMNS,
    *ALIGN_OPTIONS,
    *STOP_OPTIONS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """How the log is read. `reads_batch` says that a batch read of the log is meant, between `starting` and `ending`.

    `table_millis` is where `from-timestamp` starts if the read names no timestamp, in milliseconds since 1970. `stops`
    is the result of `stops_of`.
    """

    scan: LogScan = LogScan.FULL
    starting: GivenOffsets | None = None
    ending: GivenOffsets | None = None
    fails_on_loss: bool = True
    metadata: tuple[MetadataColumn, ...] = ()
    alignment: Alignment = NOT_ALIGNED
    reads_batch: bool = False
    table_millis: int | None = None
    stops: Mapping[str, str] = field(default_factory=dict)


DEFAULT_READING = LogReading()


def parse_log_reading(given: Mapping[str, str], table_options: Mapping[str, str]) -> LogReading:
    """How the log is read, by the options of the read, and for options that it does not set, by those of the table.

    Raises OptionError for a bad value. `check_stream` and `check_log_batch` check which options go together.
    """
    starting, ending = STARTING_OFFSETS.of(given), ENDING_OFFSETS.of(given)
    scan = SCAN.of({**table_options, **given})
    if starting is not None and SCAN.key not in given:
        scan = LogScan.FROM_OFFSETS
    has_point = SCAN.key in given and scan in (LogScan.FROM_SNAPSHOT, LogScan.FROM_TIMESTAMP)
    reads_batch = has_point or starting is not None or ending is not None
    if reads_batch and SCAN.key not in given:
        scan = LogScan.FROM_OFFSETS
    return LogReading(
        scan=scan,
        starting=starting,
        ending=ending,
        fails_on_loss=FAIL_ON_DATA_LOSS.of(given),
        metadata=METADATA_COLUMNS.of(given),
        alignment=parse_alignment(given),
        reads_batch=reads_batch,
        table_millis=SCAN_TIMESTAMP_MILLIS.of(table_options) or SCAN_TIMESTAMP_MILLS.of(table_options),
        stops=stops_of(given),
    )


def check_stream(reading: LogReading, state: ShownState, *, table_name: str, has_log: bool) -> None:
    """Raise InvalidRequestError for options that cannot be combined in a stream."""
    if reading.ending is not None:
        raise InvalidRequestError(
            f"{ENDING_OFFSETS.key} is an option of batch reads: a stream has no end; read it with spark.read"
        )
    reading.alignment.check_stream()
    _check_start(reading, state)
    if not has_log:
        _check_needs_no_log(reading, table_name)


def check_log_batch(reading: LogReading, state: ShownState, *, table_name: str, has_log: bool) -> None:
    """Raise InvalidRequestError for options that cannot be combined in a batch read."""
    if not reading.reads_batch:
        return
    if reading.scan in (LogScan.FULL, LogScan.LATEST):
        raise InvalidRequestError(
            f"{SCAN.key}={reading.scan.value} is where a stream starts; a batch read of the log starts at "
            f"{STARTING_OFFSETS.key}, or with {SCAN.key}=from-snapshot or from-timestamp"
        )
    for key, value in ((TAG.key, state.tag), (VERSION.key, state.version), (WATERMARK.key, state.watermark)):
        if value is not None:
            raise InvalidRequestError(
                f"a {key} keeps a snapshot's files, not its log: leave the {key} out, or the offsets"
            )
    if reading.starting is None and reading.scan is LogScan.FROM_OFFSETS:
        if state != ShownState():
            raise _extra(state, LogScan.FROM_OFFSETS)
    else:
        _check_start(reading, state)
    for option, given, refused in (
        (STARTING_OFFSETS, reading.starting, Edge.LATEST),
        (ENDING_OFFSETS, reading.ending, Edge.EARLIEST),
    ):
        if given is not None and refused in given.edges:
            word, number = refused.value
            raise InvalidRequestError(
                f"option {option.key!r} of a batch read cannot be {word} ({number}): the range would be empty"
            )
    if not has_log:
        _check_needs_no_log(reading, table_name)
        raise _needs_log(f"{SCAN.key}={reading.scan.value} of a batch read", table_name)


def _check_start(reading: LogReading, state: ShownState) -> None:
    """Raise InvalidRequestError unless the options name the start that `log.scan` takes, and no other."""
    scan, needed = reading.scan, _NEEDED[reading.scan]
    given = {
        SNAPSHOT_ID.key: state.snapshot_id is not None,
        TIMESTAMP.key: state.timestamp_millis is not None,
        STARTING_OFFSETS.key: reading.starting is not None,
    }
    for key in needed:
        if not given[key] and not (key == TIMESTAMP.key and reading.table_millis is not None):
            also = f" or {SCAN_TIMESTAMP_MILLIS.key}" if key == TIMESTAMP.key else ""
            raise InvalidRequestError(f"{SCAN.key}={scan.value} needs {key}{also}")
    for key, value in ((TAG.key, state.tag), (VERSION.key, state.version), (WATERMARK.key, state.watermark)):
        if value is not None and scan is not LogScan.FULL:
            raise InvalidRequestError(f"{key} names a state whose rows come first: leave out {SCAN.key}={scan.value}")
    allowed: Sequence[str] = (SNAPSHOT_ID.key, TIMESTAMP.key) if scan is LogScan.FULL else needed
    for key, is_given in given.items():
        if is_given and key not in allowed:
            raise _unused(key, scan)


_NEEDED: dict[LogScan, tuple[str, ...]] = {
    LogScan.FULL: (),
    LogScan.LATEST: (),
    LogScan.FROM_SNAPSHOT: (SNAPSHOT_ID.key,),
    LogScan.FROM_TIMESTAMP: (TIMESTAMP.key,),
    LogScan.FROM_OFFSETS: (STARTING_OFFSETS.key,),
}


def _unused(key: str, scan: LogScan) -> InvalidRequestError:
    fitting = [one.value for one, keys in _NEEDED.items() if key in keys]
    return InvalidRequestError(
        f"{key} does not go with {SCAN.key}={scan.value}: leave it out, or set {SCAN.key}={fitting[0]}"
    )


def _extra(state: ShownState, scan: LogScan) -> InvalidRequestError:
    return _unused(SNAPSHOT_ID.key if state.snapshot_id is not None else TIMESTAMP.key, scan)


def _check_needs_no_log(reading: LogReading, table_name: str) -> None:
    """Raise InvalidRequestError for options that have no meaning without a log."""
    asked = {
        STARTING_OFFSETS.key: reading.starting is not None,
        ENDING_OFFSETS.key: reading.ending is not None,
        METADATA_COLUMNS.key: bool(reading.metadata),
    }
    for key, is_asked in asked.items():
        if is_asked:
            raise _needs_log(key, table_name)


def _needs_log(what: str, table_name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{what} is about the log, and table {table_name} has none, or is a copy, whose log belongs to the original:"
        " read its snapshots, or Table.changes"
    )
