"""Records that are deleted from a log: by our expiry what is not needed, by others' policies an error or no loss."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.clock import system_millis
from lakelog.filestore.alter.schema_changes import SetOption
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.verbs import expire_snapshots
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.log_leases import LogLeases
from lakelog.protocol.state.steps import Step
from lakelog.protocol.stores.log_gaps import gap_test
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.upkeep.log_check import check_log, repair_log
from lakelog.protocol.upkeep.log_expiry import expire_log
from lakelog.spark.compaction.compaction import expire_after
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import (
    abort_records,
    log_of_table,
    log_range,
    lose_records,
    set_topic_config,
    topic_config_of,
)

pytestmark = pytest.mark.integration

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())])
DAY_MILLIS = 86_400_000
KEEP_NEWEST = Retention(count_min=1, count_max=1, age_millis=0, limit=100)


class InjectedCrash(Exception):
    """The process dies here."""


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Iterator[Table]:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": "all"}
    yield catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"], options=options)
    close_idle_consumers()
    catalog.drop_table("db.t")


def now_millis(days: float = 0) -> int:
    return system_millis() + int(days * DAY_MILLIS)


def die(at: Step, step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
    if step is at:
        raise InjectedCrash(step)


def write(writer: LocalWriter, identifier: int, *ids: int) -> None:
    schema = to_arrow_schema(writer.table.schema.fields)
    rows = pa.table({"id": list(ids), "v": [identifier] * len(ids)}, schema=schema)
    writer.write(identifier, rows, pa.array([0] * len(ids), pa.int8()))


def write_and_die(table: Table, user: str, identifier: int, *ids: int) -> None:
    """Log a batch, and die before its snapshot."""
    with suppress(InjectedCrash):
        write(LocalWriter(table, user, observe=partial(die, Step.BEFORE_SNAPSHOT)), identifier, *ids)


def position(table: Table) -> int:
    """The offset that the newest snapshot holds."""
    store = table.store
    return read_state(store, store.snapshots.latest(), topic_id=log_of_table(table).topic_id).logged.position(0).offset


def read(table: Table, start: int) -> list[int]:
    """The ids from an offset to the end, as a stream's worker reads them."""
    log = log_of_table(table)
    batches = read_range(
        kafka_topic(log).partition(0),
        table.schema.fields,
        start=start,
        end=log_range(table)[1],
        holds_nothing=gap_test(table.store, log.topic_id, 0),
    )
    return [number for batch in batches for number in batch.column("id").to_pylist()]


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def run(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_kafka_deletes_nothing_in_a_new_topic(table: Table) -> None:
    config = topic_config_of(table)
    assert (config["retention.ms"], config["retention.bytes"], config["cleanup.policy"]) == ("-1", "-1", "delete")


def test_a_reader_and_a_writer_before_an_end_marker_lose_nothing_to_retention(table: Table) -> None:
    write(LocalWriter(table, "a"), 0, 1, 2)
    up_to_date = position(table)
    start = lose_records(table)
    assert start == up_to_date + 1

    write(LocalWriter(table, "b"), 0, 3)  # a new process: it fences and reads the tail

    assert read(table, up_to_date) == [3]
    assert read(table, start) == [3]
    assert ids(table) == [1, 2, 3]


def test_a_reader_that_is_up_to_date_continues_when_the_older_snapshot_has_expired_too(table: Table) -> None:
    writer = LocalWriter(table, "a")
    write(writer, 0, 1, 2)
    up_to_date = position(table)
    lose_records(table)
    write(writer, 1, 3)
    expire_snapshots(table.store, retention=KEEP_NEWEST)

    assert read(table, up_to_date) == [3]


def test_a_reader_that_is_behind_gets_an_error_that_says_what_to_do(table: Table) -> None:
    writer = LocalWriter(table, "a")
    write(writer, 0, 1)
    behind = position(table)
    write(writer, 1, 2)
    lose_records(table)
    write(writer, 2, 3)

    with pytest.raises(LogTruncatedError, match=r"start the stream again with its checkpoint.*lakelog log check"):
        read(table, behind)


def test_a_reader_at_the_beginning_does_not_take_the_first_record_for_a_marker(table: Table) -> None:
    write(LocalWriter(table, "a"), 0, 1, 2)
    lose_records(table, before=1)

    with pytest.raises(LogTruncatedError, match="does not hold offset 0"):
        read(table, 0)


def test_expiry_deletes_records_that_are_old_and_held_by_every_snapshot(table: Table) -> None:
    writer = LocalWriter(table, "a")
    for number in range(3):
        write(writer, number, number)
    held = position(table)
    store, log = table.store, log_of_table(table)

    assert expire_log(store, log, now_millis=now_millis(8)) == {0: 1}  # what the oldest snapshot holds
    expire_snapshots(store, retention=KEEP_NEWEST)
    assert expire_log(store, log, now_millis=now_millis(6)) == {}  # log.retention is 7 days
    assert expire_log(store, log, now_millis=now_millis(8)) == {0: held}

    write(LocalWriter(table, "b"), 0, 9)
    assert read(table, held) == [9]
    assert ids(table) == [0, 1, 2, 9]


def test_expiry_keeps_what_a_lease_has_to_read(table: Table) -> None:
    table = table.alter(SetOption("log.retention", "1 ms"))
    writer = LocalWriter(table, "a")
    for number in range(3):
        write(writer, number, number)
    expire_snapshots(table.store, retention=KEEP_NEWEST)
    store, log = table.store, log_of_table(table)
    leases = LogLeases(store, log.topic_id)
    leases.put("reader", {0: 2})
    LogLeases(store, "another topic").put("other", {0: 0})

    assert expire_log(store, log, now_millis=now_millis()) == {0: 2}
    assert read(table, 2) == [1, 2]
    leases.delete("reader")
    assert expire_log(store, log, now_millis=now_millis()) == {0: position(table)}


def test_a_lease_that_is_not_renewed_for_a_day_keeps_nothing(table: Table) -> None:
    leases = LogLeases(table.store, log_of_table(table).topic_id)
    leases.put("reader", {0: 3})

    assert leases.held(now_millis=now_millis(0.9)) == [{0: 3}]
    assert leases.held(now_millis=now_millis(1.1)) == []
    assert leases.held(now_millis=now_millis()) == []


def test_expiry_keeps_a_batch_that_no_snapshot_holds(table: Table) -> None:
    table = table.alter(SetOption("log.retention", "1 ms"))
    write(LocalWriter(table, "a"), 0, 1)
    write_and_die(table, "b", 0, 2)
    expire_snapshots(table.store, retention=KEEP_NEWEST)

    assert expire_log(table.store, log_of_table(table), now_millis=now_millis(1)) == {0: position(table)}

    write(LocalWriter(table, "c"), 0, 3)
    assert ids(table) == [1, 2, 3]


def test_the_expiry_of_writers_deletes_records_too(table: Table) -> None:
    table = table.alter(SetOption("log.retention", "1 ms"), SetOption("snapshot.num-retained.min", "1"))
    table = table.alter(SetOption("snapshot.num-retained.max", "1"))
    writer = LocalWriter(table, "a")
    for number in range(3):
        write(writer, number, number)

    expire_after(table.store)

    assert log_range(table)[0] == position(table)


def test_the_command_expire_deletes_records_and_says_so(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table = table.alter(SetOption("log.retention", "1 ms"))
    writer = LocalWriter(table, "a")
    for number in range(3):
        write(writer, number, number)

    assert run("table", "expire-snapshots", table.path, "--retain-min", "1", "--retain-max", "1", "--json") == 0

    assert json.loads(capsys.readouterr().out)["log_starts"] == {"0": position(table)}
    assert log_range(table)[0] == position(table)


def test_a_policy_that_deletes_is_a_warning_at_start_and_in_the_check_and_reset_by_the_repair(
    table: Table, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    set_topic_config(table, {"retention.ms": "86400000", "cleanup.policy": "compact,delete"})
    told = f"topic {log_of_table(table).topic} has cleanup.policy=compact,delete, retention.ms=86400000"
    command = f"lakelog log repair {table.path}"

    with caplog.at_level(logging.WARNING, "lakelog.log"):
        log_of_table(table).check_topic()
    assert told in caplog.text
    assert command in caplog.text

    assert run("log", "check", table.path) == 3
    out = capsys.readouterr().out
    assert told in out
    assert command in out
    assert run("log", "repair", table.path) == 0
    assert "retention.ms=86400000 taken back" in capsys.readouterr().out
    assert run("log", "check", table.path) == 0
    assert check_log(table.store, log_of_table(table)).is_sound


def test_a_batch_deleted_before_its_snapshot_is_reported_and_its_stream_continues_after_a_repair(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    write(LocalWriter(table, "a"), 0, 1)
    held = position(table)
    write_and_die(table, "b", 0, 2, 3)
    start = lose_records(table)
    with pytest.raises(LogTruncatedError, match=r"lakelog log check TABLE.*lakelog log repair TABLE"):
        write(LocalWriter(table, "b"), 0, 2, 3)
    assert run("log", "check", table.path, "--json") == 3
    [told] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert f"offsets {held + 1} to {start} (exclusive) were deleted" in told["problem"]

    assert run("log", "repair", table.path, "--json") == 0
    [done] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert done["lost"] == [held + 1, start]
    assert len(done["files"]) == 1

    write(LocalWriter(table, "b"), 0, 2, 3)  # its stream runs the batch again
    assert ids(table) == [1, 2, 3]
    assert run("log", "check", table.path) == 0
    with pytest.raises(LogTruncatedError):
        read(table, held)  # a reader cannot know that these rows come again
    assert read(table, start) == [2, 3]


def test_an_aborted_transaction_that_was_deleted_is_no_loss_once_it_is_repaired(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    write(LocalWriter(table, "a"), 0, 1)
    held = position(table)
    abort_records(table, [7, 8, 9])
    lose_records(table)

    assert run("log", "repair", table.path) == 0
    assert "nothing is lost" in capsys.readouterr().out

    write(LocalWriter(table, "b"), 0, 2)
    assert read(table, held) == [2]
    assert ids(table) == [1, 2]
    assert run("log", "repair", table.path) == 0
    assert "nothing to repair" in capsys.readouterr().out


def test_a_repair_takes_in_the_batches_behind_what_is_lost(table: Table) -> None:
    write(LocalWriter(table, "a"), 0, 1)
    write_and_die(table, "b", 0, 2, 3, 4)
    cut = log_range(table)[1] - 2  # within b's transaction, whose header is lost with its first record
    write_and_die(table, "c", 0, 5)
    lose_records(table, before=cut)

    done = repair_log(table.store, log_of_table(table))

    assert [repair.has_lost for repair in done.buckets] == [True]
    write(LocalWriter(table, "d"), 0, 6)
    assert ids(table) == [1, 5, 6]
