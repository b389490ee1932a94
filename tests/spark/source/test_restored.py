"""Streams over a restore are fed with its changes, and over ids that a rollback gave again they fail."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, InvalidRequestError
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


def make(folder: Path, kind: str = "input") -> Table:
    keys, options = KINDS[kind]
    return Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=keys, options=options)


def write(table: Table, batch: int, *ids: int) -> None:
    table.write(pa.table([pa.array(ids), pa.array([batch] * len(ids), pa.int32())], schema=SCHEMA))


def rows(table: Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["batch"]) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_fed_with_the_changes_of_a_restore_once(tmp_path: Path, kind: str) -> None:  # paimon#8139
    table = make(tmp_path, kind)
    write(table, 0, 1, 2, 3)
    reader = Reader(table)
    reader.read()
    write(table, 1, 4, 5)
    reader.read()
    table.compact(full=True)
    table.restore(snapshot_id=1)
    write(table, 2, 6)
    reader.start()
    reader.read()
    assert sorted((+reader.rows).elements()) == rows(table) == [(1, 0), (2, 0), (3, 0), (6, 2)]
    assert reader.changes["-D", 4, 1] + reader.changes[4, 1, "-D"] == 1


def test_a_stream_stops_at_a_restore_where_it_was_asked_to(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, 0, 1)
    reader = Reader(table, **{"stream.on-restore": "fail"})
    reader.read()
    write(table, 1, 2)
    table.restore(snapshot_id=1)
    with pytest.raises(ConflictError, match=r"snapshot 3 of table db.t restored an older state.*on-restore=fail"):
        reader.read()


def test_a_stream_that_has_read_a_snapshot_whose_id_was_given_again_fails(tmp_path: Path) -> None:
    table = make(tmp_path)
    for batch in range(3):
        write(table, batch, batch)
    reader = Reader(table)
    reader.read()
    table.upkeep.rollback(snapshot_id=1, force=True)
    reader.start()
    with pytest.raises(InvalidRequestError, match=r"read table db.t up to snapshot 3, and its newest is snapshot 1"):
        reader.read()
    for batch in (7, 8, 9):
        write(table, batch, batch)
    reader.start()
    with pytest.raises(InvalidRequestError, match=r"snapshot 3 of table db.t is not the one that the query has read"):
        reader.read()


def test_a_consumer_that_has_read_a_snapshot_whose_id_was_given_again_fails(tmp_path: Path) -> None:
    table = make(tmp_path)
    for batch in range(3):
        write(table, batch, batch)
    Reader(table, **{"consumer-id": "c"}).read()
    table.upkeep.rollback(snapshot_id=1, force=True)
    for batch in (7, 8, 9):
        write(table, batch, batch)
    with pytest.raises(InvalidRequestError, match=r"snapshot 3 of table db.t is not the one .*consumer reset"):
        Reader(table, **{"consumer-id": "c"}).read()
    table.consumers.reset("c", 2)
    reader = Reader(table, **{"consumer-id": "c"})
    assert sorted(reader.read().elements()) == [(7, 7), (8, 8), (9, 9)]


def test_a_consumer_file_of_another_engine_is_read_without_a_commit(tmp_path: Path) -> None:
    table = make(tmp_path)
    for batch in range(3):
        write(table, batch, batch)
    path = Path(table.store.paths.consumer("flink"))
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"nextSnapshot": 2}')
    assert sorted(Reader(table, **{"consumer-id": "flink"}).read().elements()) == [(1, 1), (2, 2)]
