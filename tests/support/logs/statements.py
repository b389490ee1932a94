"""Batch statements of a test: run by drivers that die, or that a stream's batch comes between."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: values of every column type

from lakelog.catalog import Table
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.write.changing import ChangePlan
from lakelog.protocol.state.steps import Step
from lakelog.protocol.statements.statement_runs import LoggedTable
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import log_target
from tests.support.logs.promises import log_changes, read_headers, snapshot_states

Row = tuple[Any, ...]


@dataclass(slots=True)
class StatementRunner:
    """Runs statements on a table: `dies_after` steps the driver dies, `between` comes after it has prepared."""

    table: Table
    dies_after: int | None = None
    between: Callable[[], None] | None = None
    steps: list[Step] = field(default_factory=list)
    user: str | None = None

    def run(self, operation: str, plan: ChangePlan, *, commits_nothing: bool = False) -> Snapshot | None:
        """Run it; raises InjectedCrash where the driver dies."""
        logged = LoggedTable.of(self.table.store, log_target(self.table), observe=self._observe)
        return logged.run(operation, plan, commits_nothing=commits_nothing)

    @property
    def is_begun(self) -> bool:
        """Whether a bucket of it was logged: then it happens."""
        return any(header.user == self.user for _, header in read_headers(self.table))

    def _observe(self, step: Step, user: str, identifier: int, bucket: int | None) -> None:
        self.steps.append(step)
        if self.dies_after is not None and len(self.steps) > self.dies_after:
            raise InjectedCrash(step)
        if step is Step.PREPARED_COMMIT:
            self.user = user
        if step is Step.AFTER_PREPARED_COMMIT and self.between is not None:
            between, self.between = self.between, None
            between()


def newest(table: Table) -> Snapshot:
    """The newest snapshot of a table that has one."""
    found = table.snapshot()
    assert found is not None
    return found


def rows_in(table: Table, snapshot_id: int | None = None) -> Counter[Row]:
    """The rows of a snapshot, as often as they are there."""
    return Counter(tuple(row.values()) for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist())


def check_folds(table: Table, *, has_key: bool) -> None:
    """At every snapshot the fold of the log is the rows of the files; old values in the log are right at their place.

    Without old values a change to a key is one upsert.
    """
    by_bucket = [
        [
            (offset, RowKind(kind), tuple(row.to_pylist()[0].values()))
            for _, offset, kind, row in log_changes(table, bucket)
        ]
        for bucket in range(table.store.bucket_count)
    ]
    if has_key:
        for changes in by_bucket:
            check_old_values(changes)
    for snapshot, state in snapshot_states(table):
        rows: Counter[Row] = Counter()
        for bucket, changes in enumerate(by_bucket):
            rows += _folded(_before(changes, state.logged.position(bucket).offset), has_key=has_key)
        assert rows == rows_in(table, snapshot.id), f"log and files differ at snapshot {snapshot.id}"


def _before(changes: Sequence[tuple[int, RowKind, Row]], end: int) -> Iterator[tuple[RowKind, Row]]:
    return ((kind, row) for offset, kind, row in itertools.takewhile(lambda change: change[0] < end, changes))


def _folded(changes: Iterator[tuple[RowKind, Row]], *, has_key: bool) -> Counter[Row]:
    if not has_key:
        counts: Counter[Row] = Counter()
        for kind, row in changes:
            counts[row] += 1 if kind.is_add else -1
        return +counts
    rows: dict[Any, Row] = {}
    for kind, row in changes:
        if kind.is_add:
            rows[row[0]] = row
        else:
            rows.pop(row[0], None)
    return Counter(rows.values())


def check_old_values(changes: Sequence[tuple[int, RowKind, Row]]) -> None:
    """Each row that a change takes away is the one that is there."""
    rows: dict[Any, Row] = {}
    for offset, kind, row in changes:
        if kind.is_add:
            rows[row[0]] = row
        else:
            assert rows.pop(row[0], None) == row, f"a wrong old value at offset {offset}"


def check_statements_are_whole(table: Table, buckets: Mapping[str, set[int]]) -> None:
    """Each statement, named by its user, is in all of its buckets in the log, once."""
    found: Counter[tuple[str, int]] = Counter((header.user, bucket) for bucket, header in read_headers(table))
    for user, wanted in buckets.items():
        assert {bucket: found[user, bucket] for bucket in wanted} == dict.fromkeys(wanted, 1)
