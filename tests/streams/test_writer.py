"""`Table.writer` of tables without a log: a write is a snapshot, and so are several that are joined."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any  # Any: what a write of a table takes

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from lakelog.filestore import FileStoreTable
from lakelog.lineage import downstream, made_from
from lakelog.streams import write_loop
from lakelog.streams.file_writes import FileWrites
from lakelog.streams.writer import GivenRows
from tests.support.tables.small_tables import SCHEMA


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})


def rows(table: Table) -> dict[int, int]:
    return {row["id"]: row["batch"] for row in table.to_arrow().to_pylist()}


def snapshots(table: Table) -> int:
    return table.store.snapshots.latest_id() or 0


@pytest.mark.parametrize(
    "given",
    [
        [{"id": 1, "batch": 7}, {"batch": 8, "id": 2}],
        pa.table({"id": [1, 2], "batch": [7, 8]}),
        pa.record_batch({"batch": [7, 8], "id": [1, 2]}),
        pl.DataFrame({"id": [1, 2], "batch": [7, 8]}),
        pd.DataFrame({"id": [1, 2], "batch": [7, 8]}),
    ],
    ids=["dictionaries", "table", "batch", "polars", "pandas"],
)
def test_rows_of_each_form_are_there_when_the_write_returns(table: Table, given: GivenRows) -> None:
    with table.writer("a") as writer:
        position = writer.write(given)
        assert rows(open_table(table.path)) == {1: 7, 2: 8}
        assert position.snapshot_id == snapshots(table)


def test_one_row_and_a_delete(table: Table) -> None:
    with table.writer("a") as writer:
        writer.write({"id": 1, "batch": 7})
        writer.write({"id": 2})
        writer.write([{"id": 1}], "-D")
    assert rows(table) == {2: None}


def test_rows_that_do_not_fit_are_refused_alone(table: Table) -> None:
    with table.writer("a", linger="200 ms") as writer:
        good = writer.write_later({"id": 1, "batch": 7})
        with pytest.raises(InvalidRequestError, match="'batch' has values that are not of its type int32"):
            writer.write_later({"id": 2, "batch": "seven"})
        with pytest.raises(InvalidRequestError, match="color"):
            writer.write_later({"id": 2, "color": "red"}).result()
        with pytest.raises(InvalidRequestError, match="'batch' has values that are not of its type int32"):
            writer.write_later({"id": 2, "batch": "seven"}, identifier=1)
        with pytest.raises(InvalidRequestError, match="color"):
            writer.write_later({"id": 2, "color": "red"}, identifier=1)
        refused = [writer.write_later({"batch": number}) for number in range(3)]
        beside = [writer.write_later({"id": number, "batch": 8}, identifier=number) for number in range(3, 6)]
        for one in refused:
            with pytest.raises(InvalidRequestError, match="lack column"):
                one.result()
        for other in beside:
            other.result()
        with pytest.raises(InvalidRequestError, match="dictionaries"):
            writer.write_later([1, 2])  # type: ignore[list-item]  # on purpose
        good.result()
    assert rows(table) == {1: 7, 3: 8, 4: 8, 5: 8}


def test_writes_of_threads_that_wait_for_each_other_become_one_snapshot(table: Table) -> None:
    with table.writer("a", linger="300 ms") as writer, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: writer.write({"id": number, "batch": number}), range(16)))
    assert rows(table) == {number: number for number in range(16)}
    assert len({str(one) for one in found}) == snapshots(table) <= 2


def test_the_last_of_joined_writes_of_a_key_counts(table: Table) -> None:
    with table.writer("a", linger=timedelta(milliseconds=100)) as writer:
        for number in range(50):  # the last change of 0 is 48, a delete
            writer.write_later({"id": number % 3, "batch": number}, "-D" if number % 7 == 6 else "+I")
    assert rows(table) == {1: 49, 2: 47}
    assert snapshots(table) <= 2


def test_tasks_of_asyncio_write(table: Table) -> None:
    async def write() -> None:
        async with table.writer("a", linger="20 ms") as writer:
            await asyncio.gather(*(writer.write_async({"id": number, "batch": 1}) for number in range(40)))

    with ThreadPoolExecutor(1) as other:  # this thread may have a loop of another test
        other.submit(lambda: asyncio.run(write())).result()
    assert rows(table) == dict.fromkeys(range(40), 1)
    assert snapshots(table) < 40


def test_a_task_that_is_cancelled_while_it_waits_takes_no_other_write_with_it(table: Table) -> None:
    """Its own write may be in the table; those that were joined with it are acknowledged."""

    async def write() -> None:
        async with table.writer("a", linger="300 ms") as writer:
            first = asyncio.create_task(writer.write_async({"id": 1, "batch": 1}, source="s", identifier=1))
            second = asyncio.create_task(writer.write_async({"id": 2, "batch": 2}, source="t", identifier=1))
            await asyncio.sleep(0.05)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await second
            await writer.write_async({"id": 1, "batch": 3}, source="s", identifier=2)

    with ThreadPoolExecutor(1) as other:  # this thread may have a loop of another test
        other.submit(lambda: asyncio.run(write())).result()
    assert rows(table) == {1: 3, 2: 2}


def test_a_caller_that_begins_anew_goes_on_from_the_last_identifiers(table: Table) -> None:
    """It cuts its sources anew; each change is in the table once, in order."""
    dice = random.Random(3)
    sources = {source: [dice.randrange(8) for _ in range(60)] for source in "xy"}
    given: dict[int, int] = {}
    at = dict.fromkeys(sources, -1)
    while any(last < 59 for last in at.values()):
        with table.writer("a") as writer:
            for source, last in at.items():
                assert writer.last_identifier(source) == (None if last < 0 else last)
            for _ in range(dice.randint(1, 5)):
                source = dice.choice("xy")
                numbers = range(at[source] + 1, min(60, at[source] + 1 + dice.randint(1, 9)))
                if not numbers:
                    continue
                changes = [{"id": sources[source][number], "batch": number} for number in numbers]
                writer.write(changes, source=source, identifier=numbers[-1])
                given |= {change["id"]: change["batch"] for change in changes}
                at[source] = numbers[-1]
    assert rows(table) == given


def test_a_write_that_the_table_has_changes_nothing(table: Table) -> None:
    with table.writer("a") as writer:
        assert writer.last_identifier("s") is None
        writer.write({"id": 1, "batch": 1}, source="s", identifier=10)
    with table.writer("a") as writer:
        before = snapshots(table)
        writer.write({"id": 1, "batch": 99}, source="s", identifier=9)
        writer.write({"id": 1, "batch": 99}, source="s", identifier=10)
        assert (rows(table), snapshots(table)) == ({1: 1}, before)
        writer.write({"id": 1, "batch": 2}, source="s", identifier=11)
        writer.write({"id": 2, "batch": 2}, source="other", identifier=0)
        assert (writer.last_identifier("s"), writer.last_identifier("other")) == (11, 0)
    assert rows(table) == {1: 2, 2: 2}


def test_identifiers_go_up_in_the_order_of_the_calls(table: Table) -> None:
    with table.writer("a") as writer:
        writer.write({"id": 1}, source="s", identifier=5)
        with pytest.raises(InvalidRequestError, match="source 's' go up from write to write; found 5 behind 5"):
            writer.write({"id": 1}, source="s", identifier=5)
        writer.write({"id": 1}, source="t", identifier=5)


def test_behind_an_interrupted_write_a_source_goes_on_from_its_last_identifier(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later write of the source would say that the interrupted one is in the table."""
    with table.writer("a") as writer:
        writer.write({"id": 1, "batch": 1}, source="s", identifier=1)
        with monkeypatch.context() as patched:
            patched.setattr(FileWrites, "write", broken)
            first = writer.write_later({"id": 2, "batch": 2}, source="s", identifier=2)
            with pytest.raises(UnavailableError, match="the disk is away"):
                first.result()
        with pytest.raises(InvalidRequestError, match=r"the disk is away.*ask for last_identifier\('s'\)"):
            writer.write({"id": 3, "batch": 3}, source="s", identifier=3)
        writer.write({"id": 4, "batch": 4}, source="other", identifier=3)
        assert writer.last_identifier("s") == 1
        writer.write([{"id": 2, "batch": 2}, {"id": 3, "batch": 3}], source="s", identifier=3)
    assert rows(table) == {1: 1, 2: 2, 3: 3, 4: 4}


