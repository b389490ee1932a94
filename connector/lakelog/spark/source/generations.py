"""Streams over the generations of a table's log: a stored offset of one that ended is read up to its end, and goes on.

Up to its end an older topic is read as it was; an offset at the end is the beginning of the next generation: offset 0
of a topic, or, in a time without a log, the snapshot from which the files are followed. Where a topic was deleted, an
offset that a snapshot has exactly goes on in the files from that snapshot. What an offset becomes depends on ended
generations alone, which do not change, so a batch that runs again is the same. Source: docs/rfcs/0028-life-of-a-log.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark.sql.datasource import InputPartition

from lakelog.common.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.metadata.users import carried_properties
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.read.changes import check_followable
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.kafka_topic import KafkaTopic
from lakelog.logstore.options import TOPIC, ChangelogMode, changelog_mode
from lakelog.protocol.log_gaps import gap_test
from lakelog.protocol.log_generations import EndedGeneration, ended_generations, older_schema, state_of_log
from lakelog.protocol.stores import LogTarget, read_state
from lakelog.spark.source.admission import Limits, advance_log
from lakelog.spark.source.input_partitions import LogPartition, pack, partition_count
from lakelog.spark.source.offsets import FollowOffset, LogOffset, Offset

logger = logging.getLogger("lakelog.spark")

FindTopic = Callable[[str], KafkaTopic | None]
"""The older topic of the table with an id; None where it does not exist any more."""

FindStarts = Callable[[], Mapping[int, int]]
"""Bucket -> the first offset that the log holds. Raises UnavailableError."""


def no_topic(_topic_id: str) -> KafkaTopic | None:
    """The older topics of a table that never had one."""
    return None


class Generations:
    """Takes the offsets of a stream over to the generation that its table has now."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        find_topic: FindTopic,
        *,
        find_starts: FindStarts,
        fails_on_loss: bool = True,
        normalizes: bool = False,
    ) -> None:
        """Read nothing yet. `target` is the log that the table has now; `find_starts` gives its first offsets.

        Without `fails_on_loss` deleted records of it that the files do not have either are left to the tasks.
        """
        self._fails_on_loss = fails_on_loss
        self._normalizes = normalizes
        self._heals = target is not None and target.topic.is_transactional  # records have snapshots, and end markers
        self._table = table
        self._topic_id = "" if target is None else target.topic_id
        self._find_topic = find_topic
        self._find_starts: FindStarts = find_starts
        self._starts: Mapping[int, int] | None = None  # of the log that the table has now, asked once
        self._known: list[EndedGeneration] | None = None
        self._topics: dict[str, KafkaTopic | None] = {}

    def moved(self, offset: Offset) -> Offset:
        """The offset in the generation where it is read on; an offset of the present one as it is.

        Raises NotFoundError where it cannot be read on, with the numbers.
        """
        while True:
            moved = self._step(offset)
            if moved == offset:
                return offset
            offset = moved

    def span(self, start: Offset, end: Offset) -> tuple[Offset, Offset]:
        """A batch from `start` to `end` in the generation that it reads; in the files where the log lost it."""
        start = self.moved(start)
        if isinstance(start, FollowOffset) and isinstance(end, LogOffset):
            last = self.last_followed(start)
            if last is not None:  # no changes up to where a log begins
                return self.moved(FollowOffset(consumed=last)), end
            return start, self._in_files(end, begun=start)
        return start, end

    def after(self, snapshot: Snapshot) -> LogOffset | FollowOffset | None:
        """Where the changes after a snapshot of an older generation begin; None for one of the present generation."""
        if not any(one.snapshot_id > snapshot.id for one in self._ended()):
            return None
        where = f"table {self._table.path}, snapshot {snapshot.id}"
        log = state_of_log(carried_properties(snapshot, self._table.snapshots).properties, where=where)
        if log is None:
            return FollowOffset(consumed=snapshot.id, commit=snapshot.uuid)
        return LogOffset.of_snapshot(snapshot.id, log, self._bucket_count(log.topic_id))

    def is_older(self, offset: Offset) -> bool:
        """Whether a moved offset lies before the end of an ended log."""
        return isinstance(offset, LogOffset) and offset.topic_id != self._topic_id

    def last_followed(self, offset: FollowOffset) -> int | None:
        """The snapshot up to which the files are followed from an offset on; None without a log behind it."""
        return next((one.snapshot_id for one in self._ended() if one.snapshot_id > offset.consumed), None)

    def end(self, start: LogOffset, limits: Limits) -> LogOffset:
        """Where a batch in an ended log ends."""
        ended = self._of(start.topic_id)
        return advance_log(start, (), ended.ends, limits)

    def partitions(self, start: LogOffset, end: LogOffset) -> list[InputPartition]:
        """What the tasks of a batch in an ended log read."""
        topic = self._topic(start.topic_id)
        if topic is None:
            raise self._lost(start, self._of(start.topic_id))
        ranges = [(bucket, start.offsets.get(bucket, 0), at) for bucket, at in sorted(end.offsets.items())]
        wanted = [one for one in ranges if one[2] > one[1]]
        groups = pack(wanted, lambda one: one[2] - one[1], count=partition_count(), size_max=1 << 62)
        return [LogPartition(group, topic=topic) for group in groups]

    def _step(self, offset: Offset) -> Offset:
        match offset:
            case LogOffset() if offset.topic_id != self._topic_id:
                ended = self._of(offset.topic_id)
                if ended.is_read_to_its_end(offset.offsets):
                    return self._beginning_after(ended)
                self._check_not_normalized()
                return offset if self._topic(offset.topic_id) is not None else self._in_files(offset)
            case LogOffset():
                return offset if self._is_held(offset) else self._healed(offset)
            case FollowOffset():
                return self._joined(offset)
            case _:
                return offset

    def _healed(self, offset: LogOffset) -> Offset:
        try:
            return self._in_files(offset)
        except (LogTruncatedError, UnsupportedError):
            if self._fails_on_loss:
                raise
            return offset

    def _joined(self, offset: FollowOffset) -> Offset:
        """Where the log goes on behind the snapshot that an offset has followed; the offset where it does not."""
        for one in self._ended():
            if one.snapshot_id == offset.consumed:
                return self._beginning_after(one) if self._next_topic(one) else offset
        if not self._topic_id or self.last_followed(offset) is not None:
            return offset
        snapshot = self._table.snapshots.find(offset.consumed)
        if snapshot is None:
            return offset
        log = read_state(self._table, snapshot, topic_id=self._topic_id, allows_foreign=True).logged
        position = LogOffset.of_snapshot(snapshot.id, log, self._table.bucket_count)
        return position if self._is_held(position) else offset

    def _beginning_after(self, ended: EndedGeneration) -> Offset:
        topic_id = self._next_topic(ended)
        if not topic_id:
            return FollowOffset(consumed=ended.snapshot_id)
        offsets = dict.fromkeys(range(self._bucket_count(topic_id)), 0)
        return LogOffset(topic_id=topic_id, offsets=offsets, counts={}, consumed=ended.snapshot_id)

    def _bucket_count(self, topic_id: str) -> int:
        """The number of buckets of the table with a topic."""
        schema = None if topic_id == self._topic_id else older_schema(self._table, topic_id)
        return self._table.bucket_count if schema is None else schema.bucket_count

    def _next_topic(self, ended: EndedGeneration) -> str:
        known = self._ended()
        number = known.index(ended) + 1
        return known[number].topic_id if number < len(known) else self._topic_id

    def _of(self, topic_id: str) -> EndedGeneration:
        found = next((one for one in self._ended() if one.topic_id == topic_id), None)
        if found is None:
            there = f"the topic {self._topic_id}" if self._topic_id else "no log"
            raise CorruptDataError(
                f"the checkpoint has read topic {topic_id} of table {self._table.name}, which has {there} now: "
                "start the query with a new checkpoint location"
            )
        return found

    def _topic(self, topic_id: str) -> KafkaTopic | None:
        if topic_id not in self._topics:
            self._topics[topic_id] = self._find_topic(topic_id)
        return self._topics[topic_id]

    def _is_held(self, offset: LogOffset) -> bool:
        """Whether the log holds what comes after an offset. Behind a record is its end marker, which is no record."""
        if not self._heals:
            return True
        if self._starts is None:
            self._starts = self._find_starts()
        return all(
            self._starts.get(bucket, 0) <= at + bool(at) or self._held_nothing(bucket, at, self._starts[bucket])
            for bucket, at in offset.offsets.items()
        )

    def _held_nothing(self, bucket: int, at: int, log_start: int) -> bool:
        return gap_test(self._table, self._topic_id, bucket)(at, log_start)

    def _in_files(self, offset: LogOffset, *, begun: FollowOffset | None = None) -> FollowOffset:
        """The snapshot that holds a deleted log exactly up to an offset, to be followed from there on.

        `begun` is where the batch begins that ends at the offset. Raises NotFoundError without such a snapshot.
        """
        self._check_not_normalized()
        ended = next((one for one in self._ended() if one.topic_id == offset.topic_id), None)
        for snapshot in self._snapshots_before(None if ended is None else ended.snapshot_id):
            if begun is not None and snapshot.id < begun.consumed:
                break
            try:
                log = read_state(self._table, snapshot, topic_id=offset.topic_id, allows_foreign=True).logged
            except NotFoundError:  # of a log before, or another engine's
                continue
            at = {bucket: log.position(bucket).offset for bucket in offset.offsets}  # the end marker may be behind
            if all(at[bucket] <= read <= at[bucket] + bool(at[bucket]) for bucket, read in offset.offsets.items()):
                self._check_changes(offset.topic_id)
                logger.warning(
                    "table %s: topic %s does not hold what a stream has to read; it goes on in the files after "
                    "snapshot %d",
                    self._table.name,
                    offset.topic_id if ended is None else ended.topic,
                    snapshot.id,
                )
                return FollowOffset(consumed=snapshot.id, commit=snapshot.uuid)
        raise self._cut_off(offset) if ended is None else self._lost(offset, ended)

    def _check_not_normalized(self) -> None:
        """Raise UnsupportedError where old values are looked up, which is done in the present log alone."""
        if self._normalizes:
            raise UnsupportedError(
                f"the query reads table {self._table.name} with scan.normalize, and has not read its log up to where "
                "Kafka holds it: start the query with a new checkpoint location"
            )

    def _check_changes(self, topic_id: str) -> None:
        """Raise UnsupportedError where the files do not have the changes that a log had."""
        check_followable(self._table)
        schema = older_schema(self._table, topic_id) or self._table.schema
        mode = changelog_mode(schema.options, has_primary_key=bool(schema.primary_keys))
        has_changelog = CHANGELOG_PRODUCER.of(schema.options) is not ChangelogProducer.NONE
        if mode is ChangelogMode.ALL and schema.primary_keys and not has_changelog:
            raise UnsupportedError(
                f"topic {TOPIC.of(schema.options)} of table {self._table.name} does not exist any more. It held the "
                "old values of updates, and the files, with changelog-producer=none, do not: start the query with a "
                "new checkpoint location"
            )

    def _snapshots_before(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The living snapshots before one, or all of them, the newest first."""
        for number in sorted(self._table.snapshots.ids(), reverse=True):
            is_before = snapshot_id is None or number < snapshot_id
            snapshot = self._table.snapshots.find(number) if is_before else None
            if snapshot is not None:
                yield snapshot

    def _cut_off(self, offset: LogOffset) -> LogTruncatedError:
        starts = self._starts or {}
        gaps = ", ".join(
            f"bucket {bucket}: offset {at}, the log begins at {starts[bucket]}"
            for bucket, at in sorted(offset.offsets.items())
            if starts.get(bucket, 0) > at
        )
        return LogTruncatedError(
            f"the log of table {self._table.name} does not hold offset {offset.offsets} any more ({gaps}), and no "
            "living snapshot ends there, from which the files could be followed. Start the stream with a new "
            "checkpoint location, which reads the newest snapshot first, and set the table's option log.retention to "
            "longer than streams stay away; `lakelog log check TABLE` reports whether Kafka itself deletes records"
        )

    def _lost(self, offset: LogOffset, ended: EndedGeneration) -> NotFoundError:
        left = ", ".join(
            f"bucket {bucket}: {offset.offsets.get(bucket, 0)} of {end}" for bucket, end in sorted(ended.ends.items())
        )
        return NotFoundError(
            f"topic {ended.topic} of table {self._table.name}, which ended at snapshot {ended.snapshot_id}, does not "
            f"exist any more, and the query has read a part of it ({left}) that no living snapshot ends at. Start the "
            "query with a new checkpoint location, which reads the newest snapshot first"
        )

    def _ended(self) -> Sequence[EndedGeneration]:
        if self._known is None:
            latest = self._table.snapshots.latest()
            properties = carried_properties(latest, self._table.snapshots).properties
            self._known = ended_generations(properties, where=f"table {self._table.path}, its newest snapshot")
        return self._known
