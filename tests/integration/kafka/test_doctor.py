"""`lakelog doctor`: for each check a state in which it fails, and says what to do."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # public, not declared

from lakelog.catalog import Catalog, Table, open_table
from lakelog.cli.main import main
from lakelog.common.clock import system_millis
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients.clients import ask
from lakelog.logstore.kafka.clients.rights import Role, least_rights
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.protocol.access.kafka_profiles import BOOTSTRAP_KEY
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.log_leases import LogLeases
from lakelog.protocol.state.steps import Step
from lakelog.protocol.upkeep.health import Finding, Status
from lakelog.protocol.upkeep.health_table import examine_table
from lakelog.protocol.upkeep.reader_guard import warn_of_readers_behind
from tests.integration.logs.test_log_tools import foreign_transaction, make, write
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed, log_of_table, log_range, lose_records, set_topic_config
from tests.support.servers.secure_kafka import PASSWORDS, SecureKafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CHECKS = [
    "settings",
    "broker",
    "transactions",
    "clock",
    "rights",
    "topic",
    "open transactions",
    "retention",
    "readers",
    "log",
    "waiting batches",
    "statements",
    "table",
]
SLOW = {"broker", "transactions"}  # they warn where a broker takes seconds for an answer
HOUR_MILLIS = 3_600_000


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Iterator[Catalog]:
    yield Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    close_idle_consumers()


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = make(catalog)
    write(made, 0, (1, "a"), (2, "b"), (3, "c"))
    return made


def look(table: Table, *, ahead_millis: int = 0, may_write: bool = False) -> list[Finding]:
    """The findings, by a clock that is wrong."""
    return list(
        examine_table(table.store, table.log, may_write=may_write, clock=lambda: system_millis() + ahead_millis)
    )


def problem(findings: list[Finding], check: str) -> Finding:
    """The problem of a check, which has one."""
    found = [one for one in findings if one.check == check and one.status is Status.PROBLEM]
    assert len(found) == 1, findings
    assert found[0].advice
    return found[0]


def test_a_sound_table_passes_every_check(table: Table) -> None:
    findings = look(table, may_write=True)

    assert list(dict.fromkeys(one.check for one in findings)) == CHECKS
    assert {one.status for one in findings if one.check not in SLOW} == {Status.OK}
    assert {one.status for one in findings} <= {Status.OK, Status.WARNING}
    assert table.upkeep.doctor(read_only=True).is_sound
    topics = AdminClient({**log_of_table(table).client_config}).list_topics(timeout=10).topics
    assert not [name for name in topics if name.startswith("lakelog-doctor-")], "the probe's topic is deleted"


def test_settings_that_do_not_exist_are_a_problem_and_the_rest_is_skipped(table: Table) -> None:
    opened = open_table(table.path, options={"kafka.profile": "missing"})

    findings = look(opened)

    assert "has no profile 'missing'" in problem(findings, "settings").found
    skipped = {one.check for one in findings if one.status is Status.SKIPPED}
    assert skipped == set(CHECKS) - {"settings", "statements", "table"}


def test_a_broker_that_does_not_answer_is_a_problem(table: Table) -> None:
    opened = open_table(table.path, options={"kafka.bootstrap.servers": "127.0.0.1:1"})
    assert "127.0.0.1:1" in problem(look(opened), "broker").found


@pytest.mark.full
def test_certificates_that_are_not_verified_are_a_warning(secure: SecureKafka, tmp_path: Path) -> None:
    given = secure.call_options() | {"kafka.enable.ssl.certificate.verification": "false"}
    report = Catalog(tmp_path, options=given).doctor()
    [found] = [one for one in report.findings if one.status is Status.WARNING and one.check == "settings"]
    assert report.is_sound
    assert "ssl.ca.location" in str(found.advice)


@pytest.mark.full
def test_a_missing_right_is_a_problem_with_its_command(secure: SecureKafka, tmp_path: Path) -> None:
    table = make(Catalog(tmp_path / "lake", options=secure.call_options()))
    rights = least_rights(Role.WRITER, topic=log_of_table(table).topic, table_uuid=table.uuid)
    opened = open_table(table.path, options=secure.call_options("writer"))
    secure.grant("writer", rights)
    assert not [one for one in look(opened, may_write=True) if one.status is Status.PROBLEM]

    for missing in rights:
        secure.grant("writer", [one for one in rights if one is not missing])
        findings = look(opened)
        check = "transactions" if missing.resource.value == "transactional-id" else "rights"
        found = [one for one in findings if one.check == check and one.status is Status.PROBLEM]
        assert found, (missing, findings)
        assert f"{missing.operation} on" in found[0].found
        assert "kafka-acls.sh" in found[0].found
    assert not [one for one in findings if PASSWORDS["writer"] in f"{one}"]


def test_a_time_out_that_brokers_refuse_is_a_problem_of_transactions(table: Table) -> None:
    opened = open_table(table.path, options={"kafka.transaction.timeout.ms": "1700000"})
    assert "transaction.timeout" in problem(look(opened), "transactions").found.lower().replace("_", ".")


def test_a_clock_that_is_wrong_is_a_problem(table: Table) -> None:
    ahead = look(table, ahead_millis=HOUR_MILLIS, may_write=True)
    assert "behind this one" in problem(ahead, "clock").found
    behind = look(table, ahead_millis=-HOUR_MILLIS, may_write=True)
    assert "ahead of this one" in problem(behind, "clock").found
    assert "ahead of this machine's clock" in problem(behind, "table").found
    assert "NTP" in str(problem(behind, "table").advice)


def test_a_topic_that_is_missing_or_has_more_partitions_is_a_problem(catalog: Catalog, table: Table) -> None:
    topic = kafka_topic(log_of_table(table))
    ask(
        topic.client_config,
        "adding partitions",
        lambda admin, seconds: admin.create_partitions([NewPartitions(topic.name, 3)], request_timeout=seconds),
    )
    assert "3 partitions, the table 2 buckets" in problem(look(table), "topic").found

    other = make(catalog, "db.other")
    ask(
        topic.client_config,
        "deleting",
        lambda admin, seconds: admin.delete_topics([log_of_table(other).topic], request_timeout=seconds),
    )
    findings = look(other)
    assert "has no such topic" in problem(findings, "topic").found
    assert {one.status for one in findings if one.check in {"log", "retention"}} == {Status.SKIPPED}


@pytest.mark.full
def test_an_open_transaction_is_a_problem_once_it_is_old(table: Table) -> None:
    producer = foreign_transaction(kafka_topic(log_of_table(table)))
    assert {one.status for one in look(table) if one.check == "open transactions"} == {Status.OK}

    found = problem(look(table, ahead_millis=2 * 60_000), "open transactions")

    assert "hides records from offset" in found.found
    assert "kafka-transactions.sh" in str(found.advice)
    producer.abort_transaction(30)


def test_a_batch_that_waits_for_its_snapshot_for_an_hour_is_a_warning_that_names_its_writer(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    LocalWriter(table, "gone").log(0, pa.table({"id": [1], "v": ["a"]}, schema=table.schema.arrow_schema))

    await_committed(table)

    young = [one for one in look(table) if one.check == "waiting batches"]
    old = [one for one in look(table, ahead_millis=2 * HOUR_MILLIS) if one.check == "waiting batches"]

    assert [(one.status, one.found) for one in young] == [(Status.OK, "1 transactions wait for their snapshot")]
    assert [one.status for one in old] == [Status.WARNING]
    assert "of gone are in the log" in old[0].found
    table.log_store.settle()
    after = [one.found for one in look(table, ahead_millis=2 * HOUR_MILLIS) if one.check == "waiting batches"]
    assert after == ["none is in the log alone"]


def test_a_retention_of_kafkas_is_a_problem(table: Table) -> None:
    set_topic_config(table, {"retention.ms": "1000"})
    found = problem(look(table), "retention")
    assert "retention.ms=1000" in found.found
    assert "lakelog log repair" in str(found.advice)


def test_a_reader_that_a_retention_is_about_to_pass_is_a_warning_with_the_numbers(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(catalog, options={"bucket": "1", "log.retention": "1 h"})
    write(table, 0, (1, "a"), (2, "b"))
    leases = LogLeases(table.store, log_of_table(table).topic_id)
    leases.put("behind", {0: 0})
    leases.put("ahead", {0: 3})
    end = log_range(table)[1] - 1

    def readers(ahead_millis: int = 0) -> list[Finding]:
        return [one for one in look(table, ahead_millis=ahead_millis) if one.check == "readers"]

    assert [one.status for one in readers()] == [Status.OK]
    [found] = readers(50 * 60_000)
    assert found.status is Status.WARNING
    assert f"reader behind is at offset 0 of bucket 0, {end} offsets behind" in found.found
    assert "older than 0.75 h, log.retention is 1 h, and its lease keeps them for 23.2 h more" in found.found
    assert "raise log.retention" in str(found.advice)

    set_topic_config(table, {"retention.ms": "600000"})
    [found] = readers(8 * 60_000)
    assert "older than 0.125 h, retention.ms is 0.167 h, and Kafka deletes them" in found.found
    later = system_millis() + 8 * 60_000
    with caplog.at_level(logging.WARNING, "lakelog.protocol"):
        for _ in range(2):
            warn_of_readers_behind(table.store, log_of_table(table), now_millis=later)
    assert caplog.text.count("reader behind is at offset 0") == 1


class InjectedCrash(Exception):
    """The writer dies here."""


def test_records_that_were_lost_before_a_snapshot_are_a_problem(catalog: Catalog) -> None:
    from tests.support.logs.local_writer import LocalWriter  # noqa: PLC0415

    table = make(catalog, options={"bucket": "1"})
    write(table, 0, (1, "a"))

    def die(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            raise InjectedCrash

    rows = pa.table({"id": [2], "v": ["b"]}, schema=pa.schema([("id", pa.int64()), ("v", pa.string())]))
    with pytest.raises(InjectedCrash):
        LocalWriter(table, "q", observe=die).write(1, rows, pa.array([0], pa.int8()))
    lose_records(table)

    found = problem(look(table), "log")
    assert "a batch that was logged there is lost" in found.found
    assert "lakelog log repair" in str(found.advice)


def test_a_copied_folder_is_a_problem_of_the_table(table: Table) -> None:
    copy = Path(table.path).with_name("copy")
    shutil.copytree(table.path, copy)
    assert "is a copy of" in problem(look(open_table(copy)), "table").found


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_command_prints_each_check_and_has_an_exit_code(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", table.path) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split(":")[0].split(maxsplit=1) for line in lines if not line.startswith(" ")]
    assert [check for _, check in shown] == [*CHECKS, "lineage"]
    assert {status for status, check in shown if check not in SLOW} == {"ok"}

    set_topic_config(table, {"retention.ms": "1000"})
    assert run("doctor", table.path, "--json", "--read-only", "--as", "reader") == 3
    found = {fields["check"]: fields for fields in map(json.loads, capsys.readouterr().out.splitlines())}
    assert found["retention"]["status"] == "problem"
    assert "lakelog log repair" in found["retention"]["advice"]
    assert found["clock"]["status"] == found["transactions"]["status"] == "skipped"
    assert run("doctor", table.path, "--as", "boss") == 1


@pytest.mark.full
def test_without_a_table_kafka_alone_is_checked(
    tmp_path: Path, secure: SecureKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in secure.settings().items():
        monkeypatch.setenv(f"LAKELOG_KAFKA_{key.upper().replace('.', '_')}", value)
    assert run("doctor", "-w", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if not line.startswith(" ")]
    assert [line.split(":")[0].split()[1] for line in lines] == CHECKS[:4]
    assert "SASL_SSL, user lake" in printed

    monkeypatch.setenv("LAKELOG_KAFKA_SASL_PASSWORD", "wrong-Pa55")
    assert run("doctor", "-w", str(tmp_path)) == 3
    printed = capsys.readouterr().out
    assert "problem  broker: " in printed
    assert "refuses the user or the password" in printed
    assert "wrong-Pa55" not in printed


def test_a_question_about_a_warehouse_starts_no_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(BOOTSTRAP_KEY, raising=False)
    monkeypatch.setattr(EmbeddedBroker, "start", lambda *_broker, **_port: pytest.fail("a broker is started"))
    Catalog(tmp_path).create_table("db.t", schema=pa.schema([("id", pa.int64())]))
    was = sorted(tmp_path.rglob("*"))

    assert run("doctor", "-w", str(tmp_path)) == 0

    assert capsys.readouterr().out.startswith(
        "skipped  settings: no Kafka servers are named, and the embedded broker of"
    )
    assert sorted(tmp_path.rglob("*")) == was


def test_a_broker_that_runs_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BOOTSTRAP_KEY, raising=False)
    broker = EmbeddedBroker(tmp_path)
    try:
        broker.start()
        report = Catalog(tmp_path).doctor(read_only=True)
    finally:
        broker.stop()

    assert [one.check for one in report.findings] == CHECKS[:4]
    assert report.is_sound


def test_a_table_without_a_log_is_checked_by_its_files(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    plain = catalog.create_table("db.t", schema=pa.schema([("id", pa.int64())]))
    plain.write(pa.table({"id": [1]}))
    assert [one.check for one in plain.upkeep.doctor().findings] == ["table", "lineage"]
    assert plain.upkeep.doctor().is_sound
    found = problem(look(plain, ahead_millis=-HOUR_MILLIS), "table")
    assert "ahead of this machine's clock" in found.found
