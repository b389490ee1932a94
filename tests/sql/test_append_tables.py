"""UPDATE and MERGE of tables without primary key, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, Table, UnsupportedError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.write.deleting import TableChange
from lakelog.sql import SqlConnection

ROWS = 150_000  # DuckDB would read the file itself, without places


def opened(folder: Path, count: int) -> tuple[SqlConnection, Table]:
    catalog = Catalog(folder)
    table = catalog.create_table("db.t", schema="k BIGINT, v INT", options={"write-only": "true"})
    table.write(pa.table({"k": [*range(count)], "v": pa.array([0] * count, pa.int32())}))
    connection = lakelog.sql.connect(catalog)
    connection.sql("USE db")
    return connection, table


def test_rows_of_a_large_file_are_found_by_their_places(tmp_path: Path) -> None:
    connection, table = opened(tmp_path, ROWS)
    connection.sql("UPDATE t SET v = 1 WHERE k % 50000 = 7")
    connection.sql("MERGE INTO t USING (SELECT 149999 AS k) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 2")
    assert table.count() == ROWS
    assert sorted(table.to_arrow(where="v > 0")["k"].to_pylist()) == [7, 50_007, 100_007, 149_999]


def test_rows_that_another_writer_adds_meanwhile_are_changed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, table = opened(tmp_path, 3)
    resolve, other = TableChange.resolve, [pa.table({"k": [1], "v": pa.array([5], pa.int32())})]

    def overtaken(change: TableChange, latest: Snapshot | None) -> object:
        request = resolve(change, latest)
        if other:
            table.write(other.pop())
        return request

    monkeypatch.setattr(TableChange, "resolve", overtaken)
    connection.sql("UPDATE t SET v = v + 1 WHERE k = (SELECT max(k) - 1 FROM t)")
    assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == [(0, 0), (1, 1), (1, 6), (2, 0)]


def test_an_append_only_table_with_a_log_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, _ = opened(tmp_path, 1)
    monkeypatch.setattr("lakelog.filestore.metadata.tables.store.TableStore.has_log", True)
    for statement in ("UPDATE t SET v = 1", "MERGE INTO t USING t AS s ON t.k = s.k WHEN MATCHED THEN DELETE"):
        with pytest.raises(UnsupportedError, match=r"append-only table db.t with a log .* use delete\(where\)"):
            connection.sql(statement)
