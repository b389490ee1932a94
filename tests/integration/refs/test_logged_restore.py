"""Restores of tables with a log: log = files holds, and hybrid readers see the changes once."""

from __future__ import annotations

import contextlib
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any  # Any: the arguments of a call that is handed on

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.catalog.logs.log_life import remove_log
from lakelog.catalog.refs import restoring as restoring_module
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import verbs as store_verbs
from lakelog.filestore.refs.restore.restore_plan import restore_plan
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.state.steps import Step
from lakelog.warehouse.handle import TableHandle
from tests.filestore.processes.zygote import zygote
from tests.support.examples import rest_in_full
from tests.support.jobs.statement_process import KEYS
from tests.support.jobs.statement_process import SCHEMA as STATEMENT_SCHEMA
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table
from tests.support.logs.statements import StatementRunner, check_folds, rows_in
from tests.support.streams.planned_reader import reader_of, write_changes
from tests.support.tables.small_tables import SCHEMA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LOGGED = {"bucket": "2", "log.system": "kafka", "num-sorted-run.compaction-trigger": "3"}
KINDS = {
    "upsert": (["id"], {}),
    "all changes": (["id"], {"log.changelog-mode": "all"}),
    "merged": (["id"], {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"}),
    "value count": ([], {"write-mode": "change-log", "bucket-key": "id"}),
    "append only": ([], {"bucket-key": "id"}),
}


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


def make(catalog: Catalog, kind: str) -> Table:
    keys, options = KINDS[kind]
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=LOGGED | options)


def write(table: Table, batch: int, ids: range, deletes: range = range(0)) -> None:
    write_changes(table, batch, ids, deletes)


def fill(table: Table) -> Counter[tuple[object, ...]]:
    """Three batches; gives the rows after the first."""
    # In an upsert log a delete has the row as it was given, here another one than the one that is there.
    takes_deletes = table.schema.options.get("log.changelog-mode") == "all" or table.schema.is_change_log
    write(table, 0, range(8))
    after_first = rows_in(table, 1)
    write(table, 1, range(4, 12), range(4, 6) if takes_deletes else range(0))
    table.compact(full=True)
    write(table, 2, range(10, 14))
    return after_first


@pytest.mark.parametrize("kind", KINDS)
def test_log_and_files_agree_and_a_reader_sees_the_changes_once(catalog: Catalog, kind: str) -> None:
    table = make(catalog, kind)
    target = fill(table)
    reader = reader_of(table)
    assert +reader.read() == rows_in(table)
    found = table.restore(snapshot_id=1)
    assert rows_in(table) == target
    assert found.snapshot is not None
    assert not found.renews_log
    assert table.restore(snapshot_id=1).snapshot is None
    assert +reader.read() == target
    write(table, 3, range(20, 23))
    assert +reader.read() == rows_in(table) == target + Counter({(one, 3): 1 for one in range(20, 23)})
    if kind != "merged":
        check_folds(table, has_key=bool(table.schema.primary_keys))


@pytest.mark.parametrize("has_moved", [False, True])
def test_rows_that_are_taken_out_and_rows_that_come_back_of_a_bucket_are_both_in_the_log(
    catalog: Catalog, has_moved: bool
) -> None:
    table = make(catalog, "append only")
    write(table, 0, range(8))
    write(table, 1, range(8, 16))
    target = rows_in(table)
    table.restore(snapshot_id=1)
    write(table, 2, range(20, 28))
    reader = reader_of(table)
    reader.read()
    between = (lambda: write(table, 3, range(30, 34))) if has_moved else None
    runner = StatementRunner(table, between=between)
    runner.run("RESTORE", restore_plan(table.store, table.store.snapshots.get(2)))
    assert rows_in(table) == target + Counter({(one, 3): 1 for one in range(30, 34) if has_moved})
    assert +reader.read() == rows_in(table)
    check_folds(table, has_key=False)


def test_a_stream_goes_on_with_its_next_batch(catalog: Catalog) -> None:
    table = make(catalog, "upsert")
    target = fill(table)
    table.restore(snapshot_id=1)
    write(table, 2, range(10, 14))  # run again, as after a crash
    assert rows_in(table) == target


@pytest.mark.parametrize("kind", ["upsert", "all changes", "append only"])
def test_a_large_restore_gives_the_table_another_topic_and_readers_go_on_over_the_files(
    catalog: Catalog, kind: str
) -> None:
    table = make(catalog, kind)
    target = fill(table)
    behind, ahead = reader_of(table), reader_of(table)
    ahead.read()
    write(table, 3, range(30, 34))
    before = None if table.log is None else table.log.topic_id
    found = table.restore(snapshot_id=1, renew_log=True)
    assert found.renews_log
    assert table.log is not None
    assert table.log.topic_id != before
    write(table, 4, range(40, 43))
    wanted = target + Counter({(one, 4): 1 for one in range(40, 43)})
    assert rows_in(table) == wanted
    for reader in (behind, ahead, reader_of(table)):
        reader.start()
        assert +reader.read() == wanted
        assert all(count > 0 for count in reader.rows.values() if count)


def test_rewound_writers_write_their_batches_again(catalog: Catalog) -> None:
    table = make(catalog, "upsert")
    fill(table)
    expected = rows_in(table)
    reader = reader_of(table)
    reader.read()
    assert table.restore(snapshot_id=1, rewind_writers=True, renew_log=True).renews_log
    write(table, 1, range(4, 12))
    write(table, 2, range(10, 14))
    assert rows_in(table) == expected
    reader.start()
    assert +reader.read() == expected


def test_a_dry_run_says_which_way_it_goes_and_logs_nothing(catalog: Catalog) -> None:
    table = make(catalog, "upsert")
    fill(table)
    before = table.snapshot()
    small = table.restore(snapshot_id=1, dry_run=True)
    large = table.restore(snapshot_id=1, dry_run=True, renew_log=True)
    assert (small.renews_log, large.renews_log) == (False, True)
    assert (small.rows_added, small.rows_removed, small.rows_changed) == (0, 6, 4)
    assert table.snapshot() == before


@pytest.mark.parametrize("rewind_writers", [False, True])
def test_a_restore_replaces_the_topic_only_where_that_is_asked_for(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, rewind_writers: bool
) -> None:
    table = make(catalog, "upsert")
    fill(table)
    if not rewind_writers:
        monkeypatch.setattr(restoring_module, "STATEMENT_BYTES_MAX", 0)
    before, topic_id = table.snapshot(), log_of_table(table).topic_id
    why = "writers are to be rewound" if rewind_writers else "files of 1 MiB differ, of which a batch statement takes 0"
    assert table.restore(snapshot_id=1, rewind_writers=rewind_writers, dry_run=True).renews_log
    with pytest.raises(InvalidRequestError, match=rf"needs a new log, since {why}.*renew_log=True"):
        table.restore(snapshot_id=1, rewind_writers=rewind_writers)
    again = open_table(table.path)
    assert (again.snapshot(), log_of_table(again).topic_id) == (before, topic_id)


def test_a_snapshot_that_holds_a_batch_in_part_is_refused(catalog: Catalog) -> None:
    table = make(catalog, "upsert")
    write(table, 0, range(8))

    def die(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            raise InjectedCrash(step)

    rows = pa.table([pa.array(range(8)), pa.array([1] * 8, pa.int32())], schema=SCHEMA)
    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(table.path), "dead", observe=die).write(0, rows, None)
    write(table, 1, range(30, 40))  # takes in what the dead one has logged
    newest = table.snapshot()
    assert newest is not None
    write(table, 2, range(50, 60))
    with pytest.raises(InvalidRequestError, match=r"holds batch 0 of 'dead' .* in part"):
        table.restore(snapshot_id=newest.id)


def test_a_batch_between_preparation_and_log_is_older_than_the_restore(catalog: Catalog) -> None:
    table = make(catalog, "all changes")
    target = fill(table)
    runner = StatementRunner(table, between=lambda: write(table, 3, range(2, 12)))
    snapshot = table.store.snapshots.get(1)
    runner.run("RESTORE", restore_plan(table.store, snapshot))
    left = {(one, 3) for one in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)} & set(rows_in(table))
    assert {one for one, _ in left} <= {2, 3}  # keys that did not differ
    assert Counter({row: 1 for row in rows_in(table) if row not in left}) == Counter(
        {row: 1 for row in target if row[0] not in {one for one, _ in left}}
    )
    check_folds(table, has_key=True)


