"""Rows of a value-count table that were deleted before they are inserted: another state has them, though none shows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits_as_changes
from lakelog.filestore.refs.restore.restore_plan import changes_of
from lakelog.filestore.refs.restore.restored_state import StateDifference
from lakelog.filestore.refs.states.differences import differences
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import SCHEMA, UNSYNCED

Counts = Counter[tuple[int, int]]
ADDS = (0, 2)


def counts_of(rows: Iterable[tuple[pa.Table | pa.RecordBatch, pa.Array]]) -> Counts:
    found: Counts = Counter()
    for batch, kinds in rows:
        for row, kind in zip(batch.to_pylist(), kinds.to_pylist(), strict=True):
            found[row["id"], row["batch"]] += 1 if kind in ADDS else -1
    return Counter({row: count for row, count in found.items() if count})


def state(table: FileStoreTable, snapshot: Snapshot) -> Counts:
    return counts_of(read_splits_as_changes(table, plan_splits(table, snapshot).splits))


def random_table(folder: Path, seed: int) -> FileStoreTable:
    dice = random.Random(seed)
    options = {"bucket": "2", "write-mode": "change-log", "write-only": "true"}
    table = FileStoreTable.create(f"{folder}/t", build_schema(SCHEMA, options=options), UNSYNCED)
    for _ in range(5):
        rows = [(dice.randint(0, 1), dice.randint(0, 1), dice.choice([0, 3])) for _ in range(dice.randint(1, 6))]
        ids, batches, kinds = (list(values) for values in zip(*rows, strict=True))
        given = pa.table([pa.array(ids, pa.int64()), pa.array(batches, pa.int32())], schema=SCHEMA)
        table.write(given, kinds=pa.array(kinds, pa.int8()))
        if dice.random() < 0.3:
            table.compact(full=True)
    return table


@pytest.mark.parametrize("seed", range(2))
def test_the_way_to_another_state_has_rows_below_zero(tmp_path: Path, seed: int) -> None:
    table = random_table(tmp_path, seed)
    states = [table.snapshots.get(number) for number in table.snapshots.ids()]
    assert any(count < 0 for one in states for count in state(table, one).values())
    for base, target in permutations(states, 2):
        way = changes_of(StateDifference(table, base, target))

        found = state(table, base)
        found.update(counts_of([(way.rows, way.kinds)]))

        assert Counter({row: count for row, count in found.items() if count}) == state(table, target)


@pytest.mark.parametrize("seed", range(2))
def test_a_difference_for_followers_has_rows_below_zero_and_one_of_what_reads_show_has_not(
    tmp_path: Path, seed: int
) -> None:
    table = random_table(tmp_path, seed)
    states = [table.snapshots.get(number) for number in table.snapshots.ids()]
    for base, target in permutations(states, 2):
        sides = TableState(table=table, snapshot=base), TableState(table=table, snapshot=target)
        for is_followed in (True, False):
            found = state(table, base) if is_followed else +state(table, base)
            for one in differences(*sides, table.schema.fields, is_followed=is_followed):
                found.update(Counter(tuple(row.values()) for row in one.added.to_pylist()))
                found.subtract(Counter(tuple(row.values()) for row in one.removed.to_pylist()))
            wanted = state(table, target) if is_followed else +state(table, target)
            assert Counter({row: count for row, count in found.items() if count}) == wanted
