"""The commit protocol under random interleavings: several writers, kills, zombies, unknown outcomes, compaction.

Each law here was written so that it fails when its guard is taken out: the tests of the second half take it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any  # Any: a place in the pool is the pool's own, and a preparation the task's

import pytest

from lakelog.common.patience import Patience
from lakelog.filestore.commit import batches
from lakelog.filestore.metadata.tables.state_keeping import StateKeeper
from lakelog.logstore.kafka.clients import offsets
from lakelog.protocol.access import place
from lakelog.protocol.state import state
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import PartBase, PreparedBucket
from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.state import LogPosition, LogState, TableState
from lakelog.protocol.statements import statement_task, statements
from lakelog.protocol.upkeep import log_expiry
from lakelog.protocol.writing import attempts, driver, tail_checks, task
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.kept_producers import KeptProducer, KnownTail, ProducerPool
from tests.simulation import backups, history, lake, outsiders
from tests.simulation import files as sim_files
from tests.simulation import log as sim_log
from tests.simulation import statements as sim_statements
from tests.simulation.files import SimFiles, SimSnapshots
from tests.simulation.history import simulate
from tests.simulation.kinds import APPEND_ONLY, LAST_WRITE, SUMMED, VALUE_COUNT, Key, TableKind
from tests.simulation.world import World
from tests.support.examples import in_full, rest_in_full

GATE_SEEDS = 600
KIND_SEEDS = 150
FULL_SEEDS = in_full(3_000)
FOREIGN_SEEDS = 400
SEEDS_TO_SEE_A_BREAK = 1_500


def violated_seeds(
    seeds: range, *, kind: TableKind = LAST_WRITE, has_foreign_policy: bool = False, snapshot_share: float = 1.0
) -> tuple[dict[int, Counter[str]], Counter[str]]:
    """The seeds whose history breaks a promise, and what happened in all of them."""
    broken: dict[int, Counter[str]] = {}
    events: Counter[str] = Counter()
    for seed in seeds:
        past = simulate(seed, kind=kind, has_foreign_policy=has_foreign_policy, snapshot_share=snapshot_share)
        events += past.world.events
        if past.violations:
            broken[seed] = past.violations
    return broken, events


def breaks_within(seeds: int, *, kind: TableKind = LAST_WRITE, snapshot_share: float = 1.0) -> bool:
    """True as soon as one seed breaks a promise."""
    return any(simulate(seed, kind=kind, snapshot_share=snapshot_share).violations for seed in range(seeds))


def violations_within(seeds: int, *, kind: TableKind = LAST_WRITE) -> Counter[str]:
    """The promises that the first of these seeds breaks which breaks any."""
    found = (simulate(seed, kind=kind).violations for seed in range(seeds))
    return next(filter(None, found), Counter[str]())


def test_every_interleaving_keeps_the_promises() -> None:
    broken, events = violated_seeds(range(GATE_SEEDS))
    assert broken == {}
    for event in (
        "killed", "zombie", "fenced", "replay", "conflict", "unknown, not committed", "unknown, yet committed",
        "snapshot race lost", "compacted", "compaction dropped", "stalled", "changed", "changed, refused",
        "upkeep by others", "a part without records",
        "records expired", "slept", "a transaction timed out", "an orphan was removed",
        "speculated", "an attempt lost against another one",
        "copied", "copied with a checkpoint", "a writer of a copy was refused", "a copy got an identity", "moved",
        "restored", "a writer of a restored folder was refused", "restored, put back", "restored, left to its user",
        "a batch met a statement", "a left over statement was finished", "a statement was done", "cancel: cancelled",
        "cancel: finished", "a statement was cancelled", "a statement was prepared again", "a statement was forgotten",
        "a finder came after a statement was forgotten",
        "asked a broker that is away", "attempt failed: AwayError", "away at produce", "away at flush",
        "away at commit, not committed", "away at commit, yet committed", "a reader waited for the broker",
        "an offset was not known",
    ):  # fmt: skip
        assert events[event] > 0, f"the simulation never saw {event!r}: it proves nothing about it"


KINDS = {"append-only": APPEND_ONLY, "value-count": VALUE_COUNT, "merged at write": SUMMED}
HAPPENS_TO_ALL = (
    "killed", "zombie", "restored, put back", "copied", "compacted",
    "a batch met a statement", "a left over statement was finished", "a statement was done", "cancel: cancelled",
    "cancel: finished", "a statement was prepared again", "a statement was forgotten",
    "a finder came after a statement was forgotten",
)  # fmt: skip
HAPPENS = {
    "append-only": ("a file was written again without rows", "a statement had nothing to do"),
    "value-count": ("a part without files",),
    "merged at write": ("a part without records", "old rows had expired"),
}  # fmt: skip


@pytest.mark.parametrize("name", rest_in_full(KINDS, 1))
def test_every_interleaving_keeps_the_promises_of_each_kind_of_table(name: str) -> None:
    broken, events = violated_seeds(range(KIND_SEEDS), kind=KINDS[name])
    assert broken == {}
    assert [event for event in HAPPENS_TO_ALL + HAPPENS[name] if not events[event]] == []


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", list(KINDS))
def test_many_interleavings_keep_the_promises_of_each_kind_of_table(name: str) -> None:
    broken, _ = violated_seeds(range(KIND_SEEDS, KIND_SEEDS + FULL_SEEDS // 3), kind=KINDS[name])
    assert broken == {}


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_interleavings_keep_the_promises() -> None:
    broken, _ = violated_seeds(range(GATE_SEEDS, GATE_SEEDS + FULL_SEEDS))
    assert broken == {}
    broken, _ = violated_seeds(range(FOREIGN_SEEDS, FOREIGN_SEEDS + FULL_SEEDS // 4), has_foreign_policy=True)
    assert broken == {}


def test_records_that_a_foreign_policy_deletes_are_an_error_and_never_a_silent_loss() -> None:
    broken, events = violated_seeds(range(FOREIGN_SEEDS), has_foreign_policy=True)
    assert broken == {}
    assert events["deleted by a foreign policy"] > FOREIGN_SEEDS / 2
    assert events["attempt failed: LogTruncatedError"] > 0


def test_a_log_that_takes_every_gap_for_markers_loses_records_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sim_log, outsiders):
        monkeypatch.setattr(module, "can_hold_nothing", lambda *_offsets, is_after_record: True)
    assert any(simulate(seed, has_foreign_policy=True).violations for seed in range(SEEDS_TO_SEE_A_BREAK))


def test_an_expiry_that_deletes_what_an_unfinished_batch_needs_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leased_alone(bucket: int, *, leases: list[dict[int, int]], **_: object) -> int:
        return min((offsets[bucket] for offsets in leases), default=1 << 60)

    monkeypatch.setattr(log_expiry, "first_needed", leased_alone)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_an_expiry_that_looks_at_no_lease_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = log_expiry.first_needed

    def without_leases(bucket: int, *, snapshots: list[LogState], since: int | None, **_: object) -> int:
        return needed(bucket, snapshots=snapshots, leases=(), since=since)

    monkeypatch.setattr(log_expiry, "first_needed", without_leases)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_check_after_the_fence_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "check_not_stale", lambda _state, _batch: None)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_ledger_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "is_in_ledger", lambda _log, _bucket, _batch: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_writer_that_does_not_look_for_the_original_of_a_copy_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, "original_of", lambda _table, _place: None)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_an_expiry_that_does_not_look_for_the_original_of_a_copy_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lake, "original_of", lambda _table, _place: None)
    monkeypatch.setattr(outsiders, "COPY_SHARE", 0.01)
    monkeypatch.setattr(outsiders, "NEW_IDENTITY_SHARE", 0.005)
    monkeypatch.setattr(outsiders, "EXPIRE_SHARE", 0.06)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_moved_table_that_is_taken_for_a_copy_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "original_of", lambda table, recorded: None if recorded == table.path else recorded)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_writer_that_does_not_look_for_the_files_of_a_tail_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_checks, "check_files", lambda _task, _tail: None)
    monkeypatch.setattr(backups, "RESTORE_SHARE", 0.01)
    assert "a file that is not in the folder" in violations_within(SEEDS_TO_SEE_A_BREAK)


@pytest.fixture
def only_the_broker_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories in which no process is killed or stopped, and no answer is lost but by a broker that is away."""
    for share in ("KILL_SHARE", "ZOMBIE_SHARE", "STOP_SHARE", "SPECULATE_SHARE", "CHANGED_SHARE"):
        monkeypatch.setattr(history, share, 0.0)
    monkeypatch.setattr(sim_log, "UNKNOWN_OUTCOME_SHARE", 0.0)


