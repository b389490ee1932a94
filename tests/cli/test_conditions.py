"""A condition is the same small language in every door: Python, the command line, CALL, and SQL's REPLACE WHERE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
from tests.cli.conftest import Run

CONDITIONS = [
    ("p = '1'", "a number, without quotes"),
    ("c = 'a'", "a string of 3 characters, as they are stored, such as 'a  '"),
    ("d > '2026-01'", "a date such as '2026-01-31'"),
    ('v = "x"', "a string for Spark and a name for DuckDB"),
    ("length(v) = 1", "which filters cannot hold"),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(tmp_path)
    schema = "id INT NOT NULL, p INT NOT NULL, c CHAR(3), d DATE, v STRING"
    table = made.create_table("db.t", schema=schema, primary_keys=["id", "p"], partition_keys="p")
    rows = [{"id": 1, "p": 1, "c": "a  ", "d": None, "v": "x"}]
    table.write(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema))
    return made


@pytest.mark.parametrize(("condition", "told"), CONDITIONS)
def test_each_door_refuses_a_condition_with_the_same_sentence(
    run: Run, catalog: Catalog, condition: str, told: str
) -> None:
    table = catalog.load_table("db.t")
    connection = lakelog.sql.connect(catalog)
    quoted = condition.replace("'", "''")
    doors: list[Callable[[], object]] = [
        lambda: table.count(where=condition),
        lambda: table.to_arrow(where=condition),
        lambda: table.delete(condition),
        lambda: table.update({"v": "y"}, where=condition),
        lambda: table.compact(full=True, where=condition),
        lambda: connection.sql(f"CALL sys.compact(table => 'db.t', full => true, where => '{quoted}')"),
    ]
    sentences: set[str] = set()
    for door in doors:
        with pytest.raises(InvalidRequestError) as caught:
            door()
        sentences.add(str(caught.value))
    (sentence,) = sentences
    assert told in sentence
    code, _, text = run("table", "count", "db.t", "--where", condition)
    assert code == 1
    assert told in text.replace("\n", " ")
    assert table.count() == 1


def test_a_partition_of_a_statement_is_named_by_a_text_that_says_its_value(catalog: Catalog) -> None:
    connection = lakelog.sql.connect(catalog)
    connection.sql("TRUNCATE TABLE db.t PARTITION (p = '1')")
    assert catalog.load_table("db.t").count() == 0
    with pytest.raises(InvalidRequestError, match="is int32, found 'x'"):
        connection.sql("TRUNCATE TABLE db.t PARTITION (p = 'x')")
