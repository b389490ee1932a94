"""Consumers: readers that record their progress, so that snapshots which they have not read do not expire.

A consumer is the JSON object {"nextSnapshot": id} in `consumer/consumer-<consumer id>`; the id is that of the first
snapshot that the consumer has not read completely. Every engine of the format respects consumers. Those of lakelog also
have "lakelogCommit", the uuid of the snapshot before, since ids are used again after a rollback. Source: Paimon spec,
"Consumer ID".
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.file_names import check_found_name
from lakelog.common.json_fields import COUNT, optional, parse_object, string, string_map, whole
from lakelog.common.quoting import cause, escaped, shown
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.schema.paths import CONSUMER_PREFIX, TablePaths

logger = logging.getLogger("lakelog.filestore")

STATE_CONSUMER = "lakelog-state"  # a consumer of lakelog's own, see `lakelog.filestore.metadata.tables.state_keeping`
LINEAGE_CONSUMER = "lakelog-lineage"  # keeps the snapshots whose lineage was not fed yet, see `lakelog.lineage`
_COMMIT_KEY = "lakelogCommit"
_OPTIONS_KEY = "lakelogLineage"
LEASE_PREFIX = "lakelog-stream-"  # a consumer that one run of a stream creates for itself
LEASE_MILLIS = 24 * 3_600_000  # a lease that was not renewed for this long belongs to a run that has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One reader and the first snapshot that it has not read.

    `commit` is the uuid of the snapshot before, the last one that it has read; None is unknown. `lineage_options` are
    the options that switch lineage on, of the catalog by which `lakelog-lineage` was created; no other consumer has
    them.
    """

    consumer_id: str
    next_snapshot: int
    commit: str | None = None
    lineage_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether it is `lakelog-state`, which keeps lakelog's state of writers from the expiry of other engines."""
        return self.consumer_id == STATE_CONSUMER


class ConsumerManager:
    """The consumers of one branch of a table."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def ids(self) -> list[str]:
        """The ids of all consumers, in order. Lists the folder."""
        names = self._file_io.list_names(self._paths.consumer_dir)
        return sorted(name.removeprefix(CONSUMER_PREFIX) for name in names if name.startswith(CONSUMER_PREFIX))

    def all(self) -> list[Consumer]:
        """All consumers, by id. Raises CorruptDataError for a file that is not a consumer's."""
        found = [self._read(consumer_id, self._path_of_found(consumer_id)) for consumer_id in self.ids()]
        return [consumer for consumer in found if consumer is not None]

    def readable(self) -> list[Consumer]:
        """All consumers, by id, for lists: damaged files are named by warnings in the log."""
        found: list[Consumer] = []
        for consumer_id in self.ids():
            try:
                one = self._read(consumer_id, self._path_of_found(consumer_id))
            except CorruptDataError as error:
                logger.warning("consumer %s is damaged: %s", shown(consumer_id), error)
                continue
            found += [] if one is None else [one]
        return found

    def find(self, consumer_id: str) -> int | None:
        """The first snapshot that the consumer has not read; None for a missing consumer."""
        found = self.consumer(consumer_id)
        return None if found is None else found.next_snapshot

    def consumer(self, consumer_id: str) -> Consumer | None:
        """The consumer of an id; None for a missing one. Raises CorruptDataError."""
        return self._read(consumer_id, self._path_of_found(consumer_id))

    def _read(self, consumer_id: str, path: str) -> Consumer | None:
        try:
            fields = parse_object(self._file_io.read_bytes(path))
            return Consumer(
                consumer_id=consumer_id,
                next_snapshot=whole(fields, "nextSnapshot", COUNT),
                commit=optional(string, fields, _COMMIT_KEY),
                lineage_options=optional(string_map, fields, _OPTIONS_KEY) or {},
            )
        except NotFoundError:
            return None
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"consumer file {escaped(path)} is not readable: {cause(error)}; nothing expires until it is repaired "
                "or deleted"
            ) from error

    def put(
        self,
        consumer_id: str,
        next_snapshot: int,
        *,
        commit: str | None = None,
        lineage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Record the progress of a consumer, or create it. `commit` is the uuid of the snapshot before."""
        known = {_COMMIT_KEY: commit, _OPTIONS_KEY: dict(lineage_options or {}) or None}
        fields = {"nextSnapshot": next_snapshot} | {key: value for key, value in known.items() if value is not None}
        self._file_io.write_bytes(self._paths.consumer(consumer_id), json.dumps(fields).encode())

    @contextmanager
    def holding(self, snapshot_id: int) -> Iterator[None]:
        """Keep a snapshot and those after it, for a read: by a lease that ends with the block, or after a day."""
        consumer_id = f"{LEASE_PREFIX}{uuid.uuid4().hex}"
        self.put(consumer_id, snapshot_id)
        try:
            yield
        finally:
            self.delete(consumer_id)

    def delete(self, consumer_id: str) -> None:
        """Delete a consumer; a missing one is fine."""
        self._file_io.delete(self._path_of_found(consumer_id))

    def _path_of_found(self, consumer_id: str) -> str:
        """The file of an id that the folder may list: other programs also use ids that lakelog does not allow."""
        name = check_found_name(f"{CONSUMER_PREFIX}{consumer_id}", "the file of a consumer")  # an id may be empty
        return f"{self._paths.consumer_dir}/{name}"

    def first_wanted(self, *, but: str | None = None) -> int | None:
        """The first snapshot that some consumer has not read, without the consumer `but`; None without consumers."""
        wanted = (one.next_snapshot for one in self.all() if not one.is_own and one.consumer_id != but)
        return min(wanted, default=None)

    def expire(self, *, now_millis: int, age_millis: int | None) -> list[str]:
        """Delete consumers without progress for `age_millis`, and leases of streams after a day; returns their ids.

        The modification time of a consumer's file is its last progress. An age of None keeps all consumers except
        leases.
        """
        expired: list[str] = []
        for entry in self._file_io.list_entries(self._paths.consumer_dir):
            if not entry.name.startswith(CONSUMER_PREFIX):
                continue
            consumer_id = entry.name.removeprefix(CONSUMER_PREFIX)
            if consumer_id in {STATE_CONSUMER, LINEAGE_CONSUMER}:
                continue
            age = LEASE_MILLIS if age_millis is None and consumer_id.startswith(LEASE_PREFIX) else age_millis
            if age is not None and entry.modified_millis < now_millis - age:
                self.delete(consumer_id)
                expired.append(consumer_id)
        return sorted(expired)


def check_reader_id(consumer_id: str) -> None:
    """Raise InvalidRequestError for the ids of lakelog's own consumers."""
    if consumer_id == LINEAGE_CONSUMER:
        raise InvalidRequestError(
            f"consumer {consumer_id!r} is lakelog's own: it keeps the snapshots whose lineage was not fed yet; choose "
            "another name for a reader, and feed with `lakelog lineage feed`"
        )
    if consumer_id == STATE_CONSUMER:
        raise InvalidRequestError(
            f"consumer {consumer_id!r} is lakelog's own: it keeps lakelog's state of a table's writers from the "
            "expiry of other engines; choose another name for a reader"
        )