def broken(*_given: object) -> None:
    raise UnavailableError("the disk is away")


def test_a_write_that_failed_behind_its_commit_is_found(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its identifier would be lost by the next write of another source."""
    write = FileStoreTable.write

    def committed(*given: Any, **more: Any) -> None:
        write(*given, **more)
        broken()

    with table.writer("a") as writer:
        writer.write({"id": 1, "batch": 1}, source="s", identifier=1)
        with monkeypatch.context() as patched:
            patched.setattr(FileStoreTable, "write", committed)
            with pytest.raises(UnavailableError):
                writer.write({"id": 2, "batch": 2}, source="s", identifier=2)
        writer.write({"id": 3, "batch": 3}, source="t", identifier=1)
        assert (writer.last_identifier("s"), writer.last_identifier("t")) == (2, 1)
    with table.writer("a") as writer:
        assert (writer.last_identifier("s"), writer.last_identifier("t")) == (2, 1)
        assert snapshots(table) == 3


def test_a_second_process_with_the_name_stops_the_first_one(table: Table) -> None:
    with table.writer("a") as old:
        old.write({"id": 1, "batch": 1}, source="s", identifier=1)
        with open_table(table.path).writer("a") as new:
            assert new.last_identifier("s") == 1
            new.write({"id": 1, "batch": 2}, source="s", identifier=2)
            with pytest.raises(ConflictError, match=r"writer 'a' of table db\.t is that of another process now"):
                old.write({"id": 1, "batch": 3}, source="s", identifier=2)
            with pytest.raises(ConflictError, match="another process"):
                old.write({"id": 5, "batch": 3})
            new.write({"id": 2, "batch": 2})
    assert rows(table) == {1: 2, 2: 2}


def test_writers_with_other_names_write_beside_each_other(table: Table) -> None:
    def write(name: str) -> None:
        with open_table(table.path).writer(name) as writer:
            for number in range(15):
                writer.write({"id": 100 * int(name) + number, "batch": number}, identifier=number)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, ["1", "2", "3"]))
    assert len(rows(table)) == 45


def test_a_table_that_has_forgotten_a_writer_says_so(tmp_path: Path) -> None:
    options = {"bucket": "2", "users.time-retained": "1 ms"}
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    with table.writer("a") as writer:
        writer.write({"id": 1, "batch": 1}, source="s", identifier=1)
    with table.writer("b") as writer:
        for number in range(3):
            threading.Event().wait(0.02)
            writer.write({"id": 2, "batch": number})
    with table.writer("a") as writer:
        with pytest.raises(InvalidRequestError, match=r"may have forgotten the last identifiers of writer 'a'.*other"):
            writer.last_identifier("s")
        with pytest.raises(InvalidRequestError, match="may have forgotten"):
            writer.write({"id": 1, "batch": 9}, source="s", identifier=1)
        writer.write({"id": 3, "batch": 3})
    assert rows(table)[1] == 1


def test_callers_wait_while_too_much_waits(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with table.writer("a", linger="10 s", memory_max=10_000) as writer:
        held = list[int]()
        monkeypatch.setattr(write_loop, "BATCH_BYTES_MAX", 9_000)
        for number in range(200):
            writer.write_later({"id": number, "batch": 1})
            held.append(writer._loop._queued_bytes)
    assert max(held) <= 10_000
    assert len(rows(table)) == 200


@pytest.mark.parametrize("which", ["files", "log"])
def test_each_write_says_what_it_was_made_from(tmp_path: Path, which: str, request: pytest.FixtureRequest) -> None:
    servers = request.getfixturevalue("bootstrap_servers") if which == "log" else None
    catalog = Catalog(tmp_path, bootstrap_servers=servers)
    source = catalog.create_table("db.source", schema=SCHEMA, primary_keys=["id"])
    options = {"log.system": "kafka"} if which == "log" else {}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    for number in range(3):
        source.write(pa.table({"id": [number], "batch": [number]}))
    with made_from(table, "db.source@1", job="copy").writer("a", linger="50 ms") as writer:
        writing = [writer.write_later({"id": number, "batch": 1}) for number in range(2)]
        writing += [writer.write_later({"id": 5, "batch": 2}, made_from="db.source@2")]
        writing += [writer.write_later({"id": 6, "batch": 3}, made_from=["db.source@3"])]
        for one in writing:
            one.result()
        with pytest.raises(NotFoundError, match="nowhere"):
            writer.write({"id": 7, "batch": 4}, made_from="db.nowhere@1")
    found = [downstream(catalog, "db.source", number).to_pylist() for number in (1, 2, 3)]
    assert [{(row["sink_table"], row["job"]) for row in rows} for rows in found] == [{("db.t", "copy")}] * 3
    assert rows(table) == {0: 1, 1: 1, 5: 2, 6: 3}


def test_a_list_of_no_rows_changes_nothing(table: Table) -> None:
    with table.writer("a") as writer:
        writer.write([])
        writer.write({"id": 1, "batch": 1})
    assert rows(table) == {1: 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"identifier": "7"}, "identifier is '7'; expected a whole number"),
        ({"identifier": True}, "identifier is True; expected a whole number"),
        ({"identifier": -1}, "identifier is -1; expected a whole number"),
        ({"source": "orders-0"}, "source is 'orders-0', and there is no identifier"),
        ({"source": 7, "identifier": 7}, "source is 7; expected a name"),
    ],
)
def test_identifiers_that_name_no_place_are_refused(table: Table, given: dict[str, Any], message: str) -> None:
    with table.writer("a") as writer, pytest.raises(InvalidRequestError, match=message):
        writer.write({"id": 1, "batch": 1}, **given)


def test_a_closed_writer_says_so(table: Table) -> None:
    writer = table.writer("a")
    writer.close()
    writer.close()
    with pytest.raises(InvalidRequestError, match="writer 'a' is closed"):
        writer.write({"id": 1})


def test_arguments_that_make_no_sense(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="snapshot_interval='1000 ms' is for tables with a transactional log"):
        table.writer("a", snapshot_interval="1 s")
    with pytest.raises(InvalidRequestError, match="writer"):
        table.writer("../a")
    with pytest.raises(InvalidRequestError, match=r"linger \(--linger\) is '5'"):
        table.writer("a", linger="5")
    with pytest.raises(InvalidRequestError, match="memory_max is '5 stones'"):
        table.writer("a", memory_max="5 stones")
