"""Streams of tables without a log whose micro-batches are snapshots: `stream.align=snapshot`."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any  # Any: offsets as JSON

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.streams.source import LakelogStreamReader
from lakelog.streams.phases import stream_head

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
Offset = dict[str, Any]
Batch = tuple[int, list[int]]  # the snapshot at which it ends, and its ids


@pytest.fixture(autouse=True)
def _fresh_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"}
    )


def put(table: Table, *ids: int) -> None:
    table.write(pa.table({"id": list(ids), "name": ["x"] * len(ids)}, schema=SCHEMA))


def reader_of(table: Table, **options: str) -> LakelogStreamReader:
    spelled = {key.replace("_", "."): value for key, value in options.items()}
    source = LakelogDataSource({"path": table.path, "stream.align": "snapshot"} | spelled)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LakelogStreamReader)
    return reader


def batches_of(reader: LakelogStreamReader, start: Offset | None = None) -> Iterable[Batch]:
    """Each batch until there is nothing more, as after a restart before each."""
    reached = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(reached, reader.getDefaultReadLimit())) != reached:
        worker = pickle.loads(pickle.dumps(reader))
        parts = reader.partitions(reached, end)
        rows = [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]
        yield end["consumed"], sorted(row["id"] for row in rows)
        reached = json.loads(json.dumps(end))


def test_one_snapshot_is_one_batch_and_the_first_is_what_the_stream_starts_with(table: Table) -> None:
    put(table, 1)
    put(table, 2)
    reader = reader_of(table)
    batches = iter(batches_of(reader))
    found = [next(batches)]
    for number in (3, 4, 5):
        put(table, number)
    found += batches

    assert found == [(2, [1, 2]), (3, [3]), (4, [4]), (5, [5])]


def test_a_compaction_is_no_batch_and_comes_with_the_next_snapshot_of_rows(table: Table) -> None:
    put(table, 1)
    batches = iter(batches_of(reader_of(table)))
    found = [next(batches)]
    put(table, 2)
    table.compact(full=True)  # snapshot 3
    put(table, 4)
    found += batches

    assert found == [(1, [1]), (2, [2]), (4, [4])]


@pytest.mark.parametrize(("snapshots", "ends"), [("2", [3, 5, 6]), ("all", [6])])
def test_a_batch_takes_as_many_snapshots_as_the_option_says(table: Table, snapshots: str, ends: list[int]) -> None:
    put(table, 1)
    batches = iter(batches_of(reader_of(table, stream_align_snapshots=snapshots)))
    next(batches)
    for number in (2, 3, 4, 5, 6):
        put(table, number)

    assert [end for end, _ in batches] == ends


def test_a_limit_takes_fewer_snapshots_and_never_a_part_of_one(table: Table) -> None:
    for number in range(3):
        put(table, number)
    options = {"maxRowsPerTrigger": "2", "stream_align_snapshots": "3"}
    batches = iter(batches_of(reader_of(table, **options)))
    found = [next(batches)]
    put(table, *range(10, 14))
    for number in (20, 21, 22):
        put(table, number)
    found += batches

    assert found == [(3, [0, 1, 2]), (4, [10, 11, 12, 13]), (6, [20, 21]), (7, [22])]


def test_a_run_with_a_fixed_end_takes_the_snapshots_one_by_one(table: Table) -> None:
    put(table, 1)
    reached = reader_of(table).latestOffset(reader_of(table).initialOffset(), reader_of(table).getDefaultReadLimit())
    put(table, 2)
    put(table, 3)
    reader = reader_of(table)
    reader.prepareForTriggerAvailableNow()
    put(table, 4)

    assert list(batches_of(reader, reached)) == [(2, [2]), (3, [3])]


def test_a_number_of_snapshots_needs_an_aligned_stream(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match=r"stream.align.snapshots is for streams with stream.align=snapshot"):
        reader_of(table, stream_align="transaction", stream_align_snapshots="2")
    for wrong in ("0", "-1", "many"):
        with pytest.raises(OptionError, match=r"stream\.align\.snapshots"):
            reader_of(table, stream_align_snapshots=wrong)
