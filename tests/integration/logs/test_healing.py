"""Streams go on in the files where Kafka does not hold what they have to read, and return to the log. Exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError
from lakelog.filestore.metadata.snapshots import PropertyKey
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.topic import delete_topic
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.change_tracking import UntrackedChangesError
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.state.transaction_ends import ends_in
from lakelog.protocol.upkeep.log_check import repair_log
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import FollowOffset, LogOffset, Offset
from tests.support.examples import rest_in_full
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed, log_of_table, lose_records
from tests.support.streams.planned_reader import Reader, expected, rows_of, write, write_changes
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "2", "log.system": "kafka"})


KINDS: dict[str, dict[str, object]] = {
    "append-only": {"options": {}},
    "value-count": {"options": {"write-mode": "change-log"}},
    "upsert": {"primary_keys": ["id"], "options": {}},
    "upsert that merges": {
        "primary_keys": ["id"],
        "options": {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"},
    },
    "upsert with changelog files": {
        "primary_keys": ["id"],
        "options": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    },
    "all": {"primary_keys": ["id"], "options": {"log.changelog-mode": "all", "changelog-producer": "lookup"}},
    "partitioned": {"primary_keys": ["id", "batch"], "partition_keys": ["batch"], "options": {}},
}
SHORT = ("append-only", "upsert", "upsert with changelog files")  # the kinds of the gate


def table_of(catalog: Catalog, kind: str) -> Table:
    given = dict(KINDS[kind])
    options = {"bucket": "2", "log.system": "kafka", **cast("dict[str, str]", given.pop("options"))}
    return catalog.create_table("db.k", schema=SCHEMA, options=options, **given)  # type: ignore[arg-type]  # by name


def fill(table: Table, kind: str, batch: int) -> None:
    """Rows of which some replace those of the batch before, and where the kind has them, deletes."""
    deletes = [] if kind in ("append-only", "upsert that merges", "upsert with changelog files") else [batch, batch + 1]
    write_changes(table, batch, range(batch, batch + 9), deletes)


@pytest.mark.parametrize("restarts", [True, False], ids=["at restart", "in mid-stream"])
@pytest.mark.parametrize("kind", rest_in_full(dict.fromkeys([*SHORT, *KINDS]), len(SHORT)))
def test_what_was_deleted_comes_from_the_files_as_the_log_had_it(catalog: Catalog, kind: str, restarts: bool) -> None:
    table = table_of(catalog, kind)
    fill(table, kind, 0)
    ahead, behind = Reader(table), Reader(table)
    for reader in (ahead, behind):
        reader.read()
    for batch in (1, 2):
        fill(table, kind, batch)
        ahead.read()
    lose(table)
    fill(table, kind, 3)
    ahead.read()

    if restarts:
        behind.start()
    behind.read(Limits(rows=4))

    if kind == "value-count":  # a row that a batch adds and deletes is in no file
        assert behind.rows == ahead.rows
    else:
        assert behind.changes == ahead.changes
    assert isinstance(behind.offset, LogOffset)


def lose(table: Table) -> None:
    for bucket in range(2):
        lose_records(table, bucket)


@pytest.mark.parametrize("kind", rest_in_full(dict.fromkeys([*SHORT, *KINDS]), len(SHORT)))
def test_a_stream_that_stopped_at_any_transaction_between_snapshots_goes_on_in_the_files(
    catalog: Catalog, kind: str
) -> None:
    table = table_of(catalog, kind)
    fill(table, kind, 0)
    reader, stops = Reader(table), []
    reader.read()
    writer = LocalWriter(open_table(table.path), "interval")
    for batch in range(1, 7):
        writer.log(batch, *changes_of(kind, batch))
        await_committed(table)
        reader.read()
        stops.append(cast("LogOffset", reader.offset))
        if batch == 3:
            writer.take_in()
    writer.take_in()
    places = [mixed(one, other) for one, other in product(stops, stops[:4])]
    by_log = [rest_of(table, place) for place in places]
    lose(table)

    by_files = [rest_of(table, place) for place in places]

    assert sum(changes.total() for changes, _ in by_log) > 100
    for (changes, rows), (healed_changes, healed_rows) in zip(by_log, by_files, strict=True):
        assert healed_rows == rows
        assert kind == "value-count" or healed_changes == changes  # a row that a batch adds and deletes is in no file


def changes_of(kind: str, batch: int) -> tuple[pa.Table, pa.Array]:
    """Rows of which some replace those of the batch before, and where the kind has them, deletes."""
    has_deletes = kind not in ("append-only", "upsert that merges", "upsert with changelog files")
    ids = [*range(batch, batch + 9), *([batch, batch + 1] if has_deletes else [])]
    kinds = [0] * 9 + [3] * (len(ids) - 9)
    return pa.table([pa.array(ids), pa.array([batch] * len(ids), pa.int32())], schema=SCHEMA), pa.array(
        kinds, pa.int8()
    )


def mixed(one: LogOffset, other: LogOffset) -> LogOffset:
    """The offset of a stream that has read bucket 0 up to one offset, and bucket 1 up to another."""
    earlier = min(one, other, key=lambda at: at.consumed)
    offsets = {0: one.offsets[0], 1: other.offsets[1]}
    return replace(earlier, offsets=offsets, counts={0: one.counts[0], 1: other.counts[1]}, epochs={})


def rest_of(table: Table, start: LogOffset) -> tuple[Counter[tuple[object, ...]], Counter[tuple[int, int]]]:
    """The changes behind an offset, with their kinds, and the rows that they leave."""
    reader = Reader(table)
    reader.offset = start
    reader.start()
    rows = reader.read()
    return reader.changes, +rows


def test_a_stream_between_snapshots_needs_no_earlier_snapshot_than_the_one_that_took_its_batches_in(
    table: Table,
) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    writer = LocalWriter(open_table(table.path), "interval")
    for batch in (1, 2, 3):
        writer.log(batch, rows_of(batch))
        await_committed(table)
        if batch == 1:
            reader.read()
    writer.take_in()
    table.store.file_io.delete(table.store.paths.snapshot(1))
    lose(table)
    writer.log(4, rows_of(4))
    await_committed(table)

    reader.start()

    assert reader.read(Limits(rows=1)) == expected(0, 1, 2, 3, 4)


def test_a_snapshot_names_the_ends_of_transactions_only_where_it_took_in_several(table: Table) -> None:
    write(table, 0)
    write(table, 1)
    writer = LocalWriter(open_table(table.path), "interval")
    for batch in (2, 3, 4):
        writer.log(batch, *changes_of("append-only", batch))
    writer.take_in()

    snapshots = [table.store.snapshots.get(number) for number in (1, 2, 3)]

    assert [sorted(ends_in(one)) for one in snapshots] == [[], [], [0, 1]]
    assert [len(ends) for ends in ends_in(snapshots[2]).values()] == [2, 2]
    carried = replace(snapshots[2], id=4)  # by an earlier lakelog, which knows no such property
    assert ends_in(carried) == {}
    damaged = replace(snapshots[2], properties={PropertyKey.LOG_ENDS: '{"snapshot": 3, "ends": {"0": [[1]]}}'})
    with pytest.raises(CorruptDataError, match=r"lakelog\.log-ends of snapshot 3"):
        ends_in(damaged)


def test_a_stream_behind_deleted_records_reads_the_files_and_returns_to_the_log(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    reader.read()
    for batch in (2, 3):
        write(table, batch)
    lose(table)
    write(table, 4)

    reader.start()

    assert reader.read(Limits(rows=3)) == expected(0, 1, 2, 3, 4)
    assert isinstance(reader.offset, LogOffset)
    write(table, 5)
    assert reader.read() == expected(0, 1, 2, 3, 4, 5)


def test_one_bucket_that_lost_its_records_is_enough(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    lose_records(table, 1)

    reader.start()

    assert reader.read() == expected(0, 1)


def test_a_stream_that_has_read_everything_stays_in_the_log(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    reader.read()
    lose(table)
    write(table, 2)

    reader.start()

    assert reader.read() == expected(0, 1, 2)
    assert not isinstance(reader.ends[-1], FollowOffset)


def test_a_batch_that_runs_again_reads_the_same_from_the_files(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    before = reader.offset
    write(table, 1)
    reader.read()
    planned = reader.offset
    lose(table)
    write(table, 2)

    again = Reader(table)
    again.offset = before
    again.start()

    assert again.read_batch(planned) == expected(1)


def test_a_stream_between_two_snapshots_is_refused_with_the_numbers(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    reader.read()
    write(table, 2)
    assert isinstance(reader.offset, LogOffset)
    for number in (1, 2):
        table.store.file_io.delete(table.store.paths.snapshot(number))
    lose(table)

    reader.start()

    with pytest.raises(
        LogTruncatedError,
        match=r"bucket 0: offsets \d+ to \d+, the log begins at \d+.* new checkpoint location.*failOnDataLoss=false",
    ):
        reader.read()


def die_at_the_second_bucket() -> StepObserver:
    def observe(step: Step, _user: str, _identifier: int, bucket: int | None) -> None:
        if bucket == 1 and step == Step.BEGIN:
            raise InjectedCrash

    return observe


def write_in_part(table: Table, batch: int) -> None:
    """Log a batch in bucket 0 alone: its writer dies before bucket 1."""
    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(table.path), "job", observe=die_at_the_second_bucket()).write(
            batch, rows_of(batch), None
        )


@pytest.fixture
def in_part(table: Table) -> Reader:
    """A reader that has read a part of a batch, which its writer has finished since: it is at two snapshots."""
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write_in_part(table, 1)
    reader.read()
    assert isinstance(reader.offset, LogOffset)
    assert reader.offset.consumed == 1
    assert expected(0) < reader.rows < expected(0, 1)
    write(table, 1)
    write(table, 2)
    return reader


@pytest.mark.parametrize("restarts", [True, False], ids=["at restart", "in mid-stream"])
def test_a_reader_of_a_part_of_a_batch_is_matched_bucket_by_bucket(
    table: Table, in_part: Reader, restarts: bool
) -> None:
    lose(table)
    write(table, 3)

    if restarts:
        in_part.start()

    assert in_part.read() == expected(0, 1, 2, 3)


def test_a_reader_of_a_part_of_a_batch_outlives_its_topic(table: Table, in_part: Reader) -> None:
    delete_topic(kafka_topic(log_of_table(table)))
    with pytest.raises(NotFoundError, match=r"lakelog log renew TABLE"):
        read_until_it_fails(in_part)
    renewed = open_table(table.path).log_store.renew(force=True)
    write(renewed, 3)
    with pytest.raises(ConflictError, match="Start it again"):
        in_part.read()

    in_part.start()

    assert in_part.read(Limits(rows=2)) == expected(0, 1, 2, 3)


def read_until_it_fails(reader: Reader) -> None:
    while True:  # a deleted topic is known to all brokers a little later
        reader.read()


def test_records_deleted_between_plan_and_read_are_an_error_and_the_restart_reads_them(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    end, planned = reader.plan()
    lose(table)

    with pytest.raises(LogTruncatedError, match="start the stream again with its checkpoint"):
        reader.rows_of(planned)

    reader.start()
    assert reader.read_batch(end) == expected(0, 1)
    write(table, 2)
    assert reader.read() == expected(0, 1, 2)


def test_a_stored_batch_that_ends_inside_a_snapshot_goes_on_when_the_snapshot_is_there(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write_in_part(table, 1)
    end, _ = reader.plan()
    write(table, 1)
    lose(table)
    write(table, 2)

    reader.start()
    reader.read_batch(end)

    assert reader.read() == expected(0, 1, 2)


def test_a_part_of_a_batch_that_no_snapshot_has_is_refused_and_read_once_it_has(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write_in_part(table, 1)
    lose_records(table, 0)
    reader._look_anew()
    end = reader._planner.end_of_batch(cast("Offset", reader.offset), Limits())
    with pytest.raises(LogTruncatedError, match=r"bucket 0: offsets \d+ to \d+, the log begins at \d+"):
        reader.read_batch(end)


def test_without_fail_on_data_loss_a_stream_goes_on_at_the_first_offset_that_there_is(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    write(table, 0)
    strict, lenient = Reader(table), Reader(table, failOnDataLoss="false")
    for reader in (strict, lenient):
        reader.read()
    for batch in (1, 2, 3):
        write(table, batch)
    for number in (1, 2):
        table.store.file_io.delete(table.store.paths.snapshot(number))
    lose(table)
    write(table, 4)

    with pytest.raises(LogTruncatedError, match="failOnDataLoss=false"):
        strict.read()

    assert lenient.read() == expected(0, 3, 4)
    assert "(exclusive) of bucket 0 are neither in topic" in caplog.text
    assert "of its buckets are read from the files of snapshots 4 to 4" in caplog.text


def test_columns_about_records_are_those_of_the_snapshot_where_rows_come_from_files(table: Table) -> None:
    write(table, 0)
    reader = Reader(table, **{"metadata-columns": "all"})
    reader.read()
    write(table, 1)
    lose(table)
    write(table, 2)

    _, planned = reader.plan()

    rows = [row for row in reader.rows_of(planned) if row["batch"] == 1]
    assert {row["_bucket"] for row in rows} == {0, 1}
    assert {(row["_snapshot_id"], row["_offset"], row["_user"]) for row in rows} == {(2, None, None)}


@pytest.mark.parametrize("on_untracked", ["fail", "skip"])
def test_untracked_changes_are_no_changes_of_the_log_where_it_is_read_from_files(
    table: Table, on_untracked: str
) -> None:
    write(table, 0)
    reader = Reader(table, **{"log.on-untracked": on_untracked})
    reader.read()
    LocalWriter(open_table(table.path), "job", is_tracked=False).write(1, rows_of(1), None)
    write(table, 2)
    lose(table)

    if on_untracked == "fail":
        with pytest.raises(UntrackedChangesError, match=r"snapshot 2 .* log\.on-untracked=skip"):
            reader.read()
    else:
        assert reader.read() == expected(0, 2)


def test_rows_that_were_taken_out_of_files_cannot_be_read_from_them(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    table.delete("batch = 0 and id < 2")
    lose(table)

    with pytest.raises(UnsupportedError, match=r"snapshot 2 .* has taken rows out of the files of bucket \d"):
        reader.read()


def test_records_that_a_repair_has_passed_over_are_not_left_out_in_silence(table: Table) -> None:
    write(table, 0)
    reader = Reader(table)
    reader.read()
    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(table.path), "job", observe=die_before_the_snapshot).write(1, rows_of(1), None)
    lose(table)
    repair_log(open_table(table.path).store, log_of_table(table))
    write(table, 2)
    lose(table)

    with pytest.raises(LogTruncatedError, match=r"passes over records of bucket \d that were lost"):
        reader.read()


def die_before_the_snapshot(step: Step, *_: object) -> None:
    if step == Step.BEFORE_SNAPSHOT:
        raise InjectedCrash


def test_old_values_that_the_files_do_not_have_are_not_made_up(catalog: Catalog) -> None:
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
    table = catalog.create_table("db.u", schema=SCHEMA, primary_keys=["id"], options=options)
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    lose(table)

    reader.start()

    with pytest.raises(UnsupportedError, match=r"held the old values of updates, and the files.* do not"):
        reader.read()
