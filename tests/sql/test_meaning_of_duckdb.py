"""Expressions that engines read differently mean in `lakelog.sql` what they mean in DuckDB, in every statement."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp

from lakelog.catalog import InvalidRequestError, UnsupportedError
from lakelog.sql.queries.reading import QueryTables
from tests.support.tables.duckdb_twin import Twin, made_twin


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    return made_twin(tmp_path_factory.mktemp("meaning"))


QUERIES = [
    "SELECT CAST('1x' AS INT) AS x FROM t",
    "SELECT TRY_CAST(s AS INT) AS x FROM t",
    "SELECT CAST(1.7 AS INT) AS a, CAST(-1.5 AS INT) AS b, CAST(2.5 AS INT) AS c",
    "SELECT id FROM t WHERE dayofweek(day) = 1",
    "SELECT datediff('day', day, DATE '2026-03-01') AS x FROM t",
    "SELECT datediff(day, DATE '2026-03-01') AS x FROM t",
    "SELECT day + INTERVAL 1 MONTH AS x FROM t",
    "SELECT b, i, count(*) AS n FROM t GROUP BY b, i GROUPING SETS (b, i)",
    "SELECT b, i, count(*) AS n FROM t GROUP BY GROUPING SETS ((b), (i), ())",
    "SELECT b, grouping(b) AS g, sum(n) AS n FROM t GROUP BY ROLLUP (b)",
    "SELECT count_if(i > 0) AS a, quantile_cont(i, 0.5) AS b, any_value(s) AS c FROM t WHERE false",
    "SELECT count_if(i > 0) AS a, median(i) AS b, quantile_disc(d, 0.3) AS c FROM t",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i) AS x FROM t",
    "SELECT percentile(i, 0.5) AS x FROM t",
    "SELECT max(st) AS a, min(st) AS b FROM t",
    "SELECT id, row_number() OVER (ORDER BY st, id) AS x FROM t",
    "SELECT id, row_number() OVER (ORDER BY st DESC NULLS FIRST, id) AS x FROM t",
    "SELECT list(st ORDER BY st, id) AS x FROM t",
    "SELECT d // 2 AS a, d / 2 AS b, d % 2 AS c, i // 2 AS e, divide(i, 2) AS f FROM t",
    "SELECT format('{}: {:05d}', s, i) AS a, printf('%d %s', i, s) AS b FROM t",
    "SELECT format_string('%d', i) AS x FROM t",
    "SELECT l[1] AS a, l[0] AS b, l[-1] AS c, list_extract(l, 2) AS e, l[1:2] AS f, list_position(l, 7) AS g FROM t",
    "SELECT list_transform(l, lambda x, at: x + at) AS a, list_filter(l, lambda x, at: at > 1) AS b FROM t",
    "SELECT element_at(m, 'k') AS a, m['k'] AS b, map_extract(m, 'x') AS c FROM t",
    "SELECT id, n, v FROM (SELECT id, i, l[1] AS j FROM t) UNPIVOT (v FOR n IN (i, j))",
    "SELECT id, n, v FROM (SELECT id, i, l[1] AS j FROM t) UNPIVOT INCLUDE NULLS (v FOR n IN (i, j))",
    "UNPIVOT (SELECT id, i, l[1] AS j FROM t) ON i, j INTO NAME n VALUE v",
    "PIVOT (SELECT b, i, s FROM t) ON b IN (true, false) USING sum(i) GROUP BY s",
    "SELECT id, last_value(i IGNORE NULLS) OVER (ORDER BY id) AS x FROM t",
    "SELECT id, first_value(i RESPECT NULLS) OVER (ORDER BY id DESC) AS x FROM t",
    "SELECT id, lag(i, 1 IGNORE NULLS) OVER (ORDER BY id) AS x FROM t",
    "SELECT first(i ORDER BY id DESC) AS a, string_agg(s, ',' ORDER BY id) AS b FROM t",
    "SELECT sum(i) OVER (ORDER BY id ROWS 2 PRECEDING EXCLUDE CURRENT ROW) AS x FROM t",
    "SELECT 99999999999999999999999999999999999999 AS x",
    "SELECT 170141183460469231731687303715884105727 AS x",
    "SELECT 12345678901234567890123456789012345678901234567890 AS x",
    "SELECT sum(n) AS a, sum(w) AS b, avg(d) AS c, product(i) AS e FROM t WHERE id < 20",
    "SELECT id FROM t WHERE w = 15.0",
    "SELECT id FROM t WHERE w < 1e30 AND w = 15.0",
    "SELECT id FROM t WHERE abs(w) < 100::DECIMAL(38, 0) AND w::DECIMAL(20, 0) = 15.0",
    "SELECT id FROM t WHERE s = 2",
    "SELECT id FROM t WHERE i",
    "SELECT length('a\\n') AS a, 'a' || NULL AS b, concat('a', NULL) AS c, s[1] AS e FROM t",
    "SELECT 1 / 0 AS a, 1.0 / 0 AS b, 7 / 2 AS c",
    "SELECT 7 // 0 AS x",
    "SELECT x'00ff' AS a, '\\xAA'::BLOB AS b",
    "SELECT CAST(f AS FLOAT) AS a, f::DECIMAL(10, 2) AS b FROM t WHERE abs(f) < 100",
    "SELECT f = 'NaN'::DOUBLE AS a, f > 1e300 AS b FROM t",
    "SELECT id FROM t ORDER BY ALL LIMIT 3",
    "SELECT (SELECT max(id) FROM t), id IN (SELECT o.id FROM t AS o), EXISTS (FROM t x JOIN t USING (id)) FROM t",
    "SELECT i! AS x, (SELECT count(*) FROM t) FROM t WHERE i BETWEEN 0 AND 7",  # sqlglot does not know the sign
    "SELECT reduce(l, lambda x, y: x + y), id FROM t WHERE len(l) > 0 AND id IN (SELECT id FROM t WHERE i! > 1)",
    "SELECT id FROM t WHERE l @> [7] OR l && [1, 2] OR s !~~ '%b%' ORDER BY i!",
    "FROM t SELECT id, COLUMNS('^[id]$') WHERE i IS NOT NULL",
]


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_gives_what_it_gives_in_duckdb(twin: Twin, text: str) -> None:
    assert twin.of_lakelog(text) == twin.of_duckdb(text)


@pytest.mark.parametrize("order", ["st", "st DESC", "st NULLS FIRST", "i, st DESC NULLS LAST", "l DESC, s"])
def test_rows_have_the_order_that_they_have_in_duckdb(twin: Twin, order: str) -> None:
    text = f"SELECT id FROM t ORDER BY {order}, id"
    assert twin.connection.sql(text).to_pylist() == twin.engine.sql(text).to_arrow_table().to_pylist()


STATEMENTS = [
    "INSERT INTO t (id, i) SELECT id + 100, CAST('1x' AS INT) FROM t WHERE id < 3",
    "INSERT INTO t (id, i) SELECT id + 100, CAST(s AS INT) FROM t",
    "INSERT INTO t (id, i) VALUES (100, CAST(1.7 AS INT)), (101, CAST(-1.5 AS INT)), (102, TRY_CAST('1x' AS INT))",
    "INSERT INTO t (id, ts) SELECT id + 100, day + INTERVAL 1 MONTH FROM t WHERE day IS NOT NULL",
    "INSERT INTO t (id, i) SELECT 100, count_if(i > 0)::INT FROM t WHERE false",
    "WITH o AS (SELECT 100 AS id) INSERT INTO t (id, i) SELECT id, 7 FROM o",
    "WITH o AS (SELECT 100 AS id) INSERT INTO t (id, i) WITH p AS (SELECT id + 1 AS id FROM o) SELECT id, 7 FROM p",
    "WITH o AS (SELECT 100 AS id) INSERT INTO t (id, i) VALUES ((SELECT id FROM o), DEFAULT), (107, 1)",
    "WITH o AS (SELECT max(id) AS id FROM t) INSERT INTO t (id, w) SELECT id + 1, 4! FROM o QUALIFY rank() OVER () = 1",
    "UPDATE t SET i = CAST(s AS INT)",
    "UPDATE t SET i = TRY_CAST(s AS INT), d = (d // 2)::DECIMAL(10, 2), s = concat(s, NULL, 'z')",
    "UPDATE t SET i = CAST(1.7 AS INT) WHERE dayofweek(day) = 1",
    "UPDATE t SET i = datediff('month', day, DATE '2026-03-01') WHERE CAST(-1.5 AS INT) = -2",
    "UPDATE t SET i = 1 WHERE CAST(s AS INT) > 0",
    "UPDATE t SET l = list_transform(l, lambda x: x + id::INT), i = l[1] WHERE len(l) > 1",
    "UPDATE t SET st = (SELECT max(st) FROM t) WHERE st < {'a': 7, 't': 'ab'}",
    "DELETE FROM t WHERE dayofweek(day) = 1",
    "DELETE FROM t WHERE CAST(s AS INT) IS NULL",
    "DELETE FROM t WHERE TRY_CAST(s AS INT) IS NULL",
    "DELETE FROM t WHERE w = 15.0",
    "DELETE FROM t WHERE \"s\" <> 'ab'",
    "DELETE FROM t WHERE i",
    "DELETE FROM t WHERE l @> [7]",
    "UPDATE t SET i = reduce(l, lambda x, y: x + y) WHERE len(l) > 0 AND l && [1, 7, 100]",
    "INSERT INTO t (id, w) SELECT id + 100, (abs(i) % 9)! FROM t WHERE l @> [7]",
    "MERGE INTO t USING (SELECT id, l AS given FROM t WHERE l @> [7]) AS o ON t.id = o.id AND t.l && o.given "
    "WHEN MATCHED AND o.given @> [7] THEN UPDATE SET i = reduce(o.given, lambda x, y: x + y)",
    "DELETE FROM t WHERE s",
    "DELETE FROM t WHERE day + INTERVAL 1 MONTH > TIMESTAMP '2024-06-01'",
    "DELETE FROM t WHERE i IN (SELECT max(i) FROM t GROUP BY GROUPING SETS (b, s))",
    "MERGE INTO t USING (SELECT id, s AS given FROM t) AS o ON t.id = o.id "
    "WHEN MATCHED THEN UPDATE SET i = CAST(o.given AS INT)",
    "MERGE INTO t USING (SELECT id, s AS given FROM t) AS o ON t.id = o.id "
    "WHEN MATCHED AND CAST(o.given AS INT) > 0 THEN DELETE",
    "MERGE INTO t USING (SELECT id, s AS given FROM t) AS o ON t.id = o.id AND CAST(o.given AS INT) > 0 "
    "WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING (SELECT id, s AS given, day AS at FROM t) AS o ON t.id = o.id "
    "WHEN MATCHED AND dayofweek(o.at) = 1 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET i = TRY_CAST(o.given AS INT), ts = o.at + INTERVAL 1 MONTH",
    "MERGE INTO t USING (SELECT 100 AS id, '1x' AS given) AS o ON t.id = o.id "
    "WHEN NOT MATCHED THEN INSERT (id, i) VALUES (o.id, CAST(o.given AS INT))",
    "MERGE INTO t USING (SELECT 100 AS id, 1.7 AS given) AS o ON t.id = o.id "
    "WHEN NOT MATCHED THEN INSERT (id, i) VALUES (o.id, CAST(o.given AS INT))",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_changes_the_rows_that_it_changes_in_duckdb(twin: Twin, text: str) -> None:
    query = "SELECT * FROM t"
    expected = twin.changed_in_duckdb(text, query)
    assert expected != twin.of_duckdb(query), "the statement changes rows, or fails"
    assert expected not in (duckdb.CatalogException, duckdb.ParserException), "it is one of DuckDB"
    assert twin.changed_in_lakelog(text, query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, day + INTERVAL 1 MONTH AS x FROM t",
        "SELECT id, datediff('day', day, DATE '2026-03-01') AS x FROM t",
        "SELECT id, d // 2 AS x FROM t",
        "SELECT id, d / 2 AS x FROM t",
        "SELECT s AS id, sum(n) AS x FROM t GROUP BY s",
        "SELECT id, list_transform(l, lambda x: x / 2) AS x FROM t",
        "SELECT id, {'day': day, 'days': [day]} AS x FROM t",
    ],
)
def test_a_table_of_a_query_has_its_types(twin: Twin, query: str) -> None:
    twin.connection.sql(f"CREATE TABLE made AS {query}")
    try:
        assert twin.of_lakelog("SELECT * FROM made") == twin.of_duckdb(query)
    finally:
        twin.connection.sql("DROP TABLE made")


@pytest.mark.parametrize(
    "words",
    [
        "SORT BY id",
        "DISTRIBUTE BY id",
        "CLUSTER BY id",
        "LATERAL VIEW explode(l) x AS y",
        "LIMIT 1 BY id",
        "FETCH FIRST 1 ROWS WITH TIES",
    ],
)
def test_words_of_others_are_refused_and_never_dropped(twin: Twin, words: str) -> None:
    text = f"SELECT id FROM t {words}"
    assert isinstance(twin.of_duckdb(text), type)
    for statement in (text, f"INSERT INTO t (id) {text}", f"WITH o AS (SELECT 1 AS id) INSERT INTO t (id) {text}"):
        with pytest.raises(InvalidRequestError):
            twin.connection.sql(statement)


def test_what_the_writer_would_leave_out_is_refused(twin: Twin) -> None:
    """Texts are handed on as they are; this is a query that a statement would put together."""
    value = exp.ArrayInsert(this=exp.column("l"), position=exp.column("i"), expression=exp.Literal.number(1))
    tables = QueryTables(names=twin.connection._names)
    with pytest.raises(UnsupportedError, match="ARRAY_INSERT can only be"):
        tables.run(exp.select(value).from_("t"))
