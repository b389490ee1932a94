"""The entries of the batches in a snapshot's `lakelog.lineage`, and the operations that they name: DELETE, RESCALE.

An operation on a file store without a log names itself in the snapshot. Batch statements of a logged table are records
of the log: the snapshot that takes the records in is an APPEND, and its lineage names the statements. For the members
of an entry see `origins.record`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import objects, optional, parse_object, string
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey


def batch_entries(snapshot: Snapshot) -> list[Mapping[str, Any]]:
    """The entries that a snapshot has; none for a snapshot of other engines. Raises CorruptDataError."""
    text = snapshot.properties.get(PropertyKey.LINEAGE)
    try:
        return list(objects(parse_object(text), "batches")) if text else []
    except (KeyError, ValueError) as error:
        raise unreadable_record(snapshot, error) from error


def unreadable_record(snapshot: Snapshot, error: Exception) -> CorruptDataError:
    """The error for a record that is not readable."""
    return CorruptDataError(
        f"{PropertyKey.LINEAGE} of snapshot {snapshot.id} is not readable: {cause(error)}; the lineage of this "
        "snapshot alone is lost"
    )


def recorded_operations(snapshot: Snapshot) -> list[str]:
    """The operations of the batches that a snapshot records, in the order of the record. Raises CorruptDataError."""
    try:
        found = [optional(string, one, "operation") for one in batch_entries(snapshot)]
    except ValueError as error:
        raise unreadable_record(snapshot, error) from error
    return [one for one in found if one is not None]


def operation_of(snapshot: Snapshot) -> str | None:
    """The operations of a snapshot as one string, such as `DELETE` or `INSERT, DELETE`; None is unknown.

    A record that is not readable names no operation: a display shows less, and does not fail.
    """
    try:
        recorded = recorded_operations(snapshot)
    except CorruptDataError:
        recorded = []
    return ", ".join(dict.fromkeys(recorded)) or snapshot.operation_name
