"""A Kafka with TLS, passwords and rights: everything works with them, and each thing that is wrong is named."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError, LakelogError, UnavailableError
from lakelog.filestore.alter.schema_changes import SetOption
from lakelog.logstore.kafka.clients.kafka_errors import MissingRightError
from lakelog.logstore.kafka.clients.rights import Resource, Right, Role, least_rights, topic_right
from lakelog.logstore.kafka.clients.topic import delete_records, keep_all_records
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.upkeep.log_check import check_log, repair_log
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table, log_range
from tests.support.servers.secure_kafka import PASSWORDS, SecureKafka

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
LOGGED = {"log.system": "kafka", "bucket": "2"}
QUICK = {"log.unavailable-timeout": "0 s"}
ROOT = Path(__file__).parents[3]
WAITS = pytest.mark.full  # ten seconds each, for an answer that does not come


@pytest.fixture
def table(tmp_path: Path, secure: SecureKafka) -> Table:
    """A table that the super user has made, with a batch."""
    catalog = Catalog(tmp_path / "lake", options=secure.call_options())
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=LOGGED | QUICK)
    write(made, 0)
    return made


def write(table: Table, identifier: int) -> None:
    rows = pa.table({"id": [identifier, 1000], "v": [1, identifier]}, schema=SCHEMA)
    LocalWriter(table, "q").write(identifier, rows, pa.array([0, 0], pa.int8()))


def as_user(table: Table, secure: SecureKafka, user: str) -> Table:
    """The table, opened by another user."""
    return open_table(table.path, options=secure.call_options(user))


def rights_of(table: Table, role: Role) -> list[Right]:
    return list(least_rights(role, topic=log_of_table(table).topic, table_uuid=table.uuid))


def read(table: Table) -> int:
    """Read the whole log; gives the number of changes."""
    close_idle_consumers()
    fields, log = table.schema.fields, log_of_table(table)
    log.check_topic()
    count = 0
    for bucket in range(2):
        end = log_range(table, bucket)[1]
        batches = read_range(kafka_topic(log).partition(bucket), fields, start=0, end=end, timeout_seconds=5)
        count += sum(batch.num_rows for batch in batches)
    return count


def test_a_table_is_written_and_read_by_tls_and_scram(table: Table) -> None:
    write(table, 1)

    assert read(table) == 4
    assert table.log_store.verify(from_snapshot=0).is_equal
    assert table.to_arrow().num_rows == 3


# What is changed of the connection, and what the error must be.
WRONG: dict[str, tuple[dict[str, str], type[LakelogError], str]] = {
    "password": (
        {"sasl_password": "wrong-Pa55"},
        InvalidRequestError,
        r"refuses the user or the password .*sasl\.password",
    ),
    "user": ({"sasl_username": "who"}, InvalidRequestError, r"refuses the user or the password .*sasl\.username"),
    "authority": (
        {"ssl_ca_location": "OTHER"},
        InvalidRequestError,
        r"certificate .* is not trusted .*ssl\.ca\.location",
    ),
    "certificate's host": (
        {"bootstrap_servers": "ELSEWHERE"},
        InvalidRequestError,
        r"certificate .* host names that are in it",
    ),
    "host": ({"bootstrap_servers": "no-such-host.invalid:1"}, UnavailableError, r"is not found .*host names"),
    "protocol": ({"security_protocol": "PLAINTEXT"}, UnavailableError, r"security\.protocol"),
    "mechanism": ({"sasl_mechanism": "SCRAM-SHA-256"}, InvalidRequestError, r"refuses the user or the password"),
}


@pytest.mark.parametrize("name", [name if name == "password" else pytest.param(name, marks=WAITS) for name in WRONG])
def test_a_wrong_setting_of_the_connection_is_named(table: Table, secure: SecureKafka, name: str) -> None:
    changed, kind, text = WRONG[name]
    places = {"OTHER": str(secure.other_authority), "ELSEWHERE": secure.elsewhere}
    given = {key: places.get(value, value) for key, value in changed.items()}
    opened = open_table(table.path, options=secure.call_options(**given))

    with pytest.raises(kind, match=text) as caught:
        log_of_table(opened).check_topic()

    assert not any(secret in str(caught.value) for secret in (*PASSWORDS.values(), "wrong-Pa55"))


@pytest.mark.full
def test_a_writer_with_a_wrong_password_says_so_when_it_fences(table: Table, secure: SecureKafka) -> None:
    opened = open_table(table.path, options=secure.call_options(sasl_password="wrong-Pa55"))

    with pytest.raises(InvalidRequestError, match="refuses the user or the password"):
        write(opened, 1)


def test_a_reader_needs_these_rights_and_no_others(table: Table, secure: SecureKafka) -> None:
    secure.grant("reader", rights_of(table, Role.READER))
    opened = as_user(table, secure, "reader")

    assert read(opened) == 2
    with pytest.raises(MissingRightError, match=r"WRITE on transactional id"):
        write(opened, 1)


def test_a_writer_needs_these_rights_and_no_others(table: Table, secure: SecureKafka) -> None:
    secure.grant("writer", rights_of(table, Role.WRITER))
    opened = as_user(table, secure, "writer")

    write(opened, 1)

    assert read(opened) == 4
    delete_records(kafka_topic(log_of_table(opened)), {0: 1})
    with pytest.raises(MissingRightError, match=r"ALTER_CONFIGS on topic"):
        keep_all_records(kafka_topic(log_of_table(opened)))


def test_an_admin_needs_these_rights_and_no_others(tmp_path: Path, secure: SecureKafka) -> None:
    catalog = Catalog(tmp_path / "lake", options=secure.call_options("admin"))
    secure.grant("admin", [])
    with pytest.raises(MissingRightError, match=r"user admin lacks the right CREATE on topic .*kafka-acls\.sh"):
        catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=LOGGED | QUICK)
    assert not (tmp_path / "lake" / "db.db" / "t" / "schema").exists()

    prefix = "db.t"  # the topic of a table is named after it, with an id
    topics = [
        Right(operation=one.operation, resource=one.resource, name=prefix, is_prefix=True)
        for one in least_rights(Role.ADMIN, topic=prefix, table_uuid="")
        if one.resource is Resource.TOPIC
    ]
    secure.grant("admin", topics)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=LOGGED | QUICK)
    secure.grant("admin", [*topics, *rights_of(table, Role.ADMIN)])
    write(table, 0)
    assert read(table) == 2
    assert check_log(table.store, log_of_table(table)).is_sound
    repair_log(table.store, log_of_table(table))
    keep_all_records(kafka_topic(log_of_table(table)))
    table.alter(SetOption("log.retention", "1 d"))
    catalog.drop_table("db.t")


@pytest.mark.parametrize("role", [Role.READER, Role.WRITER])
def test_each_right_of_a_role_is_needed_and_named_when_it_is_missing(
    table: Table, secure: SecureKafka, role: Role
) -> None:
    user = role.value
    opened = as_user(table, secure, user)
    rights = rights_of(table, role)
    for place, missing in enumerate(rights):
        secure.grant(user, [one for one in rights if one is not missing])
        is_only_describing = role is Role.READER and missing.operation == "READ" and missing.resource is Resource.TOPIC
        named = "DESCRIBE on topic" if is_only_describing else str(missing).rstrip("*")  # READ implies DESCRIBE
        with pytest.raises(MissingRightError, match=f"lacks the right {re.escape(named)}"):
            use_all(opened, role, batch=place + 1)


def use_all(table: Table, role: Role, batch: int) -> None:
    """Do all that a role does."""
    read(table)
    if role is not Role.READER:
        write(table, batch)
        delete_records(kafka_topic(log_of_table(table)), {0: 0})


def test_a_missing_right_names_the_command_that_grants_it(table: Table, secure: SecureKafka) -> None:
    secure.grant("stranger", [])
    topic = log_of_table(table).topic
    with pytest.raises(MissingRightError, match="user stranger lacks the right DESCRIBE on topic") as caught:
        log_of_table(as_user(table, secure, "stranger")).check_topic()
    assert (
        f"kafka-acls.sh --bootstrap-server {secure.servers} --add --allow-principal User:stranger"
        f" --operation DESCRIBE --topic {topic}"
    ) in str(caught.value)
    secure.grant("stranger", [topic_right("DESCRIBE", topic)])
    with pytest.raises(MissingRightError, match="DESCRIBE_CONFIGS on topic"):
        log_of_table(as_user(table, secure, "stranger")).check_topic()


def test_the_debug_log_of_a_client_has_no_password(
    table: Table, secure: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        opened = open_table(table.path, options=secure.call_options(debug="all"))
        write(opened, 1)
        assert read(opened) == 4
    assert PASSWORDS["lake"] not in caplog.text


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_spark_writes_and_reads_by_tls_and_scram_and_shows_the_password_nowhere(
    tmp_path: Path, secure: SecureKafka
) -> None:
    settings = "\n".join(f'{key} = "{value}"' for key, value in secure.settings().items())
    profiles = tmp_path / "profiles" / "kafka.toml"
    profiles.parent.mkdir()
    profiles.write_text(f"[prod]\n{settings}\n")
    profiles.chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "LAKELOG_KAFKA_PROFILES": str(profiles), "TMPDIR": str(work)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.jobs.secure_job", str(work)],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        timeout=1100,
    )

    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed[-4_000:]
    secret = PASSWORDS["lake"]
    assert secret not in printed
    holding = [path for path in work.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert holding == []
    assert list(work.rglob("events*")), "the event log of Spark was looked through"
