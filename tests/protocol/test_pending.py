"""What a driver keeps of batches that are in the log and in no snapshot, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.protocol.state.header import BucketFile, CommitHeader
from lakelog.protocol.state.ports import SnapshotChange
from lakelog.protocol.state.state import Batch, LogPosition, LogState, TableState, TakenBatch
from lakelog.protocol.state.steps import silent
from lakelog.protocol.state.writer_marks import WriterMark
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.kept_producers import ReportedTail
from lakelog.protocol.writing.lost_batches import LostBatchesError, check_mark
from lakelog.protocol.writing.pending import PendingBatches, commit_pending
from tests.support.files.data_files import plain_file

USER = "stream"


def batch(identifier: int, **lineage: object) -> Batch:
    return Batch(user=USER, identifier=identifier, source_digest=str(identifier), lineage=lineage)


def header(identifier: int, user: str = USER, sources: Sequence[str] = ()) -> CommitHeader:
    return CommitHeader(
        table_uuid="t",
        user=user,
        identifier=identifier,
        source_digest=str(identifier),
        schema_id=0,
        base_snapshot_id=0,
        record_count=1,
        size_bytes=1,
        files=(),
        lineage={"sources": list(sources)},
    )


def with_file(head: CommitHeader, *, size_bytes: int) -> CommitHeader:
    """The header with a data file of this size."""
    meta = replace(plain_file("data-0.parquet"), file_size_bytes=size_bytes)
    return replace(head, files=(BucketFile(partition=b"", meta=meta),))


def answer(bucket: int, base: int, logged: Sequence[tuple[CommitHeader, int]], epoch: int | None = 7) -> BucketAnswer:
    return BucketAnswer(
        bucket=bucket,
        base=base,
        end=logged[-1][1] if logged else base,
        leader_epoch=epoch,
        transactions=tuple(head for head, _ in logged),
        has_fenced=epoch is not None,
        ends=tuple(end for _, end in logged),
    )


@dataclass
class Snapshots:
    """A table with one snapshot, and what was committed on it."""

    state: TableState = field(
        default_factory=lambda: TableState(snapshot_id=0, users={}, log=LogState(topic_id="topic"))
    )
    changes: list[SnapshotChange] = field(default_factory=list)

    def newest(self) -> TableState:
        return self.state

    def append(self, _batch: Batch, decide: Callable[[TableState], SnapshotChange | None]) -> int | None:
        change = decide(self.state)
        if change is None:
            return None
        self.changes.append(change)
        self.state = TableState(snapshot_id=self.state.snapshot_id + 1, users=change.users, log=change.log)
        return self.state.snapshot_id

    def compact(self, *_given: object) -> int:
        raise AssertionError("what is pending is taken in without a compaction")

    def took_in(self, *_given: object, **_named: object) -> bool | None:
        raise AssertionError("only statements are asked for by their users")

    def at(self, **offsets: int) -> Snapshots:
        """The snapshot that another writer has made: `b0=4` means that bucket 0 ends there."""
        positions = {int(name[1:]): LogPosition(offset=at) for name, at in offsets.items()}
        self.state = TableState(snapshot_id=1, users={}, log=LogState(topic_id="topic", positions=positions))
        return self


def commit(pending: PendingBatches, snapshots: Snapshots, *, is_there: bool = True) -> None:
    commit_pending(
        pending, holds=lambda _bucket, _logged: is_there, snapshots=snapshots, observe=silent, clock=lambda: 5
    )


def two_batches(snapshots: Snapshots) -> PendingBatches:
    """Batch 0 in both buckets, batch 1 in bucket 0, by the producer that was kept there."""
    pending = PendingBatches()
    first = header(0, sources=["a@1"])
    pending.add(batch(0, sources=["a@1"]), [answer(0, 0, [(first, 1)]), answer(1, 0, [(first, 1)])], snapshots)
    second = answer(0, 0, [(first, 1), (header(1, sources=["a@2"]), 3)], epoch=None)
    pending.add(batch(1, sources=["a@2"]), [second], snapshots)
    return pending


def test_one_snapshot_takes_in_all_batches_with_the_lineage_of_each() -> None:
    snapshots = Snapshots()
    pending = two_batches(snapshots)

    commit(pending, snapshots)

    (change,) = snapshots.changes
    assert change.log is not None
    assert {bucket: at.offset for bucket, at in change.log.positions.items()} == {0: 3, 1: 1}
    assert change.log.positions[0].leader_epoch == 7
    assert change.users[USER].identifier == 1
    assert change.log.is_whole()
    assert {(one["identifier"], tuple(one["sources"])) for one in change.lineage} == {(0, ("a@1",)), (1, ("a@2",))}  # type: ignore[arg-type]
    assert not pending


def test_what_an_earlier_run_has_left_is_named_by_its_headers() -> None:
    snapshots = Snapshots()
    pending = PendingBatches()
    found = [(header(3, sources=["a@3"]), 1), (header(4, sources=["a@4"]), 3)]
    pending.add(batch(4, sources=["a@4"]), [answer(0, 0, found)], snapshots)
    assert pending.identifiers == [3, 4]

    commit(pending, snapshots)

    (change,) = snapshots.changes
    assert {(one["identifier"], tuple(one["sources"])) for one in change.lineage} == {(3, ("a@3",)), (4, ("a@4",))}  # type: ignore[arg-type]


def test_a_conflict_forgets_what_was_pending_and_visits_all_buckets() -> None:
    snapshots = Snapshots()
    pending = two_batches(snapshots)
    assert not pending.is_blind

    with pytest.raises(BucketConflictError):
        commit(pending, snapshots.at(b0=2))

    assert not pending
    assert pending.answers == {}
    assert pending.is_blind
    assert snapshots.changes == []


def test_a_snapshot_is_not_made_of_what_the_log_has_lost() -> None:
    snapshots = Snapshots()
    pending = two_batches(snapshots)

    with pytest.raises(LostBatchesError, match="bucket 0 no longer has what batch 0 of stream"):
        commit(pending, snapshots, is_there=False)

    assert snapshots.changes == []


def test_a_snapshot_that_has_passed_a_bucket_without_the_batch_means_a_loss() -> None:
    snapshots = Snapshots()
    pending = two_batches(snapshots)

    with pytest.raises(LostBatchesError, match=r"bucket 0 .*batch 0"):
        commit(pending, snapshots.at(b0=9, b1=9))


def test_a_bucket_whose_log_lacks_an_earlier_batch_is_refused() -> None:
    snapshots = Snapshots()
    pending = two_batches(snapshots)

    with pytest.raises(LostBatchesError, match=r"bucket 0 .*batch 0"):
        pending.add(batch(2), [answer(0, 0, [(header(2), 1)])], snapshots)


def test_what_another_writer_has_taken_in_is_no_loss() -> None:
    snapshots = Snapshots()
    pending = two_batches(snapshots)
    ledger = {0: {USER: TakenBatch(identifier=1)}}
    log = LogState(topic_id="topic", positions={0: LogPosition(offset=3)}, ledger=ledger)
    snapshots.state = TableState(snapshot_id=1, users={}, log=log)

    pending.add(batch(2), [answer(0, 3, [(header(2), 5)])], snapshots)

    assert pending.answers[0].base == 3
    assert [one.identifier for one in pending.batches] == [0, 1, 2]


def test_a_mark_names_the_last_transaction_of_each_bucket() -> None:
    mark = two_batches(Snapshots()).mark("t", "topic")

    assert mark.ends == {0: (3, 1), 1: (1, 0)}
    assert (mark.identifier, mark.digest) == (1, "1")
    assert WriterMark.from_json(mark.to_json(), where="here") == mark


def test_a_mark_is_looked_for_in_users_ledger_and_tails() -> None:
    mark = two_batches(Snapshots()).mark("t", "topic")
    empty = TableState(snapshot_id=1, users={}, log=LogState(topic_id="topic"))
    taken = TableState(
        snapshot_id=1, users={}, log=LogState(topic_id="topic", ledger={1: {USER: TakenBatch(identifier=0)}})
    )

    check_mark(mark, empty, {0: [header(0), header(1)], 1: [header(0)]})
    check_mark(mark, taken, {0: [header(1)]})
    with pytest.raises(LostBatchesError, match=r"bucket 1 .*batch 0"):
        check_mark(mark, empty, {0: [header(0), header(1)]})
    with pytest.raises(LostBatchesError, match=r"bucket 0 .*batch 1"):
        check_mark(mark, taken, {0: [header(0), header(1, user="another")]})


@pytest.mark.parametrize(
    "text", ["", "[]", '{"v": 2}', '{"v": 1, "table": 1}', '{"v": 1, "table": "t", "topicId": "p", "user": "u"}']
)
def test_a_mark_that_is_not_readable_is_an_error_that_names_its_file(text: str) -> None:
    with pytest.raises(CorruptDataError, match="the mark of a writer, lake/t/consumer/x, is not readable"):
        WriterMark.from_json(text, where="lake/t/consumer/x")


def test_answers_that_go_on_give_the_same_as_whole_ones() -> None:
    """Bytes and files are counted once, and a bucket that another one overtakes is whole again."""
    wholes, ons = PendingBatches(), PendingBatches()
    logged: dict[int, list[tuple[CommitHeader, int]]] = {0: [], 1: []}
    for number in range(6):
        bucket = number % 2
        logged[bucket].append((with_file(header(number), size_bytes=10 + number), 10 * number + 5))
        found = answer(bucket, 0, logged[bucket], epoch=7 if len(logged[bucket]) == 1 else None)
        wholes.add(batch(number), [found], Snapshots())
        known = ons.reported(with_headers=True).get(bucket)
        on = found if known is None else behind(found, known)
        assert on.goes_on == (number > 1)
        assert len(on.transactions) == 1
        ons.add(batch(number), [on], Snapshots())

        assert ons == wholes
        assert ons.mark("t", "topic") == wholes.mark("t", "topic")
    assert (ons.file_count, ons.size_bytes) == (6, 75)
    ons.taken_in()
    assert (ons.file_count, ons.size_bytes, ons.reported(with_headers=True)) == (0, 0, {})


def behind(found: BucketAnswer, known: ReportedTail) -> BucketAnswer:
    """The answer of a task that begins behind what the driver knows."""
    count = len(known.headers)
    return replace(
        found, base=known.end, transactions=found.transactions[count:], ends=found.ends[count:], goes_on=True
    )


def test_a_task_is_told_the_offsets_and_numbers_of_what_waits_and_the_headers_if_it_needs_them() -> None:
    pending = PendingBatches()
    assert pending.reported(with_headers=True) == {}
    logged = [(with_file(header(0), size_bytes=1), 10), (header(1), 20)]
    pending.add(batch(1), [answer(0, 0, logged), answer(1, 7, [])], Snapshots())

    last = logged[0][0].files[0].meta.max_sequence_number
    expected = ReportedTail(base=0, end=20, next_sequence=last + 1)
    assert pending.reported(with_headers=False) == {0: expected, 1: ReportedTail(base=7, end=7)}
    assert pending.reported(with_headers=True)[0] == replace(expected, headers=(logged[0][0], logged[1][0]))
    pending.is_blind = True
    assert pending.reported(with_headers=True) == {}
