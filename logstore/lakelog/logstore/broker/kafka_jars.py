"""The jars of Apache Kafka: resolved once per user by the Ivy that PySpark ships, checked, and kept in a cache.

The cache is `$LAKELOG_CACHE_DIR`, else `$XDG_CACHE_HOME/lakelog`, else `~/.cache/lakelog`; in it `kafka-4.3.1/`
holds the jars. The folder appears under its name only when every jar in it has the pinned SHA-256.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from lakelog.common.errors import CorruptDataError, UnavailableError
from lakelog.logstore.broker.file_lock import exclusive_lock
from lakelog.logstore.broker.java import find_java

KAFKA_VERSION = "4.3.1"
CACHE_DIR_KEY = "LAKELOG_CACHE_DIR"
DOWNLOAD_TIMEOUT_SECONDS = 600
IVY_SETTINGS_KEY = "LAKELOG_IVY_SETTINGS"
_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="lakelog" module="broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}" conf="default->master"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->master"/>
  </dependencies>
</ivy-module>
"""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedJar:
    """A jar of the broker's class path, with its pinned checksum."""

    name: str
    size_bytes: int
    sha256: str


def pinned_jars() -> tuple[PinnedJar, ...]:
    """The jars of the pinned Kafka, from the list beside this module."""
    text = (resources.files(__package__) / f"kafka-{KAFKA_VERSION}.jars").read_text("ascii")
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(PinnedJar(name=name, size_bytes=int(size), sha256=sha256) for sha256, size, name in rows)


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The folder of this user for downloads of lakelog."""
    if environ.get(CACHE_DIR_KEY):
        return Path(environ[CACHE_DIR_KEY])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"], "lakelog")
    return Path.home() / ".cache" / "lakelog"


def ensure_jars(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars of Kafka's class path; downloads them when the cache lacks them.

    One process downloads, others wait for it. Raises UnavailableError without Java, network or Ivy, CorruptDataError
    when the download differs from the pinned checksums.
    """
    jars = pinned_jars()
    target = cache_dir(environ) / f"kafka-{KAFKA_VERSION}"
    if not _is_complete(target, jars):
        lock = target.with_name(f".{target.name}.lock")
        with exclusive_lock(lock, timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS, purpose="download of Apache Kafka"):
            if not _is_complete(target, jars):
                _download(target, jars, environ)
    return tuple(target / jar.name for jar in jars)


def are_there(environ: Mapping[str, str]) -> bool:
    """Whether the cache has the jars."""
    return _is_complete(cache_dir(environ) / f"kafka-{KAFKA_VERSION}", pinned_jars())


def check_jars(folder: Path, jars: Sequence[PinnedJar]) -> None:
    """Raise CorruptDataError when a jar is missing in `folder` or its bytes are not the pinned ones."""
    for jar in jars:
        path = folder / jar.name
        if not path.is_file():
            raise CorruptDataError(f"the download of Apache Kafka {KAFKA_VERSION} lacks {jar.name}; try again")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != jar.sha256:
            raise CorruptDataError(
                f"the download of Apache Kafka {KAFKA_VERSION} has {jar.name} with SHA-256 {found}, expected"
                f" {jar.sha256}; nothing was kept: try again, or check what your network or mirror delivers"
            )


def _is_complete(folder: Path, jars: Sequence[PinnedJar]) -> bool:
    try:
        return all((folder / jar.name).stat().st_size == jar.size_bytes for jar in jars)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _download(target: Path, jars: Sequence[PinnedJar], environ: Mapping[str, str]) -> None:
    java = find_java(environ)
    megabytes = sum(jar.size_bytes for jar in jars) // 1_000_000
    for left_over in target.parent.glob(
        f".{target.name}-*"
    ):  # of a killed download; holding the lock shows that it is not in use
        shutil.rmtree(left_over, ignore_errors=True)
    _LOG.warning("downloading Apache Kafka %s (%d MB, once) to %s", KAFKA_VERSION, megabytes, target)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as name:
        work = Path(name)
        try:
            retrieve(_IVY_MODULE, work, java, environ)
        except UnavailableError as error:
            raise UnavailableError(_no_download(str(error))) from error
        check_jars(work / "jars", jars)
        if target.exists():
            shutil.rmtree(target)
        (work / "jars").rename(target)


def _no_download(reason: str) -> str:
    return (
        f"Apache Kafka {KAFKA_VERSION} for the embedded broker cannot be downloaded: {reason}. Check the network and"
        f" HTTPS_PROXY, or name the Ivy settings of a mirror in {IVY_SETTINGS_KEY}, or give a Kafka cluster by the"
        " option 'log.kafka.bootstrap.servers'"
    )


def retrieve(module: str, work: Path, java: Path, environ: Mapping[str, str]) -> None:
    """Put the jars that an Ivy module (XML) depends on into the folder `jars` of `work`, an empty folder.

    Uses the settings file that LAKELOG_IVY_SETTINGS names, and the proxies of the environment. Raises UnavailableError
    with only the reason.
    """
    described = work / "ivy.xml"
    described.write_text(module)
    settings = environ.get(IVY_SETTINGS_KEY)
    command: list[str | Path] = [java, *_proxy_properties(environ), f"-Divy.default.ivy.user.dir={work / 'ivy'}"]
    command += ["-jar", _find_ivy(), "-cache", work / "cache", "-ivy", described, "-confs", "default"]
    command += ["-settings", settings] if settings else []
    command += ["-retrieve", f"{work / 'jars'}/[artifact]-[revision].[ext]"]
    try:
        answer = subprocess.run(
            command,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"no end after {DOWNLOAD_TIMEOUT_SECONDS} s") from error
    if answer.returncode != 0:
        lines = [line.strip() for line in answer.stdout.splitlines()]
        errors = [line for line in lines if line.startswith("Server access error")] or [line for line in lines if line]
        raise UnavailableError(errors[0] if errors else f"Ivy ended with {answer.returncode}")


def _find_ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted(jar for folder in folders for jar in Path(folder, "jars").glob("ivy-*.jar"))
    if not found:
        raise UnavailableError("it is downloaded with the Ivy that PySpark ships, and PySpark is not installed")
    return found[-1]


def _proxy_properties(environ: Mapping[str, str]) -> list[str]:
    """Java's system properties for the proxies that other programs read from the environment."""
    properties = []
    for scheme in ("http", "https"):
        proxy = urlsplit(environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or "")
        if proxy.hostname:
            properties.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            properties.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    return properties
