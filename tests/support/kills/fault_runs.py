"""Two writers and a reader of one table on a real broker, whose transactions meet faults; and what must hold after it.

A model follows the log: the headers say which part of which batch comes where, the test knows the rows of each part.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: the options of a kind, and rows of Python's values

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.common.patience import Patience
from lakelog.common.types import RowKind
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.logstore.kafka.clients.offsets import last_stable_offsets
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.steps import Step, StepObserver, silent
from tests.support.kills.crashing_writer import InjectedCrash, table_of
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import read_headers, snapshot_states
from tests.support.logs.statements import rows_in

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
BUCKETS = 2
KEYS = 8
ROWS_MAX = 8

Row = tuple[int, int]
Change = tuple[RowKind, Row]
State = Counter[Row]
Part = tuple[str, int, int]  # user, identifier, bucket


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: its keys, its options, and whether a change adds to what its key has."""

    keys: Sequence[str] = ("k",)
    options: Mapping[str, str] = field(default_factory=dict)
    adds_up: bool = False

    def after(self, state: State, rows: Sequence[Row]) -> State:
        """What a bucket has after the rows of a part."""
        if not self.keys:
            return state + Counter(rows)
        values = dict(state.elements())
        for key, value in rows:
            values[key] = values.get(key, 0) + value if self.adds_up else value
        return Counter(values.items())

    def folded(self, changes: Sequence[Change]) -> State:
        """What the records of a bucket's log come to."""
        if not self.keys:
            counts: State = Counter()
            for kind, row in changes:
                counts[row] += 1 if kind.is_add else -1
            return Counter({row: count for row, count in counts.items() if count})
        values: dict[int, int] = {}
        for kind, (key, value) in changes:
            values.pop(key, None)
            if kind.is_add:
                values[key] = value
        return Counter(values.items())


