"""The class archive of the broker's JVM: it is made once, used, and never needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakelog.logstore.broker.broker import EmbeddedBroker, run_once
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import ensure_jars
from lakelog.logstore.broker.programs import make_archive

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose cache has Kafka, and no class archive yet."""
    jars = ensure_jars(os.environ)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / jars[0].parent.name).symlink_to(jars[0].parent)
    return {**os.environ, "LAKELOG_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def broker(tmp_path: Path, environ: dict[str, str]) -> Iterator[EmbeddedBroker]:
    found = EmbeddedBroker(tmp_path, environ=environ)
    yield found
    found.stop()


def archives(environ: dict[str, str]) -> list[Path]:
    return sorted(Path(environ["LAKELOG_CACHE_DIR"]).glob("*.jsa"))


@pytest.mark.full
def test_a_broker_uses_the_archive_that_another_one_made(environ: dict[str, str], broker: EmbeddedBroker) -> None:
    older = Path(environ["LAKELOG_CACHE_DIR"], "kafka-4.0.0-0123456789ab.jsa")
    older.touch()
    make_archive(find_java(environ), environ, lambda *given: run_once(*given, environ=environ))
    (archive,) = archives(environ)

    running = broker.start()

    assert str(archive) in Path(f"/proc/{running.pid}/maps").read_text()
    broker.stop()

    archive.chmod(0o600)
    archive.write_bytes(b"damaged" * 1000)
    assert broker.start().bootstrap_servers == running.bootstrap_servers


def test_a_broker_that_does_not_start_makes_no_archive_and_brokers_start_without(
    environ: dict[str, str], broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def run(folder: Path, options: Sequence[str]) -> None:
        EmbeddedBroker(folder, environ=environ, java_options=[*options, "-XX:NoSuchOption"]).start()

    make_archive(find_java(environ), environ, run)

    assert archives(environ) == []
    assert "will start without a class archive" in caplog.text
    assert broker.start().pid
