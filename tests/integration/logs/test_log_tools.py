"""What an operator asks of a log: tail, verify, open transactions; on a real broker."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any  # Any: what a tail takes, and rows of any columns

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.types import RowKind
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.upkeep.log_verify import verify_log
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import abort_records, log_of_table, log_range, lose_records
from tests.support.logs.log_topics import leave_open

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Iterator[Catalog]:
    yield Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    close_idle_consumers()


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return make(catalog)


def make(
    catalog: Catalog, name: str = "db.t", *, keys: tuple[str, ...] = ("id",), options: Mapping[str, str] | None = None
) -> Table:
    given = {"bucket": "2", "log.system": "kafka"} | dict(options or {})
    return catalog.create_table(name, schema=COLUMNS, primary_keys=list(keys), options=given)


def write(table: Table, identifier: int, *rows: tuple[int, str | None], kind: RowKind = RowKind.INSERT) -> None:
    schema = to_arrow_schema(table.schema.fields)
    given = pa.table({"id": [one for one, _ in rows], "v": [one for _, one in rows]}, schema=schema)
    LocalWriter(table, "q").write(identifier, given, pa.array([kind.value] * len(rows), pa.int8()))


def tailed(table: Table, **how: Any) -> list[dict[str, Any]]:
    """The changes of a tail that ends with the log."""
    return [row for batch in table.log_store.tail(follow=False, **how) for row in batch.to_pylist()]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_tail_shows_each_change_with_its_place_and_batch(table: Table) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    write(table, 1, (1, "c"))
    write(table, 2, (2, None), kind=RowKind.DELETE)

    found = tailed(table, start="earliest")

    changes = sorted((row["_batch_id"], row["_row_kind"], row["id"], row["v"]) for row in found if row["v"])
    assert changes == [(0, "+I", 1, "a"), (0, "+I", 2, "b"), (1, "+I", 1, "c")]
    assert [(row["_batch_id"], row["id"]) for row in found if row["_row_kind"] == "-D"] == [(2, 2)]
    assert {row["_user"] for row in found} == {"q"}
    assert all(row["_timestamp"] is not None and row["_bucket"] in (0, 1) for row in found)


def test_a_tail_by_key_gives_its_changes_alone_from_one_bucket(table: Table) -> None:
    write(table, 0, *((number, str(number)) for number in range(20)))
    write(table, 1, (7, "again"), (8, "again"))

    found = tailed(table, start="earliest", key={"id": 7})

    assert [(row["id"], row["v"]) for row in found] == [(7, "7"), (7, "again")]
    assert len({row["_bucket"] for row in found}) == 1
    assert tailed(table, start="earliest", key={"id": 77}) == []


def test_a_tail_begins_where_it_is_asked_to(table: Table) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    between = max(row["_timestamp"].timestamp() for row in tailed(table, start="earliest"))
    time.sleep(0.01)
    write(table, 1, (1, "c"), (2, "d"))

    assert tailed(table, start="now") == []
    assert tailed(table, start="snapshot") == []
    assert {row["v"] for row in tailed(table, start=int(between * 1000) + 1)} == {"c", "d"}
    rows = tailed(table, start="earliest")
    [first] = [row for row in rows if row["v"] == "c"]
    behind = [row for row in rows if row["_bucket"] == first["_bucket"] and row["_offset"] >= first["_offset"]]
    assert tailed(table, start={first["_bucket"]: first["_offset"]}) == behind


def test_what_a_tail_cannot_begin_with_is_refused(catalog: Catalog, table: Table) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    with pytest.raises(InvalidRequestError, match="buckets 0 to 1, found 5"):
        tailed(table, start={5: 0})
    with pytest.raises(InvalidRequestError, match=r"has the columns id, found v"):
        tailed(table, key={"v": 1})
    with pytest.raises(InvalidRequestError, match="a key has values as the log has them"):
        tailed(table, key={"id": "seven"})
    with pytest.raises(UnsupportedError, match="no primary key"):
        tailed(make(catalog, "db.append", keys=()), key={"id": 1})
    with pytest.raises(InvalidRequestError, match="has no log"):
        tailed(catalog.create_table("db.plain", schema=COLUMNS, primary_keys=["id"]))
    lose_records(table, 0)
    with pytest.raises(LogTruncatedError, match="does not hold"):
        tailed(table, start={0: 0})


def test_a_tail_follows_what_is_committed_and_skips_what_is_aborted(table: Table) -> None:
    write(table, 0, (1, "a"))
    seen: list[str] = []
    is_reading, is_done = threading.Event(), threading.Event()

    def follow() -> None:
        for batch in table.log_store.tail(start="earliest"):
            seen.extend(batch["v"].to_pylist())
            is_reading.set()
            if "end" in seen:
                is_done.set()
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert is_reading.wait(30)
    abort_records(table, [1, 2])
    write(table, 1, (1, "end"))
    assert is_done.wait(30)
    assert seen == ["a", "end"]


def test_the_command_prints_lines_for_people_and_json_for_programs(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    write(table, 0, (1, "a"))
    assert run("log", "tail", table.path, "--from", "earliest", "--no-follow") == 0
    batch, line = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"-- bucket [01]: batch 0 of q", batch)
    assert re.fullmatch(r'20\d\d-\d\d-\d\d [\d:.]+  bucket [01]  offset 0  \+I  {"id":1,"v":"a"}', line)

    assert run("log", "tail", table.path, "--from", "earliest", "--no-follow", "--json", "--key", "1") == 0
    [fields] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (fields["_row_kind"], fields["_batch_id"], fields["id"], fields["v"]) == ("+I", 0, 1, "a")
    assert run("log", "tail", table.path, "--offset", "x") == 1
    assert "expected BUCKET:OFFSET" in capsys.readouterr().err


def started_tail(table: Table, *more: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lakelog.cli", "log", "tail", table.path, "--from", "earliest", *more]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_a_tail_ends_with_ctrl_c(table: Table) -> None:
    write(table, 0, (1, "a"))
    process = started_tail(table)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("--")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "lakelog: waits for changes; Ctrl-C ends it, --no-follow ends with the log\n"


def test_a_tail_ends_when_its_pipe_is_closed_also_while_nothing_comes(table: Table) -> None:
    write(table, 0, (1, "a"))
    reader, writer = os.pipe()
    process = started_tail(table, stdout=writer)
    os.close(writer)
    with os.fdopen(reader) as lines:
        assert lines.readline().startswith("--")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 141
    assert "Traceback" not in errors


@pytest.mark.parametrize("held", ["in a function", "to the end"])
def test_a_program_ends_with_a_tail_that_it_has_not_read_to_the_end(
    table: Table, bootstrap_servers: str, held: str
) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    catalog, name = str(Path(table.path).parents[1]), table.name
    program = f"""
