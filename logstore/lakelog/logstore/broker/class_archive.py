"""The class archive of the broker's JVM: without it, half of the processor time of a start goes into reading and
checking classes.

It is made once for a user, a Java and a Kafka, after the download of the jars: a broker in a folder of its own is
started and stopped. A JVM that finds no archive, or cannot use it, starts all the same. Source: JEP 350.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lakelog.common.errors import LakelogError
from lakelog.logstore.broker.file_lock import exclusive_lock
from lakelog.logstore.broker.kafka_jars import KAFKA_VERSION, cache_dir

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