@pytest.mark.parametrize("dies_after", rest_in_full([0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11], 6))
def test_a_restore_whose_driver_dies_is_in_the_table_whole_or_not_at_all(catalog: Catalog, dies_after: int) -> None:
    table = make(catalog, "upsert")
    target = fill(table)
    before = rows_in(table)
    runner = StatementRunner(table, dies_after=dies_after)
    with contextlib.suppress(InjectedCrash):
        runner.run("RESTORE", restore_plan(table.store, table.store.snapshots.get(1)))
    write(table, 3, range(100, 101))  # finishes or cancels it
    extra = Counter({(100, 3): 1})
    assert rows_in(table) == (target if runner.is_begun else before) + extra
    check_folds(table, has_key=True)


ALL_STEPS = (
    Step.PREPARED_COMMIT,
    Step.AFTER_PREPARED_COMMIT,
    Step.FENCE,
    Step.LOOK,
    Step.BEGIN,
    Step.PRODUCE,
    Step.COMMIT,
    Step.AFTER_COMMIT,
    Step.BEFORE_SNAPSHOT,
    Step.AFTER_SNAPSHOT,
    Step.DELETE_PREPARED,
)
SOME_STEPS = (Step.AFTER_COMMIT,)


@pytest.mark.parametrize("steps", [SOME_STEPS, pytest.param(ALL_STEPS, marks=pytest.mark.full)], ids=["some", "all"])
def test_sigkill_at_any_step_leaves_a_restore_whole_or_out(
    steps: tuple[Step, ...], catalog: Catalog, bootstrap_servers: str
) -> None:
    options = {"bucket": "2", "log.system": "kafka", "log.kafka.bootstrap.servers": bootstrap_servers}
    table = catalog.create_table("db.t", schema=STATEMENT_SCHEMA, primary_keys=["k"], options=options)
    with zygote("tests.support.jobs.statement_process") as forks:

        def run(what: str, number: int, step: str) -> int:
            return forks.wait(forks.fork(catalog.warehouse, bootstrap_servers, what, number, step))

        assert run("fill", 0, "-") == 0
        for number, step in enumerate(steps, 1):
            assert run("update", number, "-") == 0
            assert run("restore", 1, step.name) == signal.SIGKILL
            assert run("write", number, "-") == 0  # whoever comes next finishes or cancels it
            left = {row[1] for row in rows_in(table) if row[0] < KEYS}
            assert left in ({0}, {number}), f"killed at {step.value}"
            if step in (Step.AFTER_COMMIT, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT, Step.DELETE_PREPARED):
                assert left == {0}, f"killed at {step.value}, when it was decided"
    check_folds(table, has_key=True)


