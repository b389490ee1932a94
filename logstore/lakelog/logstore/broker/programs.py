"""How the programs of Kafka are called: its Java, its jars and its class archive, made ready at the first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from lakelog.logstore.broker.broker_config import java_command
from lakelog.logstore.broker.class_archive import archive_options, make_archive
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import are_there, ensure_jars

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
