"""A statement that lakelog handles itself is read whole: each part of it is taken, or refused by its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlglot import exp

import lakelog.sql
from lakelog.catalog import Catalog, LakelogError, UnsupportedError
from lakelog.sql import SqlConnection
from lakelog.sql.language.parsing import parsed
from lakelog.sql.language.taken import QUERY, TAKEN, check_node, name_of
from tests.sql.test_duckdb_forms import CHANGES
from tests.sql.test_statements import FOLDERS
from tests.support.tables.case_files import ERROR, read_cases

WORD = "an_unheard_of_word"
ROWS = [{"id": 1, "v": "a", "n": 10}, {"id": 2, "v": "b", "n": 20}]
# Statements, and a part of what a further one gives behind them.
EFFECTS = [
    (
        ("ALTER TABLE t CHANGE COLUMN v w STRING COMMENT 'said'",),
        "DESCRIBE t",
        "'w', 'data_type': 'string', 'comment': 'said'",
    ),
    (("CREATE TABLE u (a INT NULL, CONSTRAINT pk PRIMARY KEY (a))",), "SHOW CREATE TABLE u", "PRIMARY KEY (a)"),
    (("CREATE TABLE u (a INT PRIMARY KEY NOT ENFORCED)",), "SHOW CREATE TABLE u", "PRIMARY KEY (a)"),
    (("CREATE TABLE u (a INT, p INT) PARTITION BY p",), "SHOW CREATE TABLE u", "PARTITIONED BY (p)"),
    (("CREATE TABLE u (a INT) CLUSTERED BY (a) INTO 4 BUCKETS",), "SHOW CREATE TABLE u", "'bucket' = '4'"),
    (("ALTER TABLE t SET TBLPROPERTIES (comment = 'said')",), "SHOW CREATE TABLE t", "COMMENT 'said'"),
    (("INSERT INTO t AS x VALUES (5, 'e', 1)",), "FROM t", "{'id': 5, 'v': 'e', 'n': 1}"),
    (("CREATE DATABASE e", "USE SCHEMA e", "CREATE TABLE u (a INT)"), "SHOW TABLES IN e", "'u'"),
    (("CREATE DATABASE e", "DROP DATABASE e RESTRICT"), "SHOW DATABASES", "[{'namespace': 'db'}]"),
    (("DROP TABLE s PURGE",), "SHOW TABLES", "[{'namespace': 'db', 'tableName': 't', 'isTemporary': False}]"),
    (
        ("CREATE TEMPORARY VIEW w AS SELECT 1 AS a", "CREATE TEMPORARY VIEW IF NOT EXISTS w AS SELECT 2 AS a"),
        "FROM w",
        "[{'a': 1}]",
    ),
    (("CREATE TEMPORARY VIEW s AS SELECT 1 AS a", "DROP VIEW IF EXISTS s", "DROP VIEW IF EXISTS s"), "FROM s", "'x'"),
    (("INSERT INTO t VALUES (5, 'e', 1)",), "SELECT id FROM t AT (VERSION => 1)", "[{'id': 1}, {'id': 2}]"),
    ((), "SELECT id FROM t AT (TIMESTAMP => now()) WHERE id = 1", "[{'id': 1}]"),
    ((), "SELECT k FROM t, LATERAL (SELECT id + 1 AS k)", "[{'k': 2}, {'k': 3}]"),
    ((), "SELECT id FROM t CHANGES FROM VERSION 0 EXCLUSIVE TO VERSION 1 EXCLUSIVE", "[]"),
]


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    for text in (
        "CREATE DATABASE db",
        "USE db",
        "CREATE TABLE t (id INT PRIMARY KEY, v STRING, n INT)",
        "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20)",
        "CREATE TABLE s (id INT, v STRING, n INT)",
        "INSERT INTO s VALUES (2, 'x', 7), (3, 'y', 8)",
    ):
        made.sql(text)
    return made


@pytest.mark.parametrize("statement", TAKEN)
def test_each_argument_of_a_node_is_taken_or_refused_by_its_name(statement: str) -> None:
    for kind, taken in TAKEN[statement].items():
        for name in kind.arg_types:
            node = kind(**{name: exp.to_identifier(WORD)})
            if name in taken.split():
                check_node(node, statement)
                continue
            with pytest.raises(UnsupportedError, match=WORD):
                check_node(node, statement)
            if name not in ("this", "expressions"):  # which are no flags
                with pytest.raises(UnsupportedError, match=name.strip("_").replace("_", " ").upper()):
                    check_node(kind(**{name: True}), statement)


def test_a_declared_argument_is_one_that_the_class_has() -> None:
    for kinds in TAKEN.values():
        for kind, names in kinds.items():
            assert set(names.split()) <= set(kind.arg_types), kind


def statements_of_tests() -> Iterator[str]:
    """The statements whose effects other tests check."""
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.test")):
            words = {"catalog": "lake", "database": "db", "db": "lake.db"}
            yield from (case.statement_without_spark for case in read_cases(path, words) if case.wants != ERROR)
    yield from (text for form in CHANGES for text in form)
    yield from (text for texts, query, _ in EFFECTS for text in (*texts, query))
    yield "INSERT INTO t WITH ('change-tracking' = 'false') VALUES (1, 'a', 1)"  # tests/integration/statements


def taken_of(node: exp.Expr, statement: str) -> Iterator[tuple[str, type[exp.Expr], str]]:
    """The arguments that a statement has of those that are declared as taken."""
    kinds = TAKEN[statement]
    for name, value in node.args.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one is not False:
                yield statement, type(node), name
                if type(one) in kinds:
                    yield from taken_of(one, statement)


def test_each_argument_that_is_taken_is_in_a_statement_whose_effect_is_tested() -> None:
    """So that nothing is declared as taken that is read nowhere."""
    found: set[tuple[str, type[exp.Expr], str]] = set()
    for text in statements_of_tests():
        try:
            statements = parsed(text)
        except LakelogError:
            continue
        for one in statements:
            if name_of(one) in TAKEN:
                found |= {*taken_of(one, name_of(one))}
            found |= {part for table in one.find_all(exp.Table) for part in taken_of(table, QUERY)}
    declared = {
        (statement, kind, name)
        for statement, kinds in TAKEN.items()
        for kind, names in kinds.items()
        for name in names.split()
        if kind is not exp.Table or name not in ("this", "db", "catalog")  # the parts of a name
    }
    left = [f"{statement}: {kind.__name__}.{name}" for statement, kind, name in declared - found]
    assert not left, "\n".join(left)


REFUSED = [
    ("ALTER TABLE t ALTER COLUMN n TYPE BIGINT USING n + 1", "USING n [+] 1"),
    ("CREATE TABLE u (a INT, p INT) CLUSTER BY (a)", "CLUSTER BY"),
    ("CREATE TABLE u (a INT) CLUSTERED BY (a) SORTED BY (a) INTO 4 BUCKETS", "SORTED BY a"),
    ("CREATE TABLE u CLONE t", "CLONE t"),
    ("CREATE TABLE u LIKE t INCLUDING ALL", "INCLUDING"),
    ("CREATE TABLE u (a INT CHECK (a > 1))", "CHECK"),
    ("CREATE TABLE u (a INT REFERENCES t (id))", "REFERENCES t"),
    ("CREATE TABLE u (a INT, UNIQUE (a))", "UNIQUE"),
    ("CREATE TABLE u (a INT, b AS a + 1 STORED)", "PERSISTED"),
    ("CREATE UNIQUE INDEX i ON t (id)", "CREATE INDEX"),
    ("CREATE OR REPLACE DATABASE e", "REPLACE"),
    ("CREATE VIEW w AS SELECT 1 AS a", "no views"),
    ("CREATE GLOBAL TEMPORARY VIEW w AS SELECT 1 AS a", "GLOBAL"),
    ("DROP TABLE t CASCADE", "CASCADE"),
    ("ALTER VIEW t RENAME TO u", "ALTER VIEW"),
    ("ALTER TABLE t DROP COLUMN v CASCADE", "CASCADE"),
    ("USE ROLE db", "ROLE"),
    ("DELETE FROM t WHERE id = 1 LIMIT 3", "LIMIT 3"),
    ("DELETE FROM t WHERE id = 1 RETURNING id", "RETURNING id"),
    ("UPDATE t SET v = 'x' ORDER BY id LIMIT 1", "ORDER BY id"),
    ("UPDATE t SET v = 'x' RETURNING *", "RETURNING"),
    ("INSERT INTO t VALUES (1, 'z', 5) RETURNING id", "RETURNING id"),
    ("INSERT INTO t VALUES (1, 'z', 5) ON CONFLICT DO NOTHING", "ON CONFLICT"),
    ("INSERT INTO t VALUES (1, 'z', 5) ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1", "ON CONFLICT"),
    ("INSERT OR IGNORE INTO t VALUES (1, 'z', 5)", "IGNORE.* WHEN NOT MATCHED THEN INSERT BY NAME keeps it"),
    ("INSERT OR REPLACE INTO s VALUES (1, 'z', 5)", "no primary key"),
    ("DELETE FROM t AT (VERSION => 1) WHERE id = 1", "VERSION => 1"),
    ("TRUNCATE TABLE IF EXISTS t", "EXISTS"),
    ("COMMENT ON COLUMN t.v IS 'x'", "COMMENT COLUMN"),
]


@pytest.mark.parametrize(("text", "word"), REFUSED)
def test_what_has_no_meaning_is_refused_by_its_name_and_nothing_is_done(
    connection: SqlConnection, text: str, word: str
) -> None:
    with pytest.raises(UnsupportedError, match=word):
        connection.sql(text)
    assert connection.sql("FROM t ORDER BY id").to_pylist() == ROWS
    assert connection.sql("SHOW TABLES")["tableName"].to_pylist() == ["s", "t"]


@pytest.mark.parametrize(("texts", "query", "part"), EFFECTS)
def test_a_part_that_is_taken_has_its_effect(
    connection: SqlConnection, texts: tuple[str, ...], query: str, part: str
) -> None:
    for text in texts:
        connection.sql(text)
    assert part in str(connection.sql(query).to_pylist())


QUOTED = [
    ('DESCRIBE "db"."t" "v"', "'info_value': 'v'"),
    ('DESCRIBE DETAIL "t"', "File count"),
    ("DESCRIBE FROM t", "'col_name': 'id'"),
    ('-- what it is\nDESC "t"', "'col_name': 'id'"),
    ('SHOW COLUMNS IN "t"', "'id'"),
    ('SHOW CREATE TABLE "db"."t"', "lake.db.t"),
    ('SHOW TBLPROPERTIES `t` ("bucket")', "'1'"),
    ('ALTER TABLE "t" COMPACT', "[]"),
    ('ALTER TABLE "t" ALTER COLUMN "n" AFTER "id"', "[]"),
    ('ALTER TABLE "t" UNSET TBLPROPERTIES ("comment")', "[]"),
]


@pytest.mark.parametrize(("text", "part"), QUOTED)
def test_statements_that_are_read_by_patterns_take_names_in_quotes(
    connection: SqlConnection, text: str, part: str
) -> None:
    assert part in str(connection.sql(text).to_pylist())
