"""Changes between any two of snapshots, tags and timestamps."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any  # Any: keywords of reads

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import expire_snapshots, rows_between
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())])
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
START = datetime(2026, 1, 31, tzinfo=UTC)
# What each snapshot has: the rows 1 to 5 are written, changed, deleted, replaced.
STATES: tuple[dict[int, int], ...] = (
    {},
    {1: 1, 2: 1, 3: 1},
    {1: 2, 2: 1, 3: 1},
    {1: 2, 3: 1, 4: 3},
    {5: 4, 3: 1},
    {5: 5, 3: 1},
)


def with_history(folder: Path, **options: str) -> FileStoreTable:
    """A table whose snapshot n has the rows STATES[n], committed n hours after the start; the fourth overwrites."""
    all_options = {"bucket": "2", "write-only": "true", "read.memory-budget": "64 kb", **options}
    table = FileStoreTable.create(folder / "t", build_schema(SCHEMA, primary_keys="id", options=all_options), UNSYNCED)
    for number, (old, new) in enumerate(itertools.pairwise(STATES), start=1):
        changed = [(key, value, 2 if key in old else 0) for key, value in new.items() if old.get(key) != value]
        removed = [(key, old[key], 3) for key in old if key not in new]
        if number == 4:
            write(table, [(key, value, 0) for key, value in new.items()], mode="overwrite")
        else:
            write(table, changed + removed)
        made = dataclasses.replace(
            table.snapshots.get(number), time_millis=int((START + timedelta(hours=number)).timestamp() * 1000)
        )
        UNSYNCED.write_bytes(table.paths.snapshot(number), made.to_json().encode())
    return table


def write(table: FileStoreTable, rows: list[tuple[int, int, int]], **how: Any) -> None:
    ids, values, kinds = zip(*rows, strict=True)
    data = pa.table([pa.array(ids, pa.int64()), pa.array(values, pa.int32())], schema=SCHEMA)
    table.write(data, kinds=None if how else pa.array(kinds, pa.int8()), **how)


def changes(batches: Iterable[pa.RecordBatch]) -> Counter[tuple[str, int, int]]:
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def net(old: int, new: int) -> Counter[tuple[str, int, int]]:
    """The difference of two states, by a dict."""
    before, after = STATES[old], STATES[new]
    found: list[tuple[str, int, int]] = []
    for key in before.keys() | after.keys():
        if key not in after:
            found.append(("-D", key, before[key]))
        elif key not in before:
            found.append(("+I", key, after[key]))
        elif before[key] != after[key]:
            found += [("-U", key, before[key]), ("+U", key, after[key])]
    return Counter(found)


def folded(state: dict[int, int], found: Iterable[tuple[str, int, int]]) -> dict[int, int]:
    """The state after changes in their order."""
    rows = dict(state)
    for kind, key, value in found:
        if kind in ("+I", "+U"):
            rows[key] = value
        elif kind == "-D" or rows.get(key) == value:
            rows.pop(key, None)
    return rows


@pytest.mark.parametrize("producer", ["none", "input"])
def test_the_difference_of_any_two_states_is_that_of_dicts(tmp_path: Path, producer: str) -> None:
    table = with_history(tmp_path, **{"changelog-producer": producer})

    for old in range(6):
        for new in range(old, 6):
            found = changes(changes_of(table, after=old, up_to=new, source="difference"))
            assert found == net(old, new), (old, new)
            rows = {row["id"]: row["v"] for batch in rows_between(table, old, new) for row in batch.to_pylist()}
            assert rows == {key: value for kind, key, value in net(old, new) if kind in ("+I", "+U")}


@pytest.mark.parametrize("producer", ["none", "input"])
def test_the_changes_of_any_range_lead_from_one_state_to_the_other(tmp_path: Path, producer: str) -> None:
    table = with_history(tmp_path, **{"changelog-producer": producer})

    for old in range(6):
        for new in range(old, 6):
            found = [
                tuple(row.values()) for batch in changes_of(table, after=old, up_to=new) for row in batch.to_pylist()
            ]
            assert folded(STATES[old], found) == STATES[new], (old, new)


def test_changes_between_tags_are_the_difference_also_of_expired_snapshots(tmp_path: Path) -> None:
    table = with_history(tmp_path)
    for number in (1, 3):
        write_tag(table, f"t{number}", table.snapshots.get(number))
    expire_snapshots(table, retention=ONE)

    assert changes(changes_of(table, after="t1", up_to="t3")) == net(1, 3)
    assert changes(changes_of(table, after="t3", source="difference")) == net(3, 5)
    assert changes(changes_of(table, after=1, up_to=5, source="difference")) == net(1, 5)  # by the tag of its number
    with pytest.raises(NotFoundError, match="compare='states' gives what is different"):
        changes_of(table, after="t3")
    with pytest.raises(NotFoundError, match=r"snapshot 2 of .* does not exist"):
        changes_of(table, after=2, source="difference")


def test_timestamps_are_ends_of_ranges(tmp_path: Path) -> None:
    table = with_history(tmp_path)
    first, third = START + timedelta(hours=1), START + timedelta(hours=3, minutes=59)

    assert changes(changes_of(table, after=first, up_to=third, source="difference")) == net(1, 3)
    assert changes(changes_of(table, after="2026-01-31 01:00:00", up_to=3)) == changes(
        changes_of(table, after=1, up_to=3)
    )
    assert changes(changes_of(table, after=START, up_to=3)) == changes(changes_of(table, after=0, up_to=3))


def test_a_tag_of_a_history_that_was_rolled_back_is_found_out(tmp_path: Path) -> None:
    table = with_history(tmp_path)
    write_tag(table, "old", table.snapshots.get(5))
    Path(table.paths.snapshot(5)).unlink()
    table.snapshots.write_latest_hint(4)
    write(table, [(9, 9, 0)])

    with pytest.raises(InvalidRequestError, match="is not the one that was tagged"):
        changes_of(table, after=0, up_to="old")
    assert changes(changes_of(table, after=4, up_to="old", source="difference")) == net(4, 5)


def test_chosen_columns_are_given_with_right_deletes(tmp_path: Path) -> None:
    table = with_history(tmp_path)

    found = pa.Table.from_batches(changes_of(table, after=2, up_to=4, source="difference", columns="v"))

    assert Counter(map(str, found.to_pylist())) == Counter(
        str({"_row_kind": kind, "v": value}) for kind, _, value in net(2, 4)
    )
