"""A branch is taken as a whole into a table with a log: log = files holds, and readers see the changes once."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.catalog.refs import from_branch as from_branch_module
from lakelog.catalog.refs import restoring as restoring_module
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.filestore.metadata.snapshots.snapshot import BranchVerb
from lakelog.filestore.metadata.snapshots.users import read_users
from lakelog.filestore.refs.merges import whole_branch
from lakelog.filestore.refs.merges.whole_branch import WholeBranch
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.steps import Step
from lakelog.protocol.statements import branch_merging, statements
from lakelog.protocol.statements.branch_merging import LoggedMerge
from lakelog.protocol.statements.statement_runs import LoggedTable
from tests.filestore.processes.zygote import zygote
from tests.support.jobs.statement_process import KEYS
from tests.support.jobs.statement_process import SCHEMA as STATEMENT_SCHEMA
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.log_records import await_deleted, log_of_table
from tests.support.logs.statements import check_folds, newest, rows_in
from tests.support.streams.planned_reader import reader_of, write_changes
from tests.support.tables.small_tables import SCHEMA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LOGGED = {"bucket": "2", "log.system": "kafka"}
KINDS = {
    "upsert": (["id"], {}),
    "all changes": (["id"], {"log.changelog-mode": "all"}),
    "value count": ([], {"write-mode": "change-log", "bucket-key": "id"}),
    "append only": ([], {"bucket-key": "id"}),
}
VERBS = ("fast_forward", "replace_newer", "replace_main")
RENEWS = {"renew_log": True}
# Each verb and most kinds once; the other pairs with --full.
PAIRS = [
    pytest.param(verb, kind, marks=() if (number + other) % len(KINDS) == 0 else pytest.mark.full)
    for number, verb in enumerate(VERBS)
    for other, kind in enumerate(KINDS)
]
Rows = Counter[tuple[object, ...]]


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


def forked(catalog: Catalog, kind: str = "upsert", *, main_changes: bool = True) -> Table:
    """A table and its branch `b`: one row the branch changes, some it lacks, some it has alone; the same of the table.

    No overwrite of the branch: it is written as its kind takes it.
    """
    keys, options = KINDS[kind]
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=LOGGED | options)
    write_changes(table, 0, range(8))
    table.branches.create("b")
    branch = table.branch("b")
    branch.write(given(range(4, 12), 7))
    if kind != "append only":
        branch.delete("id = 1")
    if main_changes:
        write_changes(table, 1, range(6, 10))
        write_changes(table, 2, range(20, 22))
    return table


def given(ids: range, batch: int) -> pa.Table:
    return pa.table([pa.array(ids), pa.array([batch] * len(ids), pa.int32())], schema=SCHEMA)


def take(table: Table, verb: str, **options: bool) -> None:
    getattr(table.branches, verb)("b", **options | ({} if verb == "fast_forward" else {"force": True}))


def extra(batch: int, *ids: int) -> Rows:
    return Counter({(one, batch): 1 for one in ids})


@pytest.mark.parametrize(("verb", "kind"), PAIRS)
def test_the_log_has_the_changes_and_a_reader_sees_them_once(catalog: Catalog, verb: str, kind: str) -> None:
    table = forked(catalog, kind, main_changes=verb != "fast_forward")
    wanted, before, tip = rows_in(table.branch("b")), rows_in(table), newest(table).id
    table.tags.create("before")
    reader = reader_of(table)
    assert +reader.read() == before
    log = log_of_table(table).topic
    take(table, verb)
    assert rows_in(table) == wanted
    assert rows_in(table, tip) == rows_in(open_table(table.path), tip) == before  # the history of the table stays
    assert Counter(tuple(row.values()) for row in table.to_arrow(tag="before").to_pylist()) == before
    assert log_of_table(table).topic == log
    assert +reader.read() == wanted
    write_changes(table, 3, range(30, 32))
    assert +reader.read() == rows_in(table) == wanted + extra(3, 30, 31)
    check_folds(table, has_key=bool(table.schema.primary_keys))
    assert table.log_store.verify().is_equal


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ("upsert", "append only") else pytest.param(kind, marks=pytest.mark.full) for kind in KINDS],
)
def test_too_many_rows_give_the_table_another_topic_and_readers_go_on_over_the_files(
    catalog: Catalog, kind: str
) -> None:
    table = forked(catalog, kind)
    wanted = rows_in(table.branch("b"))
    behind, ahead = reader_of(table), reader_of(table)
    stops = reader_of(table, **{"stream.on-restore": "fail"})
    for reader in (ahead, stops):
        reader.read()
    log = log_of_table(table).topic
    take(table, "replace_newer", **RENEWS)
    assert rows_in(table) == wanted
    assert log_of_table(table).topic != log
    write_changes(table, 3, range(30, 32))
    wanted += extra(3, 30, 31)
    assert rows_in(table) == wanted
    for reader in (behind, ahead, reader_of(table)):
        reader.start()
        assert +reader.read() == wanted
        assert all(count > 0 for count in reader.rows.values() if count)
    stops.start()
    with pytest.raises(ConflictError, match=r"has the rows of a branch, and the query has stream\.on-restore=fail"):
        stops.read()
    assert table.branches.merge("b").snapshot_id is None  # the next merge begins where this one ended
    table.upkeep.remove_orphan_files(dry_run=False)
    assert rows_in(open_table(table.path)) == wanted


@pytest.mark.parametrize("verb", VERBS)
def test_a_topic_is_replaced_only_where_that_is_asked_for(
    catalog: Catalog, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_branch_module, "STATEMENT_BYTES_MAX", 0)
    table = forked(catalog, main_changes=verb != "fast_forward")
    before, log = rows_in(table), log_of_table(table).topic
    with pytest.raises(InvalidRequestError, match=r"needs a new log, since files of 1 MiB differ.*renew_log=True"):
        take(table, verb)
    assert (rows_in(table), log_of_table(table).topic) == (before, log)
    take(table, verb, renew_log=True)
    assert rows_in(table) == rows_in(catalog.load_table("db.t"))
    assert log_of_table(catalog.load_table("db.t")).topic != log


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_that_asked_for_it_stops_in_the_log(catalog: Catalog, verb: str) -> None:
    table = forked(catalog, main_changes=False)
    reader = reader_of(table, **{"stream.on-restore": "fail"})
    before = +reader.read()
    take(table, verb)
    with pytest.raises(ConflictError, match=r"got the rows of a branch .* stream\.on-restore=fail"):
        reader.read()
    assert +reader.rows == before
    later = reader_of(table, **{"stream.on-restore": "fail"})
    write_changes(table, 3, range(30, 32))
    assert +later.read() == rows_in(table)


def test_a_reader_that_asked_for_it_stops_at_a_logged_restore(catalog: Catalog) -> None:
    table = forked(catalog)
    reader = reader_of(table, **{"stream.on-restore": "fail"})
    reader.read()
    table.restore(snapshot_id=1)
    with pytest.raises(ConflictError, match=r"an older state was restored \(RESTORE\)"):
        reader.read()


def test_a_fast_forward_never_loses_rows_of_the_table(catalog: Catalog) -> None:
    table = forked(catalog, main_changes=False)
    table.compact(full=True)  # changes no row
    table.branches.fast_forward("b")
    branch = table.branch("b")
    branch.write(given(range(40, 42), 8))
    table.branches.fast_forward("b")  # goes on from the branch's snapshot that was taken over
    assert rows_in(table) == rows_in(branch)
    assert table.branches.fast_forward("b") == newest(table)  # nothing new
    write_changes(table, 1, range(50, 51))
    branch.write(given(range(42, 43), 8))
    before = rows_in(table)
    for options in ({}, RENEWS):
        with pytest.raises(ConflictError, match=r"a fast-forward would lose changes: branches\.merge"):
            take(table, "fast_forward", **options)
    assert rows_in(table) == before
    assert table.log is not None
    table.branches.merge("b")
    assert rows_in(table) == before + extra(8, 42)


def test_the_table_has_the_batches_of_the_writers_of_both(catalog: Catalog) -> None:
    table = forked(catalog)
    branch = table.branch("b").log_store.add()
    LocalWriter(branch, "moved").write(4, given(range(60, 62), 4), None)
    table.branches.replace_newer("b", force=True)
    users = read_users(table.store.snapshots.latest(), table.store.snapshots)
    assert (users["job"].identifier, users["moved"].identifier) == (2, 4)
    wanted = rows_in(table)
    LocalWriter(open_table(table.path), "moved").write(4, given(range(60, 62), 4), None)  # run again, as after a crash
    write_changes(table, 2, range(20, 22))
    assert rows_in(table) == wanted


def test_a_replaced_branch_is_deleted_with_its_topic_but_not_with_tags_of_its_own(catalog: Catalog) -> None:
    table = forked(catalog)
    branch = table.branch("b").log_store.add()
    branch.tags.create("mine")
    with pytest.raises(InvalidRequestError, match=r"has the tag.s. mine, which would be deleted with it"):
        table.branches.replace_main("b", force=True)
    branch.tags.delete("mine")
    wanted, log = rows_in(branch), log_of_table(branch)
    log.check_topic()
    table.branches.replace_main("b", force=True)
    assert rows_in(table) == wanted
    assert table.branches.list() == []
    await_deleted(kafka_topic(log))
    check_folds(table, has_key=True)


def dying(step: Step) -> Callable[[Step, str, int, int | None], None]:
    def observe(at: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if at is step:
            raise InjectedCrash(at)

    return observe


@pytest.mark.parametrize("options", [{}, RENEWS], ids=["stated", "renewed"])
@pytest.mark.parametrize("is_of_branch", [False, True], ids=["table", "branch"])
def test_a_batch_that_no_snapshot_holds_refuses_the_call(
    catalog: Catalog, is_of_branch: bool, options: dict[str, bool]
) -> None:
    table = forked(catalog)
    line = table.branch("b").log_store.add() if is_of_branch else table
    with pytest.raises(InjectedCrash):
        LocalWriter(line, "dead", observe=dying(Step.BEFORE_SNAPSHOT)).write(0, given(range(70, 78), 9), None)
    before, tip = rows_in(table), newest(table).id
    for verb in VERBS[1:]:
        with pytest.raises(ConflictError, match=r"a writer is at work: the log of .* has batch 0 of 'dead'"):
            take(table, verb, **options)
    assert rows_in(table) == before
    assert newest(table).id == tip
    LocalWriter(line, "dead").write(0, given(range(70, 78), 9), None)  # comes back
    take(table, "replace_main", **options)
    assert rows_in(table)[70, 9] == (1 if is_of_branch else 0)
    assert table.log_store.verify().is_equal


@dataclass
class DyingTake:
    """A call whose driver dies after some steps, or that a batch comes between once it is prepared."""

    table: Table
    dies_after: int | None = None
    between: Callable[[], object] | None = None
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        files = self.table.store
        logged = LoggedTable.of(files, log_target(self.table), observe=self._observe)
        LoggedMerge(logged=logged, merger=WholeBranch.of(files, files.on_branch("b"), BranchVerb.MERGE)).run()

    def _observe(self, step: Step, user: str, identifier: int, bucket: int | None) -> None:
        self.steps.append(step)
        if self.dies_after is not None and len(self.steps) > self.dies_after:
            raise InjectedCrash(step)
        if step is Step.AFTER_PREPARED_COMMIT and self.between is not None:
            between, self.between = self.between, None
            between()


def test_a_batch_between_plan_and_log_refuses_the_call(catalog: Catalog) -> None:
    table = forked(catalog)
    with pytest.raises(ConflictError, match=r"a writer has committed to .* meanwhile: nothing was changed"):
        DyingTake(table, between=lambda: write_changes(table, 3, range(30, 32))).run()
    assert rows_in(table)[30, 3] == 1
    table.compact(full=True)
    DyingTake(table, between=lambda: table.compact(full=True)).run()  # changes no row
    assert rows_in(table) == rows_in(table.branch("b"))
    check_folds(table, has_key=True)


@pytest.mark.full
def test_a_call_that_dies_at_any_step_has_happened_or_not_and_is_made_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (statements, branch_merging):
        monkeypatch.setattr(module, "GRACE_MILLIS", -1)  # a driver that died is not waited for
    dies_after, dies = 0, True
    while dies:
        table = forked(catalog, "value count")
        before, wanted = rows_in(table), rows_in(table.branch("b"))
        reader = reader_of(table)
        reader.read()
        try:
            DyingTake(table, dies_after=dies_after).run()
            dies = False
        except InjectedCrash:
            dies_after += 1
        assert rows_in(table) in (before, wanted)
        table.branches.replace_main("b", force=True)
        assert rows_in(table) == wanted, f"died after {dies_after} steps"
        assert +reader.read() == wanted
        check_folds(table, has_key=False)
        catalog.drop_table("db.t")
    assert dies_after > 4


CUTS = ("put", "end", "commit", "add", "delete")


@pytest.mark.parametrize("cut", CUTS)
def test_a_renewing_call_that_is_cut_off_is_finished_by_the_next_call(
    catalog: Catalog, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = forked(catalog)
    before, wanted = rows_in(table), rows_in(table.branch("b"))
    reader = reader_of(table)
    reader.read()

    def die(*_: object, **__: object) -> None:
        raise InjectedCrash(cut)

    commit = whole_branch.WholeBranchCommit
    owners: dict[str, tuple[object, str]] = {
        "put": (restoring_module, "remove_log"),
        "end": (commit, "run"),
        "commit": (restoring_module.LogToAdd, "add"),
        "add": (restoring_module, "add_log"),
        "delete": (restoring_module.LogToAdd, "delete"),
    }
    monkeypatch.setattr(*owners[cut], die)
    with pytest.raises(InjectedCrash):
        take(open_table(table.path), "replace_newer", **RENEWS)
    monkeypatch.undo()
    again = open_table(table.path)
    assert rows_in(again) in (before, wanted)
    take(again, "replace_newer", **RENEWS)
    assert again.log is not None
    write_changes(again, 3, range(30, 33))
    wanted += extra(3, 30, 31, 32)
    assert rows_in(again) == wanted
    reader.start()
    assert +reader.read() == wanted
    assert not (Path(table.path) / "lakelog" / "restored-log").exists()


ALL_STEPS = (
    Step.AFTER_PREPARED_COMMIT,
    Step.COMMIT,
    Step.AFTER_COMMIT,
    Step.AFTER_SNAPSHOT,
    Step.PREPARED_COMMIT,
    Step.FENCE,
    Step.LOOK,
    Step.BEGIN,
    Step.PRODUCE,
    Step.BEFORE_SNAPSHOT,
    Step.DELETE_PREPARED,
)


@pytest.mark.full
@pytest.mark.parametrize("steps", [ALL_STEPS], ids=["all"])
def test_sigkill_at_any_step_leaves_a_branch_in_the_table_as_a_whole_or_not(
    steps: tuple[Step, ...], catalog: Catalog, bootstrap_servers: str
) -> None:
    options = LOGGED | {"log.kafka.bootstrap.servers": bootstrap_servers}
    table = catalog.create_table("db.t", schema=STATEMENT_SCHEMA, primary_keys=["k"], options=options)
    with zygote("tests.support.jobs.statement_process") as forks:

        def run(what: str, number: int, step: str) -> int:
            return forks.wait(forks.fork(catalog.warehouse, bootstrap_servers, what, number, step))

        assert run("fill", 0, "-") == 0
        table.branches.create("b")
        for number, step in enumerate(steps, 1):
            assert run("update", number, "-") == 0
            assert run("take", number, step.name) == signal.SIGKILL
            assert run("write", number, "-") == 0  # whoever comes next finishes or cancels it
            left = {row[1] for row in rows_in(table) if row[0] < KEYS}
            assert left in ({0}, {number}), f"killed at {step.value}"
            if step in (Step.AFTER_COMMIT, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT, Step.DELETE_PREPARED):
                assert left == {0}, f"killed at {step.value}, when it was decided"
    check_folds(table, has_key=True)
    with contextlib.suppress(ConflictError):  # of a call that was killed moments ago
        table.branches.replace_main("b", force=True)
        assert {row[1] for row in rows_in(table)} == {0}


def test_partitions_that_the_branch_has_not_or_has_alone_are_taken_with_the_others(catalog: Catalog) -> None:
    schema = pa.schema([*SCHEMA, pa.field("day", pa.string(), nullable=False)])

    def rows(day: str, *ids: int) -> pa.Table:
        days = [day] * len(ids)
        return pa.table([pa.array(ids), pa.array([0] * len(ids), pa.int32()), pa.array(days)], schema=schema)

    table = catalog.create_table(
        "db.p", schema=schema, primary_keys=["id", "day"], partition_keys=["day"], options=LOGGED
    )
    for day in "abc":
        table.write(rows(day, 1, 2))
    table.branches.create("b")
    branch = table.branch("b")
    branch.delete("day = 'a'")
    branch.write(rows("d", 4))
    table.write(rows("e", 5))
    untouched = {entry.file.file_name for entry in table.store.live_files.of(table.snapshot()).entries()}
    take(table, "replace_newer", **RENEWS)
    assert rows_in(table) == rows_in(branch)
    kept = {entry.file.file_name for entry in table.store.live_files.of(table.snapshot()).entries()}
    assert len(kept & untouched) >= 2  # of the partitions in which nothing differs
