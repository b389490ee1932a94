"""The commit protocol under random interleavings: several writers, kills, zombies, unknown outcomes, compaction.

Each law here was written so that it fails when its guard is taken out: the tests of the second half take it out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any  # Any: a place in the pool is the pool's own

import pytest

from lakelog.filestore import commit
from lakelog.filestore.state_keeping import StateKeeper
from lakelog.protocol import driver, log_expiry, state, task
from lakelog.protocol.kept import ProducerPool
from lakelog.protocol.state import LogPosition, LogState, TableState
from tests.simulation import history, world
from tests.simulation.history import simulate

GATE_SEEDS = 1_500
FULL_SEEDS = 12_000
FOREIGN_SEEDS = 400
SEEDS_TO_SEE_A_BREAK = 1_500


def violated_seeds(seeds: range, *, has_foreign_policy: bool = False) -> tuple[dict[int, Counter[str]], Counter[str]]:
    """The seeds whose history breaks a promise, and what happened in all of them."""
    broken: dict[int, Counter[str]] = {}
    events: Counter[str] = Counter()
    for seed in seeds:
        past = simulate(seed, has_foreign_policy=has_foreign_policy)
        events += past.world.events
        if past.violations:
            broken[seed] = past.violations
    return broken, events


def breaks_within(seeds: int) -> bool:
    """True as soon as one seed breaks a promise."""
    return any(simulate(seed).violations for seed in range(seeds))


def test_every_interleaving_keeps_the_promises() -> None:
    broken, events = violated_seeds(range(GATE_SEEDS))
    assert broken == {}
    for event in (
        "killed", "zombie", "fenced", "replay", "conflict", "unknown, not committed", "unknown, yet committed",
        "snapshot race lost", "compacted", "compaction dropped", "stalled", "changed", "changed, refused",
        "upkeep by others",
        "records expired", "slept", "a transaction timed out", "an orphan was removed",
        "speculated", "an attempt lost against another one",
    ):  # fmt: skip
        assert events[event] > 0, f"the simulation never saw {event!r}: it proves nothing about it"


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_interleavings_keep_the_promises() -> None:
    broken, _ = violated_seeds(range(GATE_SEEDS, GATE_SEEDS + FULL_SEEDS))
    assert broken == {}
    broken, _ = violated_seeds(range(FULL_SEEDS // 4), has_foreign_policy=True)
    assert broken == {}


def test_records_that_a_foreign_policy_deletes_are_an_error_and_never_a_silent_loss() -> None:
    broken, events = violated_seeds(range(FOREIGN_SEEDS), has_foreign_policy=True)
    assert broken == {}
    assert events["deleted by a foreign policy"] > FOREIGN_SEEDS / 2
    assert events["attempt failed: LogTruncatedError"] > 0


def test_a_log_that_takes_every_gap_for_markers_loses_records_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (world, history):
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


def test_a_changed_batch_that_is_taken_for_the_same_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "is_same_source", lambda _one, _other: True)
    monkeypatch.setattr(commit, "is_same_source", lambda _one, _other: True)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_consumer_other_engines_take_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateKeeper, "_put", lambda _self, _snapshot_id: None)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_compare_and_set_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_always(_position: LogPosition, answer: task.BucketAnswer) -> driver.Take:
        return driver.Take.DROP if answer.base == answer.end else driver.Take.TAKE

    monkeypatch.setattr(driver, "compare_and_set", take_always)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_look_for_the_user_at_the_commit_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "is_committed", lambda _state, _batch: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_the_search_for_an_own_transaction_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "has_own", lambda _batch, _headers: False)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_numbers_after_the_tail_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_snapshot(newest: TableState, bucket: int, _headers: object) -> int:
        return newest.logged.position(bucket).sequence

    monkeypatch.setattr(task, "next_sequence", of_snapshot)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_kept_producer_used_without_comparing_offsets_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "is_at_its_end", lambda _position, _end: True)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_a_kept_producer_left_in_the_pool_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    def peek(self: ProducerPool[object], place: Any) -> object:
        return self._producers.get(place)

    monkeypatch.setattr(ProducerPool, "take", peek)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_without_a_look_at_the_age_of_files_before_the_commit_promises_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "check_young", lambda _bucket, _age_seconds: None)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)


def test_files_of_any_age_in_a_transaction_break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "is_young", lambda _age_seconds: True)
    assert breaks_within(SEEDS_TO_SEE_A_BREAK)
