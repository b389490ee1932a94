"""Operations at which a stream stops if its options say so: restores, and rows that come from a branch.

In files such an operation is that of a snapshot. Through a log it is a batch statement, named in the header of each of
its transactions and in the lineage of the snapshot that takes it in.
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
# A table whose log was ended for this gets the rows of a branch like those of an older state.
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
        """Raise ConflictError for a snapshot of such an operation, or one that took in a batch statement with one."""
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
        """A function that raises ConflictError for a header of such a transaction, from offset `start` of `source` on.

        None if nothing is to be checked.
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
