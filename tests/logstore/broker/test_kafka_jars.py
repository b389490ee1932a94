from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError, UnavailableError
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import PinnedJar, cache_dir, check_jars, ensure_jars, pinned_jars


def fake_java(folder: Path, *, version: str = "17.0.15", then: str = "exit 0") -> dict[str, str]:
    """An environment whose `java` tells `version` and runs the shell line `then` for everything else."""
    java = folder / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\ncase "$1" in -version) echo \'openjdk version "{version}"\' >&2;; *) {then};; esac\n')
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder / "home"), "LAKELOG_CACHE_DIR": str(folder / "cache"), "PATH": "/usr/bin:/bin"}


def test_a_broker_without_java_says_how_to_get_it(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, environ={"PATH": str(tmp_path)})

    with pytest.raises(UnavailableError, match=r"needs Java, and PATH has none; install Java 17 or later"):
        broker.start()

    assert broker.status() is None


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"JAVA_HOME=/nowhere has none"):
        find_java({"JAVA_HOME": "/nowhere"})


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_a_java_that_is_too_old_is_named_with_its_version(tmp_path: Path, version: str) -> None:
    with pytest.raises(UnavailableError, match=r"needs Java 17 or later, and .* is Java (8|11);"):
        find_java(fake_java(tmp_path, version=version))


@pytest.mark.parametrize("version", ["17", "21.0.1", "25-ea"])
def test_newer_javas_are_taken(tmp_path: Path, version: str) -> None:
    assert find_java(fake_java(tmp_path, version=version)).name == "java"


def test_a_download_without_network_keeps_nothing_and_says_what_failed(tmp_path: Path) -> None:
    environ = fake_java(tmp_path, then="echo 'Server access error at url x (Connection refused)'; exit 1")

    with pytest.raises(UnavailableError, match=r"cannot be downloaded: Server access error .* HTTPS_PROXY"):
        ensure_jars(environ)

    assert [path.name for path in cache_dir(environ).iterdir()] == [".kafka-4.3.1.lock"]


def test_a_download_that_brings_too_little_is_not_kept(tmp_path: Path) -> None:
    environ = fake_java(tmp_path)

    with pytest.raises(CorruptDataError, match="lacks HdrHistogram"):
        ensure_jars(environ)

    assert not (cache_dir(environ) / "kafka-4.3.1").exists()


def test_callers_at_once_download_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = PinnedJar(name="a.jar", size_bytes=5, sha256=hashlib.sha256(b"bytes").hexdigest())
    monkeypatch.setattr("lakelog.logstore.broker.kafka_jars.pinned_jars", lambda: (pinned,))
    # Ivy's last argument is where the jars go: FOLDER/[artifact]-[revision].[ext]
    download = 'for last; do :; done; jars="${last%/*}"; mkdir -p "$jars"; printf bytes > "$jars/a.jar"; echo >> runs'
    environ = fake_java(tmp_path, then=download.replace("runs", str(tmp_path / "runs")))

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: ensure_jars(environ), range(8)))

    assert found == {(cache_dir(environ) / "kafka-4.3.1" / "a.jar",)}
    assert (tmp_path / "runs").read_text() == "\n"


def test_a_jar_with_other_bytes_is_refused_with_both_hashes(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"other")
    pinned = PinnedJar(name="a.jar", size_bytes=5, sha256=hashlib.sha256(b"bytes").hexdigest())

    with pytest.raises(CorruptDataError, match=rf"a.jar with SHA-256 .*, expected {pinned.sha256}"):
        check_jars(tmp_path, [pinned])


def test_the_pins_name_the_broker_and_a_log(tmp_path: Path) -> None:
    names = [jar.name for jar in pinned_jars()]

    assert len(names) == len(set(names)) == 47
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar", "log4j-slf4j-impl-2.25.4.jar"} <= set(names)


def test_the_cache_may_be_elsewhere() -> None:
    assert cache_dir({"LAKELOG_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b"}) == Path("/b/lakelog")
