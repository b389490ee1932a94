"""What a connection keeps of the tables that its statements read: it is the state that a statement asks for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import NotFoundError
from lakelog.filestore.read import KeptRows
from lakelog.filestore.read.duckdb import oldest_runs, own_files
from lakelog.sql import SqlConnection, connect
from lakelog.sql.queries import kept
from tests.support.examples import examples

DDL = "id BIGINT NOT NULL, n INT, v STRING"


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the states that were brought into memory; small files are read by DuckDB itself."""
    found: list[str] = []
    create = KeptRows.create

    def counted(rows: KeptRows, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        found.append(name)
        create(rows, connection, name)

    monkeypatch.setattr(KeptRows, "create", counted)
    monkeypatch.setattr(own_files, "_ROWS_MIN", 1)
    monkeypatch.setattr(oldest_runs, "_YOUNG_MAX", 0)
    return found


def rows(ids: range, n: int) -> pa.Table:
    return pa.table({"id": ids, "n": pa.array([n] * len(ids), pa.int32()), "v": [f"{n}:{one}" for one in ids]})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Rows of which younger files replace some and delete one."""
    table = catalog.create_table("db.t", schema=DDL, primary_keys="id", options={"bucket": "2", "write-only": "true"})
    table.write(rows(range(100), 0))
    table.compact(full=True)
    table.write(rows(range(5, 10), 1))
    table.delete("id = 7")
    return table


def counts(connection: SqlConnection, state: str = "") -> list[tuple[object, ...]]:
    found = connection.sql(f"SELECT count(*) AS n, sum(n) AS s, count(DISTINCT id) AS d FROM db.t {state}")
    return [tuple(row.values()) for row in found.to_pylist()]


def test_rows_are_brought_into_memory_once_for_several_statements(
    catalog: Catalog, table: Table, made: list[str]
) -> None:
    connection = connect(catalog)
    assert [counts(connection) for _ in range(4)] == [[(99, 4, 99)]] * 4
    assert len(made) == 1


def test_many_rows_are_brought_into_memory_when_they_are_read_again(
    catalog: Catalog, table: Table, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_AT_ONCE_ROWS_MAX", 1)
    monkeypatch.setattr(kept, "_AT_ONCE_BYTES_MAX", 1)
    connection = connect(catalog)
    assert counts(connection) == [(99, 4, 99)]
    assert not made
    assert counts(connection) == [(99, 4, 99)]
    assert len(made) == 1


@pytest.mark.parametrize("limit", ["_ROWS_MAX", "_BYTES_MAX"])
def test_more_rows_than_the_limit_are_not_kept(
    catalog: Catalog, table: Table, made: list[str], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(kept, limit, 1)
    connection = connect(catalog)
    assert [counts(connection) for _ in range(3)] == [[(99, 4, 99)]] * 3
    assert not made


def test_a_statement_sees_the_commits_of_others_before_it(catalog: Catalog, table: Table) -> None:
    connection = connect(catalog)
    assert counts(connection) == [(99, 4, 99)]
    table.write(rows(range(100, 110), 2))
    assert counts(connection) == [(109, 24, 109)]
    table.delete("id < 50")
    assert counts(connection) == [(60, 20, 60)]
    connection.sql("ALTER TABLE db.t ADD COLUMN more INT")
    assert connection.sql("SELECT count(*) AS n, count(more) AS m FROM db.t").to_pylist() == [{"n": 60, "m": 0}]


def test_states_of_the_past_are_kept_beside_each_other(catalog: Catalog, table: Table) -> None:
    connection = connect(catalog)
    for _ in range(2):
        assert counts(connection, "VERSION AS OF 1") == [(100, 0, 100)]
        assert counts(connection, "VERSION AS OF 3") == [(100, 5, 100)]
        assert counts(connection) == [(99, 4, 99)]


def test_a_table_that_is_made_again_is_another_one(catalog: Catalog, table: Table) -> None:
    connection = connect(catalog)
    assert counts(connection) == [(99, 4, 99)]
    catalog.drop_table("db.t")
    with pytest.raises(NotFoundError):
        counts(connection)
    again = catalog.create_table("db.t", schema=DDL, primary_keys="id", options={"bucket": "2"})
    for number in range(4):
        again.write(rows(range(number + 1), 9))
    assert counts(connection) == [(4, 36, 4)]


def test_a_state_that_expired_is_not_read_from_memory(catalog: Catalog, table: Table) -> None:
    connection = connect(catalog)
    assert counts(connection, "VERSION AS OF 1") == [(100, 0, 100)]
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFoundError):
        counts(connection, "VERSION AS OF 1")


def test_states_that_were_not_read_for_the_longest_time_leave_the_memory(
    catalog: Catalog, table: Table, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_KEPT_BYTES_MAX", 1)
    connection = connect(catalog)
    for _ in range(3):
        assert counts(connection, "VERSION AS OF 1") == [(100, 0, 100)]
        assert counts(connection) == [(99, 4, 99)]
    assert len(made) == 6
    engine = kept.kept_engine(connection._names)
    held = engine.connection().sql("SELECT count(*) FROM duckdb_tables() WHERE NOT temporary").fetchall()
    assert held == [(2,)]  # the rows and the keys of the last state


def test_a_state_that_could_not_be_read_is_read_by_the_next_statement(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(catalog)

    def broken(*_: object) -> None:
        raise NotFoundError("a file is missing")

    with monkeypatch.context() as patched:
        patched.setattr(KeptRows, "_create", broken)
        with pytest.raises(NotFoundError, match="a file is missing"):
            counts(connection)
    assert counts(connection) == [(99, 4, 99)]


def test_what_a_statement_registers_is_not_seen_by_the_next_one(catalog: Catalog, table: Table) -> None:
    connection = connect(catalog)
    assert connection.sql("SELECT count(*) AS n FROM db.`t$snapshots`").to_pylist() == [{"n": 4}]
    table.write(rows(range(1), 3))
    assert connection.sql("SELECT count(*) AS n FROM db.`t$snapshots`").to_pylist() == [{"n": 5}]


def test_a_connection_that_is_deleted_leaves_nothing(catalog: Catalog, table: Table) -> None:
    before = len(kept._ENGINES)
    connection = connect(catalog)
    counts(connection)
    assert len(kept._ENGINES) == before + 1
    del connection
    assert len(kept._ENGINES) == before


def histories(chance: random.Random, table: Table) -> Iterator[None]:
    """A step of a random history a turn."""
    for _ in range(8):
        match chance.choice(["write", "write", "delete", "compact"]):
            case "write":
                begin = chance.randint(0, 60)
                table.write(rows(range(begin, begin + chance.randint(1, 20)), chance.randint(0, 9)))
            case "delete":
                begin = chance.randint(0, 60)
                table.delete(f"id BETWEEN {begin} AND {begin + 4}")
            case "compact":
                table.compact(full=chance.random() < 0.5)
        yield


@pytest.mark.parametrize("seed", range(examples(30)))
def test_statements_give_the_rows_of_each_step_of_a_history(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    keys = chance.choice([["id"], []])
    options = {"bucket": str(chance.randint(1, 3)) if keys else "-1", "write-only": "true"}
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", schema=DDL, primary_keys=keys, options=options)
    connection = connect(catalog)
    for _ in histories(chance, table):
        wanted = sorted(map(str, table.to_arrow().to_pylist()))
        for _ in range(2):
            assert sorted(map(str, connection.sql("SELECT * FROM db.t").to_pylist())) == wanted
