"""A table whose reads are pinned to a state: all ways of reading show the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.read.pinning import pinned
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs.read_verbs import count_rows, to_duckdb, to_polars
from lakelog.filestore.write.write import write_rows
from tests.support.tables.small_tables import make_table, rows_of


def ways(table: FileStoreTable) -> list[list[tuple[int, int]]]:
    """The rows, by each way of reading."""
    frames = [
        table.to_arrow(),
        pa.Table.from_batches(table.planned().batches()),
        to_polars(table).collect().to_arrow(),
        to_duckdb(table).to_arrow_table(),
        pa.table(table),
    ]
    found = [sorted((row["id"], row["batch"]) for row in one.to_pylist()) for one in frames]
    assert count_rows(table) == len(found[0])
    return found


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_every_read_shows_a_snapshot_and_files_that_none_names(tmp_path: Path, *, has_snapshot: bool) -> None:
    table = make_table(tmp_path)
    if has_snapshot:
        table.write(rows_of(0))
    before = table.to_arrow().num_rows
    live = table.live_files.of(table.snapshots.latest())
    entries = write_rows(table, rows_of(1), first_sequence=live.next_sequence).entries
    expected = make_table(tmp_path / "other")
    for batch in range(2) if has_snapshot else (1,):
        expected.write(rows_of(batch))

    shown = pinned(table, table.snapshots.latest(), entries)

    assert shown.pinned is not None
    assert shown.pinned.is_in_memory
    rows = ways(expected)[0]
    assert ways(shown) == [rows] * 5
    assert shown.to_arrow(where="id = 4").to_pylist() == expected.to_arrow(where="id = 4").to_pylist()
    assert table.to_arrow().num_rows == before


def test_a_pinned_snapshot_stays_while_others_come(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    shown, rows = pinned(table, table.snapshots.latest()), ways(table)

    table.write(rows_of(1))

    assert shown.pinned == table.snapshots.find(1)
    assert ways(shown) == rows
    assert ways(table) != rows


def test_a_file_that_the_snapshot_has_is_not_added_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    live = table.live_files.of(table.snapshots.latest())
    with pytest.raises(CorruptDataError, match="is added twice to bucket"):
        pinned(table, table.snapshots.latest(), [next(live.entries())])
    assert isinstance(next(iter(live.buckets)), BucketId)


def test_a_pinned_state_is_not_written(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    with pytest.raises(InvalidRequestError, match="shows one state of it: write the table itself"):
        pinned(table, table.snapshots.latest()).write(rows_of(1))
