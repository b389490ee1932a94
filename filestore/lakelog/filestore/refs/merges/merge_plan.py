"""What a three-way merge is going to do, computed on one snapshot, and its result.

The rows that it writes are kept within `read.memory-budget`; what exceeds it goes to a temporary file. The rows of a
logged table are kept in memory, as the changes of every statement are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

import pyarrow as pa

from lakelog.common.errors import ConflictError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.refs.merges.conflict_list import ConflictList, shown_conflicts
from lakelog.filestore.write.changing import StatementChanges
from lakelog.filestore.write.row_kinds import split_kinds
from lakelog.filestore.write.row_spool import RowSpool


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


class PlannedRows:
    """The changes of the parts of a merge, one after the other; an error frees the temporary file."""

    def __init__(self, table: TableStore) -> None:
        """Start without rows."""
        schema = table.schema
        kind = pa.field(ROW_KIND_COLUMN, pa.int8())
        budget = sys.maxsize if table.has_log else READ_MEMORY_BUDGET.understood(schema.options)
        self.written = RowSpool(schema.arrow_schema.append(kind), budget_bytes=budget)
        self.conflicts = ConflictList()
        self.counts: dict[str, int] = {}
        self._removed = [schema.arrow_schema.empty_table()]

    def __enter__(self) -> PlannedRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.written.close()

    def add(self, changes: StatementChanges, conflicts: pa.Table, **counts: int) -> None:
        """Add the changes of a part, and its counts under the names that `BranchMerge` has for them."""
        self.take(changes)
        self.conflicts.add(conflicts)
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count

    def take(self, changes: StatementChanges) -> None:
        """Add changes about which nothing else is known."""
        self.written.add(changes.rows.append_column(ROW_KIND_COLUMN, changes.kinds))
        if changes.removed.num_rows:  # an empty slice would keep the rows that it was taken from in memory
            self._removed.append(changes.removed)

    def plan(self, result: BranchMerge, properties: Mapping[str, str] | None) -> MergePlan:
        """The plan of all added changes."""
        removed = pa.concat_tables(self._removed)
        return MergePlan(written=self.written, removed=removed, result=result, properties=properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """The changes of a merge, its result and its record; all None without news. `close` frees the disk."""

    written: RowSpool
    removed: pa.Table
    result: BranchMerge
    properties: Mapping[str, str] | None

    @property
    def changes(self) -> StatementChanges:
        """All changes, in memory."""
        rows, kinds = split_kinds(self.written.table())
        assert kinds is not None, "the column is there"
        return StatementChanges(rows=rows, kinds=kinds, removed=self.removed)

    def checked(self, table_name: str) -> MergePlan:
        """The plan itself. Raises BranchConflictError if it has open conflicts."""
        result = self.result
        if result.open_conflicts:
            self.close()
            raise BranchConflictError(
                f"branch {result.branch!r} and table {table_name} have changed {result.open_conflicts} row(s) in "
                f"different ways since snapshot {result.base_id}, such as {shown_conflicts(result.conflicts)}. Nothing "
                "was written: choose a side with on_conflict='branch' or 'main', a rule a column with "
                "on_conflict={column: rule}, or see all of them with dry_run=True",
                result,
            )
        return self

    def close(self) -> None:
        """Free the temporary file, if there is one."""
        self.written.close()
