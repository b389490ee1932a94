"""The values of `?` are taken in the order of the text, in every statement: as DuckDB's own prepared statements do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
from lakelog.sql import SqlConnection

ROWS = ", ".join(f"({at}, {at % 4}, {at % 3})" for at in range(12))
STATEMENTS = (
    "SELECT id, CASE WHEN a = ? THEN ? ELSE b + ? END FROM p WHERE (id = ? AND a < ?) OR id BETWEEN ? AND ?",
    "SELECT id FROM p WHERE id IN (SELECT id + ? FROM p WHERE a = ? OR b = ?) AND a < ? ORDER BY id LIMIT ?",
    "WITH q AS (SELECT id + ? AS id FROM p WHERE a < ?) SELECT q.id, p.b + ? FROM q JOIN p ON q.id = p.id + ?",
    "SELECT a, sum(b + ?) FROM p WHERE id > ? GROUP BY a HAVING sum(b) > ? UNION ALL SELECT ?, ?",
    "UPDATE p SET a = ?, b = ? WHERE (id = ? AND a < ?) OR id = ?",
    "UPDATE p SET a = CASE WHEN b = ? THEN a + ? ELSE ? END WHERE id IN (?, ?) OR NOT (a = ? OR b < ?)",
    "DELETE FROM p WHERE (a = ? OR b = ?) AND NOT (id = ? OR id = ?)",
    "INSERT INTO p SELECT id + 100 + ?, a + ?, ? FROM p WHERE (a = ? OR b = ?) AND id > ?",
    "INSERT INTO p VALUES (200 + ?, ?, ? + ?), (300 + ?, ?, ?)",
    "MERGE INTO p USING (SELECT id, b + ? AS c FROM p WHERE id < ?) AS s ON p.id = s.id + ? "
    "WHEN MATCHED AND s.c > ? THEN UPDATE SET a = s.c + ?, b = ? "
    "WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (400 + s.id, ?, s.c + ?)",
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text[:16])
def test_values_go_to_the_marks_in_the_order_of_the_text(statement: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    values = [chance.randint(0, 6) for _ in range(statement.count("?"))]
    connection = lakelog.sql.connect(Catalog(tmp_path))
    connection.sql("CREATE DATABASE db")
    connection.sql("USE db")
    plain = duckdb.connect()
    columns = "id INT, a INT, b INT"
    plain.execute(f"CREATE TABLE p ({columns})")
    connection.sql(f"CREATE TABLE p ({columns}, PRIMARY KEY (id))")

    def ours(text: str, given: list[int] | None = None) -> list[tuple[object, ...]]:
        return [*zip(*(column.to_pylist() for column in connection.sql(text, given).columns), strict=True)]

    def theirs(text: str, given: list[int] | None = None) -> list[tuple[object, ...]]:
        return plain.execute(text, given).fetchall()

    def rows(run: Callable[..., list[tuple[object, ...]]]) -> list[list[str]]:
        run(f"INSERT INTO p VALUES {ROWS}")
        found = run(statement, values)
        found = found if statement.startswith(("SELECT", "WITH")) else run("SELECT * FROM p")
        return sorted([*map(str, row)] for row in found)

    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("SELECT ?, ?", [1], r"more \? than the 1 values given"),
        ("SELECT ?", [1, "left"], "no parameter for 'left'"),
        ("SELECT ?, :name", {"name": 1}, r"more \? than the 0 values given"),
        ("SELECT :name", {"name": 1, "other": 2}, "no parameter for 'other'"),
        ("SELECT :name", {}, "the parameter :name has no value"),
    ],
)
def test_a_value_too_many_or_too_few_is_refused(
    text: str, values: list[object] | dict[str, object], message: str, tmp_path: Path
) -> None:
    connection: SqlConnection = lakelog.sql.connect(Catalog(tmp_path))
    with pytest.raises(InvalidRequestError, match=message):
        connection.sql(text, values)
