"""The offsets that a read of the log asks for: what the log holds of them, and their positions among the snapshots."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import FileStoreTable
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.clients.offsets import high_watermarks, log_start_offsets, offsets_since
from lakelog.logstore.kafka.records.consumer import can_hold_nothing
from lakelog.protocol.stores import LogTarget, gap_test
from lakelog.streams.options.log_offsets import GivenOffsets
from lakelog.streams.options.log_options import FAIL_ON_DATA_LOSS
from lakelog.streams.reading.offsets import BucketCount, LogOffset

logger = logging.getLogger("lakelog.streams")


class LogBounds:
    """What the log of one table holds. Asks Kafka."""

    def __init__(self, table: FileStoreTable, target: LogTarget, *, fails_on_loss: bool) -> None:
        """Ask nothing yet."""
        self._table = table
        self._target = target
        self._fails_on_loss = fails_on_loss

    def given(self, key: str, offsets: GivenOffsets, *, latest: Mapping[int, int]) -> dict[int, int]:
        """Bucket -> offset of an option; `latest` has the offsets up to which the log can be read.

        Raises InvalidRequestError for buckets that the table does not have, UnavailableError.
        """
        topic = self._target.topic
        starts = log_start_offsets(topic, self._table.bucket_count)
        earliest = {bucket: at.offset for bucket, at in starts.items()}
        return offsets.resolved(key, topic=topic.name, earliest=earliest, latest=latest)

    def since(self, time_millis: int, *, latest: Mapping[int, int]) -> dict[int, int]:
        """Bucket -> the first record since a time, by Kafka's timestamps; the end of the log if there is none.

        Raises LogTruncatedError when that record is the oldest one left, unless losses are accepted: records since that
        time may have been deleted.
        """
        topic, count = self._target.topic, self._table.bucket_count
        found = offsets_since(topic, count, time_millis)
        starts = log_start_offsets(topic, count)
        for bucket, offset in found.items():
            start = starts[bucket].offset
            if offset is not None and offset <= start and start > 0:
                self._report(
                    f"{topic.partition(bucket)} may have held records since {time_millis} ms that were deleted: the "
                    f"oldest one left is at offset {start} and not older"
                )
        return {bucket: latest[bucket] if offset is None else offset for bucket, offset in found.items()}

    def held(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """The offsets, checked: the log holds everything after them.

        A deleted offset is an error, or if losses are accepted becomes the oldest offset left. Raises
        LogTruncatedError, InvalidRequestError for an offset behind the end, UnavailableError.
        """
        topic, count = self._target.topic, self._table.bucket_count
        starts, ends = log_start_offsets(topic, count), high_watermarks(topic, count)
        held = {}
        for bucket, offset in offsets.items():
            start, end = starts[bucket].offset, ends[bucket].offset
            if offset > end:
                raise InvalidRequestError(
                    f"{topic.partition(bucket)} does not hold offset {offset}, it holds [{start}, {end}): name an "
                    "offset in it"
                )
            if offset < start and not self._held_nothing(bucket, offset, start, end):
                self._report(deleted_text(topic.partition(bucket), offset, start, end))
            held[bucket] = max(offset, start)
        return held

    def _held_nothing(self, bucket: int, offset: int, start: int, end: int) -> bool:
        if self._target.topic.is_transactional and can_hold_nothing(offset, start, end, is_after_record=False):
            return True
        return gap_test(self._table, self._target.topic_id, bucket)(offset, start)

    def _report(self, text: str) -> None:
        if self._fails_on_loss:
            raise LogTruncatedError(
                f"{text}; start at a later offset, with the files by log.scan=full, or, with"
                f" {FAIL_ON_DATA_LOSS.key}=false, at the oldest record that is left"
            )
        logger.warning("%s; the read continues there (%s=false)", text, FAIL_ON_DATA_LOSS.key)


def deleted_text(partition: KafkaPartition, offset: int, start: int, end: int) -> str:
    """The message that offsets were deleted, with the numbers."""
    return (
        f"{partition} does not hold offset {offset}, it holds [{start}, {end}): {start - offset} offsets were deleted"
        " by retention"
    )


def place_offsets(topic_id: str, offsets: Mapping[int, int], snapshots: Iterable[LogOffset]) -> LogOffset:
    """Place offsets among the log positions of snapshots, oldest first: counts, newest snapshot passed. Pure."""
    counts: dict[int, BucketCount] = {}
    consumed, commit, is_exact = 0, None, False
    for snapshot in snapshots:
        reached = {bucket for bucket, offset in snapshot.offsets.items() if offset <= offsets.get(bucket, 0)}
        counts |= {bucket: count for bucket, count in snapshot.counts.items() if bucket in reached}
        if reached >= snapshot.offsets.keys():
            consumed, commit = snapshot.consumed, snapshot.commit
            is_exact = dict(snapshot.offsets) == dict(offsets)
    return LogOffset(
        topic_id=topic_id,
        offsets=dict(offsets),
        counts=counts,
        consumed=consumed,
        commit=commit,
        is_exact=is_exact,
    )
