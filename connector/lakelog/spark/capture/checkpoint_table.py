"""The table that a checkpoint belongs to, and that it names.

    <checkpoint>/lakelog-table.json    {"table": identity, "name": "db.t"}

Another table, or one that was dropped and created again, has none of the previous batches: without this check it would
get the remaining rows, and no error. The file is written before batch 0, and read before the first batch of each run. A
query that starts with batch 0 writes all rows, so batch 0 may bind the checkpoint to another table. The identity is
that of `lakelog.filestore.metadata.tables.identity.identity_of`: a branch has one of its own. Source:
docs/rfcs/0016-identity.md.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.common.json_fields import parse_object, string
from lakelog.common.quoting import cause, cut, shown
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import (
    CommitUser,
    carried_properties,
    check_not_forgotten,
    forgotten_millis,
    parse_users,
)
from lakelog.filestore.metadata.tables import former_identities, identity_of
from lakelog.protocol.writing import acknowledged

logger = logging.getLogger("lakelog.spark")

FILE = "lakelog-table.json"
_BYTES_MAX = 1 << 16


class Checkpoint(Protocol):
    """The folder of a checkpoint, in any file system."""

    @property
    def location(self) -> str:
        """The location of the folder."""

    def find_text(self, name: str) -> str | None:
        """The text of a file below the folder; None when the file does not exist."""

    def write_text(self, name: str, text: str) -> None:
        """Write or replace a file below the folder."""

    def has_files(self, name: str) -> bool:
        """Whether a folder below the folder has any file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTable:
    """The table that a checkpoint names: its identity, and the name that it had."""

    identity: str
    name: str

    @classmethod
    def of(cls, table: FileStoreTable) -> CheckpointTable:
        """The entry for a table. Reads what distinguishes the table from another one of the same name."""
        return cls(identity=identity_of(table), name=table.name)

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"table": self.identity, "name": self.name})


def table_of(checkpoint: Checkpoint) -> CheckpointTable | None:
    """The table that a checkpoint names; None for a checkpoint that names none. Raises CorruptDataError."""
    text = checkpoint.find_text(FILE)
    if text is None:
        return None
    try:
        if len(text) > _BYTES_MAX:
            raise ValueError(f"it has {len(text)} characters, expected {_BYTES_MAX} at most")
        fields = parse_object(text)
        return CheckpointTable(identity=string(fields, "table"), name=string(fields, "name"))
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{checkpoint.location}/{FILE} does not name the table of a checkpoint: {cause(error)}. Delete it where "
            "the checkpoint is that of the table which the query writes"
        ) from error


def check_before_start(checkpoint: Checkpoint, table: FileStoreTable) -> None:
    """Raise InvalidRequestError if the batches of a checkpoint are in another table. Writes nothing."""
    found = table_of(checkpoint)
    if found is None or found.identity == identity_of(table) or not checkpoint.has_files("commits"):
        return
    if found.identity not in former_identities(table):
        raise _of_other(checkpoint, found, table, "the batches before")


def bind(checkpoint: Checkpoint, table: FileStoreTable, *, user: str, batch_id: int) -> None:
    """Write the name of the table into its query's checkpoint. Raises InvalidRequestError if that is another table's.

    A checkpoint without a name, from an older version of lakelog, is accepted if the table knows the user.
    """
    own, found = CheckpointTable.of(table), table_of(checkpoint)
    if found is not None and found.identity == own.identity:
        return
    if batch_id:
        carried = carried_properties(table.snapshots.latest(), table.snapshots).properties
        users = parse_users(carried)
        check_not_forgotten(user, batch_id, users, forgotten_millis(carried))  # the table cannot know: it says why
        _check_adopted(checkpoint, found, table, users, user=user, batch_id=batch_id)
        logger.info("checkpoint %s is that of table %s from now on", checkpoint.location, table.name)
    checkpoint.write_text(FILE, own.to_json())


