"""A branch is merged into a table with a log: log and files fold to the merged rows, also when the merge is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.refs.merges.branch_merger import BranchMerger
from lakelog.protocol.state.steps import Step
from lakelog.protocol.statements import branch_merging, statements
from lakelog.protocol.statements.branch_merging import LoggedMerge
from lakelog.protocol.statements.statement_runs import LoggedTable
from tests.support.kills.crashing_writer import InjectedCrash, table_of
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.statements import check_folds, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
Row = tuple[int, int]


@dataclass
class DyingMerge:
    """A merge of the branch `b` whose driver dies after some steps, or that a batch comes between."""

    table: Table
    dies_after: int | None = None
    on_conflict: str = "branch"
    between: Callable[[], object] | None = None
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        files = self.table.store
        logged = LoggedTable.of(files, log_target(self.table), observe=self._observe)
        merger = BranchMerger.of(files, files.on_branch("b"), base=None, on_conflict=self.on_conflict)
        LoggedMerge(logged=logged, merger=merger).run()

    def _observe(self, step: Step, user: str, identifier: int, bucket: int | None) -> None:
        self.steps.append(step)
        if self.dies_after is not None and len(self.steps) > self.dies_after:
            raise InjectedCrash(step)
        if step is Step.AFTER_PREPARED_COMMIT and self.between is not None:
            between, self.between = self.between, None
            between()


def rows(*given: Row) -> pa.Table:
    return table_of(list(given), SCHEMA)


def upserts(count: int) -> pa.Array:
    return pa.array([0] * count, pa.int8())


def logged(servers: str, folder: Path, *, keys: tuple[str, ...] = ("k",), **options: str) -> Table:
    catalog = Catalog(folder, bootstrap_servers=servers)
    all_options = {"bucket": "2", "log.system": "kafka"} | {key.replace("_", "-"): v for key, v in options.items()}
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=all_options)


def forked(table: Table) -> None:
    """A branch that changes, inserts and deletes; and changes of the table itself."""
    table.write(rows((1, 1), (2, 2), (3, 3), (4, 4)))
    table.branches.create("b")
    branch = table.branch("b")
    branch.write(rows((1, 10), (5, 5), (6, 6)))
    branch.delete("k = 2")
    table.write(rows((3, 30), (1, 11)))


MERGED = Counter([(1, 10), (3, 30), (4, 4), (5, 5), (6, 6)])


def test_readers_of_the_log_get_the_merge_of_a_branch(bootstrap_servers: str, tmp_path: Path) -> None:
    table = logged(bootstrap_servers, tmp_path)
    forked(table)

    merged = table.branches.merge("b", on_conflict="branch")

    assert (merged.upserted, merged.deleted, merged.conflict_count) == (3, 1, 1)
    assert rows_in(table) == MERGED
    check_folds(table, has_key=True)
    assert table.log_store.verify().is_equal
    assert table.branches.merge("b").snapshot_id is None


@pytest.mark.parametrize("mode", ["change-log", "append-only"])
def test_rows_without_a_key_are_merged_through_the_log(bootstrap_servers: str, tmp_path: Path, mode: str) -> None:
    table = logged(bootstrap_servers, tmp_path, keys=(), write_mode=mode)
    table.write(rows((1, 1), (1, 1), (2, 2)))
    table.branches.create("b")
    branch = table.branch("b")
    if mode == "change-log":
        branch.delete("k = 1")
        branch.write(rows((3, 3), (3, 3)))
    else:
        branch.write(rows((2, 2), (3, 3), (3, 3)), mode="overwrite")
    table.write(rows((2, 2), (4, 4)))

    merged = table.branches.merge("b")

    assert (merged.inserted, merged.deleted) == (2, 2)
    assert rows_in(table) == Counter([(2, 2), (2, 2), (3, 3), (3, 3), (4, 4)])
    check_folds(table, has_key=False)
    branch.write(rows((5, 5)))
    assert table.branches.merge("b").inserted == 1
    check_folds(table, has_key=False)


@pytest.mark.full
def test_a_merge_whose_driver_dies_at_any_step_is_merged_once(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (statements, branch_merging):
        monkeypatch.setattr(module, "GRACE_MILLIS", -1)  # a driver that died is not waited for
    dies_after, dies = 0, True
    while dies:
        table = logged(bootstrap_servers, tmp_path / str(dies_after), keys=(), write_mode="change-log")
        table.write(rows((1, 1), (2, 2)))
        table.branches.create("b")
        table.branch("b").write(rows((3, 3), (4, 4), (5, 5)))
        try:
            DyingMerge(table, dies_after=dies_after).run()
            dies = False
        except InjectedCrash:
            dies_after += 1

        table.branches.merge("b")

        assert rows_in(table) == Counter([(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]), f"died after {dies_after} steps"
        check_folds(table, has_key=False)
    assert dies_after > 4


def test_a_change_of_the_table_while_the_merge_is_prepared_is_merged_too(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    table = logged(bootstrap_servers, tmp_path)
    forked(table)
    writer = LocalWriter(table, "q")

    merge = DyingMerge(table, on_conflict="main", between=lambda: writer.write(0, rows((5, 50), (7, 7)), upserts(2)))
    merge.run()

    assert merge.steps.count(Step.AFTER_PREPARED_COMMIT) == 2  # worked out again
    assert rows_in(table) == Counter([(1, 11), (3, 30), (4, 4), (5, 50), (6, 6), (7, 7)])
    check_folds(table, has_key=True)
