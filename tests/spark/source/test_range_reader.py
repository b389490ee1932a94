"""Batch reads of changes between two states by Paimon's options, planned and read without Spark's processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError, OptionError
from lakelog.spark.data_source import LakelogDataSource

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
Row = tuple[object, ...]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four snapshots, of which the third overwrites; the automatic tags of two days and another one."""
    options = {"bucket": "2", "write-only": "true"}
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    made.write(rows({1: "a", 2: "a"}))
    made.tags.create("2026-01-30")
    made.write(rows({2: "b"}))
    made.write(rows({2: "c", 3: "c"}), mode="overwrite")
    made.tags.create("2026-01-31")
    made.write(rows({3: "d"}))
    made.tags.create("end")
    return made


def rows(given: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(given), "v": list(given.values())}, schema=SCHEMA)


def read(table: Table, *, kinds: str = "true", **options: str) -> list[Row]:
    given = {key.replace("_", "-"): text for key, text in options.items()}
    source = LakelogDataSource({"path": table.path, "row-kind": kinds, **given})
    reader = source.reader(source.schema())
    worker = pickle.loads(pickle.dumps(reader))
    found = [row for one in reader.partitions() for batch in worker.read(one) for row in batch.to_pylist()]
    return sorted(tuple(row.values()) for row in found)


BOTH = [(1, "a", "-D"), (2, "a", "-U"), (2, "c", "+U"), (3, "c", "+I")]


def test_two_tags_are_the_difference_of_their_states(table: Table) -> None:
    assert read(table, incremental_between="2026-01-30,2026-01-31") == BOTH
    assert read(table, incremental_to_auto_tag="2026-01-31") == BOTH
    assert read(table, incremental_between="2026-01-30,2026-01-31", kinds="false") == [(2, "c"), (3, "c")]


def test_two_snapshots_are_each_change_with_the_deletes_of_an_overwrite(table: Table) -> None:
    assert read(table, incremental_between="1,2") == [(2, "b", "+I")]
    assert read(table, incremental_between="2,3") == [(1, "a", "-D"), (2, "b", "-U"), (2, "c", "+U"), (3, "c", "+I")]
    assert read(table, incremental_between="1,3", incremental_between_scan_mode="diff") == BOTH
    assert read(table, incremental_between="1,3", incremental_between_scan_mode="delta") == [(2, "b", "+I")]
    between = {"incremental_between": "2026-01-30,2026-01-31", "incremental_between_tag_to_snapshot": "true"}
    assert read(table, **between) == read(table, incremental_between="1,3")
    assert read(table, incremental_between="2,2") == []


def test_two_timestamps_are_a_range(table: Table) -> None:
    times = [snapshot.time_millis for snapshot in table.snapshots()]

    assert read(table, incremental_between_timestamp=f"0,{times[0]}") == [(1, "a", "+I"), (2, "a", "+I")]
    found = read(table, incremental_between_timestamp=f"{times[0]},{times[2]}", incremental_between_scan_mode="diff")
    assert found == BOTH


def test_expired_snapshots_between_tags_are_no_loss(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    assert read(table, incremental_between="2026-01-30,2026-01-31") == BOTH
    with pytest.raises(NotFoundError, match=r"compare=.states"):
        read(table, incremental_between="1,3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"incremental_between": "1"}, "expected two names with a comma"),
        ({"incremental_between": "1,2,3"}, "expected two names with a comma"),
        ({"incremental_between_timestamp": "soon,now"}, "expected timestamps"),
        ({"incremental_between": "3,1"}, "up_to is lower"),
        ({"incremental_between": "1,2", "tag": "end"}, "give one"),
        ({"incremental_between": "1,2", "incremental_to_auto_tag": "end"}, "each name a range"),
        ({"incremental_between_scan_mode": "diff"}, "goes with incremental-between"),
        ({"incremental_to_auto_tag": "2026-01-30"}, "no automatic tag before it"),
        ({"incremental_to_auto_tag": "end"}, "no automatic tag before it"),
    ],
)
def test_options_that_name_no_range_are_refused(table: Table, options: dict[str, str], message: str) -> None:
    with pytest.raises((InvalidRequestError, OptionError), match=message):
        read(table, **options)


def test_a_stream_takes_no_range(table: Table) -> None:
    source = LakelogDataSource({"path": table.path, "incremental-between": "1,2"})

    with pytest.raises(InvalidRequestError, match="a stream has no end"):
        source.streamReader(source.schema())
