"""UPDATE, DELETE and MERGE of rows whose CHAR columns another writer has not padded: Spark pads what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakelog.sql
from lakelog.catalog import Catalog, Table
from tests.support.examples import rest_in_full

KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "key": ("c", {"bucket": "1"}),
    "two keys": ("c,n", {"bucket": "1"}),
    "change-log": ("", {"bucket": "1", "write-mode": "change-log"}),
    "append": ("", {}),
}
ROWS = pa.table({"c": ["a", "b", "d"], "n": pa.array([1, 2, 4], pa.int32()), "v": ["x", None, "z"]})


def new_table(folder: Path, kind: str) -> Table:
    keys, options = KINDS[kind]
    table = Catalog(folder / "lake").create_table(
        "db.t",
        schema="c CHAR(3) NOT NULL, n INT NOT NULL, v STRING",
        primary_keys=keys.split(",") if keys else (),
        options=options,
    )
    table.write(ROWS)
    return table


@pytest.mark.parametrize("kind", rest_in_full(KINDS, 1))
def test_rows_that_are_not_padded_are_changed_and_not_added(session: SparkSession, tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, kind)
    session.sql("UPDATE lake.db.t SET v = 'new' WHERE c = 'a'")
    session.sql("DELETE FROM lake.db.t WHERE c = 'b' AND upper(c) = 'B  '")
    session.sql(
        "MERGE INTO lake.db.t USING (SELECT rpad('d', 3, ' ') AS c, 4 AS n, 'merged' AS v) AS s ON t.c = s.c "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    found = session.table("lake.db.t").collect()
    assert sorted(tuple(row) for row in found) == [("a  ", 1, "new"), ("d  ", 4, "merged")]
    assert table.count() == 2


def test_a_key_that_another_writer_has_not_padded_is_inserted_once(session: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "key")
    session.sql(
        "MERGE INTO lake.db.t USING (SELECT 'd' AS c, 9 AS n, 'again' AS v) AS s ON t.n = s.n "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert sorted(row["n"] for row in table.to_arrow().to_pylist()) == [1, 2, 9]


def test_an_insert_looks_up_no_keys_and_a_merge_does(session: SparkSession, tmp_path: Path) -> None:
    """A limit: docs/limits.md names it, with the way out."""
    table = new_table(tmp_path, "key")
    session.sql("INSERT INTO lake.db.t VALUES ('a', 7, 'spark')")
    lakelog.sql.connect(Catalog(tmp_path / "lake")).sql("INSERT INTO db.t VALUES ('b', 8, 'duckdb')")
    shown = [row["c"] for row in session.table("lake.db.t").orderBy("c").collect()]
    assert shown == ["a  ", "a  ", "b  ", "b  ", "d  "]
    session.sql(
        "MERGE INTO lake.db.t USING (SELECT 'd' AS c, 9 AS n, 'merged' AS v) AS s ON t.c = s.c "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert {row["n"]: row["c"] for row in table.to_arrow().to_pylist()} == {1: "a", 2: "b", 7: "a  ", 8: "b  ", 9: "d"}


def test_a_key_that_is_stored_with_spaces_and_without_is_named(session: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "key")
    table.write(pa.table({"c": ["a  "], "n": pa.array([7], pa.int32()), "v": ["y"]}))
    with pytest.raises(PySparkException, match=r"rows with c 'a  ', with the spaces of CHAR and without"):
        session.sql("UPDATE lake.db.t SET v = 'new' WHERE n = 7")
    session.sql("UPDATE lake.db.t SET v = 'new' WHERE n = 4")
    assert table.count() == 4
