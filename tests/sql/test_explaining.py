"""EXPLAIN of statements that write: the target, the plan of the query with files and bytes, and what would be done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, LakelogError, UnsupportedError
from lakelog.sql import SqlConnection

LINES = {
    "INSERT INTO p (day, id) SELECT DATE'2026-01-01', id FROM a WHERE n > 1": [
        "Insert into lake.db.p: columns day, id; a row replaces the one with its primary key, day, id",
        "  Projection: projections '2026-01-01'::DATE, id;",
        "    Scan lake.db.a, snapshot 1: id; where (n > 1); 1 of 1 files, N of N bytes",
    ],
    "INSERT INTO a VALUES (1, 'x', 2)": [
        "Insert into lake.db.a: columns id, v, n; rows are added",
        "  Column data scan",
    ],
    "INSERT OVERWRITE p PARTITION (day = DATE'2026-01-01') SELECT id, v FROM a": [
        "Overwrite lake.db.p: columns id, v, day = 2026-01-01; replaces the partitions where `day` = '2026-01-01', "
        "1 of 2 files, N of N bytes",
        "  Scan lake.db.a, snapshot 1: id, v; 1 of 1 files, N of N bytes",
    ],
    "CREATE TABLE x PARTITIONED BY (v) TBLPROPERTIES ('primary-key' = 'id,v') AS SELECT id, v, 1.5e0 AS m FROM a": [
        "Create table lake.db.x: columns id INT, v STRING, m DOUBLE; primary key id, v; partitioned by v",
        "  Projection: projections id, v, m;",
        "    Scan lake.db.a, snapshot 1: id, v; 1 of 1 files, N of N bytes",
    ],
    "CREATE TABLE IF NOT EXISTS a AS SELECT 1 AS x": ["Create table lake.db.a: nothing, there is such a table"],
    "CREATE OR REPLACE TABLE a AS SELECT * FROM a WHERE id > 1": [
        "Replace the rows of lake.db.a, 1 of 1 files, N of N bytes: columns id INT, v STRING, n INT",
        "  Scan lake.db.a, snapshot 1: id, v, n; where (id > 1); 1 of 1 files, N of N bytes",
    ],
    "UPDATE p SET v = 'x' WHERE day = DATE'2026-01-01'": [
        "Update lake.db.p, snapshot 1: sets v; changed rows are written to new files",
        "  Projection: projections day, new day, id, new id, v, new v;",
        "    Scan lake.db.p, snapshot 1: day, id, v; where (day = DATE '2026-01-01'); 1 of 2 files, N of N bytes",
    ],
    "DELETE FROM a WHERE id IN (SELECT id FROM p)": [
        "Delete from lake.db.a, snapshot 1: files with such rows, of those that the scan reads, are written again",
        "  Projection",
    ],
    "DELETE FROM p": ["Delete all rows of lake.db.p: 2 of 2 files, N of N bytes"],
    "MERGE INTO p USING a AS s ON p.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN "
    "DELETE": [
        "Merge into lake.db.p, snapshot 1: changed rows are written to new files",
        "  WHEN MATCHED THEN UPDATE SET v = s.v",
        "  WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "  Projection: projections day, new day, id, new id, v, new v;",
    ],
}


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    for text in (
        "CREATE DATABASE db",
        "USE db",
        "CREATE TABLE a (id INT, v STRING, n INT)",
        "INSERT INTO a VALUES (1, 'a', 1), (2, 'b', 2)",
        "CREATE TABLE p (day DATE NOT NULL, id INT NOT NULL, v STRING, PRIMARY KEY (day, id)) PARTITIONED BY (day)",
        "INSERT INTO p VALUES (DATE'2026-01-01', 1, 'a'), (DATE'2026-01-02', 1, 'b')",
    ):
        made.sql(text)
    return made


def state(connection: SqlConnection) -> list[object]:
    names = [row["tableName"] for row in connection.sql("SHOW TABLES").to_pylist()]
    return [(name, connection.sql(f"SELECT max(snapshot_id) AS n FROM {name}$snapshots").to_pylist()) for name in names]


@pytest.mark.parametrize("statement", LINES)
def test_the_plan_of_a_statement_names_target_query_and_effect_and_changes_nothing(
    connection: SqlConnection, statement: str
) -> None:
    before = state(connection)
    found = connection.sql(f"EXPLAIN {statement}")["plan"].to_pylist()
    shown = [re.sub(r"[\d,]+ of [\d,]+ bytes", "N of N bytes", line) for line in found]
    wanted = LINES[statement]
    assert shown[: len(wanted)] == wanted
    assert not any("__lakelog" in line for line in found)
    assert state(connection) == before


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        ("INSERT INTO a SELECT 1", InvalidRequestError, "the query has 1 columns, and 3 are filled"),
        ("INSERT INTO a SELECT true, 'x', 1", InvalidRequestError, "column 'id' is int32, found values of type bool"),
        ("UPDATE a SET nope = 1", InvalidRequestError, "has no column 'nope'"),
        ("UPDATE p SET id = 1", InvalidRequestError, "a column of the primary key"),
        ("CREATE TABLE a AS SELECT 1 AS x", InvalidRequestError, "table lake.db.a exists already"),
        ("DROP TABLE a", UnsupportedError, "expected a query, or a statement that writes rows"),
    ],
)
def test_a_statement_that_would_fail_fails_in_explain_too(
    connection: SqlConnection, statement: str, error: type[LakelogError], words: str
) -> None:
    with pytest.raises(error, match=words):
        connection.sql(f"EXPLAIN {statement}")
