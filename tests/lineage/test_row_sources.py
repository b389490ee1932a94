"""What a snapshot says itself of what its rows come from is what all snapshots before it say together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.metadata.origins.record import ReadMode, UnknownSource
from lakelog.filestore.metadata.origins.row_sources import RowSources
from lakelog.filestore.metadata.origins.sources_property import READERS_MAX
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import PropertyKey, read_users
from lakelog.filestore.write.write import write_rows
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
from lakelog.lineage.lines.line_state import ABSENT
from lakelog.lineage.lines.line_steps import steps_of_table
from lakelog.lineage.lines.lines import Line
from lakelog.lineage.lines.shown import ShownLine, shown_by
from lakelog.lineage.lines.versions import LineVersions
from lakelog.lineage.tables.found_tables import line_key
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, overwrite_rows, read_of
from tests.support.lineage.lineage_records import LINEAGE_ON
from tests.support.tables.foreign_engine import foreign_snapshot

SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(12, 300))]
STEPS = 14


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


def make(catalog: Catalog, name: str) -> Table:
    return catalog.create_table(
        f"db.{name}", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1", "write-only": "true"}
    )


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def write_foreign(table: Table) -> None:
    """Another engine appends a row."""
    live = table.store.live_files.of(table.store.snapshots.latest())
    foreign_snapshot(
        table.store,
        CommitKind.APPEND,
        entries=write_rows(table.store, rows(99), first_sequence=live.next_sequence).entries,
    )


class History:
    """Two sources and a sink, to which anything happens."""

    name = ""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.random = random.Random(seed)
        self.sources = [make(catalog, "a"), make(catalog, "b")]
        self.sink = make(catalog, "sink")
        for source in self.sources:
            source.write(rows(0))
        self.jobs = [StreamJob(self.sink, [self.random.choice(self.sources)], user=f"job{n}") for n in range(2)]
        self.both = StreamJob(self.sink, self.sources, user="both")
        self.nightly = StreamJob(self.sink, self.sources[:1], user=self.random.choice(["nightly", "job0"]))
        self.statics: dict[str, int] = {}
        self.number = 0

    def run(self) -> None:
        steps: dict[Callable[[], object], int] = {
            self.grow: 5,
            self.stream: 8,
            self.both.run: 3,
            self.static: 2,
            self.statement: 1,
            self.by_hand: 1,
            self.unknown: 1,
            self.foreign: 1,
            self.overwrite: 1,
            self.restore: 1,
            self.roll_back: 1,
            self.forget: 1,
            self.compact: 1,
            self.merge: 1,
            self.take_branch: 1,
            self.night: 3,
        }
        names, weights = list(steps), list(steps.values())
        for _ in range(STEPS):
            self.number += 1
            self.random.choices(names, weights)[0]()

    def grow(self) -> None:
        self.random.choice(self.sources).write(rows(self.number))

    def stream(self) -> None:
        self.random.choice(self.jobs).run(rows=self.random.randint(0, 1))

    def static(self) -> None:
        source = self.random.choice(self.sources)
        number = self.statics[source.name] = self.statics.get(source.name, -1) + 1
        newest = source.store.snapshots.latest_id()
        read = read_of(source, end=newest, mode=ReadMode.BATCH)
        commit_rows(self.sink, rows(self.number), read, user=f"static of {source.name}", batch=number)

    def statement(self) -> None:
        source = self.random.choice(self.sources)
        read = read_of(source, end=source.store.snapshots.latest_id(), mode=ReadMode.BATCH)
        commit_rows(self.sink, rows(self.number), read, user=f"statement {self.number}", batch=None)

    def by_hand(self) -> None:
        self.sink.write(rows(self.number))

    def unknown(self) -> None:
        commit_rows(self.sink, rows(self.number), UnknownSource(why="no plan"), user=f"u{self.number}", batch=None)

    def foreign(self) -> None:
        if self.sink.store.snapshots.latest_id():
            write_foreign(self.sink)

    def overwrite(self) -> None:
        if self.sink.store.snapshots.latest_id():
            source = self.random.choice(self.sources)
            read = read_of(source, end=source.store.snapshots.latest_id(), mode=ReadMode.BATCH)
            overwrite_rows(self.sink, rows(self.number), read)

    def restore(self) -> None:
        ids = self.sink.store.snapshots.ids()
        if len(ids) > 1:
            self.sink.restore(snapshot_id=self.random.choice(ids))

    def roll_back(self) -> None:
        ids = self.sink.store.snapshots.ids()
        if len(ids) > 2:
            self.sink.upkeep.rollback(snapshot_id=self.random.choice(ids[-3:]), force=True)

    def forget(self) -> None:
        """A stream begins anew, with another user."""
        job = self.random.choice(self.jobs)
        self.jobs[self.jobs.index(job)] = StreamJob(self.sink, job.sources, user=f"job of {self.number}")

    def merge(self) -> None:
        """A branch is written by a job of its own, while another one goes on, and merged."""
        if self.sink.store.snapshots.latest_id():
            self.write_branch()
            self.stream()
            self.sink.branches.merge(self.name)

    def take_branch(self) -> None:
        if self.sink.store.snapshots.latest_id():
            self.write_branch()
            if self.random.random() < 0.5:
                self.stream()
            self.sink.branches.replace_newer(self.name, force=True)

    def night(self) -> None:
        """A job goes on in a branch, which is merged and deleted."""
        if self.sink.store.snapshots.latest_id():
            self.name = f"night{self.number}"
            self.sink.branches.create(self.name)
            self.nightly.sink = self.sink.branch(self.name)
            files = self.nightly.sink.store
            last = read_users(files.snapshots.latest(), files.snapshots).get(self.nightly.user)
            self.nightly.batch = max(self.nightly.batch, 0 if last is None else last.identifier + 1)
            self.nightly.run()
            if self.random.random() < 0.3:
                self.stream()
            self.sink.branches.merge(self.name)
            self.sink.branches.delete(self.name)

    def write_branch(self) -> None:
        self.name = f"b{self.number}"
        self.sink.branches.create(self.name)
        job = StreamJob(self.sink.branch(self.name), [self.random.choice(self.sources)], user=self.name)
        for _ in range(self.random.randint(1, 2)):
            job.run()

    def compact(self) -> None:
        self.random.choice([*self.sources, self.sink]).compact(full=True)


def line_of(table: Table) -> Line:
    return Line(
        key=line_key(table.store),
        name=table.name,
        steps=steps_of_table(table.store),
        origins=frozenset(table.store.snapshots.tags()),
    )


def what_is_shown(shown: ShownLine, position: int) -> dict[str, int | None]:
    """By source: the version; None where it is shown at none."""
    found = {key.uuid: source.at(position) for key, source in shown.sources.items()}
    return {uuid: None if broken is not None else key for uuid, (key, broken) in found.items() if key != ABSENT}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_property_says_what_the_snapshots_before_it_say(catalog: Catalog, seed: int) -> None:
    history = History(catalog, seed)
    history.run()
    whole = line_of(history.sink)
    versions = {line_key(one.store): LineVersions(line_of(one).steps) for one in history.sources}
    expected = shown_by(whole, {**versions, whole.key: LineVersions(whole.steps)})

    for cut in range(1, len(whole.steps)):
        line = replace(whole, steps=whole.steps[cut:])  # its first snapshots have expired
        found = shown_by(line, {**versions, whole.key: LineVersions(line.steps)})
        known = next(
            (position for position, step in enumerate(line.steps) if step.row_sources is not None), len(line.steps)
        )
        for position in range(known, len(line.steps)):
            assert what_is_shown(found, position) == what_is_shown(expected, cut + position), (cut, position)


def test_a_restored_state_that_has_expired_is_not_taken_for_the_batch_without_rows_after_it(catalog: Catalog) -> None:
    source, sink = make(catalog, "a"), make(catalog, "sink")
    source.write(rows(1))
    sink.write(rows(7))
    job = StreamJob(sink, [source], user="job")
    job.run(rows=0)  # has the rows of the snapshot before it
    source.write(rows(2))
    job.run()
    sink.restore(snapshot_id=1)
    whole = line_of(sink)
    line = replace(whole, steps=whole.steps[1:])
    found = shown_by(
        line, {line_key(source.store): LineVersions(line_of(source).steps), line.key: LineVersions(line.steps)}
    )
    assert what_is_shown(found, 0) == {source.store.uuid: 0}
    assert what_is_shown(found, 2) == {}


def expire(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1)


def test_rows_changed_by_hand_are_named_when_the_change_has_expired(catalog: Catalog) -> None:
    source, sink = make(catalog, "a"), make(catalog, "sink")
    source.write(rows(1))
    job = StreamJob(sink, [source], user="job")
    job.run()
    sink.write(rows(7))
    source.write(rows(2))
    job.run()
    expire(sink)
    with pytest.raises(NotConsistentError, match=r"db\.sink shows db\.a at no version.* in its snapshot 2"):
        consistent_snapshots(catalog, ["db.a", "db.sink"])


def test_rows_changed_by_hand_between_batches_that_were_fed_are_named_when_all_have_expired(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    source, a, b = make(catalog, "s"), make(catalog, "a"), make(catalog, "b")
    jobs = [StreamJob(table, [source], user=table.name) for table in (a, b)]
    for is_by_hand in (False, True, False, False):
        if is_by_hand:
            a.write(rows(7))  # no edge, between the batches before and behind it
        source.write(rows(1))
        for job in jobs:
            job.run()
    feed(catalog)
    for table in (a, b):
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.s at no version, by a change .* in its snapshot 2"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_rows_written_by_hand_before_a_job_began_are_no_hindrance(catalog: Catalog) -> None:
    source, sink = make(catalog, "a"), make(catalog, "sink")
    sink.write(rows(7))
    source.write(rows(1))
    job = StreamJob(sink, [source], user="job")
    job.run()
    source.write(rows(2))
    job.run()
    expire(sink)
    assert dict(consistent_snapshots(catalog, ["db.a", "db.sink"])) == {"db.a": 2, "db.sink": 3}


def test_a_static_side_that_has_moved_is_named_when_its_first_version_has_expired(catalog: Catalog) -> None:
    side, sink = make(catalog, "side"), make(catalog, "sink")
    for batch in range(3):
        if batch < 2:
            side.write(rows(batch))
        read = read_of(side, end=side.store.snapshots.latest_id(), mode=ReadMode.BATCH)
        commit_rows(sink, rows(batch), read, user="job", batch=batch)
    expire(sink)
    with pytest.raises(NotConsistentError, match=r"by several versions at once \(snapshot 1, then snapshot 2"):
        consistent_snapshots(catalog, ["db.side", "db.sink"])


def test_snapshots_of_another_engine_alone_do_not_say_what_they_were_made_from(catalog: Catalog) -> None:
    source, sink = make(catalog, "a"), make(catalog, "sink")
    source.write(rows(1))
    job = StreamJob(sink, [source], user="job")
    job.run()
    write_foreign(sink)
    source.write(rows(2))
    job.run()
    sink.store.file_io.delete(sink.store.paths.snapshot(1))  # its expiry keeps no state of lakelog
    with pytest.raises(NotConsistentError, match=r"db\.sink shows db\.a at no version.* in its snapshot 2"):
        consistent_snapshots(catalog, ["db.a", "db.sink"])


def test_the_property_does_not_grow_with_jobs_that_came_once(catalog: Catalog) -> None:
    source, sink = make(catalog, "a"), make(catalog, "sink")
    source.write(rows(1))
    sizes = []
    for number in range(READERS_MAX + 20):
        snapshot = StreamJob(sink, [source], user=f"job {number:03}").run()
        sizes.append(len(snapshot.properties[PropertyKey.SOURCES]))
    assert max(sizes) < sizes[READERS_MAX - 1] + 200
    while len(sink.store.snapshots.ids()) > 1:
        expire(sink)
    with pytest.raises(NotConsistentError, match="more than 64 jobs have read it"):
        consistent_snapshots(catalog, ["db.a", "db.sink"])


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "table", "uuid": "u"},
        {"kind": "table", "table": "db.a", "uuid": "u", "mode": "stream", "to": {"snapshot": "7"}},
        {"kind": "unknown", "why": 7},
        "a",
    ],
)
def test_a_record_that_another_writer_has_damaged_stops_no_commit(catalog: Catalog, source: object) -> None:
    a, sink = make(catalog, "a"), make(catalog, "sink")
    a.write(rows(1))
    StreamJob(sink, [a], user="job").run()
    entry = {"user": "other", "identifier": 0, "job": "other", "batch": 0, "sources": [source]}
    live = sink.store.live_files.of(sink.store.snapshots.latest())
    entries = write_rows(sink.store, rows(7), first_sequence=live.next_sequence).entries
    snapshot = append_commit(
        sink.store, user="other", identifier=0, digest=None, entries=entries, lineage={"batches": [entry]}
    )
    assert snapshot is not None
    expire(sink)
    with pytest.raises(NotConsistentError, match=r"a batch that does not record what it read .*not readable"):
        consistent_snapshots(catalog, ["db.a", "db.sink"])


def test_a_property_that_is_not_readable_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(CorruptDataError, match=r"lakelog\.sources is not readable"):
        RowSources.of({PropertyKey.SOURCES: '{"sources": [{"uuid": 1}]}'})
    assert RowSources.of({}) is None
