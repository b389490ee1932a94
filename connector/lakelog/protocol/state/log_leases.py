"""Leases on a log: the progress of running streams, so that records that they still have to read are kept.

A lease is the JSON object {"topicId": string, "offsets": {bucket: next offset}} in `consumer/log-lease-<id>`, beside
the consumers of the format, whose names begin differently: it keeps records of the log, but no snapshots. A lease that
was not renewed for a day belongs to a run that has ended. That of a named consumer also has {"position": token,
"nextSnapshot": number}, and lives as long as the consumer of the format with its id.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.json_fields import COUNT, member, number_of, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.tables import LEASE_MILLIS, TableStore

_PREFIX = "log-lease-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLease:
    """A lease that has not ended: bucket -> the next offset to read. It was renewed `age_millis` ago."""

    id: str
    offsets: Mapping[int, int]
    age_millis: int


class LogLeases:
    """The leases on the log of one table."""

    def __init__(self, table: TableStore, topic_id: str) -> None:
        """Leases on the topic with this id; those on other topics are ignored. Does no I/O."""
        self._file_io = table.file_io
        self._paths = table.paths
        self._folder = table.paths.consumer_dir
        self._topic_id = topic_id

    def put(
        self,
        lease_id: str,
        offsets: Mapping[int, int],
        *,
        position: str | None = None,
        next_snapshot: int | None = None,
    ) -> None:
        """Keep the records from these offsets on, for a day: bucket -> the next offset to read.

        `position` and `next_snapshot` are those of a named consumer.
        """
        fields: dict[str, object] = {
            "topicId": self._topic_id,
            "offsets": {str(bucket): at for bucket, at in sorted(offsets.items())},
        }
        if position is not None:
            fields |= {"position": position, "nextSnapshot": next_snapshot}
        self._file_io.write_bytes(self._path(lease_id), json.dumps(fields).encode())

    def position(self, lease_id: str) -> tuple[str, int] | None:
        """The position and the next snapshot of a named consumer, of whatever log; None for a missing one.

        Raises CorruptDataError.
        """
        path = self._path(lease_id)
        try:
            fields = parse_object(self._file_io.read_bytes(path))
            return string(fields, "position"), whole(fields, "nextSnapshot", COUNT)
        except NotFoundError:
            return None
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"{path} is not readable as the place of consumer {lease_id!r}: {cause(error)}; delete it, and the "
                "consumer goes on at its next snapshot"
            ) from error

    def delete(self, lease_id: str) -> None:
        """Delete a lease; a missing one is fine."""
        self._file_io.delete(self._path(lease_id))

    def held(self, *, now_millis: int) -> list[Mapping[int, int]]:
        """The offsets of each lease: bucket -> offset. Deletes expired leases. Raises CorruptDataError."""
        for lease_id, age_millis in self._ages(now_millis):
            if age_millis > LEASE_MILLIS:
                self.delete(lease_id)
        return [lease.offsets for lease in self.living(now_millis=now_millis)]

    def living(self, *, now_millis: int) -> list[LogLease]:
        """The leases that have not expired. Deletes nothing. Raises CorruptDataError."""
        found = []
        for lease_id, age_millis in self._ages(now_millis):
            offsets = self._find(lease_id) if age_millis <= LEASE_MILLIS else None
            if offsets is not None:
                found.append(LogLease(id=lease_id, offsets=offsets, age_millis=max(age_millis, 0)))
        return found

    def _ages(self, now_millis: int) -> list[tuple[str, int]]:
        """The ids of all leases, and how long ago they were renewed, in milliseconds; 0 for those of consumers."""
        entries = self._file_io.list_entries(self._folder)
        names = {entry.name for entry in entries}
        leases = ((entry.name.removeprefix(_PREFIX), entry) for entry in entries if entry.name.startswith(_PREFIX))
        return [
            (name, 0 if self._is_named(name, names) else now_millis - entry.modified_millis) for name, entry in leases
        ]

    def _is_named(self, lease_id: str, names: Container[str]) -> bool:
        """Whether the lease is that of a consumer that is among the names of the folder."""
        return self._paths.consumer(lease_id).rpartition("/")[2] in names

    def _find(self, lease_id: str) -> Mapping[int, int] | None:
        path = self._path(lease_id)
        try:
            fields = parse_object(self._file_io.read_bytes(path))
            if string(fields, "topicId") != self._topic_id:
                return None
            offsets = member(fields, "offsets")
            return {number_of(bucket): whole(offsets, bucket, COUNT) for bucket in offsets}
        except NotFoundError:  # its stream has ended meanwhile
            return None
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"log lease {path} is not readable: {cause(error)}; no record is deleted until it is "
                "repaired or deleted"
            ) from error

    def _path(self, lease_id: str) -> str:
        return f"{self._folder}/{_PREFIX}{lease_id}"
