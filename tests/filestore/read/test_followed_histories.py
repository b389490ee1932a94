"""Whoever follows a table has its rows in the end: those of a state as followers take it, then the changes behind it.

Random histories of writes, deletes, compactions, overwrites and restores, for each kind of table whose changes are in
files. The rows of the end are those that a read shows once everything is compacted.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from tests.support.examples import in_full
from tests.support.tables.followed_tables import (
    KINDS,
    History,
    audited,
    changes_of,
    fold,
    rows_of,
    shown,
    start_of,
    table_of,
)

MOVES = ("write", "write", "write", "delete", "compact", "overwrite", "restore")


def check(folder: Path, name: str, seed: int) -> int:
    """Follow one history from its beginning and from each of its states; gives the number of questions."""
    kind = KINDS[name]
    history = History(table_of(folder, kind), kind, random.Random(seed))
    for _ in range(history.dice.randint(3, 9)):
        history.move(*MOVES)
    table = history.table
    table.compact(full=True)
    if table.snapshots.latest() is None:
        return 0
    wanted, questions = shown(table), 2
    assert fold(Counter(), changes_of(table), kind) == wanted, (seed, history.moves)
    shows_first = kind.has_old_rows or kind.keeps_first  # without changelog: differences of what reads show
    assert fold(Counter(), audited(table), kind, is_strict=shows_first) == wanted, (seed, history.moves)
    for number in table.snapshots.ids():
        start = start_of(table, table.snapshots.get(number))
        assert fold(start, changes_of(table, number), kind) == wanted, (seed, history.moves, number)
        questions += 1
    return questions


@pytest.mark.parametrize("name", KINDS)
def test_who_follows_a_table_has_its_rows(tmp_path: Path, name: str) -> None:
    assert sum(check(tmp_path / str(seed), name, seed) for seed in range(4)) > 8


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KINDS)
def test_who_follows_a_table_has_its_rows_in_many_histories(tmp_path: Path, name: str) -> None:
    seeds = range(100, 100 + in_full(60))
    print(f"{name}: {len(seeds)} histories, {sum(check(tmp_path / str(seed), name, seed) for seed in seeds)} questions")


@pytest.mark.parametrize("name", ["deletion vectors", "deletion vectors, input", "first-row"])
def test_rows_that_wait_for_a_compaction_are_among_the_first_of_a_follower(tmp_path: Path, name: str) -> None:
    table = table_of(tmp_path, KINDS[name])
    table.write(rows_of([1, 2], 1))
    table.compact(full=True)
    waiting = table.write(rows_of([2, 3], 2))
    assert waiting is not None
    assert shown(table) == Counter([(1, 1), (2, 1)])
    assert start_of(table, waiting) == Counter([(1, 1), (2, 1 if name == "first-row" else 2), (3, 2)])


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.has_key])
def test_the_changes_of_an_overwrite_have_its_new_rows_once(tmp_path: Path, name: str) -> None:
    table = table_of(tmp_path, KINDS[name])
    table.write(rows_of([1, 2], 1))
    table.compact(full=True)
    before = table.snapshots.latest_id()
    replaced = table.write(rows_of([2, 3], 2), mode="overwrite")
    assert replaced is not None
    assert replaced.commit_kind is CommitKind.OVERWRITE
    table.compact(full=True)
    changes = changes_of(table, before)
    assert fold(Counter([(1, 1), (2, 1)]), changes, KINDS[name]) == Counter([(2, 2), (3, 2)])
    assert changes.count(("+I", 3, 2)) == 1
