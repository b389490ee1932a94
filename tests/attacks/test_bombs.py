"""Small files that claim or hold gigabytes: an error of ours, soon, and in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.bombs import make_bombs

SECONDS_MAX = 2.0
GROWTH_MAX = 300 << 20
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]), "POLARS_MAX_THREADS": "1"}
READABLE = {"schema of 10,000 columns", "LATEST of a TiB", "parquet: rows"}


def test_bombs_are_refused_within_two_seconds_and_300_megabytes(tmp_path: Path) -> None:
    """One child with a limit on its address space reads them all."""
    given = [(name, str(path), read.__name__) for name, path, read in make_bombs(tmp_path)]
    (tmp_path / "bombs.json").write_text(json.dumps(given))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.bombs", str(tmp_path)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [
        f"{name}: {outcome} after {took:.2f} s, {grown >> 20} MiB: {text[:300]}"
        for name, outcome, text, took, grown in answers
        if (outcome == "foreign")
        or (outcome == "read") != (name in READABLE)
        or took > SECONDS_MAX
        or grown > GROWTH_MAX
    ]
    if len(answers) < len(given):
        wrong.append(f"died at {given[len(answers)][0]!r} with {done.returncode}: {done.stderr[-1_000:]}")
    if wrong:
        pytest.fail("\n".join(wrong))
    assert Counter(outcome for _, outcome, *_ in answers)["CorruptDataError"] > len(given) // 2
