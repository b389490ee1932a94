"""A warehouse that came from others: links in the folder of its broker lead no write, and no Kafka, out of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lakelog.common.errors import CorruptDataError, UnavailableError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.logstore.broker import broker as broker_module
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.broker.broker_config import Endpoint, choose_endpoint
from lakelog.logstore.broker.broker_files import open_new, read_pid, write_new
from lakelog.logstore.broker.file_lock import exclusive_lock, is_locked
from lakelog.protocol.access.place import forget_renames, record_rename

PRECIOUS = b"precious"
FILES = [
    "log4j2.properties",
    "server.properties",
    "controller.properties",
    "format.properties",
    "broker.log",
    "broker.log.0",
    "broker.log.1",
    "broker.pid",
    "broker.pid.new",
    "endpoint.json",
    "start.lock",
    "running.lock",
    "data.new/meta.properties",
    "data/meta.properties",
    "data/topic-0/00000000000000000000.log",
]
FOLDERS = [".lakelog", ".lakelog/broker", ".lakelog/broker/data", ".lakelog/broker/data.new"]


class Launched(Exception):
    """The broker was about to run a program."""


@pytest.fixture
def precious(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file outside of the warehouse. No program is run, and no jar is needed."""

    def no_program(*_: object, **__: object) -> None:
        raise Launched

    monkeypatch.setattr("subprocess.run", no_program)
    monkeypatch.setattr("subprocess.Popen", no_program)
    monkeypatch.setattr(broker_module, "kafka_command", lambda *_: lambda *_, **__: ["java"])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(PRECIOUS)
    return outside / "precious"


def started(warehouse: Path) -> Exception:
    with pytest.raises((CorruptDataError, UnavailableError, Launched)) as caught:
        EmbeddedBroker(warehouse, start_timeout_seconds=1.0).start()
    return caught.value


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_dangling", [False, True], ids=["to a file", "to nothing"])
def test_a_link_in_the_folder_is_refused_and_not_followed(
    tmp_path: Path, precious: Path, name: str, is_dangling: bool
) -> None:
    link = tmp_path / "lake/.lakelog/broker" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious.with_name("new") if is_dangling else precious)

    error = started(tmp_path / "lake")

    assert isinstance(error, CorruptDataError | UnavailableError)
    assert str(link) in str(error)
    assert [path.name for path in precious.parent.iterdir()] == ["precious"]
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.parametrize("name", FOLDERS)
def test_a_linked_folder_is_refused_and_nothing_is_made_in_it(tmp_path: Path, precious: Path, name: str) -> None:
    link = tmp_path / "lake" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious.parent)
    assert isinstance(started(tmp_path / "lake"), CorruptDataError)
    if name in {".lakelog", ".lakelog/broker"}:
        with pytest.raises(CorruptDataError, match="is a link"):
            EmbeddedBroker(tmp_path / "lake").stop()
    assert [path.name for path in precious.parent.iterdir()] == ["precious"]


@pytest.mark.parametrize("name", [name for name in FILES if "/" not in name and "lock" not in name])
def test_a_hard_link_loses_its_name_and_its_other_file_stays(tmp_path: Path, precious: Path, name: str) -> None:
    """A link of this kind cannot be known from a file: what is written under its name is a new file."""
    home = tmp_path / "lake/.lakelog/broker"
    home.mkdir(parents=True)
    if name != "endpoint.json":
        os.link(precious, home / name)
    else:  # it is read before it is written
        choose_endpoint(Random(1)).write(precious)
        os.link(precious, home / name)
    before = precious.read_bytes()
    assert isinstance(started(tmp_path / "lake"), Launched)
    assert precious.read_bytes() == before


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
@pytest.mark.parametrize("name", [name for name in FILES if "/" not in name])
def test_what_is_no_file_in_the_place_of_one_is_named(
    tmp_path: Path, precious: Path, name: str, make: Callable[[Path], None]
) -> None:
    """Who opens a pipe waits for another program, for ever."""
    path = tmp_path / "lake/.lakelog/broker" / name
    path.parent.mkdir(parents=True)
    make(path)
    error = started(tmp_path / "lake")
    assert isinstance(error, CorruptDataError | UnavailableError)
    assert str(path) in str(error)
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_question_reads_nothing_but_files_of_the_broker(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / ".lakelog/broker/endpoint.json"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(CorruptDataError, match=r"endpoint\.json is .*, expected a file of the embedded broker"):
        EmbeddedBroker(tmp_path).status()


def test_a_warehouse_behind_a_link_of_its_user_is_used(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "lake")
    assert isinstance(started(tmp_path / "way"), Launched)


def test_a_new_file_is_made_in_place_of_a_link(tmp_path: Path, precious: Path) -> None:
    link = tmp_path / "file"
    link.symlink_to(precious)
    write_new(link, "ours")
    assert (link.is_symlink(), link.read_text()) == (False, "ours")
    with open_new(link) as file:
        file.write(b"again")
    assert (link.read_bytes(), precious.read_bytes()) == (b"again", PRECIOUS)


def test_a_lock_is_no_link(tmp_path: Path, precious: Path) -> None:
    lock = tmp_path / "lock"
    lock.symlink_to(precious)
    with (
        pytest.raises(UnavailableError, match="cannot be made"),
        exclusive_lock(lock, timeout_seconds=0.1, purpose="test"),
    ):
        pass
    with pytest.raises(UnavailableError, match="cannot be opened"):
        is_locked(lock)


@pytest.mark.parametrize(
    "values",
    [
        {"port": "1\nlog.dirs=/", "controller_port": 2, "cluster_id": "a" * 22},
        {"port": 1, "controller_port": 2, "cluster_id": "--config=/etc/passwd000"},
        {"port": 1, "controller_port": 2, "cluster_id": "a\n" * 11},
        {"port": 1, "controller_port": 2.5, "cluster_id": "a" * 22},
        {"port": 70_000, "controller_port": 2, "cluster_id": "a" * 22},
        {"port": 1, "controller_port": 2},
    ],
    ids=repr,
)
def test_an_endpoint_of_others_writes_no_setting_of_kafka(tmp_path: Path, values: dict[str, object]) -> None:
    path = tmp_path / "endpoint.json"
    path.write_text(json.dumps(values))
    with pytest.raises(CorruptDataError, match=r"endpoint\.json is not readable"):
        Endpoint.read(path)


@pytest.mark.parametrize("text", ["-1", "0", "1", "", "12 13", "9" * 40, "x"])
def test_no_file_names_processes_of_others_to_end(tmp_path: Path, text: str) -> None:
    """kill(-1) would end every process of the user."""
    (tmp_path / "broker.pid").write_text(text)
    with pytest.raises(CorruptDataError, match="expected the process id"):
        read_pid(tmp_path / "broker.pid")


def test_renames_are_not_recorded_through_a_link(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/.lakelog").symlink_to(precious.parent)
    place, target = (f"{tmp_path}/lake/db.db/{name}" for name in ("t", "u"))
    with pytest.raises(CorruptDataError, match="is a link that leads out"):
        record_rename(LocalFileIO(), place, target, "uuid")
    with pytest.raises(CorruptDataError, match="is a link that leads out"):
        forget_renames(LocalFileIO(), place, "uuid")
    assert [path.name for path in precious.parent.iterdir()] == ["precious"]