from lakelog.catalog import Catalog
def one():
    return next(rows)
table = Catalog({catalog!r}, bootstrap_servers={bootstrap_servers!r}).load_table({name!r})
rows = iter(table.log_store.tail(start="earliest"))
print(one().num_rows > 0)
{"del rows" if held == "in a function" else ""}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, ["True"], "")


@pytest.mark.parametrize("keys", [("id",), ()], ids=["with key", "without key"])
@pytest.mark.parametrize("budget_bytes", [1 << 30, 3_000], ids=["in memory", "spilled"])
def test_a_log_is_verified_against_each_range_of_snapshots(
    catalog: Catalog, keys: tuple[str, ...], budget_bytes: int
) -> None:
    table = make(catalog, keys=keys)
    for identifier in range(3):
        write(table, identifier, *((number % 7, f"{identifier}-{number}") for number in range(40)))
    table.compact(full=True)

    for first, last in [(0, 1), (0, 4), (1, 3), (2, 2), (1, 4)]:
        found = verify_log(
            table.store, log_of_table(table), from_snapshot=first, to_snapshot=last, budget_bytes=budget_bytes
        )
        assert found.is_equal, found
    assert table.log_store.verify().is_equal
    assert table.log_store.verify().change_count > 0
    assert table.consumers.list() == [one for one in table.consumers.list() if one.is_own], "the leases are given back"


