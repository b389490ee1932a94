"""Something in the topic of a table that lakelog has not written, or not so: what finds it, and the way back."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any  # Any: what a patched function takes and gives

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # public, not declared

from lakelog.catalog import Catalog, Table, open_table
from lakelog.cli.main import main
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.logstore.kafka.clients.record_limit import COMMIT_HEADER
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic, describe_topic
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.life import log_ending
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.steps import Step
from lakelog.protocol.upkeep.health import Status
from lakelog.protocol.upkeep.log_check import check_log, repair_log
from tests.support.examples import rest_in_full
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table, log_range, set_topic_config
from tests.support.logs.promises import read_headers
from tests.support.streams.planned_reader import Reader, expected, rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

OPTIONS = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
WAY_OUT = "lakelog log renew TABLE --skip-unreadable"


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """A table whose snapshots hold the batches 0 and 1 of a job; batch 2 is in its log alone: the job was killed."""
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=OPTIONS)
    write(made, 0)
    write(made, 1)

    def die(step: Step, *_: object) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            raise InjectedCrash

    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(made.path), "job", observe=die).write(2, rows_of(2), None)
    return made


def produce(table: Table, value: bytes | None, header: bytes | None = None, bucket: int = 0) -> None:
    """What another program writes to the topic."""
    log = log_of_table(table)
    producer = Producer({**log.client_config})
    headers: dict[str, str | bytes | None] | None = None if header is None else {COMMIT_HEADER: header}
    producer.produce(log.topic, value, b"key", bucket, headers=headers)
    assert not producer.flush(10)


def forged(table: Table, change: Callable[[CommitHeader], CommitHeader]) -> bytes:
    """A header of the log, changed."""
    header = [found for bucket, found in read_headers(table) if bucket == 0][-1]
    return change(header).to_bytes()


def with_lost_files(header: CommitHeader) -> CommitHeader:
    [file, *_] = header.files
    lost = replace(file, meta=replace(file.meta, file_name="data-lost-0.parquet"))
    after = header.next_sequence
    meta = replace(lost.meta, min_sequence_number=after, max_sequence_number=after)
    return replace(header, files=(replace(lost, meta=meta),), record_count=1)


STRANGERS: dict[str, Callable[[Table], None]] = {
    "a text": lambda table: produce(table, b"hello"),
    "a change": lambda table: produce(table, b'{"before":null,"after":{"id":77,"batch":7},"op":"c"}'),
    "a tombstone": lambda table: produce(table, None),
    "an unreadable header": lambda table: produce(table, b"{}", b"no header"),
    "a header of another table": lambda table: produce(
        table, b"{}", forged(table, lambda one: replace(one, table_uuid="another", record_count=1))
    ),
    "a header with another count": lambda table: produce(
        table, b"{}", forged(table, lambda one: replace(one, record_count=3))
    ),
    "a header with lost files": lambda table: produce(table, b"{}", forged(table, with_lost_files)),
    "a header of a later snapshot": lambda table: produce(
        table, b"{}", forged(table, lambda one: replace(one, base_snapshot_id=99, record_count=1, files=()))
    ),
}


def batches_of(table: Table) -> set[int]:
    return set(open_table(table.path).to_arrow()["batch"].to_pylist())


@pytest.mark.parametrize("stranger", rest_in_full(STRANGERS, 3))
def test_whoever_looks_at_a_log_sees_what_writers_refuse(
    table: Table, stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_of_table(table)
    assert check_log(table.store, log).is_sound
    STRANGERS[stranger](table)

    with pytest.raises(CorruptDataError) as refused:
        write(table, 2)
    checked = check_log(table.store, log)
    repaired = repair_log(table.store, log)

    assert "lakelog log renew TABLE" in str(refused.value) or "new-identity" in str(refused.value)
    assert [one.bucket for one in checked.buckets if one.problem] == [0]
    assert [one.bucket for one in repaired.left] == [0]
    found = [one for one in open_table(table.path).upkeep.doctor().findings if one.status is Status.PROBLEM]
    assert [one.check for one in found] == ["log"]
    assert f"lakelog log renew {table.path} --skip-unreadable" in (found[0].advice or "")
    for verb in ("check", "repair"):
        with pytest.raises(SystemExit) as ended:
            main(["log", verb, table.path])
        assert ended.value.code == 3
    assert "nothing to repair" not in capsys.readouterr().out


def test_a_producer_that_is_kept_between_batches_commits_nothing_behind_a_stranger(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=OPTIONS)
    writer = LocalWriter(open_table(made.path), "job")
    writer.write(0, rows_of(0), None)
    STRANGERS["a text"](made)
    with pytest.raises(CorruptDataError, match=WAY_OUT):
        writer.write(1, rows_of(1), None)
    assert batches_of(made) == {0}
    open_table(made.path).log_store.renew(skip_unreadable=True, force=True)
    writer = LocalWriter(open_table(made.path), "job")
    writer.write(1, rows_of(1), None)
    writer.write(2, rows_of(2), None)
    rows = open_table(made.path).to_arrow()
    assert Counter(zip(*(rows[name].to_pylist() for name in ("id", "batch")), strict=True)) == expected(0, 1, 2)


@pytest.mark.parametrize("stranger", rest_in_full(STRANGERS, 3))
def test_a_renewal_that_is_asked_to_takes_in_what_comes_before_a_stranger(
    table: Table, stranger: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(open_table(table.path))
    reader.read()
    STRANGERS[stranger](table)
    end = log_range(table)[1]

    with pytest.raises(CorruptDataError):
        open_table(table.path).log_store.renew(force=True)
    assert batches_of(table) == {0, 1}
    with caplog.at_level(logging.WARNING, "lakelog.protocol"):
        renewed = open_table(table.path).log_store.renew(skip_unreadable=True, force=True)

    assert batches_of(table) == {0, 1, 2}
    assert f"to {end} (exclusive) of bucket 0" in caplog.text
    for batch in (2, 3):
        write(renewed, batch)
    assert open_table(table.path).log_store.verify().is_equal
    reader.start()
    for _ in range(3):
        reader.read()
    assert reader.rows == expected(0, 1, 2, 3)


def test_a_log_with_a_stranger_is_removed_when_asked_to(table: Table) -> None:
    write(table, 2)  # a batch that its stream must finish is kept by a renewal alone
    STRANGERS["a text"](table)
    with pytest.raises(CorruptDataError, match=WAY_OUT):
        open_table(table.path).log_store.remove(force=True)

    removed = open_table(table.path).log_store.remove(skip_unreadable=True, force=True)

    assert removed.log is None
    assert batches_of(table) == {0, 1, 2}


@pytest.mark.parametrize("dies_at", range(1, 5))
def test_a_renewal_over_a_stranger_that_was_cut_off_goes_on(
    table: Table, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """It dies at the mark of the other bucket, in the commit that adopts, before the schema, or before its snapshot."""
    STRANGERS["a text"](table)
    calls = 0

    def dying(whole: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == dies_at:
                raise InjectedCrash
            return whole(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(log_ending, "log_mark", dying(log_ending.log_mark))
        patched.setattr(TableCommit, "commit", dying(TableCommit.commit))
        patched.setattr(SchemaManager, "create", dying(SchemaManager.create))
        with pytest.raises(InjectedCrash):
            open_table(table.path).log_store.renew(skip_unreadable=True, force=True)

    renewed = open_table(table.path).log_store.renew(skip_unreadable=True, force=True)
    write(renewed, 3)
    assert batches_of(table) == {0, 1, 2, 3}
    assert check_log(renewed.store, log_of_table(renewed)).is_sound


def test_a_topic_that_was_made_compacted_is_renewed(table: Table) -> None:
    set_topic_config(table, {"cleanup.policy": "compact"})
    assert not check_log(table.store, log_of_table(table)).is_sound

    renewed = open_table(table.path).log_store.renew(force=True)

    write(renewed, 3)
    assert batches_of(table) == {0, 1, 2, 3}


def test_a_record_without_a_key_is_refused_by_a_compacted_topic_with_the_way_out(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    made = catalog.create_table("db.n", schema=SCHEMA, options={"bucket": "1", "log.system": "kafka"})
    rows = pa.table([pa.array([1]), pa.array([1], pa.int32())], schema=SCHEMA)
    LocalWriter(made, "job").write(0, rows, None)
    set_topic_config(made, {"cleanup.policy": "compact"})

    with pytest.raises(InvalidRequestError, match=r"compacted.*lakelog log repair TABLE"):
        LocalWriter(open_table(made.path), "job").write(1, rows, None)

    repair_log(made.store, log_of_table(made))
    LocalWriter(open_table(made.path), "job").write(1, rows, None)
    assert made.to_arrow().num_rows == 2


def test_a_topic_to_which_partitions_were_added_is_renewed(table: Table) -> None:
    log = log_of_table(table)
    admin = AdminClient({**log.client_config})
    [future] = admin.create_partitions([NewPartitions(log.topic, 3)]).values()
    future.result(10)
    found = [one for one in open_table(table.path).upkeep.doctor().findings if one.status is Status.PROBLEM]
    assert [f"lakelog log renew {table.path}" in (one.advice or "") for one in found] == [True]

    renewed = open_table(table.path).log_store.renew(force=True)

    assert describe_topic(kafka_topic(log_of_table(renewed))).partition_count == 2
    assert batches_of(table) == {0, 1, 2}


@pytest.mark.parametrize("is_made_anew", [True, False])
@pytest.mark.parametrize("verb", ["renew_log", "remove_log"])
def test_a_topic_that_was_deleted_or_made_anew_has_a_way_out(table: Table, *, is_made_anew: bool, verb: str) -> None:
    topic = kafka_topic(log_of_table(table))
    delete_topic(topic)
    if is_made_anew:
        create_topic(topic, 2)
    with pytest.raises((CorruptDataError, NotFoundError), match="lakelog log renew TABLE"):
        write(table, 3)

    if verb == "remove_log":
        open_table(table.path).log_store.remove(skip_unreadable=True, force=True)
    else:
        write(open_table(table.path).log_store.renew(force=True), 2)

    assert batches_of(table) == ({0, 1} if verb == "remove_log" else {0, 1, 2})
