"""Jars from Maven repositories, by the Ivy that PySpark ships."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lakelog.common.errors import UnavailableError

IVY_SETTINGS_KEY = "LAKELOG_IVY_SETTINGS"
DOWNLOAD_TIMEOUT_SECONDS = 600


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