def test_a_value_count_table_is_verified_below_zero(catalog: Catalog) -> None:
    table = make(catalog, keys=(), options={"write-mode": "change-log"})
    write(table, 0, (1, "a"), (1, "a"), (2, "b"))
    write(table, 1, (3, "c"), (1, "a"), kind=RowKind.DELETE)
    write(table, 2, (2, "b"))

    assert table.log_store.verify(from_snapshot=0).is_equal
    assert table.log_store.verify(from_snapshot=1, to_snapshot=2).is_equal


def spoil(table: Table) -> None:
    """Give the newest snapshot the rows of an older one: its files are not what the log says."""
    newest = table.snapshot()
    assert newest is not None
    older = table.snapshot(snapshot_id=newest.id - 1)
    assert older is not None
    files = {one.name: getattr(older, one.name) for one in dataclasses.fields(older) if "manifest" in one.name}
    path = Path(table.path, "snapshot", f"snapshot-{newest.id}")
    path.write_text(dataclasses.replace(newest, **files).to_json())


@pytest.mark.parametrize("budget_bytes", [1 << 30, 10], ids=["in memory", "spilled"])
def test_the_first_difference_is_printed(catalog: Catalog, budget_bytes: int) -> None:
    table = make(catalog, options={"bucket": "1"})
    write(table, 0, (1, "a"), (2, "b"), (3, "c"))
    write(table, 1, (2, "x"), (3, "y"), (4, "z"))
    spoil(table)

    found = verify_log(table.store, log_of_table(table), budget_bytes=budget_bytes)

    assert not found.is_equal
    assert found.difference_count == 5
    assert found.first is not None
    assert (found.first.key, found.first.row) == ('{"id":2}', '{"id":2,"v":"b"}')
    assert (found.first.count_by_log, found.first.count_in_snapshot) == (0, 1)
    assert found.first.offset is not None


