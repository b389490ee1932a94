"""`Table.live`: the rows by key in memory, kept as the table is."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, LakelogError, UnavailableError, UnsupportedError
from lakelog.filestore.verbs import restore
from lakelog.protocol.state import TablePosition
from lakelog.streams.live_rows import LiveRows
from tests.support.tables.followed_tables import KINDS, History, rows_of, shown
from tests.support.tables.small_tables import SCHEMA

KEYED = [name for name, kind in KINDS.items() if kind.has_key]


def table_of(folder: Path, **options: str) -> Table:
    options = {"bucket": "2", "write-only": "true"} | options
    return Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)


def ask_again(rows: LiveRows) -> None:
    """Ask for a row until an answer fails."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        rows.get(1)
        time.sleep(0.02)


@pytest.mark.parametrize("name", KEYED)
def test_the_rows_in_memory_are_those_of_the_table(tmp_path: Path, name: str) -> None:
    table = table_of(tmp_path, **KINDS[name].options)
    history = History(table.store, KINDS[name], random.Random(name))
    history.move("write")
    with table.live() as rows:
        for _ in range(5):
            history.move("write", "delete", "restore")
        history.table.compact(full=True)
        latest = table.snapshot()
        assert latest is not None
        rows.wait(latest)
        found = {(row["id"], row["batch"]) for row in rows.to_arrow().to_pylist()}
        assert found == set(shown(history.table)), history.moves
        assert len(rows) == len(found)
        assert all(rows.get(key) == {"id": key, "batch": batch} for key, batch in found)


def test_chosen_keys_rows_and_columns(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows_of(range(6), 1))
    with table.live(keys=[{"id": 2}, {"id": 9}]) as rows:
        assert (rows.get(2), rows.get(3), rows.get({"id": 9})) == ({"id": 2, "batch": 1}, None, None)
    with table.live(where="id > 3", columns=["id"]) as rows:
        assert sorted(rows.to_polars()["id"].to_list()) == [4, 5]


def test_a_row_that_no_longer_passes_is_taken_out(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows_of([1, 2], 5))
    with table.live(where="batch > 3", columns=["id"]) as rows:
        assert (rows.get(1), rows.get(2)) == ({"id": 1}, {"id": 2})
        for batch, found in ((2, None), (7, {"id": 1})):
            table.write(rows_of([1], batch))
            rows.wait(table.snapshot())  # type: ignore[arg-type]  # there is one
            assert (rows.get(1), rows.get(2)) == (found, {"id": 2})


def test_whatever_ends_the_thread_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path)
    table.write(rows_of([1], 1))
    with table.live() as rows:
        monkeypatch.setattr(LiveRows, "_apply", lambda *_: 1 / 0)
        table.write(rows_of([1], 2))
        with pytest.raises(ZeroDivisionError):
            ask_again(rows)


def test_more_rows_than_asked_for_are_an_error_at_once_and_later(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows_of(range(6), 1))
    with pytest.raises(InvalidRequestError, match="has more than 5 rows"):
        table.live(rows_max=5)
    with table.live(rows_max=6) as rows:
        table.write(rows_of([7], 2))
        with pytest.raises(InvalidRequestError, match="has more than 6 rows"):
            rows.wait(table.snapshot())  # type: ignore[arg-type]  # there is one
        with pytest.raises(InvalidRequestError, match="has more than 6 rows"):
            rows.get(1)


def test_an_error_of_the_stream_is_raised_by_every_call(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows_of([1], 1))
    with table.live() as rows:
        table.write(rows_of([1], 2))
        rows.wait(table.snapshot())  # type: ignore[arg-type]
        Catalog(tmp_path).drop_table("db.t")
        with pytest.raises(LakelogError):
            ask_again(rows)
        with pytest.raises(LakelogError):
            len(rows)


def test_what_does_not_come_in_time_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(rows_of([1], 1))
    never = TablePosition(table_uuid=table.store.uuid, branch="main", snapshot_id=99)
    with table.live() as rows, pytest.raises(UnavailableError, match="have not reached the position"):
        rows.wait(never, timeout=0.2)


def test_wrong_keys_and_tables_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    with table.live() as rows, pytest.raises(InvalidRequestError, match="those of the key are id"):
        rows.get({"batch": 1})
    with pytest.raises(InvalidRequestError, match="are closed"):
        rows.get(1)
    plain = Catalog(tmp_path).create_table("db.plain", schema=SCHEMA)
    with pytest.raises(UnsupportedError, match="has no primary key"):
        plain.live()


def test_a_restore_takes_its_rows_back(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    first = table.write(rows_of([1, 2], 1))
    assert first is not None
    with table.live() as rows:
        table.write(pa.concat_tables([rows_of([2], 2), rows_of([3], 2)]))
        restore(table.store, snapshot_id=first.id)
        rows.wait(table.snapshot())  # type: ignore[arg-type]
        assert sorted((row["id"], row["batch"]) for row in rows.to_arrow().to_pylist()) == [(1, 1), (2, 1)]