KINDS = {
    "upsert": Kind(options={"log.changelog-mode": "upsert"}),
    "all": Kind(options={"log.changelog-mode": "all"}),
    "append-only": Kind(keys=()),
    "merged": Kind(
        options={"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "log.changelog-mode": "all"},
        adds_up=True,
    ),
}


class Follower:
    """A reader of committed records: each look goes on to the last stable offsets, and ends behind a transaction."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.positions = dict.fromkeys(range(BUCKETS), 0)
        self.headers: dict[int, dict[int, CommitHeader]] = {bucket: {} for bucket in range(BUCKETS)}
        self.changes: dict[int, list[tuple[int, Change]]] = {bucket: [] for bucket in range(BUCKETS)}
        self.looks = 0

    def read_all(self) -> None:
        """Read what the newest snapshot holds, and more where it is there: last stable offsets may lag a little."""
        *_, (_, state) = snapshot_states(self._table)
        self.read_on({bucket: state.logged.position(bucket).offset for bucket in range(BUCKETS)})

    def read_on(self, held: Mapping[int, int] | None = None) -> None:
        """Read what is committed by now, and as far as `held`. Fails where a part of a transaction is there."""
        self.looks += 1
        topic = kafka_topic(log_of_table(self._table))
        patience = Patience(60)
        ends = patience.keep_trying(lambda: last_stable_offsets(topic, BUCKETS))
        for bucket, end in ends.items():
            self._read_bucket(bucket, max(end.offset, (held or {}).get(bucket, 0)), patience)

    def _read_bucket(self, bucket: int, end: int, patience: Patience) -> None:
        partition = kafka_topic(log_of_table(self._table)).partition(bucket)
        headers, files = self.headers[bucket], HeaderFiles(self._table.store)

        def on_header(offset: int, header: bytes) -> None:
            headers[offset] = files.read(header, where=f"{partition}, offset {offset}")

        start = self.positions[bucket]
        fields = self._table.store.schema.fields
        for batch in read_range(
            partition, fields, start=start, end=end, with_offset=True, on_header=on_header, patience=patience
        ):
            columns = (batch.column(name).to_pylist() for name in ("_offset", "_row_kind", "k", "v"))
            for offset, kind, key, value in zip(*columns, strict=True):
                self.changes[bucket].append((offset, (RowKind(kind), (key, value))))
        self.positions[bucket] = max(start, end)
        self._check_whole(bucket)

    def _check_whole(self, bucket: int) -> None:
        for header, changes in self.transactions(bucket):
            count = len({offset for offset, _ in changes})
            is_header_alone = (count, header.record_count) == (0, 1)
            assert is_header_alone or count == header.record_count, (
                f"{count} of {header.record_count} records were read"
            )

    def transactions(self, bucket: int) -> list[tuple[CommitHeader, list[tuple[int, Change]]]]:
        """What was read of a bucket, transaction by transaction; a record before the first header fails."""
        starts = sorted(self.headers[bucket])
        found: list[tuple[CommitHeader, list[tuple[int, Change]]]] = [
            (self.headers[bucket][start], []) for start in starts
        ]
        at = -1
        for offset, change in self.changes[bucket]:
            while at + 1 < len(starts) and starts[at + 1] <= offset:
                at += 1
            assert at >= 0, f"the record at offset {offset} is of no transaction of the table"
            found[at][1].append((offset, change))
        return found


@dataclass(slots=True)
class Run:
    """One history over one table: what was given to it, and the reader that looks on at each step."""

    table: Table
    kind: Kind
    rng: random.Random
    follower: Follower
    given: dict[tuple[str, int], list[Row]] = field(default_factory=dict)
    writers: dict[str, LocalWriter] = field(default_factory=dict)
    struck: list[str] = field(default_factory=list)  # what happened, to see that the fault did

    @classmethod
    def of(cls, catalog: Catalog, name: str, kind: Kind, seed: int, options: Mapping[str, str]) -> Run:
        """A new table, a seed for what is written and where the fault strikes."""
        given = {"bucket": str(BUCKETS), "log.system": "kafka", **kind.options, **options}
        table = catalog.create_table(name, schema=SCHEMA, primary_keys=kind.keys, options=given)
        return cls(table, kind, random.Random(seed), Follower(table))

    def new_batch(self, user: str) -> int:
        """The number of a new batch of this user, with rows for both buckets."""
        identifier = sum(one == user for one, _ in self.given)
        serial = 1000 * (len(self.given) + 1)
        while True:
            count = self.rng.randint(2, ROWS_MAX)
            rows = [(self.rng.randrange(KEYS), serial + place) for place in range(count)]
            if set(buckets_of(self.table, rows)) == set(range(BUCKETS)):
                break
        self.given[user, identifier] = rows
        return identifier

    def write(self, user: str, identifier: int, observe: StepObserver = silent, *, is_new: bool = False) -> None:
        """Write a batch in the user's process, or in a new one. Raises what the process dies of."""
        if is_new or user not in self.writers:
            self.writers[user] = LocalWriter(self.table, user)
        writer = self.writers[user]

        def look_on(step: Step, by: str, number: int, bucket: int | None) -> None:
            if step in (Step.COMMIT, Step.AFTER_COMMIT):
                self.follower.read_on()
            observe(step, by, number, bucket)

        writer.observe = look_on
        try:
            writer.write(identifier, table_of(self.given[user, identifier], SCHEMA), None)
        except BaseException:
            self.writers.pop(user, None)
            raise

    def batch(self, user: str, observe: StepObserver = silent) -> int:
        """Write a new batch to its end: after each death a new process replays it."""
        identifier = self.new_batch(user)
        try:
            self.write(user, identifier, observe)
        except InjectedCrash:
            self.write(user, identifier, is_new=True)
        return identifier

    def check(self) -> None:
        """No part of a transaction was seen, none is lost or doubled, and log, files and model are the same."""
        self.follower.read_all()
        assert self.follower.looks > 1
        expected = Counter(
            (user, identifier, bucket)
            for (user, identifier), rows in self.given.items()
            for bucket in set(buckets_of(self.table, rows))
        )
        assert Counter(self._parts_of(read_headers(self.table))) == expected, "batches of the log"
        seen = [(bucket, one) for bucket in range(BUCKETS) for one, _ in self.follower.transactions(bucket)]
        assert Counter(self._parts_of(seen)) == expected, "batches that were read"
        for bucket in range(BUCKETS):
            self._check_records(bucket)
        self._check_snapshots()

    @staticmethod
    def _parts_of(headers: Sequence[tuple[int, CommitHeader]]) -> list[Part]:
        return [(header.user, header.identifier, bucket) for bucket, header in headers]

    def rows_of(self, header: CommitHeader, bucket: int) -> list[Row]:
        """The rows that were given for a part."""
        rows = self.given[header.user, header.identifier]
        return [row for row, at in zip(rows, buckets_of(self.table, rows), strict=True) if at == bucket]

    def _check_records(self, bucket: int) -> None:
        """Each transaction takes the bucket from the model's state before it to that after it."""
        state, changes = State(), list[Change]()
        for header, found in self.follower.transactions(bucket):
            state = self.kind.after(state, self.rows_of(header, bucket))
            changes += [change for _, change in found]
            assert self.kind.folded(changes) == state, f"records of batch {header.identifier} of {header.user}"

    def _check_snapshots(self) -> None:
        """fold(log) = files = model at each snapshot; the last one has everything."""
        for snapshot, state in snapshot_states(self.table):
            model, folded = State(), State()
            for bucket in range(BUCKETS):
                end = state.logged.position(bucket).offset
                held = [(header, found) for header, found in self.follower.transactions(bucket) if found[0][0] < end]
                part = State()
                for header, _ in held:
                    part = self.kind.after(part, self.rows_of(header, bucket))
                model += part
                folded += self.kind.folded([change for _, found in held for _, change in found])
            files = rows_in(self.table, snapshot.id)
            assert files == model, f"files of snapshot {snapshot.id}"
            assert files == folded, f"log of snapshot {snapshot.id}"
        newest = [state for _, state in snapshot_states(self.table)][-1]
        assert {user: entry.identifier for user, entry in newest.users.items()} == {
            user: max(number for one, number in self.given if one == user) for user, _ in self.given
        }
        assert newest.logged.is_whole()


def buckets_of(table: Table, rows: Sequence[tuple[int, int | None]]) -> list[int]:
    """The bucket of each row."""
    schema = table.store.schema
    columns = table_of(rows, SCHEMA)
    found: Any = bucket_of(columns, schema.bucket_fields, BUCKETS, schema.bucket_function)
    return [int(bucket) for bucket in found]


def once(strike: Callable[[], None], step: Step, bucket: int | None) -> StepObserver:
    """An observer that calls `strike` at the first such step."""
    left = [strike]

    def observe(taken: Step, _user: str, _identifier: int, at: int | None) -> None:
        if left and taken is step and at == bucket:
            left.pop()()

    return observe


def die() -> None:
    """The process ends here."""
    raise InjectedCrash
