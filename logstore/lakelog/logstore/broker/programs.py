"""How the programs of Kafka are called: its Java, its jars and its class archive, made ready at the first call."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from lakelog.common.errors import LakelogError
from lakelog.logstore.broker.broker_config import java_command
from lakelog.logstore.broker.file_lock import exclusive_lock
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import KAFKA_VERSION, are_there, cache_dir, ensure_jars

JavaCommand = Callable[..., list[str]]
"""The command line of a program of Kafka's, by its main class, its arguments and options of its JVM."""


def kafka_command(environ: Mapping[str, str], log4j: Path, run_once: Callable[..., None]) -> JavaCommand:
    """How to call Kafka's programs. Downloads Kafka if the cache lacks it, and then makes the class archive.

    `run_once` starts and stops a broker in a folder, with options of its JVM and this environment. Raises
    UnavailableError without Java or a download.
    """
    java, is_new = find_java(environ), not are_there(environ)
    jars = ensure_jars(environ)
    if is_new:
        make_archive(java, environ, partial(run_once, environ=environ))
    usual = archive_options(java, environ)

    def command(main: str, *arguments: str | Path, options: Sequence[str] | None = None) -> list[str]:
        return java_command(java, jars, log4j, main, *arguments, options=usual if options is None else options)

    return command


_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # write nothing about it to the broker's log
_WAIT_SECONDS = 60.0
_LOG = logging.getLogger(__name__)


def archive_options(java: Path, environ: Mapping[str, str]) -> Sequence[str]:
    """The options of a JVM that uses the archive; none where there is no archive."""
    archive = _archive_path(java, environ)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.is_file() else ()


def make_archive(java: Path, environ: Mapping[str, str], run: Callable[[Path, Sequence[str]], object]) -> None:
    """Make the archive, unless there is one. `run` starts and stops a broker in a folder, with options of its JVM.

    An error is only logged: brokers start without an archive too.
    """
    archive = _archive_path(java, environ)
    lock = archive.with_name(f".{archive.name}.lock")
    with exclusive_lock(lock, timeout_seconds=_WAIT_SECONDS, purpose="class archive of the broker"):
        if archive.is_file():
            return
        unfinished = archive.with_name(f".{archive.name}.{os.getpid()}")
        try:
            with tempfile.TemporaryDirectory(prefix="lakelog-broker-") as folder:
                run(Path(folder), (f"-XX:ArchiveClassesAtExit={unfinished}", *_QUIET))
            unfinished.replace(archive)
        except (LakelogError, OSError) as error:
            _LOG.warning("the broker's JVM will start without a class archive, and so slower: %s", error)
            unfinished.unlink(missing_ok=True)
            return
        for older in set(archive.parent.glob("kafka-*.jsa")) - {archive}:
            older.unlink(missing_ok=True)


def _archive_path(java: Path, environ: Mapping[str, str]) -> Path:
    """The path of the archive of a Java. An archive of another Java, or of jars elsewhere, is of no use."""
    folder, program = cache_dir(environ), java.resolve()
    made_for = f"{program} {program.stat().st_mtime_ns} {folder.absolute()}"
    return folder / f"kafka-{KAFKA_VERSION}-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}.jsa"
