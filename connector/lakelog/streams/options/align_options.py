"""Options of streams whose micro-batches are snapshots: `stream.align=snapshot`, and groups of such streams.

The streams of one query with the same `stream.align.group` move together: each batch ends, in all of them, at snapshots
that show the same versions of the tables above them. See `lakelog.spark.source.phases.stream_group`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakelog.common.errors import InvalidRequestError
from lakelog.common.file_names import check_user_name
from lakelog.common.options import Option, choice, parse_duration_millis, parse_names, positive


class Align(StrEnum):
    """Where the batches of a stream end."""

    TRANSACTION = "transaction"
    SNAPSHOT = "snapshot"


def _parse_snapshots(text: str) -> int | None:
    return None if text.strip().lower() == "all" else positive(text)


STREAM_ALIGN = Option(
    key="stream.align",
    parse=choice(Align),
    default=Align.TRANSACTION,
    doc="Where micro-batches of a stream end: at a `transaction` of each bucket, or at a `snapshot` that holds no "
    "unfinished batch of a writer in part, one snapshot a micro-batch, see `stream.align.snapshots`.",
)
STREAM_ALIGN_SNAPSHOTS: Option[int | None] = Option(
    key="stream.align.snapshots",
    parse=_parse_snapshots,
    default=1,
    doc="How many snapshots a micro-batch of a stream with `stream.align`=`snapshot` takes at most; `all` is no limit "
    "of their number. Those that change no row are not counted.",
    kind="a positive number, or all",
)
STREAM_ALIGN_TIMEOUT = Option(
    key="stream.align.timeout",
    parse=parse_duration_millis,
    default=10 * 60_000,
    doc="How long a stream with `stream.align`=`snapshot` waits for a writer whose batch is in the newest snapshots in "
    "part, before it fails with the writer's name.",
)
STREAM_ALIGN_GROUP = Option(
    key="stream.align.group",
    parse=str,
    default="",
    doc="The name of a group of streams of one query, with `stream.align`=`snapshot`. They move together: a batch ends "
    "at snapshots that show the same versions of the tables that both were made from. `lakelog.spark.read_streams` "
    "sets it with the two below.",
)
STREAM_ALIGN_TABLES: Option[tuple[str, ...]] = Option(
    key="stream.align.tables",
    parse=parse_names,
    default=(),
    doc="The tables of the group `stream.align.group`, with commas, the same in each of its streams: identifiers in "
    "the warehouse of the table.",
    kind="table names",
)
STREAM_ALIGN_FOLDER = Option(
    key="stream.align.folder",
    parse=str,
    default="",
    doc="The folder where the group `stream.align.group` keeps where its next batch ends: one in the checkpoint "
    "location of the query, which must not be shared with another query.",
    kind="a folder",
)
ALIGN_OPTIONS: tuple[Option[object], ...] = (
    STREAM_ALIGN,
    STREAM_ALIGN_SNAPSHOTS,
    STREAM_ALIGN_TIMEOUT,
    STREAM_ALIGN_GROUP,
    STREAM_ALIGN_TABLES,
    STREAM_ALIGN_FOLDER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """A group of streams: its name, its tables, and where it keeps its decisions."""

    name: str
    tables: Sequence[str]
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Where the batches of a stream end. `snapshots` None means any number."""

    align: Align = Align.TRANSACTION
    snapshots: int | None = STREAM_ALIGN_SNAPSHOTS.default
    timeout_millis: int = STREAM_ALIGN_TIMEOUT.default
    group: GroupOptions | None = None

    @property
    def is_by_snapshot(self) -> bool:
        """Whether batches end at whole snapshots."""
        return self.align is Align.SNAPSHOT

    @property
    def versions_max(self) -> int | None:
        """How many versions of the table a batch takes; None means no limit."""
        return self.snapshots if self.is_by_snapshot else None

    def check_stream(self) -> None:
        """Raise InvalidRequestError for options that only aligned streams have."""
        if self.is_by_snapshot:
            return
        for option, is_given in (
            (STREAM_ALIGN_SNAPSHOTS, self.snapshots != STREAM_ALIGN_SNAPSHOTS.default),
            (STREAM_ALIGN_TIMEOUT, self.timeout_millis != STREAM_ALIGN_TIMEOUT.default),
            (STREAM_ALIGN_GROUP, self.group is not None),
        ):
            if is_given:
                raise InvalidRequestError(f"{option.key} is for streams with {STREAM_ALIGN.key}=snapshot")


NOT_ALIGNED = Alignment()


def parse_alignment(given: Mapping[str, str]) -> Alignment:
    """The options of a read. Raises OptionError, and InvalidRequestError for a group that is not fully specified."""
    return Alignment(
        align=STREAM_ALIGN.of(given),
        snapshots=STREAM_ALIGN_SNAPSHOTS.of(given),
        timeout_millis=STREAM_ALIGN_TIMEOUT.of(given),
        group=_parse_group(given),
    )


def _parse_group(given: Mapping[str, str]) -> GroupOptions | None:
    name, tables, folder = (
        STREAM_ALIGN_GROUP.of(given),
        STREAM_ALIGN_TABLES.of(given),
        STREAM_ALIGN_FOLDER.of(given),
    )
    if not name and not tables and not folder:
        return None
    missing = [
        option.key
        for option, value in ((STREAM_ALIGN_GROUP, name), (STREAM_ALIGN_TABLES, tables), (STREAM_ALIGN_FOLDER, folder))
        if not value
    ]
    if missing:
        raise InvalidRequestError(
            f"a group of streams has a name, its tables and a folder ({STREAM_ALIGN_GROUP.key}, "
            f"{STREAM_ALIGN_TABLES.key}, {STREAM_ALIGN_FOLDER.key}): {' and '.join(missing)} is not given; "
            "lakelog.spark.read_streams sets all three"
        )
    if len(set(tables)) != len(tables):
        raise InvalidRequestError(
            f"{STREAM_ALIGN_TABLES.key} names the tables of the group, each once; found {', '.join(tables)}. A table "
            "that a query needs twice is read once, and its DataFrame used twice"
        )
    return GroupOptions(name=check_user_name(name, STREAM_ALIGN_GROUP.key), tables=tables, folder=folder)
