from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.common.errors import UnavailableError
from lakelog.logstore.broker.file_lock import exclusive_lock, is_locked, wait_until_free


def test_a_lock_is_free_before_and_after_it_is_held(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "lock"
    assert not is_locked(lock)

    with exclusive_lock(lock, timeout_seconds=1, purpose="test"):
        assert is_locked(lock)

    assert not is_locked(lock)


def test_a_lock_that_is_not_free_in_time_is_named_with_its_purpose(tmp_path: Path) -> None:
    with (
        exclusive_lock(tmp_path / "lock", timeout_seconds=1, purpose="first"),
        pytest.raises(UnavailableError, match=r"holds .*lock \(second\) for more than 0 s"),
        exclusive_lock(tmp_path / "lock", timeout_seconds=0, purpose="second"),
    ):
        pass


def test_a_child_that_inherits_a_lock_holds_it_until_it_ends(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive_lock(lock, timeout_seconds=1, purpose="test") as descriptor:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,))

    assert is_locked(lock)
    child.kill()
    assert wait_until_free(lock, timeout_seconds=10)
    child.communicate()


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(UnavailableError, match=r"lock .*file/lock \(test\) cannot be made: .*Not a directory|exists"),
        exclusive_lock(tmp_path / "file" / "lock", timeout_seconds=1, purpose="test"),
    ):
        pass
