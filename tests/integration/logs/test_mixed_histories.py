"""fold(log) = files = model where everything meets: two writers, deaths, statements, compaction, untracked batches.

And records that are deleted, and a reader that starts anew where it cannot go on. A model of each bucket follows the
order of its log: what a batch or a statement does is known to the test, where it comes is said by the headers.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # Any: what hypothesis draws

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.statements import logged_table
from lakelog.common.types import RowKind
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.options import OnUntracked
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.change_tracking import MarkCheck, UntrackedChangesError
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.state import TableState
from lakelog.protocol.statements import statements
from tests.integration.statements.test_statements import KINDS, Change, Kind, Model, Statement, statements_of
from tests.support.kills.crashing_writer import InjectedCrash, table_of
from tests.support.kills.fault_runs import BUCKETS, SCHEMA, Follower, buckets_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table, lose_records
from tests.support.logs.promises import snapshot_states
from tests.support.logs.statements import StatementRunner, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

LOGGED = {"bucket": str(BUCKETS), "log.system": "kafka"}
Row = tuple[int, int | None]


class Reader:
    """A hybrid reader: the rows of a snapshot, then the log from its offsets. It starts anew where it cannot go on."""

    def __init__(self, table: Table, *, has_key: bool) -> None:
        self._table = table
        self._has_key = has_key
        self.positions: dict[int, int] = dict.fromkeys(range(BUCKETS), 0)
        self.fold = Fold(Counter(), has_key=has_key)
        self.restarts: list[str] = []

    def start(self, why: str) -> None:
        """Take the rows of the newest snapshot."""
        self.restarts.append(why)
        snapshot, state = newest(self._table)
        self.fold = Fold(rows_in(self._table, snapshot), has_key=self._has_key)
        self.positions = {bucket: state.logged.position(bucket).offset for bucket in range(BUCKETS)}

    def read_on(self) -> None:
        """Go on to what the newest snapshot holds, or take its rows."""
        _, state = newest(self._table)
        try:
            for bucket in range(BUCKETS):
                self._read(bucket, state.logged.position(bucket).offset)
        except (LogTruncatedError, UntrackedChangesError) as error:
            self.start(type(error).__name__)

    def _read(self, bucket: int, end: int) -> None:
        table = self._table
        check = MarkCheck(table_name=table.name, on_untracked=OnUntracked.FAIL)
        partition = kafka_topic(log_of_table(table)).partition(bucket)
        start = self.positions[bucket]
        for batch in read_range(partition, table.schema.fields, start=start, end=end, check_header=check):
            columns = (batch.column(name).to_pylist() for name in ("_row_kind", "k", "v"))
            for kind, key, value in zip(*columns, strict=True):
                self.fold.apply(RowKind(kind), (key, value))
        self.positions[bucket] = max(start, end)


class Fold:
    """What rows and records behind them come to."""

    def __init__(self, rows: Counter[Row], *, has_key: bool) -> None:
        self._has_key = has_key
        self._rows = Counter(rows)

    def apply(self, kind: RowKind, row: Row) -> None:
        """The next record."""
        if not self._has_key:
            self._rows[row] += 1 if kind.is_add else -1
            return
        for old in [old for old in self._rows if old[0] == row[0]]:
            del self._rows[old]
        if kind.is_add:
            self._rows[row] = 1

    @property
    def rows(self) -> Counter[Row]:
        """The rows that are there."""
        return +self._rows


def newest(table: Table) -> tuple[int, TableState]:
    """The newest snapshot and what it holds."""
    snapshot, state = list(snapshot_states(table))[-1]
    return snapshot.id, state


@dataclass(slots=True)
class Mixed:
    """One history over one table."""

    table: Table
    kind: Kind
    follower: Follower
    reader: Reader
    writers: dict[str, LocalWriter] = field(default_factory=dict)
    batches: dict[tuple[str, int], Sequence[Row]] = field(default_factory=dict)
    unfinished: dict[str, int] = field(default_factory=dict)
    untracked: set[tuple[str, int]] = field(default_factory=set)
    changes: dict[str, list[Change]] = field(default_factory=dict)  # of statements, by their users
    happened: Counter[str] = field(default_factory=Counter)

    def batch(self, user: str, rows: Sequence[Row], dies_after: int | None, is_tracked: bool) -> None:
        """The next batch of a writer; one that died before runs again instead."""
        identifier = self.unfinished.pop(user, None)
        if identifier is None:
            identifier = sum(one == user for one, _ in self.batches)
            self.batches[user, identifier] = rows
            if not is_tracked:
                self.untracked.add((user, identifier))
        writer = self.writers.pop(user, None) or LocalWriter(self.table, user)
        left = [dies_after]

        def observe(*_step: object) -> None:
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise InjectedCrash

        writer.observe = observe
        writer.is_tracked = None if (user, identifier) not in self.untracked else False
        try:
            writer.write(identifier, table_of(self.batches[user, identifier], SCHEMA), None)
        except InjectedCrash:
            self.unfinished[user] = identifier
            self.happened["a writer died"] += 1
        else:
            self.writers[user] = writer

    def statement(self, one: Statement) -> None:
        """A statement that is worked out on the newest snapshot."""
        logged_table(self.table).finish_left_over()
        worked_out = Model(self.kind)
        worked_out.counts = rows_in(self.table)
        worked_out.rows = {row[0]: row for row in worked_out.counts}
        made = worked_out.worked_out(one)
        runner = StatementRunner(self.table, one.dies_after)
        try:
            runner.run(one.verb, one.plan(self.table))
        except InjectedCrash:
            self.happened["a statement's driver died"] += 1
        if runner.user is not None:
            self.changes[runner.user] = made

    def delete_records(self, bucket: int) -> None:
        """Kafka loses what the newest snapshot holds; the model has read it before."""
        self.follower.read_all()
        _, state = newest(self.table)
        lose_records(self.table, bucket, before=state.logged.position(bucket).offset)

    def check(self) -> None:
        """Finish what is left; then the reader, the model and the files are the same, at each snapshot."""
        for user in list(self.unfinished):
            self.batch(user, (), None, True)
        logged_table(self.table).finish_left_over()
        self.batch("a", [(9, 9)], None, True)  # takes in what is left
        self.follower.read_all()
        self.reader.read_on()
        snapshot, _ = newest(self.table)
        assert self.reader.fold.rows == rows_in(self.table, snapshot), "the reader has other rows than the files"
        self._check_batches()
        for snapshot_, state in snapshot_states(self.table):
            ends = {bucket: state.logged.position(bucket).offset for bucket in range(BUCKETS)}
            assert rows_in(self.table, snapshot_.id) == self._model(ends), f"files of snapshot {snapshot_.id}"
        for bucket in range(BUCKETS):
            self._check_log(bucket)

    def _check_batches(self) -> None:
        """Each part of each batch is in the log once, and so is each statement in a bucket."""
        found = Counter(
            (header.user, header.identifier, bucket)
            for bucket in range(BUCKETS)
            for header in self.follower.headers[bucket].values()
        )
        assert set(found.values()) <= {1}
        parts = {(user, number, bucket) for user, number, bucket in found if user in ("a", "b")}
        assert parts == {
            (user, number, bucket)
            for (user, number), rows in self.batches.items()
            for bucket in set(buckets_of(self.table, rows) if rows else ())
        }

    def _model(self, ends: Mapping[int, int]) -> Counter[Row]:
        """What the parts before these offsets come to, in the order of the log."""
        rows: Counter[Row] = Counter()
        for bucket, end in ends.items():
            model = Model(self.kind)
            for offset in sorted(offset for offset in self.follower.headers[bucket] if offset < end):
                self._follow(model, self.follower.headers[bucket][offset], bucket)
            rows += model.expected
        return rows

    def _follow(self, model: Model, header: CommitHeader, bucket: int) -> None:
        if header.statement is None:
            rows = self.batches[header.user, header.identifier]
            model.batch([("+I", row) for row in self._of(bucket, rows)])
            return
        made = self.changes[header.user]
        there = self._of(bucket, [row for _, row in made])
        model.apply([one for one in made if one[1] in there])

    def _of(self, bucket: int, rows: Sequence[Row]) -> list[Row]:
        return [row for row, at in zip(rows, buckets_of(self.table, rows) if rows else (), strict=True) if at == bucket]

    def _check_log(self, bucket: int) -> None:
        """The records of a bucket fold to the model, until a batch is in no record."""
        state = Model(self.kind)
        folded = Fold(Counter(), has_key=self.kind.insert is not None)
        for header, changes in self.follower.transactions(bucket):
            for _, change in changes:
                folded.apply(*change)
            if header.mark is not None:
                self.happened["an untracked part"] += 1
                return
            self._follow(state, header, bucket)
            assert folded.rows == state.expected, f"records of {header.user}, {header.identifier}"


Act = Callable[[Mixed], None]
small = st.integers(0, 4)
rows_of_batches = st.lists(st.tuples(small, st.integers(1, 4)), min_size=1, max_size=5)


def acts(kind: Kind) -> st.SearchStrategy[Act]:
    """What may happen next. A rescale is one more of these, with readers and followers that change the topic."""
    deaths = st.none() | st.none() | st.integers(1, 14)
    return st.one_of(
        st.builds(
            batch_act, st.sampled_from("ab"), rows_of_batches, deaths, st.sampled_from((True, True, True, False))
        ),
        st.builds(batch_act, st.sampled_from("ab"), rows_of_batches, deaths, st.just(True)),
        st.builds(statement_act, statements_of(kind.verbs)),
        st.just(compact),
        st.builds(delete_act, st.integers(0, BUCKETS - 1)),
        st.just(read),
        st.just(restart),
    )


def batch_act(user: str, rows: Sequence[Row], dies_after: int | None, is_tracked: bool) -> Act:
    return lambda mixed: mixed.batch(user, rows, dies_after, is_tracked)


def statement_act(one: Statement) -> Act:
    return lambda mixed: mixed.statement(one)


def compact(mixed: Mixed) -> None:
    mixed.table.compact(full=True)


def delete_act(bucket: int) -> Act:
    return lambda mixed: mixed.delete_records(bucket)


def read(mixed: Mixed) -> None:
    mixed.reader.read_on()


def restart(mixed: Mixed) -> None:
    mixed.reader.start("asked for")


def check(kind: Kind, history: Sequence[Act], bootstrap_servers: str, folder: Path) -> Mixed:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    has_key = kind.insert is not None
    keys = ["k"] if has_key else []
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=LOGGED | dict(kind.options))
    mixed = Mixed(table, kind, Follower(table), Reader(table, has_key=has_key))
    mixed.batch("a", [(0, 1), (1, 1), (2, 2), (3, 3)], None, True)
    for act in history:
        act(mixed)
    mixed.check()
    catalog.drop_table("db.t")
    return mixed


@pytest.mark.parametrize("kind", KINDS)
def test_log_files_and_readers_come_to_the_model_whatever_meets(
    kind: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(kind, bootstrap_servers, monkeypatch, examples=3)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_log_files_and_readers_come_to_the_model_in_many_histories(
    kind: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(kind, bootstrap_servers, monkeypatch, examples=150)


def run(kind: str, servers: str, monkeypatch: pytest.MonkeyPatch, *, examples: int) -> None:
    monkeypatch.setattr(statements, "GRACE_MILLIS", 0)  # a driver that died is not waited for

    @broker_settings(examples)
    @given(history=st.lists(acts(KINDS[kind]), min_size=4, max_size=9))
    def law(history: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(KINDS[kind], history, servers, Path(folder))

    law()
