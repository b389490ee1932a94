from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def lakelog(*arguments: str) -> tuple[int, str]:
    """Run the command line in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "lakelog.cli", *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    return ended.returncode, ended.stdout


def test_the_broker_is_started_shown_and_stopped_from_the_command_line(tmp_path: Path) -> None:
    try:
        code, started = lakelog("broker", "start", str(tmp_path))
        assert code == 0
        assert started.startswith("127.0.0.1:")
        assert lakelog("broker", "start", str(tmp_path)) == (0, started)
        assert lakelog("broker", "status", str(tmp_path)) == (0, started)
    finally:
        assert lakelog("broker", "stop", str(tmp_path)) == (0, "stopped\n")
    assert lakelog("broker", "status", str(tmp_path))[0] == 3
