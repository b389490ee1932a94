"""In which ways of reading an option has an effect: in the others it is refused by its name, never passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option
from lakelog.filestore.io import EXTERNAL_PATHS, S3_OPTIONS
from lakelog.logstore.options import ON_UNTRACKED, SCAN
from lakelog.spark.logging_level import LOGGING_LEVEL
from lakelog.spark.options import (
    FRESH,
    MAX_BYTES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    PATH,
    READ_OPTIONS,
    TABLE,
    WAREHOUSE,
    ReadOptions,
    known_options,
)
from lakelog.streams.options import log_options
from lakelog.streams.options.align_options import ALIGN_OPTIONS
from lakelog.streams.options.log_options import FAIL_ON_DATA_LOSS, METADATA_COLUMNS, STARTING_OFFSETS, check_log_batch
from lakelog.streams.options.normalize_option import SCAN_NORMALIZE
from lakelog.streams.options.stop_options import STOP_OPTIONS
from lakelog.streams.options.stream_read import CONSUMER_ID

_OF_STREAMS: tuple[Option[object], ...] = (
    MAX_ROWS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER,
    CONSUMER_ID,
    SCAN_NORMALIZE,
    *ALIGN_OPTIONS,
    *STOP_OPTIONS,
)
_OF_THE_LOG: tuple[Option[object], ...] = (SCAN, METADATA_COLUMNS, FAIL_ON_DATA_LOSS, ON_UNTRACKED)
_OF_THE_FORMAT: tuple[Option[object], ...] = (PATH, TABLE, WAREHOUSE, LOGGING_LEVEL, EXTERNAL_PATHS, *S3_OPTIONS)


def check_batch(options: ReadOptions, *, table_name: str, has_log: bool) -> None:
    """Raise InvalidRequestError for options that a batch read of a table does not have, or cannot combine."""
    for key in _given(options.given, _OF_STREAMS):
        raise InvalidRequestError(f"{key} is an option of streams, and this is a batch read: leave it out")
    check_log_batch(options.log, options.state, table_name=table_name, has_log=has_log)
    for key in () if options.log.reads_batch else _given(options.given, _OF_THE_LOG):
        raise InvalidRequestError(
            f"{key} is about records of the log, and this batch reads files: read the log with "
            f"{STARTING_OFFSETS.key}=earliest, or a stream"
        )


def check_stream(options: ReadOptions, *, table_name: str, has_log: bool) -> None:
    """Raise InvalidRequestError for options that a stream of a table does not have, or cannot combine."""
    log_options.check_stream(options.log, options.state, table_name=table_name, has_log=has_log)
    for key in _given(options.given, (FRESH,)):
        raise InvalidRequestError(f"{key} is an option of batch reads, and a stream reads the log anyway: leave it out")
    if ON_UNTRACKED.key in options.given and not has_log:
        raise InvalidRequestError(
            f"{ON_UNTRACKED.key} is about changes that the log leaves out, and this stream of table {table_name} "
            "follows its files: leave it out"
        )


def check_attached(given: Mapping[str, str], name: str) -> None:
    """Raise InvalidRequestError for options that say where a table is or how it is opened: an attached one is known."""
    for key in _given(known_options(given, READ_OPTIONS), _OF_THE_FORMAT):
        raise InvalidRequestError(
            f'{key} is an option of format("lakelog"), and {name} is a table of an attached warehouse: leave it out, '
            "or give it to lakelog.spark.attach, with which the whole warehouse is opened"
        )


def _given(given: Iterable[str], options: tuple[Option[object], ...]) -> list[str]:
    return [option.key for option in options if option.key in given]
