"""Small files that claim or hold gigabytes: an error of ours, soon, and in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.attacks.bombs import Read, make_bombs, make_damaged

SECONDS_MAX = 2.0
GROWTH_MAX = 300 << 20
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]),
    "POLARS_MAX_THREADS": "1",
    "RUST_BACKTRACE": "0",
}
_TIMEOUT_SECONDS = 600  # a child that hangs is reported as such
READABLE = {"schema of 10,000 columns", "LATEST of a TiB", "parquet: rows"}


Given = Sequence[tuple[str, Path, Read]]


def _wrong(folder: Path, given: Given, *, must_refuse: bool) -> list[str]:
    """What came out as it must not, of one child with a limit on its address space that reads all files."""
    listed = [(name, str(path), read.__name__) for name, path, read in given]
    (folder / "bombs.json").write_text(json.dumps(listed))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.attacks.bombs", str(folder)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [
        f"{name}: {outcome} after {took:.2f} s, {grown >> 20} MiB: {text[:300]}"
        for name, outcome, text, took, grown in answers
        if outcome == "foreign"
        or (must_refuse and (outcome == "read") != (name in READABLE))
        or took > SECONDS_MAX
        or grown > GROWTH_MAX
    ]
    if len(answers) < len(given):
        wrong.append(f"died at {given[len(answers)][0]!r} with {done.returncode}: {done.stderr[-1_000:]}")
    return wrong


def test_bombs_are_refused_within_two_seconds_and_300_megabytes(tmp_path: Path) -> None:
    wrong = _wrong(tmp_path, list(make_bombs(tmp_path)), must_refuse=True)
    assert not wrong, "\n".join(wrong)


def test_damaged_files_of_every_kind_are_refused_or_read(tmp_path: Path) -> None:
    wrong = _wrong(tmp_path, list(make_damaged(tmp_path, range(40))), must_refuse=False)
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_1000_times_damaged_files_of_every_kind_are_refused_or_read(tmp_path: Path) -> None:
    wrong = _wrong(tmp_path, list(make_damaged(tmp_path, range(1_000))), must_refuse=False)
    assert not wrong, "\n".join(wrong)
