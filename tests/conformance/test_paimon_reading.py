"""Tables that Flink wrote with Paimon are read as Flink reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any  # Any: JSON rows

import pyarrow as pa
import pytest

from lakelog.filestore.json_rows import to_json_lines
from lakelog.filestore.table import FileStoreTable
from tests.support.paimon_tables import expected, unpack


@pytest.fixture
def pk_basic(tmp_path: Path) -> FileStoreTable:
    """A table with two buckets: insert, upsert, update, delete."""
    return FileStoreTable.open(unpack("pk_basic", tmp_path) / "db.db" / "pk_basic")


def rows_of(table: FileStoreTable, snapshot_id: int | None = None) -> Counter[str]:
    rows = table.to_arrow(snapshot_id=snapshot_id)
    return as_multiset(json.loads(line) for line in to_json_lines(rows, table.schema.fields))


def as_multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_the_latest_snapshot_has_the_rows_that_flink_reads(pk_basic: FileStoreTable) -> None:
    assert rows_of(pk_basic) == as_multiset(expected("pk_basic", "pk_basic", "latest"))


@pytest.mark.parametrize("snapshot_id", [1, 2, 3, 4])
def test_every_snapshot_has_the_rows_that_flink_reads(pk_basic: FileStoreTable, snapshot_id: int) -> None:
    assert rows_of(pk_basic, snapshot_id) == as_multiset(expected("pk_basic", "pk_basic", f"snapshot-{snapshot_id}"))


def test_a_table_of_flink_is_compacted_without_a_change_of_rows(pk_basic: FileStoreTable) -> None:
    before = rows_of(pk_basic)
    snapshot = pk_basic.compact()
    assert snapshot is not None
    assert snapshot.id == 5
    assert {entry.file.level for entry in pk_basic.live_files.of(snapshot).entries()} == {5}
    assert rows_of(pk_basic) == before


def test_a_table_of_flink_takes_our_rows_over_its_own(pk_basic: FileStoreTable) -> None:
    before = {row["id"]: row for row in expected("pk_basic", "pk_basic", "latest")}
    rows = pk_basic.to_arrow(where="id in (1, 3)").sort_by("id")
    changed = rows.set_column(2, rows.schema.field("qty"), pa.array([-1, -2], pa.int32()))
    pk_basic.write(changed)
    after = {**before, **{key: {**before[key], "qty": qty} for key, qty in ((1, -1), (3, -2))}}
    assert rows_of(pk_basic) == as_multiset(after.values())
