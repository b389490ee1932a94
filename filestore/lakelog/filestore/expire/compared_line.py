"""The file `lakelog/compared` of a line: the snapshots that an expiry has compared, for expiries of other processes.

A JSON object: `firstId` and `newestId`, the range that was compared; `newestUuid`, the commit of the newest; `breaks`,
the ids of those that do not continue the one before; `digest`, of the other keys. It counts only while the snapshot
`newestId` is that commit. A missing or damaged file costs the time of comparing all living snapshots again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError, NotFoundError, UnavailableError
from lakelog.common.json_fields import items, parse_object, string, whole
from lakelog.filestore.io.integrity import json_digest
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")

_WRITTEN_EVERY = 1_000  # snapshots: comparing so many takes no time that anybody notices
_DIGEST = "digest"


class KnownCommits:
    """The uuids of snapshots up to the newest that was compared, as they were found while it was this commit.

    A line is changed from some snapshot up to the newest, so they stay right as long as the newest does.
    """

    def __init__(self, newest_id: int) -> None:
        self._newest_id = newest_id
        self._uuids: dict[int, str] = {}

    def get(self, snapshot_id: int) -> str | None:
        """The uuid of a snapshot; None if it is not known."""
        return self._uuids.get(snapshot_id)

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, unless it is newer than those that were compared."""
        if snapshot.uuid is not None and snapshot.id <= self._newest_id:
            self._uuids[snapshot.id] = snapshot.uuid

    def up_to(self, newest_id: int, *, first_id: int) -> KnownCommits:
        """These from a snapshot on, and room for those up to a newer one."""
        made = KnownCommits(newest_id)
        made._uuids = {number: commit for number, commit in self._uuids.items() if number >= first_id}
        return made


@dataclass(frozen=True, slots=True)
class Compared:
    """The range of snapshots that were compared, and those in it that do not continue the one before.

    `written_id` is the newest of those that the file names, or the oldest without a file.
    """

    first_id: int
    newest: Snapshot
    breaks: tuple[Snapshot, ...]
    written_id: int
    commits: KnownCommits = field(default_factory=lambda: KnownCommits(0), compare=False)


def read_compared(table: TableStore, first_id: int) -> Compared | None:
    """What the file of a line says of the snapshots from one on; None without a good file of this line."""
    try:
        fields = dict(parse_object(table.file_io.read_bytes(_path(table))))
        if fields.pop(_DIGEST, None) != json_digest(fields):
            return None
        newest = table.snapshots.find(whole(fields, "newestId"))
        if newest is None or newest.uuid != string(fields, "newestUuid"):
            return None
        breaks = [table.snapshots.get(number) for number in _ids(fields) if number > first_id]
        return Compared(whole(fields, "firstId"), newest, tuple(breaks), newest.id)
    except (CorruptDataError, KeyError, NotFoundError, ValueError):
        return None


def written_compared(table: TableStore, compared: Compared) -> Compared:
    """Write the file, if many snapshots were compared since it was written; returns what was compared.

    The newest commit must have a uuid: not all of other engines have.
    """
    if compared.newest.uuid is None or compared.newest.id - compared.written_id < _WRITTEN_EVERY:
        return compared
    fields: dict[str, object] = {
        "firstId": compared.first_id,
        "newestId": compared.newest.id,
        "newestUuid": compared.newest.uuid,
        "breaks": [one.id for one in compared.breaks],
    }
    try:
        table.file_io.write_bytes(_path(table), json.dumps({**fields, _DIGEST: json_digest(fields)}).encode())
    except UnavailableError as error:
        logger.warning("%s: the compared snapshots were not written down: %s", table.name, error)
    return replace(compared, written_id=compared.newest.id)


def _ids(fields: dict[str, Any]) -> list[int]:
    return [whole({"id": number}, "id") for number in items(fields, "breaks")]


def _path(table: TableStore) -> str:
    return f"{table.paths.own_root}/lakelog/compared"