def check_unowned(checkpoint: Checkpoint, table: FileStoreTable, *, user: str, batch_id: int) -> None:
    """For a sink in a foreachBatch function of the user's, whose query may write several tables.

    Warns about a query whose first batch in the table is not batch 0. Raises InvalidRequestError if the checkpoint
    belongs to a query that writes only another table, even if this table knows the query, as a branch of the other
    table does, which began with its batches.
    """
    found = table_of(checkpoint) if batch_id else None
    if found is not None and found.identity not in {identity_of(table), *former_identities(table)}:
        raise _of_other(checkpoint, found, table, f"batches 0 to {batch_id - 1}")
    if found is None:
        check_unseen(table, user=user, batch_id=batch_id)


def check_unseen(table: FileStoreTable, *, user: str, batch_id: int) -> None:
    """For a query whose checkpoint cannot be read: warns if its first batch in the table is not batch 0."""
    users = parse_users(carried_properties(table.snapshots.latest(), table.snapshots).properties) if batch_id else {}
    if batch_id and user not in users and acknowledged(table, user) is None:
        _warn_of_missing(table, user, batch_id)


def _warn_of_missing(table: FileStoreTable, user: str, batch_id: int) -> None:
    logger.warning(
        "table %s has no batch of query %s before batch %d: the rows of those before are not in it, unless they "
        "had none for it. The usual cause is a checkpoint of another table, or of a table that was made again: "
        "then use a new checkpoint location",
        table.name,
        user,
        batch_id,
    )


def _check_adopted(
    checkpoint: Checkpoint,
    found: CheckpointTable | None,
    table: FileStoreTable,
    users: Mapping[str, CommitUser],
    *,
    user: str,
    batch_id: int,
) -> None:
    """Raise InvalidRequestError unless the table has the batches before `batch_id`."""
    last = users.get(user)
    found_last = (None if last is None else last.identifier, acknowledged(table, user))
    known = [one for one in found_last if one is not None]
    if found is None and known:
        return
    before = f"batches 0 to {batch_id - 1}"
    if found is None:
        raise InvalidRequestError(
            f"checkpoint {shown(checkpoint.location)} does not say which table it belongs to, and table {table.name} "
            f"has no batch of its query, {cut(user)}: the rows of {before} are not in it. It is the checkpoint of "
            "another table, or the table was dropped and made again: use a new checkpoint location. If the "
            "checkpoint is right nevertheless, because these batches had no rows, write "
            f"{_shown(table)} into its file {FILE}"
        )
    if found.identity not in former_identities(table):
        raise _of_other(checkpoint, found, table, before)
    if max(known, default=-1) < batch_id - 1:
        reached = f"batch {max(known)} of it as the last one" if known else "no batch of its query"
        raise InvalidRequestError(
            f"checkpoint {shown(checkpoint.location)} belongs to table {found.name} as it was before its new identity: "
            f"table {table.name} has {reached}, and the next one is batch {batch_id}. What is between was written to "
            "the other copy. Use a new checkpoint location, or, where these batches had no rows, write "
            f"{_shown(table)} into the checkpoint's file {FILE}"
        )


def _of_other(
    checkpoint: Checkpoint, found: CheckpointTable, table: FileStoreTable, batches: str
) -> InvalidRequestError:
    """The error of a checkpoint of another table."""
    other = f"table {found.name}"
    if found.name == table.name:
        other = f"another table of the name {found.name}, which was dropped, replaced, or is elsewhere"
    return InvalidRequestError(
        f"checkpoint {shown(checkpoint.location)} belongs to {other} ({cut(found.identity)}), and this query writes "
        f"table {table.name} ({cut(identity_of(table))}): the rows of {batches} are not in it. Use a new checkpoint "
        "location, or write the table that the checkpoint belongs to"
    )


def _shown(table: FileStoreTable) -> str:
    return CheckpointTable.of(table).to_json()