def test_the_command_verifies_and_has_an_exit_code(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(catalog, options={"bucket": "1"})
    write(table, 0, (1, "a"))
    write(table, 1, (2, "b"))
    assert run("log", "verify", table.path, "--from-snapshot", "1", "--to-snapshot", "2") == 0
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert (shown["is_equal"], shown["from_snapshot"], shown["to_snapshot"]) == ("true", "1", "2")
    assert (shown["change_count"], shown["row_count"]) == ("1", "2")
    spoil(table)
    assert run("log", "verify", table.path) == 3
    headings, row = (line.split() for line in capsys.readouterr().out.splitlines()[-2:])
    first = dict(zip(headings, row, strict=True))
    assert first["row"] == '{"id":2,"v":"b"}'
    assert (first["count_by_log"], first["count_in_snapshot"]) == ("1", "0")
    assert run("log", "verify", table.path, "--json") == 3
    fields = json.loads(capsys.readouterr().out)
    assert (fields["difference_count"], fields["first"][0]["key"]) == (1, '{"id":2}')
    assert run("log", "verify", table.path, "--from-snapshot", "9") == 1


def test_the_log_of_a_rescaled_table_is_verified_from_its_first_snapshot(catalog: Catalog) -> None:
    table = make(catalog)
    write(table, 0, (1, "a"), (2, "b"))
    rescaled = table.upkeep.rescale(3)
    begin = rescaled.snapshot()
    write(rescaled, 1, (2, "c"), (3, "d"))

    found = rescaled.log_store.verify()

    assert begin is not None
    assert (found.from_snapshot, found.change_count, found.is_equal) == (begin.id, 2, True)
    for before in (0, 1):
        with pytest.raises(InvalidRequestError, match=f"has its log since snapshot {begin.id}"):
            rescaled.log_store.verify(from_snapshot=before)


def test_an_eventual_log_is_not_verified(catalog: Catalog) -> None:
    table = make(catalog, options={"log.consistency": "eventual"})
    with pytest.raises(UnsupportedError, match=r"log\.consistency=eventual"):
        table.log_store.verify()


def test_a_range_that_does_not_exist_is_refused(catalog: Catalog, table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="no snapshot yet"):
        table.log_store.verify()
    write(table, 0, (1, "a"))
    write(table, 1, (2, "b"), (3, "b"), (4, "c"))
    with pytest.raises(InvalidRequestError, match="snapshot 2 is newer than snapshot 1"):
        table.log_store.verify(from_snapshot=2, to_snapshot=1)
    with pytest.raises(NotFoundError, match="snapshots 1 to 2 exist"):
        table.log_store.verify(to_snapshot=7)
    for bucket in (0, 1):
        lose_records(table, bucket)
    with pytest.raises(LogTruncatedError):
        table.log_store.verify(from_snapshot=1, to_snapshot=2)


def foreign_transaction(topic: KafkaTopic, partition: int = 0) -> Producer:
    """Another program's transaction, which stays open."""
    settings = {**topic.client_config, "transactional.id": "of-another-program", "transaction.timeout.ms": "600000"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic.name, b"x", partition=partition)
    producer.flush(30)
    return producer


def test_open_transactions_are_listed_with_the_command_that_ends_them(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    assert table.log_store.open_transactions() == []
    assert run("log", "open-transactions", table.path) == 0
    assert capsys.readouterr().out == ""
    log = log_of_table(table)
    producer = foreign_transaction(kafka_topic(log))

    [found] = table.log_store.open_transactions()

    start = log_range(table)[1] - 1
    assert (found.bucket, found.first_offset, found.is_own) == (0, start, False)
    assert found.command == (
        f"kafka-transactions.sh --bootstrap-server {log.bootstrap_servers} abort --topic {log.topic} --partition 0"
        f" --start-offset {start}"
    )
    assert run("log", "open-transactions", table.path) == 0, "it is younger than 15 minutes"
    capsys.readouterr()
    assert run("log", "open-transactions", table.path, "--older-than", "0 s", "--json") == 3
    printed = json.loads(capsys.readouterr().out)
    assert (printed["user"], printed["command"], printed["first_offset"]) == (None, found.command, start)
    producer.abort_transaction(30)


def test_a_transaction_of_a_writer_that_died_is_ended_by_a_fence(table: Table) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    writer = TransactionalProducer(kafka_topic(log_of_table(table)).partition(1), f"{table.uuid}-1")
    leave_open(writer, [3], json.dumps({"v": 1, "table": table.uuid, "user": "q", "id": 7}).encode())

    [found] = table.log_store.open_transactions()
    assert (found.bucket, found.user, found.batch_id) == (1, "q", 7)
    assert table.log_store.end_transactions().ended == (), "it is younger than 15 minutes"
    done = table.log_store.end_transactions(older_than="0 s")

    assert [(one.bucket, one.first_offset) for one in done.ended] == [(1, found.first_offset)]
    assert done.left == ()
    assert table.log_store.open_transactions() == []


@pytest.mark.full
def test_a_foreign_transaction_is_ended_on_the_embedded_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = EmbeddedBroker(tmp_path / "lake")
    broker.start()
    try:
        table = make(Catalog(tmp_path / "lake"), options={"bucket": "1"})
        write(table, 0, (1, "a"))
        foreign_transaction(kafka_topic(log_of_table(table)))
        first = log_range(table)[1] - 1

        assert run("log", "end-transactions", table.path, "--older-than", "0 s", "--json") == 0

        [line] = map(json.loads, capsys.readouterr().out.splitlines())
        assert (line["ended"], line["left"]) == (1, 0)
        assert [one["first_offset"] for one in line["aborted_transactions"]] == [first]
        assert table.log_store.open_transactions() == []
        write(table, 1, (1, "b"))
        assert [row["v"] for row in tailed(table, start={0: first})] == ["b"]
    finally:
        close_idle_consumers()
        broker.stop()


def test_a_foreign_transaction_elsewhere_is_left_with_its_command(table: Table) -> None:
    write(table, 0, (1, "a"), (2, "b"))
    producer = foreign_transaction(kafka_topic(log_of_table(table)))
    done = table.log_store.end_transactions(older_than="0 s")
    assert done.ended == ()
    assert [one.is_own for one in done.left] == [False]
    producer.abort_transaction(30)
