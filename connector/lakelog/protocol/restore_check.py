"""Readers of a log that stop where the table got an older state, or the rows of a branch: `stream.on-restore=fail`."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.snapshot import RESTORE_OPERATION, BranchVerb
from lakelog.protocol.header_files import operation_in

_STOPPING = frozenset({RESTORE_OPERATION, *(verb.value for verb in BranchVerb)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheck:
    """Looks at the headers of the transactions that begin at `start` or behind; `where` is topic and partition."""

    table_name: str
    where: str
    start: int

    def __call__(self, offset: int, header: bytes) -> None:
        """Raise ConflictError for a transaction of a restore."""
        if offset < self.start:
            return
        operation = operation_in(header, where=f"{self.where}, offset {offset}")
        if operation in _STOPPING:
            what = "an older state was restored" if operation == RESTORE_OPERATION else "it got the rows of a branch"
            raise ConflictError(
                f"table {self.table_name}: at offset {offset} of {self.where} {what} ({operation}), and the query has "
                "stream.on-restore=fail: start it without the option, and it reads the changes; or with a new "
                "checkpoint location, and it reads the rows as they are now"
            )
