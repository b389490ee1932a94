"""Streams that follow the files of a table over a merge of a branch: fed with its changes once, or stopped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.spark.data_source import LakelogDataSource
from lakelog.streams.phases import stream_head
from tests.support.streams.planned_reader import Reader
from tests.support.tables.small_tables import SCHEMA

KINDS = {
    "input": (["id"], {"bucket": "2", "changelog-producer": "input"}),
    "none": (["id"], {"bucket": "2"}),
    "append": ([], {"bucket": "-1"}),
    "value count": ([], {"bucket": "2", "bucket-key": "id", "write-mode": "change-log"}),
}


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


def write(table: Table, batch: int, *ids: int) -> None:
    table.write(pa.table([pa.array(ids), pa.array([batch] * len(ids), pa.int32())], schema=SCHEMA))


def made(folder: Path, kind: str, **more: str) -> Table:
    """A table whose branch deletes a row and inserts one."""
    keys, options = KINDS[kind]
    table = Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=keys, options=options | more)
    write(table, 0, 1, 2, 3)
    table.branches.create("dev")
    branch = table.branch("dev")
    if kind == "append":
        branch.write(pa.table([pa.array([1, 3]), pa.array([0, 0], pa.int32())], schema=SCHEMA), mode="overwrite")
    else:
        branch.delete("id = 2")
    write(branch, 5, 6)
    write(table, 1, 4)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_fed_with_the_changes_of_a_merge_once(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, kind)
    reader = Reader(table)
    reader.read()
    table.branches.merge("dev")
    write(table, 2, 7)
    reader.start()
    reader.read()
    found = sorted((row["id"], row["batch"]) for row in table.to_arrow().to_pylist())
    assert found == [(1, 0), (3, 0), (4, 1), (6, 5), (7, 2)]
    assert sorted((+reader.rows).elements()) == found
    assert reader.changes["-D", 2, 0] + reader.changes[2, 0, "-D"] == 1


def test_a_stream_stops_at_a_merge_where_it_was_asked_to(tmp_path: Path) -> None:
    table = made(tmp_path, "none")
    reader = Reader(table, **{"stream.on-merge": "fail"})
    reader.read()
    table.branches.merge("dev")
    with pytest.raises(ConflictError, match=r"snapshot 3 of table db.t merged a branch.*stream.on-merge=fail"):
        reader.read()


def test_the_changes_of_a_merge_are_kept_longer_than_its_snapshot(tmp_path: Path) -> None:
    options = {"bucket": "-1", "changelog.num-retained.min": "50", "changelog.num-retained.max": "50"}
    table = made(tmp_path, "append", **options)
    reader = Reader(table)
    reader.read()
    table.branches.merge("dev")
    write(table, 2, 7)
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    table.upkeep.remove_orphan_files(older_than="1 ms", dry_run=False, allow_young=True)
    reader.start()
    reader.read()
    assert sorted((+reader.rows).elements()) == [(1, 0), (3, 0), (4, 1), (6, 5), (7, 2)]


@pytest.mark.parametrize("key", ["stream.on-merge", "stream.on-restore"])
def test_a_batch_read_takes_no_option_of_streams(tmp_path: Path, key: str) -> None:
    source = LakelogDataSource({"path": made(tmp_path, "none").path, key: "fail"})
    with pytest.raises(InvalidRequestError, match=f"{key} is an option of streams"):
        source.reader(source.schema())
