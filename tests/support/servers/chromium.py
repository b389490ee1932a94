"""The browser of the tests of the page: Debian's Chromium, driven by Playwright.

usage: python -m tests.support.servers.chromium
Finds an installed Chromium, or the one that `LAKELOG_CHROMIUM` names. Else Debian's is installed, if this is root; else
its packages are downloaded and unpacked into the cache of lakelog. Playwright's own browsers are not used.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

from lakelog.logstore.broker.kafka_jars import cache_dir

VARIABLE = "LAKELOG_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_UNPACKED = Path("usr", "lib", "chromium", "chromium")
# The pages are those of the tests, and root has no sandbox. Chromium's memory in /dev/shm is small in containers.
_ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
_APT = ("apt-get", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=240")


@dataclass(frozen=True, kw_only=True)
class Chromium:
    """A program, and the folders of its libraries where they are not the system's."""

    program: Path
    libraries: tuple[Path, ...] = ()

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment to start it in."""
        if not self.libraries:
            return dict(environ)
        paths = [*map(str, self.libraries), *filter(None, [environ.get("LD_LIBRARY_PATH")])]
        return {**environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)}


def find_chromium(environ: Mapping[str, str]) -> Chromium | None:
    """What is there already; None if nothing is. Raises SystemExit if the named one is not there."""
    if named := environ.get(VARIABLE):
        program = shutil.which(named)
        if program is None:
            raise SystemExit(f"chromium: {VARIABLE} names {named!r}, which is not a program; correct or unset it")
        return Chromium(program=Path(program))
    for name in _NAMES:
        if program := shutil.which(name, path=environ.get("PATH")):
            return Chromium(program=Path(program))
    return _unpacked(_folder(environ))


def ensure_chromium(environ: Mapping[str, str]) -> Chromium:
    """The browser, which is installed first if it is not there. Raises SystemExit with what to do if it cannot be."""
    found = find_chromium(environ)
    if found is not None:
        return found
    folder = _folder(environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_chromium(environ) is None:  # another process may have done it meanwhile
            _install(folder)
    found = find_chromium(environ)
    if found is None:
        raise _failure("apt-get ended well, and there is still no Chromium")
    return found


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """A headless Chromium until the end of the block."""
    chromium = ensure_chromium(os.environ)
    environment: dict[str, str | float | bool] = {**chromium.environment(os.environ)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.program, args=list(_ARGUMENTS), env=environment, timeout=60_000
        )
        try:
            yield browser
        finally:
            browser.close()


def _folder(environ: Mapping[str, str]) -> Path:
    return cache_dir(environ) / "chromium"


def _install(folder: Path) -> None:
    if shutil.which("apt-get") is None:
        raise _failure("this machine has no apt-get")
    if os.geteuid() == 0:
        _say("installing Debian's chromium")
        _run([_APT[0], "-q", "update"])
        _run([*_APT, "install", "chromium"])
    else:
        _say(f"unpacking Debian's chromium into {folder}")
        _unpack(folder)


def _unpack(folder: Path) -> None:
    """Download the packages that are not installed, and unpack them; the folder appears once all are in it."""
    planned = _run([*_APT, "-o", "Debug::NoLocking=1", "--print-uris", "install", "chromium"])
    files = [line.split()[1] for line in planned.splitlines() if line.startswith("'")]
    packages = [name.split("_")[0] for name in files]
    with TemporaryDirectory(dir=folder.parent, prefix=".chromium-") as temporary:
        _run(["apt-get", "-q", "download", *packages], folder=Path(temporary))
        target = Path(temporary, "root")
        for archive in sorted(Path(temporary).glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(archive), str(target)])
        target.rename(folder)


def _unpacked(folder: Path) -> Chromium | None:
    program = folder / _UNPACKED
    if not program.exists():
        return None
    libraries = {
        path.parent for pattern in ("lib/*-linux-gnu*", "usr/lib/*-linux-gnu*") for path in folder.glob(f"{pattern}/*")
    }
    return Chromium(program=program, libraries=tuple(sorted(libraries)))


def _run(command: Sequence[str], *, folder: Path | None = None) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _failure(f"`{' '.join(command)[:200]}` failed:\n{(done.stderr or done.stdout).strip()[-2_000:]}")
    return done.stdout


def _failure(why: str) -> SystemExit:
    return SystemExit(
        f"chromium: the tests of the page need a browser, and none can be installed: {why}\n"
        f"Install chromium, or name a Chromium or Chrome in {VARIABLE}."
    )


def _say(text: str) -> None:
    print(f"chromium: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Make sure that there is one."""
    ensure_chromium(os.environ)


if __name__ == "__main__":
    main()
