"""The three-way merge of a branch into its table: worked out on the table's newest snapshot, as a plan of changes.

The base is read where the sides differ from it alone: see `net_change`. The rows of both sides are compared within
`read.memory-budget`, what exceeds it in temporary files; the changes that the merge makes must fit in memory, as those
of every statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import RowKind
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.metadata.identity import check_schema
from lakelog.filestore.metadata.snapshot import Snapshot, is_same_commit
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.refs.branch_merge import BranchConflictError, BranchMerge
from lakelog.filestore.refs.conflict_list import shown_conflicts
from lakelog.filestore.refs.counted_merge import CountedMerge, merge_counted
from lakelog.filestore.refs.merge_base import BranchLine
from lakelog.filestore.refs.merge_checks import check_mergeable
from lakelog.filestore.refs.merge_rules import ConflictRules, parse_rules
from lakelog.filestore.refs.net_change import State, StateFile
from lakelog.filestore.refs.rows_of_keys import rows_of_keys
from lakelog.filestore.refs.sides import (
    BRANCH_DELTA,
    MAIN_DELTA,
    KeyedDifferences,
    ThreeStates,
    add_counted,
    add_keyed,
    with_main_rows,
)
from lakelog.filestore.refs.three_way import PartMerge, merge_part
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.write.changing import Changes, is_removed, kinds_of
from lakelog.filestore.write.key_parts import KeyParts


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """The changes of a merge on one snapshot, its result, and what its commit records; None of it where the branch has
    nothing new.
    """

    changes: Changes
    result: BranchMerge
    properties: Mapping[str, str] | None

    def checked(self, table_name: str) -> MergePlan:
        """The plan. Raises BranchConflictError for one with open conflicts."""
        result = self.result
        if result.open_conflicts:
            raise BranchConflictError(
                f"branch {result.branch!r} and table {table_name} have changed {result.open_conflicts} row(s) in "
                f"different ways since snapshot {result.base_id}, such as {shown_conflicts(result.conflicts)}. Nothing "
                "was written: choose a side with on_conflict='branch' or 'main', a rule a column with "
                "on_conflict={column: rule}, or see all of them with dry_run=True",
                result,
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMerger:
    """A merge of one branch, as the branch was when the merge began. Raises as `check_mergeable` and `parse_rules`."""

    main: TableStore
    line: BranchLine
    rules: ConflictRules
    base: str | int | None

    @classmethod
    def of(
        cls, main: TableStore, branch: TableStore, *, base: str | int | None, on_conflict: str | Mapping[str, str]
    ) -> BranchMerger:
        """The merge of a branch; nothing is read yet but the branch's newest snapshot."""
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
        branch = State(table=self.line.branch, snapshot=self.line.snapshot)
        states = ThreeStates(base=base, main=State(table=self.main, snapshot=latest), branch=branch)
        if is_same_commit(base.snapshot, branch.snapshot) or self._is_behind(base):
            return self._planned(states, _nothing(self.main), None)
        return self._keyed(states) if self.main.schema.primary_keys else self._counted(states)

    def _is_behind(self, base: State) -> bool:
        """Whether another merge has merged more of the branch meanwhile."""
        if base.table.branch != self.line.name or base.snapshot is None or self.line.snapshot is None:
            return False
        return base.snapshot.id > self.line.snapshot.id

    def _keyed(self, states: ThreeStates) -> MergePlan:
        schema = self.main.schema
        budget = READ_MEMORY_BUDGET.of(schema.options)
        key_fields = schema.select(schema.primary_keys)

        def of_base(keys: pa.Table) -> pa.Table:
            return rows_of_keys(states.base, keys, schema.fields)

        done: list[PartMerge] = []
        files = KeyedDifferences.of(states)
        with KeyParts(key_fields, budget_bytes=budget) as parts:
            read = add_keyed(parts, states, files, budget_bytes=budget)
            every = parts.parts()
            if files.looks_up_main:
                every = (with_main_rows(part, states, schema.primary_keys) for part in every)
            done = [merge_part(part, schema.fields, schema.primary_keys, self.rules, of_base) for part in every]
        if not done:
            return self._planned(states, _nothing(self.main), None, rows_read=read, is_new=True)
        upserts = pa.concat_tables([part.upserts for part in done])
        deletes = pa.concat_tables([part.deletes for part in done])
        result = {
            "upserted": upserts.num_rows,
            "deleted": deletes.num_rows,
            "open_conflicts": sum(part.open_count for part in done),
        }
        conflicts = pa.concat_tables([part.conflicts for part in done])
        changes = self._changes(states.main, upserts, deletes)
        return self._planned(states, changes, conflicts, rows_read=read, is_new=True, **result)

    def _changes(self, main: State, upserts: pa.Table, deletes: pa.Table) -> Changes:
        """Rows to write and rows to delete; a log needs the table's own rows of what is deleted or replaced."""
        schema = self.main.schema
        keys = list(schema.primary_keys)
        removed = upserts.slice(0, 0)
        if self.main.has_log:
            deletes = rows_of_keys(main, deletes.select(keys), schema.fields)
            if is_removed(schema):
                replaced = rows_of_keys(main, upserts.select(keys), schema.fields)
                removed, deletes = pa.concat_tables([replaced, deletes]), removed
        kind = RowKind.INSERT if self.main.has_log else RowKind.UPDATE_AFTER  # in a log both are upserts
        return Changes(
            rows=pa.concat_tables([deletes, upserts]),
            kinds=pa.concat_arrays([kinds_of(deletes, RowKind.DELETE), kinds_of(upserts, kind)]),
            removed=removed,
        )

    def _counted(self, states: ThreeStates) -> MergePlan:
        schema = self.main.schema
        budget = READ_MEMORY_BUDGET.of(schema.options)
        hashed = [column for column in schema.fields if not column.type.is_nested] or schema.fields
        done: list[CountedMerge] = []
        with KeyParts(hashed, budget_bytes=budget) as parts:
            read = add_counted(parts, states, states.branch, BRANCH_DELTA, budget_bytes=budget)
            if self._has_deletes(states):
                read += add_counted(parts, states, states.main, MAIN_DELTA, budget_bytes=budget)
            done = [merge_counted(part, schema.fields, self.rules.of_rows) for part in parts.parts()]
        if not done:
            return self._planned(states, _nothing(self.main), None, rows_read=read, is_new=True)
        inserts, deletes = (
            pa.concat_tables([getattr(part, name) for part in done]).cast(schema.arrow_schema)
            for name in ("inserts", "deletes")
        )
        is_counted = schema.is_change_log
        deleted = deletes if is_counted else deletes.slice(0, 0)
        changes = Changes(
            rows=pa.concat_tables([deleted, inserts]),
            kinds=pa.concat_arrays([kinds_of(deleted, RowKind.DELETE), kinds_of(inserts, RowKind.INSERT)]),
            removed=deletes.slice(0, 0) if is_counted else deletes,
        )
        result = {
            "inserted": inserts.num_rows,
            "deleted": deletes.num_rows,
            "open_conflicts": sum(part.open_count for part in done),
        }
        conflicts = pa.concat_tables([part.conflicts for part in done])
        return self._planned(states, changes, conflicts, rows_read=read, is_new=True, **result)

    def _has_deletes(self, states: ThreeStates) -> bool:
        """Whether the branch may have deleted rows: otherwise the table's own changes do not matter."""
        if self.main.schema.is_change_log:
            return True
        kept = states.branch.buckets()
        had = states.base.buckets()
        return any(_names_of(files) - _names_of(kept.get(bucket, ())) for bucket, files in had.items())

    def _planned(
        self,
        states: ThreeStates,
        changes: Changes,
        conflicts: pa.Table | None,
        *,
        is_new: bool = False,
        **result: int,
    ) -> MergePlan:
        properties = self.line.record(states.main.snapshot) or None if is_new else None
        empty = pa.table({name: pa.array([], pa.string()) for name in ("decision",)})
        made = BranchMerge(
            branch=self.line.name,
            base_id=0 if states.base.snapshot is None else states.base.snapshot.id,
            branch_id=0 if self.line.snapshot is None else self.line.snapshot.id,
            conflicts=empty if conflicts is None else conflicts,
            **result,
        )
        return MergePlan(changes=changes, result=made, properties=properties)


def _names_of(files: Sequence[StateFile]) -> set[tuple[str, DeletionFile | None]]:
    return {(file.file_name, vector) for file, vector in files}


def _nothing(table: TableStore) -> Changes:
    rows = table.schema.arrow_schema.empty_table()
    return Changes(rows=rows, kinds=kinds_of(rows, RowKind.INSERT), removed=rows)
