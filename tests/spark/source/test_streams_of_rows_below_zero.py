"""Streams of a value-count table in which a delete came before its insert: none of its rows shows, and one insert less.

Followers begin with such a row as a delete, so that a fold of what they get is the table at each moment.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.spark.source.test_stream_from_tag import Query

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
Counts = Counter[tuple[int, str]]


def make_table(folder: Path) -> Table:
    options = {"bucket": "2", "bucket-key": "id", "write-mode": "change-log", "write-only": "true"}
    return Catalog(folder).create_table("db.t", schema=SCHEMA, options=options)


def put(table: Table, *changes: tuple[int, str, str]) -> None:
    """Changes: the kind after the row."""
    rows = pa.table({"id": [one[0] for one in changes], "v": [one[1] for one in changes]}, schema=SCHEMA)
    table.write(rows, row_kinds=[one[2] for one in changes])


def folded(query: Query) -> Counts:
    """How often each row is there after all batches, below zero too."""
    found: Counts = Counter()
    for batch in query.batches:
        for key, kind, value in batch:
            found[key, value] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in found.items() if count})


def shown(table: Table) -> Counts:
    return Counter(tuple(row.values()) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("rows_max", [None, 1])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["waiting", "compacted"])
@pytest.mark.parametrize("has_expired", [False, True], ids=["living", "expired"])
def test_a_stream_from_a_tag_has_the_delete_that_came_before_its_insert(
    tmp_path: Path, rows_max: int | None, is_compacted: bool, has_expired: bool
) -> None:
    table = make_table(tmp_path)
    put(table, (1, "a", "+I"), (2, "b", "-D"))
    if is_compacted:
        table.compact(full=True)
    table.tags.create("t")
    assert shown(table) == {(1, "a"): 1}
    put(table, (2, "b", "+I"), (2, "b", "+I"), (3, "c", "-D"))
    query = Query(table, tag="t", failOnDataLoss="false")
    if has_expired:
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    query.run(rows_max=rows_max)
    assert folded(query) == {(1, "a"): 1, (2, "b"): 1, (3, "c"): -1}
    put(table, (3, "c", "+I"), (1, "a", "-D"))
    query.run(rows_max=rows_max)
    assert folded(query) == shown(table) == {(2, "b"): 1}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("start", ["tag", "snapshot", "full"])
def test_a_stream_from_anywhere_folds_to_the_rows_with_those_below_zero(tmp_path: Path, start: str, seed: int) -> None:
    dice, table, counts = random.Random(seed), make_table(tmp_path), Counter[tuple[int, str]]()

    def change() -> None:
        changes = [(dice.randrange(2), dice.choice("ab"), dice.choice(("+I", "-D"))) for _ in range(dice.randint(1, 5))]
        put(table, *changes)
        for key, value, kind in changes:
            counts[key, value] += 1 if kind == "+I" else -1
        if dice.random() < 0.3:
            table.compact(full=dice.random() < 0.5)

    for _ in range(3):
        change()
    table.tags.create("t")
    newest = table.snapshot()
    assert newest is not None
    change()
    query = Query(table, **{"tag": {"tag": "t"}, "snapshot": {"version": str(newest.id)}, "full": {}}[start])
    for _ in range(3):
        query.run(rows_max=dice.choice((None, 1, 2)))
        assert folded(query) == {row: count for row, count in counts.items() if count}
        assert shown(table) == +counts
        change()
