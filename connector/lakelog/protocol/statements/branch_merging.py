"""A three-way merge of a branch into a table with a log: one batch statement, planned on the newest snapshot.

Its prepared commit holds the record of the merge, so that any process that finishes the statement writes it into the
snapshot that takes the merge in. Another writer may commit between the plan and the log: if the table has changed in
what the merge depends on, the statement is cancelled and planned again.

What a stream logs in the short time while the merge itself is being logged is older than the merge, as with every
statement: if both write a key, the merge's row stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.filestore.metadata.snapshots import MERGE_OPERATION, Snapshot, users_to_json
from lakelog.filestore.refs import BranchMerger, MergePlan, WholeBranch
from lakelog.filestore.write import StatementChanges
from lakelog.protocol.access.place import check_no_copy
from lakelog.protocol.state.prepared import ADDED_USERS_KEY, USER_PREFIX
from lakelog.protocol.statements.at_rest import check_at_rest
from lakelog.protocol.statements.staging import stage_statement
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.statements import GRACE_MILLIS
from lakelog.protocol.stores.table_states import read_state

_ATTEMPTS_MAX = 10


class MovedOnError(ConflictError):
    """The table has changed since the merge was planned: plan it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMerge:
    """A merge of a branch through the log of a table; a `WholeBranch` takes it over, and no writer may commit then."""

    logged: LoggedTable
    merger: BranchMerger | WholeBranch

    def run(self) -> tuple[MergePlan, Snapshot | None]:
        """Merge; the snapshot is None if the branch has nothing new. Raises BranchConflictError, ConflictError."""
        check_no_copy(self.logged.table, self.logged.snapshots.newest().place)
        began: Snapshot | None = None
        for attempt in range(_ATTEMPTS_MAX):
            self.logged.begin()
            self._settle()
            latest = self.logged.table.snapshots.latest()
            began = began if attempt else latest
            self._check_writers(began, latest)
            plan = self.merger.plan(latest).checked(self.logged.table.name)
            if plan.properties is None:
                return plan, None
            try:
                return plan, self._run(plan, latest)
            except MovedOnError:
                continue
        raise ConflictError(
            f"table {self.logged.table.name} changed during each of {_ATTEMPTS_MAX} attempts to merge branch "
            f"{self.merger.line.name!r}, in the rows that the merge writes; merge again when fewer writers run"
        )

    def _run(self, plan: MergePlan, latest: Snapshot | None) -> Snapshot:
        logged, changes = self.logged, plan.changes
        self.merger.line.keep()
        logged.check_records(changes)
        state = read_state(logged.table, latest, topic_id=logged.target.topic_id)
        age = Stopwatch()
        return logged.run_staged(
            self._operation,
            state,
            stage_statement(logged.table, changes, state),
            row_count=changes.row_count,
            age_seconds=age.seconds,
            lineage=self.merger.lineage(latest, plan.result),
            properties={**(plan.properties or {}), **self._added_users()},
            check=lambda name: self._check(name, plan, latest),
        )

    def _check(self, name: str, plan: MergePlan, latest: Snapshot | None) -> None:
        """Raise ConflictError when another merge of the branch runs, MovedOnError when the plan is outdated.

        Both merges have prepared before they check, so at least one sees the other, or its record.
        """
        others = [other for other in self._prepared() if other != name]
        if others:
            raise ConflictError(
                f"branch {self.merger.line.name!r} is being merged into table {self.logged.table.name} by another "
                "process too; merge again when it has ended"
            )
        newest = self.logged.table.snapshots.latest()
        self._check_writers(latest, newest)
        if newest == latest:
            return
        again = self.merger.plan(newest).checked(self.logged.table.name)
        if again.result.base_id != plan.result.base_id or not _are_equal(again.changes, plan.changes):
            raise MovedOnError(f"table {self.logged.table.name} has moved on to {newest}")

    @property
    def _operation(self) -> str:
        return self.merger.verb.value if isinstance(self.merger, WholeBranch) else MERGE_OPERATION

    def _added_users(self) -> dict[str, str]:
        """The users of a whole branch: their batches are in its rows. Statements are left out: they begin only once."""
        if not isinstance(self.merger, WholeBranch):
            return {}
        users = {user: last for user, last in self.merger.users().items() if not user.startswith(USER_PREFIX)}
        return {ADDED_USERS_KEY: users_to_json(users)}

    def _check_writers(self, began: Snapshot | None, latest: Snapshot | None) -> None:
        """Raise ConflictError while a writer works whose batch a whole branch must not split."""
        if isinstance(self.merger, WholeBranch):
            self.merger.check_writers(began, latest)
            check_at_rest(self.logged)

    def _settle(self) -> None:
        """Finish or cancel merges of the branch that were prepared but not finished."""
        for name, time_millis in self._prepared().items():
            if system_millis() - time_millis > GRACE_MILLIS:
                self.logged.cancel(name)

    def _prepared(self) -> dict[str, int]:
        """The prepared merges of the branch that are in no snapshot: name -> time."""
        found: dict[str, int] = {}
        users = self.logged.snapshots.newest().users
        for name in self.logged.prepared.names():
            try:
                prepared = self.logged.prepared.read(name)
            except NotFoundError:  # finished or cancelled meanwhile
                continue
            is_foreign = self.logged.prepared.is_foreign(prepared, topic_id=self.logged.target.topic_id)
            if self.merger.line.key in prepared.properties and prepared.user not in users and not is_foreign:
                found[name] = prepared.time_millis
        return found


def _are_equal(one: StatementChanges, other: StatementChanges) -> bool:
    """Whether two plans change the same rows in the same order; NaN equals NaN."""
    parts = ((one.rows, other.rows), (one.removed, other.removed))
    return bool(one.kinds.equals(other.kinds)) and all(pl.DataFrame(a).equals(pl.DataFrame(b)) for a, b in parts)
