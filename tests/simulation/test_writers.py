"""Writers in plain Python under random interleavings, beside streams and statements.

Each rule has a test that takes it out and sees promises break. Source: docs/rfcs/0051-writers.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from lakelog.protocol.state.header import CommitHeader, StagedPart
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.writes import is_write
from lakelog.protocol.statements import owned_log, statement_task, statements
from lakelog.protocol.statements.owned_log import LogPorts, OwnedLog
from lakelog.protocol.statements.write_gaps import missing_write
from lakelog.protocol.writing import tail_checks, task
from lakelog.protocol.writing.attempts import BucketAnswer
from tests.simulation import writers
from tests.simulation.history import simulate
from tests.simulation.kinds import LAST_WRITE, TableKind
from tests.simulation.test_commit_protocol import KINDS
from tests.support.examples import in_full

GATE_SEEDS = 40
KIND_SEEDS = 20
FULL_SEEDS = in_full(10_000)
SEEDS_TO_SEE_A_BREAK = 1_500
HAPPENS = (
    "a write was acknowledged", "a writer made a snapshot", "a writer has two processes", "killed", "zombie", "fenced",
    "an older process was sent away", "a batch met a statement", "a statement was done",
)  # fmt: skip


def found(seeds: Iterable[int], *, kind: TableKind = LAST_WRITE) -> tuple[dict[int, Counter[str]], Counter[str]]:
    """The seeds whose history breaks a promise, and what happened in all of them."""
    broken: dict[int, Counter[str]] = {}
    events: Counter[str] = Counter()
    for seed in seeds:
        past = simulate(seed, kind=kind, writer_count=1 + seed % 3, snapshot_share=1.0 if seed % 2 else 0.3)
        events += past.world.events
        if past.violations:
            broken[seed] = past.violations
    return broken, events


def breaks(*, kind: TableKind = LAST_WRITE) -> bool:
    return any(found([seed], kind=kind)[0] for seed in range(SEEDS_TO_SEE_A_BREAK))


def test_writers_beside_streams_and_statements_keep_the_promises() -> None:
    broken, events = found(range(GATE_SEEDS))
    assert broken == {}
    assert [event for event in HAPPENS if not events[event]] == []


@pytest.mark.parametrize("name", list(KINDS))
def test_writers_of_each_kind_of_table_keep_the_promises(name: str) -> None:
    assert found(range(KIND_SEEDS), kind=KINDS[name])[0] == {}


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", list(KINDS))
def test_many_histories_of_writers_keep_the_promises(name: str) -> None:
    assert found(range(KIND_SEEDS, FULL_SEEDS // len(KINDS)), kind=KINDS[name])[0] == {}


def test_a_part_that_is_not_made_again_where_the_log_has_moved_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statement_task, "is_moved", lambda _staged, _end: False)
    assert breaks()


def test_a_snapshot_of_the_touched_buckets_alone_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a write stands for all writes before it."""
    monkeypatch.setattr(statements, "is_write", lambda _name: False)
    assert breaks()


def test_a_turn_that_finishes_nothing_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_log, "unfinished", lambda _state, _headers: ())
    assert breaks()


def test_a_process_that_does_not_ask_for_its_name_writes_rows_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = OwnedLog.taken.__func__  # type: ignore[attr-defined]  # of the class
    monkeypatch.setattr(OwnedLog, "taken", classmethod(lambda cls, ports, _check_run: taken(cls, ports, lambda: None)))
    monkeypatch.setattr(writers, "SECOND_SHARE", 0.01)
    twice = "a row of a writer is twice in the log"
    assert any(simulate(seed, writer_count=1).violations[twice] for seed in range(SEEDS_TO_SEE_A_BREAK))


@pytest.mark.full
def test_a_process_that_asks_for_its_name_before_the_fences_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs a pause between the question and the fences in which the newer process takes a turn, and writes."""
    taken = OwnedLog.taken.__func__  # type: ignore[attr-defined]  # of the class

    def early(cls: object, ports: LogPorts[object], check_run: object) -> object:
        check_run()  # type: ignore[operator]  # a function
        return taken(cls, ports, lambda: None)

    monkeypatch.setattr(OwnedLog, "taken", classmethod(early))
    assert breaks()


def test_headers_that_name_their_own_part_alone_break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = OwnedLog.log

    def alone(self: OwnedLog[object], parts: Mapping[int, tuple[object, CommitHeader]]) -> None:
        def own(bucket: int, header: CommitHeader) -> CommitHeader:
            kept: dict[int, StagedPart] = {bucket: header.parts[bucket]}
            return replace(header, parts=kept)

        logged(self, {bucket: (part, own(bucket, header)) for bucket, (part, header) in parts.items()})  # type: ignore[misc]

    monkeypatch.setattr(OwnedLog, "log", alone)
    assert breaks()


def test_a_stream_that_does_not_finish_the_writes_that_it_meets_breaks_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = tail_checks.unfinished

    def of_statements(state: TableState, headers: Iterable[CommitHeader]) -> tuple[str, ...]:
        return tuple(name for name in known(state, headers) if not is_write(name))

    monkeypatch.setattr(task, "unfinished", of_statements)
    assert breaks()


def test_a_write_that_is_acknowledged_at_its_first_bucket_breaks_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = OwnedLog.log

    def first(self: OwnedLog[object], parts: Mapping[int, tuple[object, CommitHeader]]) -> None:
        bucket = min(parts)
        logged(self, {bucket: parts[bucket]})  # type: ignore[dict-item]

    monkeypatch.setattr(OwnedLog, "log", first)
    early = "a write was acknowledged too early"
    assert any(simulate(seed, writer_count=1).violations[early] for seed in range(SEEDS_TO_SEE_A_BREAK))


def test_a_log_that_lacks_a_write_is_not_taken_in() -> None:
    """Buckets are looked at one after the other: a snapshot without the look for gaps may claim what it lacks."""
    state = TableState(snapshot_id=0, users={}, log=None)
    header = CommitHeader(
        table_uuid="t", user="writer-p", identifier=2, source_digest=None, schema_id=0, base_snapshot_id=0,
        record_count=1, size_bytes=1, files=(), statement="write-0", parts={0: StagedPart(offset=0, files=())},
    )  # fmt: skip
    answer = replace(BucketAnswer.nothing(0, 0), transactions=(header,))
    assert missing_write(state, [answer]) == ("writer-p", 0)
    first = replace(answer, transactions=(replace(header, identifier=0), replace(header, identifier=1), header))
    assert missing_write(state, [first]) is None
