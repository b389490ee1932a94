"""The result of a three-way merge of a branch into its table, and the error of one with open conflicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakelog.common.errors import ConflictError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMerge:
    """What a merge of a branch does, or did: see `Table.branches.merge`.

    `base_id` is the snapshot that both sides come from, 0 for the state before the first one; `branch_id` is the
    branch's snapshot that is merged, 0 for a branch without snapshots. `snapshot_id` is the snapshot that has the
    merge, None for a dry run and if there was nothing to merge. `upserted` counts the rows that are written by key,
    `inserted` those of a table without primary key, `deleted` the rows that are deleted. `rows_read` counts the rows of
    the files in which the sides differ.

    `conflict_count` counts the conflicts, decided and open; `conflicts` lists the first 100,000 of them. They are the
    keys (without primary key: the rows) that both sides have changed differently: the columns of the key, then `base`,
    `main` and `branch`, each a whole row or null, and `decision`: `branch`, `main`, `columns`, or `fail` for those that
    no rule decides, which `open_conflicts` counts. Without primary key the three are how often the row was added since
    the base, negative if it was deleted.
    """

    branch: str
    base_id: int
    branch_id: int
    snapshot_id: int | None = None
    upserted: int = 0
    inserted: int = 0
    deleted: int = 0
    conflict_count: int = 0
    open_conflicts: int = 0
    rows_read: int = 0
    conflicts: pa.Table = field(repr=False)


class BranchConflictError(ConflictError):
    """Table and branch have changed the same rows differently, and no rule decides.

    `merge` has the conflicts; it is missing in an error that Spark has passed on as a string.
    """

    merge: BranchMerge

    def __init__(self, message: str, merge: BranchMerge | None = None) -> None:
        super().__init__(message)
        if merge is not None:
            self.merge = merge