@pytest.mark.usefixtures("only_the_broker_fails")
def test_a_commit_without_an_answer_that_is_taken_for_a_failed_one_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task, "has_own", lambda _batch, _headers: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


@pytest.mark.usefixtures("only_the_broker_fails")
@pytest.mark.parametrize("broken", ["bear", "succeeded"])
def test_a_writer_that_does_not_wait_for_its_broker_breaks_promises(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def at_once(_patience: Patience, error: Exception | None = None) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(Patience, broken, at_once)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_an_offset_that_is_not_known_and_is_taken_for_one_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "is_known_offset", lambda _offset: True)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_changed_batch_that_is_taken_for_the_same_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "is_same_source", lambda _one, _other: True)
    monkeypatch.setattr(batches, "is_same_source", lambda _one, _other: True)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_consumer_other_engines_take_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateKeeper, "_put", lambda _self, _snapshot_id: None)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_compare_and_set_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_always(_position: LogPosition, answer: BucketAnswer) -> driver.AnswerDecision:
        return driver.AnswerDecision.DROP if answer.base == answer.end else driver.AnswerDecision.TAKE

    monkeypatch.setattr(driver, "compare_and_set", take_always)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_look_for_the_user_at_the_commit_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "is_committed", lambda _state, _batch: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_search_for_an_own_transaction_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "has_own", lambda _batch, _headers: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_numbers_after_the_tail_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_snapshot(newest: TableState, bucket: int, *_of_tail: object) -> int:
        return newest.logged.position(bucket).sequence

    monkeypatch.setattr(task, "next_sequence", of_snapshot)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_part_with_files_that_is_not_logged_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_changes(part: PreparedBucket[tuple[object, ...]]) -> bool:
        return not part.payload

    monkeypatch.setattr(PreparedBucket, "is_empty", property(has_no_changes))
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


