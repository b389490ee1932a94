"""What a stream asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.common.options import Option
from lakelog.logstore.options import OnUntracked
from lakelog.streams.options.log_options import DEFAULT_READING, LogReading
from lakelog.streams.options.shown_state import NEWEST, ShownState

if TYPE_CHECKING:
    from lakelog.filestore.predicate import Predicate

CONSUMER_ID = Option(
    key="consumer-id",
    parse=str,
    default="",
    doc="The name under which a stream of a table without a log records in the table how far it is. Snapshots that it "
    "has not read do not expire, and a query with a new checkpoint goes on from there. One query a name.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRead:
    """What a stream asks for. `columns` None means all; `state` is also where a stream with such a start begins."""

    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    has_row_kind: bool = False
    max_rows: int | None = None
    max_bytes: int | None = None
    consumer_id: str | None = None
    normalizes: bool = False
    on_untracked: OnUntracked = OnUntracked.FAIL
    state: ShownState = NEWEST
    log: LogReading = DEFAULT_READING
