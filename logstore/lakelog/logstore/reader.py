"""Read a topic partition: the tail behind an offset, or a range of offsets. read_committed always."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa

from lakelog.common.types import DataField

OFFSET_COLUMN = "_offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTransaction:
    """One committed transaction: the records from the one with the header on. `end_offset` is exclusive."""

    header: bytes
    first_offset: int
    end_offset: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The committed transactions from a base offset to the high watermark, in log order."""

    transactions: tuple[TailTransaction, ...]
    high_watermark: int
    leader_epoch: int | None


def read_tail(
    client_config: Mapping[str, str],
    topic: str,
    partition: int,
    base: int,
    timeout_seconds: float = 10.0,
) -> Tail:
    """The tail from `base`; call it after the fence, so that nobody's older transaction is still open.

    Raises StalledError when an open transaction hides records for `timeout_seconds`, LogTruncatedError when
    the partition does not hold `base`, CorruptDataError when the first record has no header.
    """
    raise NotImplementedError


class LogReader:
    """Reads ranges of a topic; keeps its consumer open for the next range."""

    def __init__(self, client_config: Mapping[str, str], topic: str, fields: Sequence[DataField]) -> None:
        """Make a reader of rows with these columns. No I/O yet."""
        self.client_config = dict(client_config)
        self.topic = topic
        self.fields = tuple(fields)

    def read_range(
        self,
        *,
        partition: int,
        start: int,
        end: int,
        batch_rows: int = 65_536,
        with_offset: bool = False,
        timeout_seconds: float = 10.0,
    ) -> Iterator[pa.RecordBatch]:
        """The committed changes in [start, end): the columns, `_row_kind` (int8), and `_offset` if asked for.

        Raises LogTruncatedError, StalledError (nothing came for `timeout_seconds`), CorruptDataError.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the consumer. Never raises."""
        raise NotImplementedError

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_range(
    client_config: Mapping[str, str],
    topic: str,
    fields: Sequence[DataField],
    *,
    partition: int,
    start: int,
    end: int,
    batch_rows: int = 65_536,
    with_offset: bool = False,
    timeout_seconds: float = 10.0,
) -> Iterator[pa.RecordBatch]:
    """As LogReader.read_range, with a reader that this process keeps for the next call."""
    raise NotImplementedError
