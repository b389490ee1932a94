"""Jars that tests need: downloaded once, checked against their pins, and kept where Kafka's are."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from lakelog.logstore.broker.file_lock import exclusive_lock
from lakelog.logstore.broker.kafka_jars import cache_dir

Download = Callable[[Path], list[Path]]
"""Downloads the jars, into the folder `jars` of an empty folder."""


def pinned_jars(name: str, pins: Path, download: Download) -> list[Path]:
    """The jars that the file `pins` names, a hash and a name a line, in the folder `name` of this user's cache."""
    wanted = {jar: digest for digest, jar in map(str.split, pins.read_text("ascii").splitlines())}
    target = cache_dir(os.environ) / name
    with exclusive_lock(target.with_name(f".{name}.lock"), timeout_seconds=900, purpose=f"download of {name}"):
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as work:
                found = {path.name: _sha256(path) for path in download(Path(work))}
                assert found == wanted, f"the download of {name} differs from the pinned jars"
                Path(work, "jars").rename(target)
    return [target / jar for jar in sorted(wanted)]


def print_pins(download: Download) -> None:
    """Print the pins of what is downloaded now."""
    with tempfile.TemporaryDirectory() as work:
        for jar in download(Path(work)):
            print(_sha256(jar), jar.name)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
