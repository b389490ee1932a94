"""The embedded broker, with its real process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.logstore.broker.broker import BrokerInfo, EmbeddedBroker
from lakelog.logstore.broker.broker_config import HOST
from lakelog.logstore.kafka.clients.topic import create_topic
from tests.support.kills.frozen import frozen
from tests.support.logs.log_topics import topic_at

pytestmark = pytest.mark.integration


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "a läke")
    yield broker
    broker.stop()


def write_record(info: BrokerInfo, value: bytes, *, create: bool = True) -> None:
    if create:
        create_topic(topic_at(info.bootstrap_servers, "t"), 1)
    producer = Producer({"bootstrap.servers": info.bootstrap_servers, "transactional.id": "test"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", value)
    producer.commit_transaction(30)


def read_record(info: BrokerInfo) -> bytes | None:
    return next(iter(read_records(info, 1)), None)


def read_records(info: BrokerInfo, count: int) -> list[bytes | None]:
    """The first committed records, as far as they come within a minute."""
    config = {"bootstrap.servers": info.bootstrap_servers, "group.id": "test", "auto.offset.reset": "error"}
    consumer = Consumer({**config, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("t", 0, 0)])
    deadline = time.monotonic() + 60
    values: list[bytes | None] = []
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)  # which also tells of what passes, such as a partition without a leader
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def kill(info: BrokerInfo) -> None:
    os.kill(info.pid, signal.SIGKILL)


def test_a_killed_broker_starts_again_with_its_data_on_its_port(broker: EmbeddedBroker) -> None:
    before = broker.start()
    write_record(before, b"kept")
    kill(before)

    after = broker.start()

    assert after.bootstrap_servers == before.bootstrap_servers
    assert after.pid != before.pid
    assert read_record(after) == b"kept"


@pytest.mark.full
def test_a_commit_that_was_answered_is_there_after_each_of_many_kills(broker: EmbeddedBroker) -> None:
    """A kill between the answer to a commit and the marker in the log hid the record in a quarter of the cases."""
    create = True
    for number in range(8):
        value = f"{number}".encode()
        info = broker.start()
        write_record(info, value, create=create)
        create = False
        kill(info)
        assert read_records(broker.start(), number + 1)[-1] == value


def test_a_stopped_broker_starts_again_on_its_port(broker: EmbeddedBroker) -> None:
    before = broker.start()
    assert broker.stop()
    assert broker.status() is None
    assert not broker.stop()

    after = broker.start()

    assert after.bootstrap_servers == before.bootstrap_servers
    assert broker.status() == after


def test_a_broker_creates_no_topic_by_itself(broker: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.start().bootstrap_servers})

    admin.list_topics("not created", timeout=30)

    assert "not created" not in admin.list_topics(timeout=30).topics


def test_starts_at_once_give_one_broker(broker: EmbeddedBroker) -> None:
    with ThreadPoolExecutor(4) as pool:
        infos = list(pool.map(lambda _: EmbeddedBroker(broker.folder).start(), range(4)))

    assert len({info.pid for info in infos}) == 1


def test_a_broker_outlives_the_process_that_started_it_and_its_ctrl_c(broker: EmbeddedBroker) -> None:
    program = (
        "import os, signal, sys; from lakelog.logstore.broker.broker import EmbeddedBroker;"
        "print(EmbeddedBroker(sys.argv[1]).start().pid, flush=True); os.killpg(0, signal.SIGINT)"
    )
    starter = subprocess.run(
        [sys.executable, "-c", program, broker.folder],
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=120,
    )
    info = broker.status()

    assert starter.returncode != 0, "the Ctrl-C reached nobody"
    assert info is not None
    assert info.pid == int(starter.stdout)
    assert os.getsid(info.pid) != os.getsid(0)
    assert broker.start() == info


@pytest.mark.full
def test_a_process_id_that_another_process_has_now_is_not_taken_for_the_broker(broker: EmbeddedBroker) -> None:
    info = broker.start()
    kill(info)
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (info.log_path.parent / "broker.pid").write_text(str(bystander.pid), "ascii")
    try:
        assert broker.start().pid != bystander.pid
        assert broker.stop()
        assert bystander.poll() is None
    finally:
        bystander.communicate(b"\n")


def test_a_taken_port_is_named_with_the_way_out(broker: EmbeddedBroker) -> None:
    info = broker.start()
    broker.stop()
    port = int(info.bootstrap_servers.rpartition(":")[2])
    with socket.create_server((HOST, port)):
        with pytest.raises(UnavailableError, match=rf"port {port} .* is taken by another process; .*--port"):
            broker.start()
        moved = broker.start(port=port + 1)

    assert moved.bootstrap_servers == f"{HOST}:{port + 1}"
    with pytest.raises(InvalidRequestError, match=f"expected port {port}"):
        broker.start(port=port)


def test_a_broker_that_ends_while_it_starts_shows_the_end_of_its_log(broker: EmbeddedBroker) -> None:
    info = broker.start()
    broker.stop()
    (info.data_dir / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n", "ascii")

    with pytest.raises(UnavailableError, match=r"ended while it started; the end of (?s:.*)node.id"):
        broker.start()


def test_a_broker_that_does_not_answer_in_time_is_named(broker: EmbeddedBroker) -> None:
    info = broker.start()
    with frozen(info.pid), pytest.raises(UnavailableError, match="did not answer within 2 s"):
        EmbeddedBroker(broker.folder, start_timeout_seconds=2).start()
