"""Find the Java that runs the embedded broker."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lakelog.common.errors import UnavailableError

OLDEST_JAVA = 17
_WAY_OUT = (
    f"install Java {OLDEST_JAVA} or later (Debian: `apt-get install openjdk-17-jre-headless`), or set JAVA_HOME,"
    " or name a Kafka cluster by the option 'log.kafka.bootstrap.servers'"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(environ: Mapping[str, str]) -> Path:
    """The `java` of JAVA_HOME, else of PATH. Raises UnavailableError when there is none or it is too old."""
    home = environ.get("JAVA_HOME")
    if home:
        found: str | None = str(Path(home, "bin", "java"))
        where = f"JAVA_HOME={home}"
    else:
        found = shutil.which("java", path=environ.get("PATH", ""))
        where = "PATH"
    if found is None or not Path(found).is_file():
        raise UnavailableError(f"the embedded Kafka broker needs Java, and {where} has none; {_WAY_OUT}")
    version = java_version(Path(found), environ)
    if version < OLDEST_JAVA:
        raise UnavailableError(
            f"the embedded Kafka broker needs Java {OLDEST_JAVA} or later, and {found} is Java {version}; {_WAY_OUT}"
        )
    return Path(found)


def java_version(java: Path, environ: Mapping[str, str]) -> int:
    """The feature version, such as 17. Raises UnavailableError when `java` does not print it."""
    try:
        answer = subprocess.run(
            [java, "-version"], env=dict(environ), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{java} does not run: {error}; {_WAY_OUT}") from error
    match = _VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        raise UnavailableError(f"{java} -version prints {answer.stderr.strip()!r}, not a version; {_WAY_OUT}")
    return int(match.group(1))
