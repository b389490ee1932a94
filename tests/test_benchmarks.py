"""What the benchmarks compute of their measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.against import compare, run_once, worktree_of
from benchmarks.streams.changed_rows import git_changes


def test_commits_are_compared_by_the_medians_of_what_both_measure() -> None:
    here = [{"ms": 1.0, "rows": 10.0, "new": 1.0}, {"ms": 9.0, "rows": 10.0, "new": 1.0}, {"ms": 2.0, "rows": 10.0}]
    there = [{"ms": 4.0, "rows": 0.0, "old": 1.0}] * 3
    compared = compare(here, there)
    assert list(compared) == ["ms", "rows"]
    assert (compared["ms"].here, compared["ms"].there, compared["ms"].ratio) == (2.0, 4.0, 0.5)
    assert compared["rows"].ratio is None


def test_a_commit_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match="no commit 'no-such-commit'"):
        worktree_of("no-such-commit")


def test_a_benchmark_that_fails_ends_the_comparison_with_its_output(tmp_path: Path) -> None:
    command = tmp_path / "scripts" / "bench"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho the table holds other rows >&2\nexit 1\n")
    command.chmod(0o755)
    with pytest.raises(SystemExit, match=r"upsert failed in .*\nthe table holds other rows"):
        run_once(tmp_path, "upsert", [])


def test_the_history_adds_a_file_before_it_changes_or_deletes_it() -> None:
    changes = git_changes(copies=2)
    assert len(changes) == 2 * 66_146
    living: set[str] = set()
    for key, is_delete in zip(changes.keys.to_pylist(), changes.is_delete, strict=True):
        if is_delete:
            living.remove(key)
        else:
            living.add(key)
    assert len(living) == 2 * 6_905
