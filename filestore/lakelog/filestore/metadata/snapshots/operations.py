"""The operations that made a snapshot, by their names: DELETE, MERGE BRANCH, RESCALE.

An operation on a file store without a log names itself in the snapshot. Batch statements of a logged table are records
of the log: the snapshot that takes the records in is an APPEND, and its lineage names the statements.
"""

from __future__ import annotations

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import items, member, optional, parse_object, string
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import LINEAGE_KEY


def recorded_operations(snapshot: Snapshot) -> list[str]:
    """The operations of the batches that a snapshot records, in the order of the record. Raises CorruptDataError."""
    try:
        lineage = parse_object(snapshot.properties.get(LINEAGE_KEY, "{}"))
        batches = items(lineage, "batches") if "batches" in lineage else []
        found = [optional(string, member({"batch": one}, "batch"), "operation") for one in batches]
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"property {LINEAGE_KEY} of snapshot {snapshot.id} is not readable: {cause(error)}"
        ) from error
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
