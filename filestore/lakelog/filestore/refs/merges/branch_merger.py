"""The three-way merge of a branch into its table: computed on the table's newest snapshot, as a plan of changes.

The base is read only where the sides differ from it: see `net_change`. The rows of both sides are compared within
`read.memory-budget`, one part of the keys at a time; rows that exceed it go to temporary files. For the changes see
`merge_plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.types import RowKind
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot, is_same_commit
from lakelog.filestore.metadata.tables.identity import check_schema
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.refs.merges.branch_lineage import branch_lineage
from lakelog.filestore.refs.merges.counted_merge import merge_counted
from lakelog.filestore.refs.merges.merge_base import BranchLine
from lakelog.filestore.refs.merges.merge_checks import check_mergeable
from lakelog.filestore.refs.merges.merge_plan import BranchMerge, MergePlan, PlannedRows
from lakelog.filestore.refs.merges.merge_rules import ConflictRules, parse_rules
from lakelog.filestore.refs.merges.sides import (
    BRANCH_DELTA,
    MAIN_DELTA,
    KeyedDifferences,
    ThreeStates,
    add_counted,
    add_keyed,
    with_main_rows,
)
from lakelog.filestore.refs.merges.three_way import Lookups, RowsOfKeys, merge_part
from lakelog.filestore.refs.states.net_change import BucketDifference
from lakelog.filestore.refs.states.row_equality import comparable
from lakelog.filestore.refs.states.rows_of_keys import rows_of_keys
from lakelog.filestore.refs.states.table_state import StateFile, TableState
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.write.changing import StatementChanges, is_removed, kinds_of
from lakelog.filestore.write.key_parts import KeyParts

_COPIES = 4  # of a row in memory: as read, its keys, by sides, as merged


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMerger:
    """A merge of one branch, in its state when the merge began. Raises as `check_mergeable` and `parse_rules`."""

    main: TableStore
    line: BranchLine
    rules: ConflictRules
    base: str | int | None

    @classmethod
    def of(
        cls, main: TableStore, branch: TableStore, *, base: str | int | None, on_conflict: str | Mapping[str, str]
    ) -> BranchMerger:
        """The merge of a branch; so far only the branch's newest snapshot is read."""
        if main.branch != MAIN_BRANCH or branch.branch == MAIN_BRANCH:
            raise InvalidRequestError(
                f"branch {branch.branch!r} cannot be merged into {main.branch!r} of table {main.name}: only a branch "
                f"into the table itself, {MAIN_BRANCH!r}; for a branch with the table's newest rows make a new one"
            )
        check_mergeable(main, branch)
        rules = parse_rules(on_conflict, main.schema, table_name=main.name)
        line = BranchLine.of(main, branch)
        check_schema(branch, line.snapshot)
        return cls(main=main, line=line, rules=rules, base=base)

    def plan(self, latest: Snapshot | None) -> MergePlan:
        """The merge into the table as of `latest`."""
        base = self.line.base(latest, self.base)
        branch = TableState(table=self.line.branch, snapshot=self.line.snapshot)
        main = TableState(table=self.main, snapshot=latest)
        ancestor = self.line.beginning()
        states = ThreeStates(
            base=base.as_written(),
            main=main.as_written(),
            branch=branch.as_written(),
            ancestor=None if ancestor is None else ancestor.as_written(),
        )
        if is_same_commit(base.snapshot, branch.snapshot) or self._is_behind(base):
            return self._planned(states, PlannedRows(self.main), is_new=False)
        if not self.main.schema.primary_keys:
            return self._counted(states)
        try:
            return self._keyed(states, by_commits=True)
        except NotFoundError:  # a commit in between expired while its files were read
            return self._keyed(states, by_commits=False)

    def lineage(self, latest: Snapshot | None, result: BranchMerge) -> dict[str, object]:
        """What the commit of a merge into the table as of `latest` records about the origin of its rows."""
        if self.line.snapshot is None:
            return {}
        combines = self.rules.by_column and result.conflict_count > 0
        base = self.line.base(latest, self.base)
        return branch_lineage(self.line, self.line.snapshot, base, combines_rows=combines)

    def _is_behind(self, base: TableState) -> bool:
        """Whether another merge has already merged more of the branch."""
        if base.table.branch != self.line.name or base.snapshot is None or self.line.snapshot is None:
            return False
        return base.snapshot.id > self.line.snapshot.id

    def _keyed(self, states: ThreeStates, *, by_commits: bool) -> MergePlan:
        schema = self.main.schema
        budget = READ_MEMORY_BUDGET.understood(schema.options) // _COPIES
        key_fields = schema.select(schema.primary_keys)
        files = KeyedDifferences.of(states, budget_bytes=budget, by_commits=by_commits)
        lookups = _lookups(states, files)
        with PlannedRows(self.main) as planned, KeyParts(key_fields, budget_bytes=budget) as parts:
            read = add_keyed(parts, states, files, budget_bytes=budget)
            for part in parts.parts():
                whole = with_main_rows(part, states, schema.primary_keys) if files.looks_up_main else part
                found = merge_part(whole, schema.fields, schema.primary_keys, self.rules, lookups)
                planned.add(
                    self._changes(states.main, found.upserts, found.deletes),
                    found.conflicts,
                    upserted=found.upserts.num_rows,
                    deleted=found.deletes.num_rows,
                    open_conflicts=found.open_count,
                )
        return self._planned(states, planned, rows_read=read)

    def _changes(self, main: TableState, upserts: pa.Table, deletes: pa.Table) -> StatementChanges:
        """Rows to write and rows to delete; a log needs the table's own rows that are deleted or replaced."""
        schema = self.main.schema
        keys = list(schema.primary_keys)
        removed = upserts.schema.empty_table()
        if self.main.has_log:
            deletes = rows_of_keys(main, deletes.select(keys), schema.fields)
            if is_removed(schema):
                replaced = rows_of_keys(main, upserts.select(keys), schema.fields)
                removed, deletes = pa.concat_tables([replaced, deletes]), removed
        kind = RowKind.INSERT if self.main.has_log else RowKind.UPDATE_AFTER  # in a log both are upserts
        return StatementChanges(
            rows=pa.concat_tables([deletes, upserts]),
            kinds=pa.concat_arrays([kinds_of(deletes, RowKind.DELETE), kinds_of(upserts, kind)]),
            removed=removed,
        )

    def _counted(self, states: ThreeStates) -> MergePlan:
        schema = self.main.schema
        budget = READ_MEMORY_BUDGET.understood(schema.options) // _COPIES
        hashed = [column for column in schema.fields if not column.type.is_nested] or schema.fields
        with PlannedRows(self.main) as planned, KeyParts(hashed, budget_bytes=budget, frame_of=comparable) as parts:
            read = add_counted(parts, states, states.branch, BRANCH_DELTA, budget_bytes=budget)
            if self._has_deletes(states):
                read += add_counted(parts, states, states.main, MAIN_DELTA, budget_bytes=budget)
            for part in parts.parts():
                found = merge_counted(part, schema.fields, self.rules.of_rows)
                planned.add(
                    self._counted_changes(found.inserts, found.deletes),
                    found.conflicts,
                    inserted=found.inserts.num_rows,
                    deleted=found.deletes.num_rows,
                    open_conflicts=found.open_count,
                )
        return self._planned(states, planned, rows_read=read)

    def _counted_changes(self, inserts: pa.Table, deletes: pa.Table) -> StatementChanges:
        """Rows to insert and to delete: retractions where rows are counted, else removals from files."""
        schema = self.main.schema
        inserts, deletes = inserts.cast(schema.arrow_schema), deletes.cast(schema.arrow_schema)
        nothing = deletes.schema.empty_table()
        retracted, removed = (deletes, nothing) if schema.is_change_log else (nothing, deletes)
        return StatementChanges(
            rows=pa.concat_tables([retracted, inserts]),
            kinds=pa.concat_arrays([kinds_of(retracted, RowKind.DELETE), kinds_of(inserts, RowKind.INSERT)]),
            removed=removed,
        )

    def _has_deletes(self, states: ThreeStates) -> bool:
        """Whether the branch may have deleted rows: otherwise the table's own changes do not matter."""
        if self.main.schema.is_change_log:
            return True
        kept = states.branch.buckets()
        had = states.base.buckets()
        return any(_names_of(files) - _names_of(kept.get(bucket, ())) for bucket, files in had.items())

    def _planned(
        self, states: ThreeStates, planned: PlannedRows, *, rows_read: int = 0, is_new: bool = True
    ) -> MergePlan:
        properties = self.line.record(states.main.snapshot) or None if is_new else None
        result = BranchMerge(
            branch=self.line.name,
            base_id=0 if states.base.snapshot is None else states.base.snapshot.id,
            branch_id=0 if self.line.snapshot is None else self.line.snapshot.id,
            conflicts=planned.conflicts.table(),
            conflict_count=planned.conflicts.count,
            rows_read=rows_read,
            **planned.counts,
        )
        return planned.plan(result, properties)


def _names_of(files: Sequence[StateFile]) -> set[tuple[str, DeletionFile | None]]:
    return {(file.file_name, vector) for file, vector in files}


def _lookups(states: ThreeStates, files: KeyedDifferences) -> Lookups:
    """Lookups in the files that the merge does not read."""

    def of(state: TableState, read: Sequence[BucketDifference]) -> RowsOfKeys:
        names = {file.file_name for one in read for file, _ in (*one.only_new, *one.companions)}
        return lambda keys: rows_of_keys(state, keys, states.fields, without=names)

    return Lookups(
        base=of(states.base, ()),
        branch=of(states.branch, files.of_branch),
        main=None if files.looks_up_main else of(states.main, files.of_main),
    )
