"""Processes that start others: a Spark driver has a JVM, and that has Python workers. They end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GONE_SECONDS_MAX = 10.0


@dataclass(slots=True)
class Job:
    """A Python module that runs in a session of its own, by which all its processes are found again."""

    name: str
    output: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, name: str, module: str, arguments: Sequence[str], *, output: Path, env: Mapping[str, str]) -> Job:
        """Start `python -m module arguments`; its output goes to the file `output`."""
        command = [sys.executable, "-m", module, *arguments]
        with output.open("ab") as sink:
            process = subprocess.Popen(
                command,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        return cls(name, output, process)

    @property
    def is_running(self) -> bool:
        """True until the process that was started has ended; its children may outlive it."""
        return self.process.poll() is None

    def kill(self) -> int:
        """SIGKILL every process of the session until none is left; gives how many were struck.

        Raises TimeoutError when one does not go away.
        """
        struck: set[int] = set()
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while pids := session_members(self.process.pid):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: processes {sorted(pids)} survive SIGKILL")
            for pid in pids:
                _kill(pid)
            struck.update(pids)
            self.process.poll()  # reaps our child, which is a zombie until then
            time.sleep(0.005)
        self.process.wait(GONE_SECONDS_MAX)
        return len(struck)

    def last_output(self, lines: int = 40) -> str:
        """The end of what it printed."""
        return "\n".join(self.output.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def session_members(session: int) -> set[int]:
    """The processes of a session that are alive; zombies are not."""
    return {pid for pid in _alive() if _session_of(pid) == session}


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _alive() -> list[int]:
    if Path("/proc/self/stat").exists():
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_alive(entry)]
    lines = subprocess.run(["ps", "-A", "-o", "pid=,stat="], check=True, capture_output=True, text=True).stdout
    listed = [line.split() for line in lines.splitlines()]
    return [int(pid) for pid, state in listed if not state.startswith("Z")]


def _is_alive(entry: Path) -> bool:
    try:
        # The name in parentheses may hold anything; the state follows the last one.
        state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