@pytest.mark.parametrize("name", list(KINDS))
def test_a_part_of_any_kind_that_is_logged_again_breaks_promises(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(task, "has_own", lambda _batch, _headers: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK, kind=KINDS[name])


def test_changes_that_cancel_each_other_and_are_not_logged_break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedBucket, "is_empty", property(lambda part: not part.files))
    assert breaks_within(SEEDS_TO_SEE_A_BREAK, kind=VALUE_COUNT)


def test_a_merge_that_does_not_look_into_the_tail_loses_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    look = SimFiles._old_rows

    def in_snapshot(files: SimFiles, bucket: int, base: PartBase) -> object:
        return look(files, bucket, replace(base, tail=()))

    monkeypatch.setattr(SimFiles, "_old_rows", in_snapshot)
    assert "a merge lost a change" in violations_within(SEEDS_TO_SEE_A_BREAK, kind=SUMMED)


def test_a_merge_that_looks_into_an_older_snapshot_loses_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the snapshot that the driver has planned the batch on."""
    look = SimFiles._old_rows

    def in_the_one_before(files: SimFiles, bucket: int, base: PartBase) -> object:
        return look(files, bucket, replace(base, snapshot_id=max(base.snapshot_id - 1, files.world.first_snapshot)))

    monkeypatch.setattr(SimFiles, "_old_rows", in_the_one_before)
    assert "a merge lost a change" in violations_within(SEEDS_TO_SEE_A_BREAK, kind=SUMMED)


def test_a_merged_result_that_is_used_on_another_base_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared_on = task._Preparation.on

    def once(made: Any, base: PartBase) -> object:
        return prepared_on(made, base) if made._part is None else made._part

    monkeypatch.setattr(task._Preparation, "on", once)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK, kind=SUMMED)


def test_old_rows_that_expired_between_look_and_lookup_are_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_again(made: Any, base: PartBase) -> object:
        return made._task.files.prepare(made._task.bucket, made._task.rows, base)

    monkeypatch.setattr(task._Preparation, "_prepare", raise_again)
    found = violations_within(SEEDS_TO_SEE_A_BREAK, kind=SUMMED)
    assert any("has expired" in violation for violation in found)


def test_a_kept_producer_used_without_comparing_offsets_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptProducer, "since", lambda self, _offset: KnownTail(logged=(), end=self.end))
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_kept_producer_left_in_the_pool_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    def peek(self: ProducerPool[object], place: Any) -> object:
        return self._producers.get(place)

    monkeypatch.setattr(ProducerPool, "take", peek)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_a_look_at_the_age_of_files_before_the_commit_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "check_young", lambda _bucket, _age_seconds: None)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_files_of_any_age_in_a_transaction_break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "is_young", lambda _age_seconds: True)
    monkeypatch.setattr(attempts, "is_young", lambda _age_seconds: True)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_batch_that_takes_in_a_tail_with_a_statement_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "unfinished", lambda _state, _headers: ())
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


@pytest.mark.parametrize("name", list(KINDS))
def test_a_batch_of_any_kind_that_takes_in_a_tail_with_a_statement_breaks_promises(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(task, "unfinished", lambda _state, _headers: ())
    assert breaks_within(SEEDS_TO_SEE_A_BREAK, kind=KINDS[name])


@pytest.mark.full
def test_a_statement_that_takes_in_a_tail_with_another_one_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    known = tail_checks.unfinished

    def of_the_set(state: TableState, headers: Iterable[CommitHeader]) -> tuple[str, ...]:
        return known(state, headers)[:1]

    monkeypatch.setattr(statement_task, "unfinished", of_the_set)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_statement_that_is_taken_in_bucket_by_bucket_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = statements.take_statements

    def some(
        state: TableState, found: Mapping[str, PreparedCommit], answers: Sequence[BucketAnswer], *, now_millis: int
    ) -> object:
        there = [one for one in answers if state.logged.position(one.bucket).offset == one.base]
        return taken(state, found, there, now_millis=now_millis)

    monkeypatch.setattr(statements, "take_statements", some)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_cancel_that_fences_nobody_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    look = statement_task.look
    monkeypatch.setattr(statement_task, "look", lambda one, *, fences: look(one, fences=False))
    monkeypatch.setattr(sim_statements, "CANCEL_SHARE", 0.03)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_statement_that_does_not_look_for_its_mark_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_task, "check_may_log", lambda _prepared, _name, *, is_own: None)
    monkeypatch.setattr(sim_statements, "CANCEL_SHARE", 0.03)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


@pytest.mark.full
def test_a_statement_that_is_forgotten_before_its_prepared_commit_is_deleted_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sim_files, "held_users", lambda _world: set[str])
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


@pytest.mark.full
def test_a_driver_that_does_not_look_for_its_forgotten_statement_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimSnapshots, "took_in", lambda _self, _user, *, after: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_statement_that_is_not_prepared_again_where_a_bucket_has_moved_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statement_task, "is_moved", lambda _staged, _end: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


@pytest.mark.full
def test_a_delete_that_does_not_look_which_rows_are_still_there_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sim_files, "counts_at", lambda world, _bucket, _base: _everything(world))
    monkeypatch.setattr(sim_statements, "DELETE_SHARE", 1.0)
    monkeypatch.setattr(sim_statements, "STATEMENT_SHARE", 0.02)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK, kind=APPEND_ONLY)


def _everything(world: World) -> Counter[Key]:
    return Counter({row: 1 << 30 for rows in world.contents.values() for row, _, _ in rows})


def test_a_statement_that_does_not_merge_onto_the_tail_loses_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    base = statement_task.part_base

    def without_tail(state: TableState, bucket: int, headers: Sequence[CommitHeader]) -> PartBase:
        return replace(base(state, bucket, headers), tail=())

    monkeypatch.setattr(statement_task, "part_base", without_tail)
    assert "a merge lost a change" in violations_within(SEEDS_TO_SEE_A_BREAK, kind=SUMMED)


def test_a_statement_on_counted_rows_that_is_not_numbered_again_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statement_task, "is_moved", lambda _staged, _end: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK, kind=VALUE_COUNT)


def test_files_of_a_prepared_commit_that_are_taken_for_orphans_break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedCommit, "file_names", property(lambda _self: set[str]()))
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)
