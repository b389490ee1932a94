"""Operations at which a stream stops where its options say so: restores, and rows that come from a branch.

In files they are the operation of a snapshot. Through a log they are batch statements, which the header of each of
their transactions names, and the lineage of the snapshot that takes them in.
Source: docs/rfcs/0037-restore-and-rollback.md, "Followers".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.snapshots import (
    MERGE_OPERATION,
    RESTORE_OPERATION,
    BranchVerb,
    Snapshot,
    recorded_operations,
)
from lakelog.protocol.state.header_files import operation_in

_WAY_OUT = (
    "start it without the option, and it reads the changes; or with a new checkpoint location, and it reads the rows "
    "as they are now"
)
_LOGGED = {RESTORE_OPERATION: "an older state was restored", MERGE_OPERATION: "a branch was merged into it"} | {
    verb.value: "it got the rows of a branch" for verb in BranchVerb
}
# A table whose log has ended for it gets the rows of a branch as those of an older state.
_IN_FILES = {
    RESTORE_OPERATION: "restored an older state, or has the rows of a branch",
    MERGE_OPERATION: "merged a branch into it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStops:
    """The operations at which a stream of one table stops: operation -> key of the option that says `fail`."""

    table_name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def check_snapshot(self, snapshot: Snapshot) -> None:
        """Raise ConflictError for a snapshot of such an operation, or that took in a batch statement of one."""
        if not self.options:
            return
        for operation in (snapshot.operation_name, *recorded_operations(snapshot)):
            if operation is not None and operation in self.options:
                did = _IN_FILES.get(operation, "has the rows of a branch")
                raise ConflictError(
                    f"snapshot {snapshot.id} of table {self.table_name} {did}, and the query has "
                    f"{self.options[operation]}=fail: {_WAY_OUT}"
                )

    def on_header(self, source: str, *, start: int) -> Callable[[int, bytes], None] | None:
        """What raises ConflictError for the header of such a transaction at or behind the offset `start` of `source`.

        None where nothing is to be checked.
        """
        if not self.options:
            return None

        def check(offset: int, header: bytes) -> None:
            if offset < start:
                return
            operation = operation_in(header, where=f"{source}, offset {offset}")
            if operation is not None and operation in self.options:
                raise ConflictError(
                    f"table {self.table_name}: at offset {offset} of {source} {_LOGGED[operation]} ({operation}), and "
                    f"the query has {self.options[operation]}=fail: {_WAY_OUT}"
                )

        return check
