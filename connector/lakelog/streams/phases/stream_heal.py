"""Ranges of a log that Kafka no longer holds are read from the files, if snapshots have them.

A batch is still defined by log offsets, which say what is read and not from where: a bucket with deleted records is
read from files, then from the rest of the log; the other buckets are read from the log. A batch that runs again is the
same. Source: docs/rfcs/0031-healing.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.common.errors import UnsupportedError
from lakelog.filestore import FileStoreTable
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.options import OnUntracked
from lakelog.protocol.reading import (
    ChangeFile,
    HealedFiles,
    HealedRange,
    OperationStops,
    bucket_range,
    file_places,
    is_held,
)
from lakelog.protocol.state import older_schema
from lakelog.streams.options.log_options import FAIL_ON_DATA_LOSS
from lakelog.streams.reading.lease import snapshot_lease
from lakelog.streams.reading.offsets import LogOffset

logger = logging.getLogger("lakelog.streams")

Range = tuple[int, int, int]  # bucket, start, end


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOfTable:
    """A log that a table has, or had before the snapshot `before`, then with its `ends`. `topic` names it in messages.

    `starts` has the first offsets of the buckets; None if the topic does not exist or is not to be read.
    """

    topic_id: str
    topic: str
    starts: Mapping[int, int] | None
    before: int | None = None
    ends: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealedBatch:
    """What a batch reads from files, then from the log, by bucket. `is_upsert` says that the log had no old values."""

    ranges: list[Range]
    files: Mapping[int, Sequence[ChangeFile]] = field(default_factory=dict)
    is_upsert: bool = False


class Healer:
    """Finds deleted ranges of logs in the files, and holds the snapshots that have them."""

    def __init__(
        self, table: FileStoreTable, *, accepts_loss: bool, on_untracked: OnUntracked, stops: OperationStops
    ) -> None:
        """Hold nothing yet. With `accepts_loss`, what neither log nor files have is left out, with a warning."""
        self._table = table
        self._accepts_loss = accepts_loss
        self._on_untracked = on_untracked
        self._stops = stops
        self._lease = snapshot_lease(table)
        self._has_warned = False

    def healed(self, log: LogOfTable, start: LogOffset, ranges: Sequence[Range]) -> HealedBatch:
        """How the ranges of a batch that begins at `start` are read. Asks nothing if the log holds all of them.

        Raises LogTruncatedError, with the numbers, for a range that is in neither, and like `HealedFiles`.
        """
        lost = [one for one in ranges if log.starts is None or not is_held(one[1], log.starts.get(one[0], 0))]
        if not lost:
            return HealedBatch(ranges=list(ranges))
        places = file_places(self._table, log.topic_id, consumed=start.consumed, before=log.before, ends=log.ends)
        finder = HealedFiles(
            table=self._table,
            schema=older_schema(self._table, log.topic_id) or self._table.schema,
            on_untracked=self._on_untracked,
            stops=self._stops,
            accepts_loss=self._accepts_loss,
        )
        found = {
            one[0]: bucket_range(places, *one, _start_of(log, one[0]), accepts_loss=self._accepts_loss) for one in lost
        }
        missing = [one for one in lost if found[one[0]] is None]
        if missing:
            raise LogTruncatedError(_missing_text(self._table.name, log, missing))
        healed = {bucket: one for bucket, one in found.items() if one is not None}
        files: dict[int, Sequence[ChangeFile]] = {}
        for bucket, first, end in lost:
            try:
                files[bucket] = _files(finder, bucket, healed[bucket])
            except UnsupportedError as error:
                if not self._accepts_loss:
                    raise
                logger.warning("%s", error)
                healed[bucket] = (
                    bucket_range((), bucket, first, end, _start_of(log, bucket), accepts_loss=True) or healed[bucket]
                )
        self._report(log, healed)
        left = [(bucket, healed[bucket].log_from if bucket in healed else at, end) for bucket, at, end in ranges]
        return HealedBatch(ranges=left, files=files, is_upsert=finder.is_upsert)

    def release(self) -> None:
        """Hold nothing."""
        self._lease.release()

    def _report(self, log: LogOfTable, healed: Mapping[int, HealedRange]) -> None:
        """Hold the snapshots that are read from; log what comes from them and what is left out."""
        followed = [one for one in healed.values() if one.has_files]
        if followed:
            first, last = min(one.after[0] for one in followed), max(one.places[-1].snapshot_id for one in followed)
            self._lease.hold(max(first, 1))
            logger.log(
                logging.INFO if self._has_warned else logging.WARNING,
                "table %s: topic %s does not hold all that a stream has to read; %d of its buckets are read from the "
                "files of snapshots %d to %d",
                self._table.name,
                log.topic,
                len(followed),
                first + 1,
                last,
            )
            self._has_warned = True
        for bucket, one in sorted(healed.items()):
            for begun, end in one.lost:
                logger.warning(
                    "table %s: offsets %d to %d (exclusive) of bucket %d are neither in topic %s nor in files, and are "
                    "left out (%s=false)",
                    self._table.name,
                    begun,
                    end,
                    bucket,
                    log.topic,
                    FAIL_ON_DATA_LOSS.key,
                )


def _files(finder: HealedFiles, bucket: int, one: HealedRange) -> tuple[ChangeFile, ...]:
    """The files of a range; none if the range needs none."""
    if not one.has_files:
        return ()
    finder.check()
    return tuple(finder.between(bucket, one.places))


def _start_of(log: LogOfTable, bucket: int) -> int | None:
    """The first offset that a bucket holds; None without a topic."""
    return None if log.starts is None else log.starts.get(bucket, 0)


def _missing_text(table_name: str, log: LogOfTable, missing: Sequence[Range]) -> str:
    if log.starts is None:
        ended = "" if log.before is None else f", which ended at snapshot {log.before},"
        ends = log.ends or {}
        gaps = ", ".join(f"bucket {bucket}: {start} of {ends.get(bucket, end)}" for bucket, start, end in missing)
        what = f"topic {log.topic} of table {table_name}{ended} does not exist any more, or has lost records ({gaps})"
    else:
        gaps = ", ".join(
            f"bucket {bucket}: offsets {start} to {end}, the log begins at {log.starts.get(bucket, 0)}"
            for bucket, start, end in missing
        )
        what = f"the log of table {table_name}, topic {log.topic}, does not hold what the query has to read ({gaps})"
    return (
        f"{what}, and no snapshot is at these offsets whose changes the files still have. Start the query with a new "
        "checkpoint location, which reads the newest snapshot first; or go on at the first offset that there is, "
        f"without the changes before it: option {FAIL_ON_DATA_LOSS.key}=false. Set the table's options log.retention "
        "and snapshot.time-retained to longer than streams stay away; `lakelog doctor TABLE` names readers that stay "
        "behind, and `lakelog log check TABLE` whether Kafka itself deletes records"
    )