CUTS = ("put", "remove", "restore", "add", "delete")


@pytest.mark.parametrize("cut", CUTS)
def test_a_large_restore_that_is_cut_off_is_finished_by_the_next_call(
    catalog: Catalog, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, "upsert")
    target = fill(table)
    reader = reader_of(table)
    reader.read()
    before = rows_in(table)

    def die(*_: object, **__: object) -> None:
        raise InjectedCrash(cut)

    owner = {"put": restoring_module, "restore": store_verbs, "add": restoring_module}
    name = {"put": "remove_log", "restore": "restore", "add": "add_log"}
    if cut == "remove":

        def removed_then_dead(table: TableHandle, **options: Any) -> FileStoreTable:
            remove_log(table, **options)
            raise InjectedCrash(cut)

        monkeypatch.setattr(restoring_module, "remove_log", removed_then_dead)
    elif cut == "delete":
        monkeypatch.setattr(restoring_module.LogToAdd, "delete", die)
    else:
        monkeypatch.setattr(owner[cut], name[cut], die)
    with pytest.raises(InjectedCrash):
        open_table(table.path).restore(snapshot_id=1, renew_log=True)
    monkeypatch.undo()
    again = open_table(table.path)
    assert rows_in(again) in (before, target)
    again.restore(snapshot_id=1, renew_log=True)
    assert again.log is not None
    write(again, 3, range(30, 33))
    wanted = target + Counter({(one, 3): 1 for one in range(30, 33)})
    assert rows_in(again) == wanted
    reader.start()
    assert +reader.read() == wanted
    assert not (Path(table.path) / "lakelog" / "restored-log").exists()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_with_restores_keep_log_and_files_the_same(catalog: Catalog, seed: int) -> None:
    rng = random.Random(seed)
    table = make(catalog, rng.choice(["upsert", "all changes", "value count", "append only"]))
    reader = reader_of(table)
    for batch in range(12):
        write(table, batch, range(start := rng.randrange(12), start + rng.randrange(1, 8)))
        if rng.random() < 0.4:
            known = [snapshot.id for snapshot in table.snapshots()]
            target = rng.choice(known)
            wanted = rows_in(table, target)
            table.restore(snapshot_id=target)
            assert rows_in(table) == wanted
        if rng.random() < 0.5:
            assert +reader.read() == rows_in(table)
    check_folds(table, has_key=bool(table.schema.primary_keys))
