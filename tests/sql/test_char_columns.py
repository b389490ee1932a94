"""CHAR columns whose strings other writers have not padded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog


@pytest.mark.parametrize(("keys", "options"), [("c", {}), ((), {}), ((), {"write-mode": "change-log", "bucket": "1"})])
def test_a_row_with_a_string_that_is_not_padded_is_changed_and_not_added(
    tmp_path: Path, keys: str, options: dict[str, str]
) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", schema="c CHAR(3) NOT NULL, v INT", primary_keys=keys, options=options)
    table.write(pa.table({"c": ["a", "b", "d"], "v": pa.array([1, 2, 4], pa.int32())}))
    connection = lakelog.sql.connect(catalog)
    connection.sql("USE db")
    connection.sql("UPDATE t SET v = 10 WHERE c = 'a'")
    connection.sql("DELETE FROM t WHERE c = 'b'")
    connection.sql(
        "MERGE INTO t USING (SELECT 'd' AS c, 40 AS v) AS s ON t.c = s.c "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    found = connection.sql("SELECT c, v FROM t").to_pylist()
    a, d = ("a", "d") if keys else ("a  ", "d  ")  # a key stays as it is
    assert sorted(tuple(row.values()) for row in found) == [(a, 10), (d, 40)]


def test_a_char_column_is_compared_as_it_is_stored(tmp_path: Path) -> None:
    connection = lakelog.sql.connect(Catalog(tmp_path))
    for text in (
        "CREATE DATABASE db",
        "USE db",
        "CREATE TABLE a (k INT, c CHAR(3))",
        "CREATE TABLE b (k INT, c STRING)",
        "INSERT INTO a VALUES (1, 'x')",
        "INSERT INTO b VALUES (1, 'x')",
    ):
        connection.sql(text)
    assert connection.sql("SELECT b.k FROM b WHERE b.c = 'x'").num_rows == 1
    assert connection.sql("SELECT b.k FROM a JOIN b ON a.k = b.k WHERE b.c = 'x'").num_rows == 1
    assert connection.sql("SELECT k FROM a WHERE c = 'x'").num_rows == 0
    assert connection.sql("SELECT k FROM a WHERE c = 'x  ' AND rtrim(c) = 'x'").num_rows == 1
