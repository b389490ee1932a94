"""The three-way merge of a branch into its table: through the files alone, or through the log of a table with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.filestore.refs import BranchMerge
    from lakelog.warehouse.handle import TableHandle


def merge_changes(
    table: TableHandle, branch: str, *, base: str | int | None, on_conflict: str | Mapping[str, str], dry_run: bool
) -> BranchMerge:
    """Merge a branch. See `Table.branches.merge`."""
    files = table.store
    if table.log is None or dry_run:
        from lakelog.filestore.verbs import merge_changes as merge_files

        return merge_files(files, branch, base=base, on_conflict=on_conflict, dry_run=dry_run)
    from lakelog.catalog.logs.statements import after_statement, logged_table
    from lakelog.filestore.refs import BranchMerger, release_merged
    from lakelog.protocol.statements import LoggedMerge

    logged = logged_table(table)
    merger = BranchMerger.of(logged.table, files.on_branch(branch), base=base, on_conflict=on_conflict)
    plan, snapshot = LoggedMerge(logged=logged, merger=merger).run()
    after_statement(table, snapshot)
    release_merged(merger.line, files.snapshots.latest())
    return replace(plan.result, snapshot_id=None if snapshot is None else snapshot.id)
