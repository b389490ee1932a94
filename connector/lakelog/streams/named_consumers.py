"""Named consumers: streams whose place is kept with their table.

| file in `consumer/` | what it has |
|---|---|
| `log-lease-<name>` | the place in the log; the records behind it are kept |
| `consumer-<name>` | the next snapshot, as Paimon's consumers have it; it and later ones are kept |
| `log-owner-<name>-<number>` | the process that reads now: the highest number |

They are written in this order. The consumer lives as long as `consumer-<name>`, which `consumer.expiration-time` ends.
A table without a log has no `log-lease-<name>`. Source: Paimon specification, "Consumer ID".
"""

from __future__ import annotations

import time

from lakelog.common.errors import InvalidRequestError
from lakelog.common.file_names import check_user_name
from lakelog.filestore.metadata.tables import LEASE_PREFIX, ConsumerManager, TableStore, check_reader_id
from lakelog.protocol.state import LogLeases, TablePosition
from lakelog.streams.name_owner import NameOwner
from lakelog.streams.reading.offsets import FollowOffset, LogOffset
from lakelog.streams.stream_places import StreamPlace

_OWNER = "log-owner-"
_SECONDS = 1.0  # between two records of the place
_RENEWAL_SECONDS = 60.0  # while the place stays: the age of its files is what consumers expire by


class NamedConsumer:
    """The place of a consumer, kept with its table. One process reads under a name: the last one that has begun."""

    def __init__(self, table: TableStore, name: str, topic_id: str | None) -> None:
        """Do no I/O. Raises InvalidRequestError for a name that no file can have, or that lakelog uses itself."""
        check_user_name(name, "consumer")
        check_reader_id(name)
        if name.startswith(LEASE_PREFIX):
            raise InvalidRequestError(f"consumer {name!r}: names that begin with {LEASE_PREFIX} are those of streams")
        self._table = table
        self._name = name
        self._consumers = ConsumerManager(table.file_io, table.paths)
        self._topic_id = topic_id
        self._owner = NameOwner(table, table.paths.consumer_dir, f"{_OWNER}{name}-", f"consumer {name!r}")
        self._put_at = 0.0
        self._recorded: StreamPlace | None = None
        self._left: StreamPlace | None = None  # reached, and not recorded

    def take(self) -> None:
        """Become the process that reads under the name; an older one is refused from now on."""
        self._owner.take()

    def find(self) -> StreamPlace | None:
        """Where the consumer goes on; None for a new one. Raises CorruptDataError."""
        found = self._consumers.consumer(self._name)
        if found is None:
            return None
        kept = None if self._topic_id is None else LogLeases(self._table, self._topic_id).position(self._name)
        if kept is not None and found.next_snapshot == kept[1]:
            position = TablePosition.parse(kept[0])
            assert position.stream is not None, "a consumer records places of streams"
            return StreamPlace.of_stream(self._table, position.stream)
        # Without a log, or reset to a snapshot.
        offset = FollowOffset(consumed=found.next_snapshot - 1, commit=found.commit)
        return StreamPlace(table=self._table, offset=offset)

    def reached(self, place: StreamPlace) -> None:
        """Record a place, at most once a second. Raises ConflictError when another process has taken the name.

        The files of a place that stays are renewed.
        """
        self._left = place
        wait = _SECONDS if place != self._recorded else _RENEWAL_SECONDS
        if self._recorded is None or time.monotonic() - self._put_at >= wait:
            self.flush()

    def flush(self) -> None:
        """Record the place that was reached. Raises like `reached`."""
        place, self._left = self._left, None
        if place is None:
            return
        self._owner.check()
        offset = place.offset
        assert isinstance(offset, LogOffset | FollowOffset), "places between whole transactions are recorded"
        if isinstance(offset, LogOffset):  # of the log that the table has, or of an older one
            leases, token = LogLeases(self._table, offset.topic_id), str(place.position)
            leases.put(self._name, offset.offsets, position=token, next_snapshot=offset.consumed + 1)
        self._consumers.put(self._name, offset.consumed + 1, commit=offset.commit)
        self._recorded, self._put_at = place, time.monotonic()
