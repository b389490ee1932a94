"""UPDATE and MERGE assign what INSERT ... BY NAME of plain Spark assigns, and refuse what it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.support.examples import rest_in_full

COLUMNS = {
    "st": "STRUCT<a: INT, b: INT>",
    "l": "ARRAY<STRUCT<a: INT, b: BIGINT>>",
    "m": "MAP<STRING, STRUCT<a: INT, b: INT>>",
    "deep": "ARRAY<MAP<STRING, STRUCT<p: STRUCT<x: INT, y: INT>, q: ARRAY<STRUCT<x: INT, y: INT>>>>>",
    "i": "INT",
    "f": "BOOLEAN",
    "d": "DATE",
    "s": "STRING",
    "n": "DECIMAL(5, 2)",
}
YX = "named_struct('y', 2, 'x', 1)"
TAKEN: Mapping[str, tuple[str, ...]] = {
    "st": (
        "named_struct('b', 20, 'a', 10)",
        "named_struct('B', 2, 'A', 1)",
        "named_struct('b', 2L, 'a', NULL)",
        "NULL",
    ),
    "l": ("array(named_struct('b', 20, 'a', 10), NULL)", "array(named_struct('a', 1L, 'b', 2))", "array()"),
    "m": ("map('k', named_struct('b', 20, 'a', 10))", "map(1, named_struct('b', 2, 'a', 1))", "map('k', NULL)"),
    "deep": (f"array(map('k', named_struct('q', array({YX}, NULL), 'p', {YX})))", "array(NULL)"),
    "i": ("12L", "1.5D", "NULL"),
    "f": ("true",),
    "d": ("DATE'2026-01-02'", "TIMESTAMP'2026-01-02 10:00:00'"),
    "s": ("12", "true", "DATE'2026-01-02'"),
    "n": ("1.255", "7"),
}
REFUSED: Mapping[str, tuple[str, ...]] = {
    "st": (
        "named_struct('a', 1)",
        "named_struct('a', 1, 'b', 2, 'c', 3)",
        "named_struct('x', 1, 'y', 2)",
        "named_struct('b', '2', 'a', 1)",
        "array(1)",
    ),
    "l": ("array(named_struct('b', 1))", "array(1)"),
    "m": ("map('k', named_struct('a', 1, 'c', 2))",),
    "deep": (f"array(map('k', named_struct('p', {YX}, 'q', array(named_struct('y', 2, 'z', 1)))))",),
    "i": ("'12'", "true", "DATE'2026-01-02'"),
    "f": ("2", "'true'"),
    "d": ("'2026-01-02'", "5"),
    "n": ("'1.5'",),
}
DOORS = {
    "SET": "UPDATE lake.db.t SET {set} WHERE id = 1",
    "UPDATE SET": "MERGE INTO lake.db.t t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {from_source}",
    "UPDATE SET *": "MERGE INTO lake.db.t t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "BY SOURCE": (
        "MERGE INTO lake.db.t t USING (SELECT 0L AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET {set}"
    ),
    "INSERT": (
        "MERGE INTO lake.db.t t USING {source} s ON t.id = s.id + 100 "
        "WHEN NOT MATCHED THEN INSERT (id, {names}) VALUES (s.id, {values})"
    ),
    "INSERT *": "MERGE INTO lake.db.t t USING {source} s ON t.id = s.id + 100 WHEN NOT MATCHED THEN INSERT *",
}


@pytest.fixture
def table(session: SparkSession) -> Iterator[SparkSession]:
    """A session with an attached table, and a table of plain Spark with the same columns."""
    columns = "id BIGINT NOT NULL, " + ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    session.sql("CREATE DATABASE lake.db")
    session.sql(f"CREATE TABLE lake.db.t ({columns}) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    session.sql("INSERT INTO lake.db.t (id) VALUES (1)")
    session.sql("DROP TABLE IF EXISTS plain")
    session.sql(f"CREATE TABLE plain ({columns}) USING parquet")
    yield session
    session.sql("DROP TABLE plain")


def source(values: Mapping[str, str]) -> str:
    chosen = [f"{values.get(name, 'NULL')} AS {name}" for name in COLUMNS]
    return f"(SELECT 1L AS id, {', '.join(chosen)})"


def statement(door: str, values: Mapping[str, str]) -> str:
    return DOORS[door].format(
        set=", ".join(f"{name} = {value}" for name, value in values.items()),
        from_source=", ".join(f"{name} = s.{name}" for name in values),
        names=", ".join(values),
        values=", ".join(f"s.{name}" for name in values),
        source=source(values),
    )


@pytest.mark.parametrize("door", rest_in_full(DOORS, 1))
def test_values_are_assigned_as_insert_by_name_of_plain_spark_assigns_them(table: SparkSession, door: str) -> None:
    for at in range(max(map(len, TAKEN.values()))):
        values = {name: every[at] for name, every in TAKEN.items() if at < len(every)}
        table.sql(f"INSERT OVERWRITE plain BY NAME SELECT * FROM {source(values)}")
        expected = table.table("plain").select(*values).collect()
        if door.startswith("INSERT"):
            table.sql("DELETE FROM lake.db.t")
        table.sql(statement(door, values))
        assert table.table("lake.db.t").select(*values).collect() == expected, values


@pytest.mark.parametrize("door", rest_in_full(DOORS, 1))
def test_values_that_insert_refuses_are_refused_with_both_types(table: SparkSession, door: str) -> None:
    for name, every in REFUSED.items():
        for value in every:
            with pytest.raises(AnalysisException):
                table.sql(f"INSERT INTO plain BY NAME SELECT * FROM {source({name: value})}")
            with pytest.raises(PySparkException, match=rf"t sets '{name}', which is .* to a value of type") as error:
                table.sql(statement(door, {name: value}))
            assert "lakelog" not in str(error.value)
    assert table.sql("SELECT count(*) FROM lake.db.t").collect() == [(1,)]


@pytest.mark.full
def test_a_field_of_a_struct_is_assigned_and_the_others_stay(session: SparkSession) -> None:
    session.sql(
        "CREATE TABLE lake.db.t (id INT NOT NULL, st STRUCT<a: INT, in: STRUCT<x: INT, y: STRING>>, n INT, "
        "PRIMARY KEY (id))"
    )
    session.sql(
        "INSERT INTO lake.db.t VALUES (1, named_struct('a', 1, 'in', named_struct('x', 2, 'y', 'y')), 5), (2, NULL, 6)"
    )
    session.sql("UPDATE lake.db.t SET st.a = n + 1, lake.db.t.st.IN.x = st.a + 7L")
    # Spark makes a struct of a null one, too: AssignmentUtils.
    assert rows_of(session) == [(1, (6, (8, "y")), 5), (2, (7, (None, None)), 6)]
    source = "(SELECT 1 AS id, named_struct('y', 'new', 'x', 0) AS st)"
    session.sql(
        f"MERGE INTO lake.db.t AS st USING {source} s ON st.id = s.id WHEN MATCHED THEN UPDATE SET st.st.in = s.st"
    )
    assert rows_of(session)[0] == (1, (6, (0, "new")), 5)
    for assigned, message in (
        ("st.b = 1", "sets st.b, but 'st' is struct"),
        ("st.a.b = 1", "sets st.a.b, but 'st.a' is int"),
        ("n.a = 1", "sets n.a, but 'n' is int"),
        ("st.a = 1, st.a = 2", "gives column 'st.a' two values"),
        ("st = NULL, st.a = 2", "gives column 'st' two values"),
        ("st.in.x = 'x'", r"sets 'st.in.x', which is INT, to a value of type STRING; write CAST"),
        ("other.st.a = 1", "the table has no column 'a'"),
    ):
        with pytest.raises(PySparkException, match=message):
            session.sql(f"UPDATE lake.db.t SET {assigned}")
    with pytest.raises(PySparkException, match=r"inserts st\.a, a field"):
        session.sql(
            f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id WHEN NOT MATCHED "
            "THEN INSERT (id, st.a) VALUES (1, 2)"
        )


MERGES = {
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id, n = s.n": True,
    "ON s.id = t.id AND t.n < 100 WHEN MATCHED THEN UPDATE SET t.id = s.id, n = s.n": True,
    "ON t.id <=> s.id WHEN MATCHED THEN UPDATE SET *": True,
    "ON t.id = s.other + 1 WHEN MATCHED THEN UPDATE SET id = s.other + 1, n = s.n": True,
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.other, n = s.n": False,
    "ON t.id = s.id OR t.n = s.n WHEN MATCHED THEN UPDATE SET id = s.id, n = s.n": False,
    "ON t.n = s.old WHEN MATCHED THEN UPDATE SET *": False,
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 2": False,
}


@pytest.mark.parametrize("merge", MERGES)
def test_a_merge_sets_a_primary_key_to_what_on_equates_with_it(session: SparkSession, merge: str) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, n INT) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (2, 5), (3, 6)")
    text = f"MERGE INTO lake.db.t t USING (SELECT 2 AS id, 50 AS n, 1 AS other, 6 AS old) s {merge}"
    if MERGES[merge]:
        session.sql(text)
        assert rows_of(session) == [(2, 50), (3, 6)]
    else:
        with pytest.raises(PySparkException, match="sets 'id', a column of the primary key"):
            session.sql(text)
        assert rows_of(session) == [(2, 5), (3, 6)]


def rows_of(session: SparkSession) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.table("lake.db.t").orderBy("id").collect()]
