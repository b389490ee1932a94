"""Make .venv what requirements/dev.txt says, with lakelog itself installed editable.

usage: setup.py [NAME...]
Each NAME makes .venvs/NAME of requirements/NAME.txt too: `pypaimon` is the reader that tests compare with, apart
because of its own dependencies; `moto` is the S3 server of tests; `node` brings npm, to check the types of the page;
`deltalake`, `ducklake`, `pyiceberg` and `spark35` are peers of benchmarks; `runtime` is what a user of the wheel gets.

Runs on any Python 3.11 with nothing installed. A stamp in the environment names what it was made from, so a second run
has nothing to do; a lock lets two scripts run at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
STAMP = ".lakelog-setup"
# Settings that would send packages elsewhere than into the environment.
MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PYTHONHOME", "PYTHONPATH")


def main(arguments: Sequence[str]) -> None:
    """Set up the project's environment, and the others that are named."""
    venv = ROOT / ".venv"
    make_current(venv, REQUIREMENTS / "dev.txt", editable=True)
    for name in arguments:
        is_own = name == "lowest"  # lakelog itself with the oldest versions; the others are of other tools
        pins = REQUIREMENTS / f"{name}.txt"
        make_current(ROOT / ".venvs" / name, pins, editable=is_own, uv=venv / "bin" / "uv")


def make_current(venv: Path, pins: Path, *, editable: bool = False, uv: Path | None = None) -> None:
    """Bring one environment to its pins, unless its stamp says that it is there."""
    if venv.is_symlink():  # another checkout's: it would be changed to this one's pins and code
        raise failure(
            f"{venv} is a link to {venv.resolve()}; remove the link, each checkout has environments of its own"
        )
    wanted = fingerprint(pins, editable=editable)
    if stamp_of(venv) == wanted:
        return
    with setup_lock():
        if stamp_of(venv) == wanted:  # another process did it meanwhile
            return
        make_venv(venv)
        install(venv, pins, uv or install_uv(venv), editable=editable)
        (venv / STAMP).write_text(wanted, "ascii")


def fingerprint(pins: Path, *, editable: bool) -> str:
    """What the environment is made from, as one hash."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (Path(__file__), pins, REQUIREMENTS / "uv.txt", *([ROOT / "pyproject.toml"] if editable else ())):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamp_of(venv: Path) -> str | None:
    """The fingerprint that the environment was made from; None when it is missing or was not finished."""
    try:
        return (venv / STAMP).read_text("ascii") if (venv / "bin" / "python").exists() else None
    except FileNotFoundError:
        return None


@contextmanager
def setup_lock() -> Iterator[None]:
    """Hold the lock of this checkout's environments; waits for another script that holds it."""
    folder = ROOT / ".venvs"
    folder.mkdir(exist_ok=True)
    with (folder / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_venv(venv: Path) -> None:
    """Make the environment, or keep one whose Python is this one's."""
    (venv / STAMP).unlink(missing_ok=True)
    if version_of(venv / "bin" / "python") == list(sys.version_info[:2]):
        return
    shutil.rmtree(venv, ignore_errors=True)
    say(f"making {venv.relative_to(ROOT)} with Python {sys.version.split()[0]}")
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)])


def version_of(python: Path) -> list[int] | None:
    """Major and minor version of an interpreter; None when it does not run."""
    try:
        answer = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return [int(part) for part in answer.stdout.split()]


def install_uv(venv: Path) -> Path:
    """The pinned uv in the environment; pip brings it."""
    uv = venv / "bin" / "uv"
    pip = pip_of(venv)
    command: list[str | Path] = [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
        REQUIREMENTS / "uv.txt",
    ]
    if not succeeds([*pip, *command]) and not succeeds([*pip, "--isolated", *command]) and not uv.exists():
        raise failure("pip cannot install uv, see above; check the network and pip's settings")
    return uv


def pip_of(venv: Path) -> list[str]:
    """The command that runs pip for the environment."""
    python = str(venv / "bin" / "python")
    if succeeds([python, "-m", "pip", "--version"], quiet=True):
        return [python, "-m", "pip"]
    if succeeds([python, "-m", "ensurepip"], quiet=True):
        return [python, "-m", "pip"]
    if succeeds([sys.executable, "-m", "pip", "--version"], quiet=True):
        return [sys.executable, "-m", "pip", "--python", python]
    raise failure("this Python has neither ensurepip nor pip; install them (Debian: apt-get install python3-venv)")


def install(venv: Path, pins: Path, uv: Path, *, editable: bool) -> None:
    """Install the pins, by uv; by pip, which is slower, where uv cannot reach an index and pip can."""
    count = sum(line[0].isalnum() for line in pins.read_text("ascii").splitlines() if line)
    say(f"installing {count} packages of {pins.relative_to(ROOT)}")
    python = str(venv / "bin" / "python")
    # Compiled once, here: where PYTHONDONTWRITEBYTECODE is set, each worker would compile all it imports again.
    by_uv: list[str | Path] = ["pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    by_pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted: list[list[str | Path]] = [["--require-hashes", "-r", pins]]
    if editable:
        wanted.append(["--no-build-isolation", "--no-deps", "--editable", ROOT])
    for what in wanted:
        # The system's certificates know the proxies of companies, uv's own are there without a system's.
        if not succeeds([uv, "--system-certs", *by_uv, *what]) and not succeeds([uv, *by_uv, *what]):
            say("uv could not do it, see above; trying pip")
            run([*by_pip, *what])


def succeeds(command: Sequence[str | Path], *, quiet: bool = False) -> bool:
    """Run a command; whether it ended well."""
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, env=environment(), stdout=output, stderr=output, check=False).returncode == 0


def run(command: Sequence[str | Path]) -> None:
    """Run a command that must succeed."""
    if not succeeds(command):
        raise failure(f"failed: {' '.join(map(str, command))}")


def environment() -> dict[str, str]:
    """The environment without what would mislead pip and uv."""
    return {key: value for key, value in os.environ.items() if key not in MISLEADING}


def say(text: str) -> None:
    """Tell what runs."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def failure(text: str) -> SystemExit:
    """What ends this program with a message."""
    say(text)
    return SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
