"""A process that has imported everything and forks others, so that a real process costs milliseconds.

It does no work itself: the thread pools of Arrow and polars start with the first work, and would not survive a fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pandas as pd  # noqa: F401 - Arrow imports it at its first table, which would cost each process 0.2 s

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Zygote:
    """The parent's side: asks for processes, and for their ends."""

    process: subprocess.Popen[str]

    def fork(self, *arguments: object) -> int:
        """Start a process that calls `main` of the zygote's module with arguments, as texts; gives its id."""
        return self._ask("fork", *arguments)

    def wait(self, pid: int) -> int:
        """Wait for the end of a process; gives its status: the signal that killed it, 0 for a good end."""
        return self._ask("wait", pid)

    def _ask(self, *words: object) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def zygote(module: str) -> Iterator[Zygote]:
    """A zygote that has imported a module; it ends when the block does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", __name__, module]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Zygote(process)
        assert process.stdin is not None
        process.stdin.close()


def serve(module: str) -> None:
    """The other side: one line, one answer."""
    main = import_module(module).main
    for line in sys.stdin:
        what, *words = line.split()
        if what == "wait":
            answer = os.waitpid(int(words[0]), 0)[1]
        else:
            answer = os.fork()
            if answer == 0:
                _run(main, words)
        print(answer, flush=True)


def _run(main: object, words: list[str]) -> None:
    assert callable(main)
    status = 1
    try:
        main(*words)
        status = 0
    except BaseException:  # noqa: BLE001 - reported here, and by the status
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
