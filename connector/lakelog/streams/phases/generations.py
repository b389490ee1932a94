"""Streams over the generations of a table's log: an offset in an ended one is read to its end, then the next follows.

Up to its end an older log is read from its topic, or from the files if the topic was deleted or has lost records. An
offset at the end becomes the beginning of the next generation: offset 0 of a topic, or, in a time without a log, the
snapshot from which the files are followed. What an offset becomes depends only on ended generations, which do not
change, so a batch that runs again is the same. Source: docs/rfcs/0028-life-of-a-log.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.patience import Patience
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot, carried_properties
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import log_start_offsets
from lakelog.protocol.reading import file_places, is_held
from lakelog.protocol.state import EndedGeneration, ended_before, older_schema, state_of_log
from lakelog.protocol.statements import unfinished_batches
from lakelog.protocol.stores import LogTarget, read_state
from lakelog.streams.options.log_options import FAIL_ON_DATA_LOSS
from lakelog.streams.phases.stream_heal import Healer, LogOfTable
from lakelog.streams.phases.stream_log import log_parts
from lakelog.streams.reading.admission import Limits, advance_log, advance_to_snapshot
from lakelog.streams.reading.offsets import FollowOffset, LogOffset, Offset
from lakelog.streams.reading.parts import Part

FindTopic = Callable[[str], KafkaTopic | None]
"""The older topic of the table with an id; None where it does not exist any more."""


def no_topic(_topic_id: str) -> KafkaTopic | None:
    """Finds no topic: for a table without older topics."""
    return None


class Generations:
    """Carries the offsets of a stream over to the generation that its table has now."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        find_topic: FindTopic,
        healer: Healer,
        *,
        fails_on_loss: bool = True,
        normalizes: bool = False,
        patience: Patience | None = None,
        is_aligned: bool = False,
        versions_max: int | None = None,
    ) -> None:
        """Read nothing yet. `target` is the log that the table has now.

        If `is_aligned`, batches end at whole snapshots; `versions_max` is that of `advance_to_snapshot`.
        """
        self._is_aligned = is_aligned
        self._versions_max = versions_max
        self._fails_on_loss = fails_on_loss
        self._normalizes = normalizes
        self._table = table
        self._topic_id = "" if target is None else target.topic_id
        self._find_topic = find_topic
        self._healer = healer
        self._patience = Patience(0) if patience is None else patience
        self._known: list[EndedGeneration] | None = None
        self._topics: dict[str, KafkaTopic | None] = {}

    def moved(self, offset: Offset) -> Offset:
        """The offset in the generation where reading continues; an offset of the present generation is unchanged."""
        while (moved := self._step(offset)) != offset:
            offset = moved
        return offset

    def span(self, start: Offset, end: Offset) -> tuple[Offset, Offset]:
        """The batch from `start` to `end`, in the generation that it reads."""
        start = self.moved(start)
        if isinstance(start, FollowOffset) and isinstance(end, LogOffset):
            last = self.last_followed(start)
            if last is not None:  # no changes up to where a log begins
                return self.moved(FollowOffset(consumed=last)), end
        return start, end

    def after(self, snapshot: Snapshot | None) -> LogOffset | FollowOffset | None:
        """Where the changes after a snapshot of an older generation begin; None for a snapshot of the present one.

        None in place of a snapshot is the state before the first one.
        """
        known = self._ended()
        if snapshot is None:
            return self._beginning(known[0].topic_id, consumed=0) if known else None
        if not any(one.snapshot_id > snapshot.id for one in known):
            return None
        where = f"table {self._table.path}, snapshot {snapshot.id}"
        log = state_of_log(carried_properties(snapshot, self._table.snapshots).properties, where=where)
        if log is None:
            return FollowOffset(consumed=snapshot.id, commit=snapshot.uuid)
        return LogOffset.of_snapshot(snapshot.id, log, self._bucket_count(log.topic_id), commit=snapshot.uuid)

    def is_older(self, offset: Offset) -> bool:
        """Whether a moved offset lies before the end of an ended log."""
        return isinstance(offset, LogOffset) and offset.topic_id != self._topic_id

    def is_held(self, offset: LogOffset, target: LogTarget | None) -> bool:
        """Whether the log of an offset, present or older, holds all records from the offset on."""
        if target is not None and offset.topic_id == target.topic_id:
            starts: Mapping[int, int] | None = {
                bucket: at.offset for bucket, at in log_start_offsets(target.topic, len(offset.offsets)).items()
            }
        else:
            starts = self._log_of(self._of(offset.topic_id)).starts
        return starts is not None and all(is_held(at, starts.get(one, 0)) for one, at in offset.offsets.items())

    def last_followed(self, offset: FollowOffset) -> int | None:
        """The snapshot up to which the files are followed from an offset on; None if no log follows."""
        return next((one.snapshot_id for one in self._ended() if one.snapshot_id > offset.consumed), None)

    def end(self, start: LogOffset, limits: Limits) -> LogOffset:
        """Where a batch in an ended log ends."""
        ended = self._of(start.topic_id)
        places = file_places(
            self._table, ended.topic_id, consumed=start.consumed, before=ended.snapshot_id, ends=ended.ends
        )
        count = self._bucket_count(ended.topic_id)
        whole = [place for place in places if not (self._is_aligned and unfinished_batches(place.log))]
        positions = [LogOffset.of_snapshot(place.snapshot_id, place.log, count) for place in whole]
        if self._is_aligned:
            aligned = advance_to_snapshot(start, positions, limits, versions_max=self._versions_max)
            if aligned != start:
                return aligned
        return advance_log(start, positions, ended.ends, limits)

    def parts(self, start: LogOffset, end: LogOffset) -> list[Part]:
        """What the tasks of a batch in an ended log read. Raises LogTruncatedError, UnavailableError."""
        ended = self._of(start.topic_id)
        ranges = [(bucket, start.offsets.get(bucket, 0), at) for bucket, at in sorted(end.offsets.items())]
        wanted = [one for one in ranges if one[2] > one[1]]
        batch = self._healer.healed(self._log_of(ended), start, wanted)
        return log_parts(wanted, batch, lambda _group: {}, {}, topic=self._topic(start.topic_id))

    def _log_of(self, ended: EndedGeneration) -> LogOfTable:
        topic = self._topic(ended.topic_id)
        starts = None
        if topic is not None:
            found = self._patience.keep_trying(lambda: log_start_offsets(topic, len(ended.ends)))
            starts = {bucket: at.offset for bucket, at in found.items()}
        return LogOfTable(
            topic_id=ended.topic_id, topic=ended.topic, starts=starts, before=ended.snapshot_id, ends=ended.ends
        )

    def _step(self, offset: Offset) -> Offset:
        match offset:
            case LogOffset() if offset.topic_id != self._topic_id:
                ended = self._of(offset.topic_id)
                self._check_not_beyond(offset, ended)
                if ended.is_read_to_its_end(offset.offsets):
                    return self._beginning_after(ended)
                self._check_not_normalized()
                return offset
            case FollowOffset():
                return self._joined(offset)
            case _:
                return offset

    def _check_not_beyond(self, offset: LogOffset, ended: EndedGeneration) -> None:
        """Raise LogTruncatedError for records that were read but were lost with the log before a snapshot had them."""
        beyond = ended.read_beyond(offset.offsets)
        if not beyond or not self._fails_on_loss:
            return
        gaps = ", ".join(
            f"bucket {bucket}: offset {at} of {ended.ends.get(bucket, 0)}" for bucket, at in beyond.items()
        )
        raise LogTruncatedError(
            f"the query has read records of topic {ended.topic} of table {self._table.name} that were lost with it "
            f"before a snapshot had them ({gaps}), and a stream that wrote them may write them again. Start the query "
            "with a new checkpoint location, which reads the newest snapshot first; or go on, and read again what is "
            f"written again: option {FAIL_ON_DATA_LOSS.key}=false"
        )

    def _joined(self, offset: FollowOffset) -> Offset:
        """Where the log continues after the snapshot that an offset has reached; the offset itself if it does not."""
        for one in self._ended():
            if one.snapshot_id == offset.consumed:
                return self._beginning_after(one) if self._next_topic(one) else offset
        if not self._topic_id or self.last_followed(offset) is not None:
            return offset
        snapshot = self._table.snapshots.find(offset.consumed)
        if snapshot is None:
            return offset
        log = read_state(self._table, snapshot, topic_id=self._topic_id, allows_foreign=True).logged
        return LogOffset.of_snapshot(snapshot.id, log, self._table.bucket_count, commit=snapshot.uuid)

    def _beginning_after(self, ended: EndedGeneration) -> LogOffset | FollowOffset:
        return self._beginning(self._next_topic(ended), consumed=ended.snapshot_id)

    def _beginning(self, topic_id: str, *, consumed: int) -> LogOffset | FollowOffset:
        if not topic_id:  # a time without a log
            return FollowOffset(consumed=consumed)
        offsets = dict.fromkeys(range(self._bucket_count(topic_id)), 0)
        return LogOffset(topic_id=topic_id, offsets=offsets, counts={}, consumed=consumed)

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
            self._topics[topic_id] = None if self._of(topic_id).is_lost else self._find_topic(topic_id)
        return self._topics[topic_id]

    def _check_not_normalized(self) -> None:
        """Raise UnsupportedError if old values are looked up, which is possible only in the present log."""
        if self._normalizes:
            raise UnsupportedError(
                f"the query reads table {self._table.name} with scan.normalize, which looks old values up in the "
                "present log alone, and has not read the log before it to its end: start the query with a new "
                "checkpoint location"
            )

    def _ended(self) -> Sequence[EndedGeneration]:
        if self._known is None:
            self._known = ended_before(self._table, self._table.snapshots.latest())
        return self._known
