"""Changes that are in the files and not in the log: by change-tracking=false, and by another engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, SetOption, Table, open_table
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.write.write import write_rows
from lakelog.logstore.kafka.clients.offsets import high_watermark
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.options import OnUntracked
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.life import log_breaks
from lakelog.protocol.life.log_breaks import record_break
from lakelog.protocol.state.change_tracking import MarkCheck, UntrackedChangesError
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import read_headers
from tests.support.tables.foreign_engine import foreign_snapshot
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

DAYS = pa.schema([pa.field("day", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    options = {"bucket": "1", "log.system": "kafka"}
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)


def write(table: Table, batch: int) -> None:
    rows = pa.table([pa.array([batch, batch + 1]), pa.array([batch] * 2, pa.int32())], schema=SCHEMA)
    LocalWriter(open_table(table.path), "job").write(batch, rows, None)


def content(table: Table) -> dict[int, int]:
    rows = open_table(table.path).to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def read_log(table: Table, on_untracked: OnUntracked) -> Iterator[tuple[str, int]]:
    """(kind, id) of the changes in the log of bucket 0."""
    partition = kafka_topic(log_of_table(table)).partition(0)
    check = MarkCheck(table_name=table.name, on_untracked=on_untracked)
    end = high_watermark(partition).offset
    for batch in read_range(partition, table.schema.fields, start=0, end=end, check_header=check):
        kinds = [ROW_KIND_TEXTS[kind] for kind in batch[ROW_KIND_COLUMN].to_pylist()]
        yield from zip(kinds, batch["id"].to_pylist(), strict=True)


def test_an_untracked_write_is_in_the_files_and_marks_log_and_snapshot(table: Table) -> None:
    write(table, 0)
    table.alter(SetOption("change-tracking", "false"))
    write(table, 1)
    table.alter(SetOption("change-tracking", "true"))
    write(table, 5)

    assert content(table) == {0: 0, 1: 1, 2: 1, 5: 5, 6: 5}
    assert list(read_log(table, OnUntracked.SKIP)) == [("+I", 0), ("+I", 1), ("+I", 5), ("+I", 6)]
    said = r"partition 0, offset 3: batch 1 of 'job' was written with change-tracking=false.* new checkpoint location"
    with pytest.raises(UntrackedChangesError, match=said):
        list(read_log(table, OnUntracked.FAIL))
    marked = [json.loads(one.properties.get(PropertyKey.UNTRACKED, "[]")) for one in table.snapshots()]
    assert marked == [[], [{"user": "job", "identifier": 1, "bucket": 0, "mark": "untracked"}], []]
    headers = [header for _, header in read_headers(table)]
    assert [(one.mark, one.record_count, len(one.files)) for one in headers] == [
        (None, 2, 1), ("untracked", 1, 1), (None, 2, 1),
    ]  # fmt: skip


def test_an_untracked_batch_that_was_cut_off_is_taken_in_from_the_log(table: Table) -> None:
    def die(*step: object) -> None:
        if step[0] == "before snapshot create":
            raise InjectedCrash

    table.alter(SetOption("change-tracking", "false"))
    rows = pa.table([pa.array([7]), pa.array([0], pa.int32())], schema=SCHEMA)
    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(table.path), "other", observe=die).write(0, rows, None)

    write(table, 1)

    assert content(table) == {7: 0, 1: 1, 2: 1}


def test_partitions_are_untracked_by_a_condition(catalog: Catalog) -> None:
    options = {"bucket": "1", "log.system": "kafka", "change-tracking.off-where": "day < 3"}
    table = catalog.create_table(
        "db.days", schema=DAYS, primary_keys=["day", "id"], partition_keys=["day"], options=options
    )

    rows = pa.table([pa.array([1, 3, 2, 4], pa.int32()), pa.array([1, 2, 3, 4])], schema=DAYS)
    LocalWriter(table, "job").write(0, rows, None)

    assert table.count() == 4
    assert list(read_log(table, OnUntracked.SKIP)) == [("+I", 2), ("+I", 4)]
    with pytest.raises(UntrackedChangesError, match="offset 0: batch 0 of 'job'"):
        list(read_log(table, OnUntracked.FAIL))
    later = pa.table([pa.array([9], pa.int32()), pa.array([9])], schema=DAYS)
    LocalWriter(table, "job").write(1, later, None)
    assert [(header.mark, header.record_count) for _, header in read_headers(table)] == [("untracked", 3), (None, 1)]
    described = {one.values["day"]: one.change_tracking for one in open_table(table.path).system.partitions()}
    assert described == {1: False, 2: False, 3: True, 4: True, 9: True}


def test_a_condition_on_other_columns_is_refused(catalog: Catalog) -> None:
    options = {"bucket": "1", "log.system": "kafka", "change-tracking.off-where": "id < 3"}
    with pytest.raises(
        InvalidRequestError, match="names id, which are not partition columns; the partition columns are: day"
    ):
        catalog.create_table("db.t", schema=DAYS, primary_keys=["day", "id"], partition_keys=["day"], options=options)


def foreign_rows(table: Table, ids: list[int]) -> Snapshot:
    """Rows that another engine writes: its sequence numbers go on after those of the files."""
    files = open_table(table.path).store
    rows = pa.table([pa.array(ids), pa.array([99] * len(ids), pa.int32())], schema=SCHEMA)
    latest = files.snapshots.latest()
    added = write_rows(files, rows, first_sequence=files.live_files.of(latest).next_sequence).entries
    return foreign_snapshot(files, CommitKind.APPEND, entries=added)


def test_a_break_by_another_engine_is_recorded_and_the_log_goes_on(table: Table) -> None:
    write(table, 0)
    foreign = foreign_rows(table, [1, 8])
    with pytest.raises(UnsupportedError, match=r"rows are not in the log.* records the break in the log"):
        write(table, 1)

    opened = open_table(table.path)
    number = record_break(opened.store, log_target(opened))

    assert number == foreign.id + 1
    assert record_break(opened.store, log_target(opened)) is None
    write(table, 1)
    assert content(table) == {0: 0, 1: 1, 2: 1, 8: 99}, "batch 1 comes after the other engine's rows"
    assert list(read_log(table, OnUntracked.SKIP)) == [("+I", 0), ("+I", 1), ("+I", 1), ("+I", 2)]
    with pytest.raises(UntrackedChangesError, match=f"another engine wrote snapshot {foreign.id}, so the log of"):
        list(read_log(table, OnUntracked.FAIL))
    broken = open_table(table.path).snapshot(snapshot_id=number)
    assert broken is not None
    assert [one["mark"] for one in json.loads(broken.properties[PropertyKey.UNTRACKED])] == ["break"]


def test_a_break_takes_in_what_was_logged_before_it(table: Table) -> None:
    write(table, 0)

    def die(*step: object) -> None:
        if step[0] == "before snapshot create":
            raise InjectedCrash

    rows = pa.table([pa.array([7]), pa.array([1], pa.int32())], schema=SCHEMA)
    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(table.path), "job", observe=die).write(1, rows, None)
    foreign_rows(table, [8])

    opened = open_table(table.path)
    record_break(opened.store, log_target(opened))
    LocalWriter(open_table(table.path), "job").write(1, rows, None)

    assert content(table) == {0: 0, 1: 0, 7: 1, 8: 99}
    assert [header.mark for _, header in read_headers(table)] == [None, None, "break"]


def test_a_break_whose_recording_was_cut_off_is_marked_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    write(table, 0)
    foreign_rows(table, [8])
    opened = open_table(table.path)

    def die(*_: object) -> None:
        raise InjectedCrash

    with monkeypatch.context() as patched:
        patched.setattr(log_breaks, "_change", die)
        with pytest.raises(InjectedCrash):
            record_break(opened.store, log_target(opened))

    record_break(opened.store, log_target(opened))

    write(table, 1)
    assert [header.mark for _, header in read_headers(table)] == [None, "break", None]
    assert content(table) == {0: 0, 1: 1, 2: 1, 8: 99}


def test_another_engine_reads_what_is_untracked(table: Table) -> None:
    """The files of an untracked write are files as all others: a reader of the format needs to know nothing."""
    table.alter(SetOption("change-tracking", "false"))
    write(table, 1)
    newest = open_table(table.path).snapshot()
    assert newest is not None
    assert (newest.commit_kind, newest.total_record_count) == (CommitKind.APPEND, 2)
    assert newest.commit_identifier != BATCH_COMMIT_IDENTIFIER
