"""What a connection without Spark promises: one snapshot a statement, no part dropped, no file but tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, ConflictError, InvalidRequestError, LakelogError, UnsupportedError
from lakelog.catalog.tables.row_actions import changes_of_actions
from lakelog.filestore.metadata.tables import files_of_table
from lakelog.lineage import upstream
from lakelog.sql import SqlConnection
from lakelog.sql.language.parsing import is_destructive, split_statements
from lakelog.sql.statements import inserting, row_statements
from lakelog.sql.statements.fitting import fitted


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


@pytest.fixture
def connection(catalog: Catalog) -> SqlConnection:
    made = lakelog.sql.connect(catalog)
    for text in (
        "CREATE DATABASE db",
        "USE db",
        "CREATE TABLE t (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    ):
        made.sql(text)
    return made


def test_a_connection_shows_its_warehouses_and_where_names_are_looked_up(tmp_path: Path) -> None:
    connection = lakelog.sql.connect(Catalog(tmp_path))
    connection.sql("CREATE DATABASE d")
    connection.sql("USE d")
    assert repr(connection) == f"SqlConnection(lake={str(tmp_path)!r}; USE lake.d)"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("VACUUM", "expire_snapshots"),
        ("VACUUM d.t RETAIN 7 HOURS", "expire_snapshots"),
        ("OPTIMIZE d.t ZORDER BY (id)", "sys.compact"),
        ("RESTORE TABLE d.t TO VERSION AS OF 1", "sys.restore"),
        ("DESCRIBE HISTORY d.t", "snapshots`"),
        ("ALTER TABLE d.t CREATE TAG x", "create_tag"),
        ("SHOW TAGS d.t", "tags`"),
    ],
)
def test_a_statement_of_another_format_names_what_replaces_it(tmp_path: Path, text: str, meant: str) -> None:
    with pytest.raises(UnsupportedError, match=f"a statement of another table format; here: .*{meant}"):
        lakelog.sql.connect(Catalog(tmp_path)).sql(text)


def test_a_join_over_two_catalogs(connection: SqlConnection, catalog: Catalog, tmp_path: Path) -> None:
    other = Catalog(tmp_path / "other")
    other.create_table("db.u", schema="id INT NOT NULL, n BIGINT", primary_keys="id")
    other.load_table("db.u").write(pa.table({"id": pa.array([2], pa.int32()), "n": [20]}))
    both = lakelog.sql.connect(catalog, attach={"other": other})
    found = both.sql("SELECT t.v, u.n FROM lake.db.t JOIN other.db.u USING (id)")
    assert found.to_pylist() == [{"v": "b", "n": 20}]
    both.sql("INSERT INTO other.db.u SELECT id + 10, CAST(length(v) AS BIGINT) FROM lake.db.t")
    assert both.sql("SELECT count(*) AS n FROM other.db.u").to_pylist() == [{"n": 3}]


def test_a_statement_sees_one_snapshot_however_often_it_names_a_table(
    connection: SqlConnection, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer commits between the two reads of the rows that replace the table's."""

    def write_first(*args: object, **kwargs: object) -> pa.Table:
        catalog.load_table("db.t").write(pa.table({"id": pa.array([9], pa.int32()), "v": ["late"]}))
        return fitted(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(inserting, "fitted", write_first)
    with pytest.raises(ConflictError, match="another commit came first"):
        connection.sql("INSERT OVERWRITE t SELECT id, concat(v, v) FROM t")
    assert connection.sql("SELECT v FROM t ORDER BY id")["v"].to_pylist() == ["a", "b", "late"]


def test_a_merge_behind_another_commit_is_computed_again(
    connection: SqlConnection, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source reads the table itself: the rows of a commit that came between are in what it writes."""
    computed: list[int] = []

    def write_first(*args: Any, **kwargs: Any) -> Any:  # those of changes_of_actions
        changes = changes_of_actions(*args, **kwargs)
        if not computed:
            catalog.load_table("db.t").write(pa.table({"id": pa.array([2], pa.int32()), "v": ["newer"]}))
        computed.append(1)
        return changes

    monkeypatch.setattr(row_statements, "changes_of_actions", write_first)
    connection.sql(
        "MERGE INTO t USING (SELECT id, concat(v, '!') AS v FROM t) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert len(computed) == 2
    assert connection.sql("SELECT v FROM t ORDER BY id")["v"].to_pylist() == ["a!", "newer!"]


HINTED = [
    ("SELECT count(*) AS n FROM t /*+ OPTIONS('scan.snapshot-id'='1') */", 2),
    (
        "SELECT count(*) AS n FROM t /*+ options( 'scan.version' = '1' , 'branch' = 'main') */ AS x WHERE id > 0",
        2,
    ),
    ("SELECT count(*) AS n FROM t WITH (`scan.snapshot-id` = '1')", 2),
    ("SELECT count(*) AS n FROM t FOR SYSTEM_VERSION AS OF 1", 2),
    ("SELECT count(*) AS n FROM t VERSION AS OF 1 AS x JOIN t ON x.id = t.id", 2),
    ("SELECT count(*) AS n FROM t$snapshots", 2),
    ("SELECT count(*) AS n FROM t /* OPTIONS('scan.snapshot-id'='1') */", 3),
]


@pytest.mark.parametrize(("text", "count"), HINTED)
def test_words_of_flip_188_behind_a_table(connection: SqlConnection, text: str, count: int) -> None:
    connection.sql("INSERT INTO t VALUES (3, 'c')")
    assert connection.sql(text)["n"].to_pylist() == [count]


def test_a_commit_records_the_snapshots_that_its_query_read(connection: SqlConnection, catalog: Catalog) -> None:
    connection.sql("CREATE TABLE copied TBLPROPERTIES ('primary-key' = 'id') AS SELECT * FROM t")
    connection.sql("INSERT INTO t VALUES (3, 'c')")
    connection.sql("INSERT INTO copied SELECT * FROM t VERSION AS OF 2 WHERE id > 2")
    first, second = (upstream(catalog, "db.copied", number, 1) for number in (1, 2))
    assert first.select(["source_table", "source_to"]).to_pylist() == [{"source_table": "db.t", "source_to": 1}]
    assert second.select(["source_table", "source_to"]).to_pylist() == [{"source_table": "db.t", "source_to": 2}]


CHANGED = [
    "MERGE INTO c USING t ON c.id = t.id WHEN MATCHED THEN UPDATE SET v = t.v WHEN NOT MATCHED THEN INSERT *",
    "UPDATE c SET v = 'new' WHERE id IN (SELECT id FROM t)",
    "DELETE FROM c WHERE EXISTS (SELECT 1 FROM t WHERE t.id = c.id)",
]


@pytest.mark.parametrize("text", CHANGED)
def test_a_statement_on_rows_records_what_it_read_beside_the_table(
    connection: SqlConnection, catalog: Catalog, text: str
) -> None:
    connection.sql("CREATE TABLE c LIKE t")
    connection.sql("INSERT INTO c VALUES (2, 'old')")
    connection.sql("INSERT INTO t VALUES (3, 'c')")
    connection.sql(text)
    found = upstream(catalog, "db.c", 2, 1).select(["source_table", "source_to"])
    assert found.to_pylist() == [{"source_table": "db.t", "source_to": 2}]


def test_a_sum_of_whole_numbers_has_the_type_that_duckdb_gives_it(connection: SqlConnection) -> None:
    found = connection.sql("SELECT sum(id) AS s, v FROM t GROUP BY v ORDER BY v")
    assert found.schema.field("s").type == pa.decimal128(38, 0)
    assert found.to_pylist() == [{"s": 1, "v": "a"}, {"s": 2, "v": "b"}]
    connection.sql("CREATE TABLE sums AS SELECT sum(id) AS s FROM t")
    assert connection.sql("DESCRIBE sums")["data_type"].to_pylist() == ["decimal(38,0)"]


BOUND: list[tuple[str, Any, Any]] = [
    ("SELECT v AS x FROM t WHERE id = ?", [2], "b"),
    ("SELECT v AS x FROM t WHERE id = :id AND v = :v", {"id": 1, "v": "a"}, "a"),
    ("SELECT ? AS x", ["it's; DROP TABLE t --"], "it's; DROP TABLE t --"),
    ("SELECT ? AS x", [None], None),
    ("SELECT ? AS x", [Decimal("-12.50")], Decimal("-12.50")),
    ("SELECT ? AS x", [0.1], 0.1),
    ("SELECT ? AS x", [date(2026, 1, 31)], date(2026, 1, 31)),
    ("SELECT ? AS x", [b"\x00\xff"], b"\x00\xff"),
    ("SELECT ? AND true AS x", [False], False),
]


@pytest.mark.parametrize(("text", "parameters", "expected"), BOUND)
def test_parameters_are_values_and_never_text(
    connection: SqlConnection, text: str, parameters: Any, expected: object
) -> None:
    assert connection.sql(text, parameters)["x"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "parameters"),
    [("SELECT ?", []), ("SELECT ?", None), ("SELECT :a", {"b": 1}), ("SELECT 1", [1]), ("SELECT ?", [object()])],
)
def test_a_parameter_without_a_value_is_refused(connection: SqlConnection, text: str, parameters: Any) -> None:
    with pytest.raises(InvalidRequestError):
        connection.sql(text, parameters)


NOT_RUN = [
    "ATTACH '{file}' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA version",
    "SET enable_external_access = true",
]


@pytest.mark.parametrize("text", NOT_RUN)
def test_a_statement_attaches_no_database_and_changes_no_setting(
    connection: SqlConnection, tmp_path: Path, text: str
) -> None:
    with pytest.raises(UnsupportedError):
        connection.sql(text.format(file=tmp_path / "other.db"))
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a\\b"])
def test_names_stay_inside_the_warehouse(connection: SqlConnection, tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LakelogError):
        connection.sql(f"CREATE TABLE `{name}` (id INT)")
    with pytest.raises(LakelogError):
        connection.sql(f"CREATE DATABASE `{name}`")
    assert sorted(tmp_path.rglob("*")) == before


DROPPED = [
    ("SELECT * FROM t /*+ OPTIONS('scan.snapshoot-id' = '1') */", "scan.snapshoot-id"),
    ("ALTER TABLE t SET LOCATION '/tmp'", "SET LOCATION"),
    ("CREATE TABLE u (id INT) LOCATION '/tmp/u'", "warehouse"),
]


@pytest.mark.parametrize(("text", "told"), DROPPED)
def test_what_would_be_dropped_in_silence_is_refused(connection: SqlConnection, text: str, told: str) -> None:
    with pytest.raises(UnsupportedError, match=told):
        connection.sql(text)
    assert connection.sql("SHOW TABLES")["tableName"].to_pylist() == ["t"]


def test_several_statements_are_refused_and_scripts_are_split(connection: SqlConnection) -> None:
    with pytest.raises(InvalidRequestError, match="2 statements"):
        connection.sql("SELECT 1; SELECT 2")
    assert split_statements("SELECT ';' -- ;\n; /* ; */ SELECT 2;;") == ["SELECT ';' -- ;", "SELECT 2"]
    assert all(is_destructive(text) for text in ("DROP TABLE t", "DELETE FROM t", "TRUNCATE TABLE t"))
    assert not any(is_destructive(text) for text in ("DELETE FROM t WHERE id = 1", "SELEC", "SELECT 1"))


def scans_of(connection: SqlConnection, query: str) -> list[str]:
    lines = connection.sql(f"EXPLAIN {query}")["plan"].to_pylist()
    return [line.strip() for line in lines if line.strip().startswith("Scan ")]


def test_a_plan_has_the_columns_conditions_and_files_of_each_scan(connection: SqlConnection, catalog: Catalog) -> None:
    connection.sql("CREATE TABLE p (id INT NOT NULL, d STRING, v STRING, PRIMARY KEY (id, d)) PARTITIONED BY (d)")
    connection.sql("INSERT INTO p VALUES (1, 'x', 'a'), (2, 'y', 'b'), (3, 'z', 'c')")
    files = {
        file.partition["d"]: file.size_bytes for file in files_of_table(*catalog.load_table("db.p").store.travelled())
    }
    whole = sum(files.values())
    found = scans_of(connection, "SELECT count(a.v) FROM p a JOIN t ON a.id = t.id WHERE a.d = 'x' AND a.v LIKE '%a'")
    assert len(found) == 2
    own = next(line for line in found if "lake.db.p" in line)
    assert own.startswith("Scan lake.db.p, snapshot 1: ")
    assert "where (d = 'x')" in own
    assert own.endswith(f"1 of 3 files, {files['x']:,} of {whole:,} bytes")
    assert scans_of(connection, "SELECT 1 FROM p VERSION AS OF 1 WHERE id > 2")[0].count("1 of 3 files") == 1
    # Two names of one table are two scans.
    assert len(scans_of(connection, "SELECT 1 FROM p a, p b WHERE a.id = 1 AND b.id = 2")) == 2
    # The inner query of a state is run: it is no part of the plan.
    (line,) = scans_of(connection, "SELECT * FROM p VERSION AS OF (SELECT max(snapshot_id) FROM p$snapshots)")
    assert "3 of 3 files" in line
    assert catalog.load_table("db.p").snapshot().id == 1  # type: ignore[union-attr]


def test_the_plan_of_an_insert_writes_nothing(connection: SqlConnection, catalog: Catalog) -> None:
    before = catalog.load_table("db.t").snapshot()
    assert scans_of(connection, "INSERT INTO t SELECT id + 10, v FROM t WHERE id = 1")
    assert catalog.load_table("db.t").snapshot() == before


COLUMNS = [
    "id BIGINT NOT NULL",
    "`a b` STRING COMMENT 'it''s \\\\ so'",
    "`select` INT DEFAULT -5",
    "c CHAR(3)",
    "c2 VARCHAR(20) DEFAULT 'it''s'",
    "b BINARY",
    "b2 VARBINARY(7)",
    "b3 BINARY(4)",
    "t3 TIME(3)",
    "ts TIMESTAMP DEFAULT TIMESTAMP '2026-01-31 12:00:00'",
    "tn TIMESTAMP_NTZ",
    "t3n TIMESTAMP(3)",
    "tl TIMESTAMP_LTZ(9)",
    "d DATE DEFAULT DATE '2026-01-31'",
    "x DECIMAL(20, 3) DEFAULT 1.5",
    "f FLOAT",
    "o BOOLEAN DEFAULT true",
    "arr ARRAY<INT NOT NULL>",
    "m MAP<STRING, ARRAY<STRUCT<`p q`: DOUBLE, r: ARRAY<ARRAY<INT>>>>>",
    "st STRUCT<a: INT COMMENT 'q', `x y`: STRING NOT NULL>",
    "ms MULTISET<INT>",
]


def test_a_table_is_made_again_by_what_show_create_table_says(connection: SqlConnection, catalog: Catalog) -> None:
    connection.sql(
        f"CREATE TABLE `odd-t` ({', '.join(COLUMNS)}, twice AS id * 2, WATERMARK FOR t3n AS t3n - INTERVAL '1' SECOND, "
        "PRIMARY KEY (id, `select`)) COMMENT 'it''s; \"so\"' PARTITIONED BY (`select`) WITH ('bucket' = '2', "
        "'snapshot.time-retained' = '2 h')"
    )
    text = connection.sql("SHOW CREATE TABLE `odd-t`")["createtab_stmt"][0].as_py()
    connection.sql(text.replace("`odd-t`", "again"))
    first, second = (catalog.load_table(f"db.{name}").schema for name in ("odd-t", "again"))
    assert second.fields == first.fields
    assert [field.default_value for field in first.fields][2] == "-5"
    assert (second.primary_keys, second.partition_keys) == (first.primary_keys, first.partition_keys)
    assert second.comment == first.comment == 'it\'s; "so"'
    hidden = {"lakelog.table-uuid": "", "lakelog.place": ""}
    assert {**second.options, **hidden} == {**first.options, **hidden}
    assert connection.sql("SHOW CREATE TABLE again")["createtab_stmt"][0].as_py() == text.replace("`odd-t`", "again")


def test_a_partition_is_named_by_any_string(connection: SqlConnection) -> None:
    connection.sql("CREATE TABLE odd (id INT NOT NULL, d STRING, PRIMARY KEY (id, d)) PARTITIONED BY (d)")
    values = ["a\\b", "it's", "\\'", "plain"]
    for at, value in enumerate(values):
        connection.sql("INSERT INTO odd VALUES (?, ?)", [at, value])
    for at, value in enumerate(values):
        connection.sql("TRUNCATE TABLE odd PARTITION (d = :d)", {"d": value})
        assert connection.sql("SELECT id FROM odd ORDER BY id")["id"].to_pylist() == [*range(at + 1, len(values))]


def test_a_state_is_read_in_its_own_columns(connection: SqlConnection, catalog: Catalog) -> None:
    first = catalog.load_table("db.t").snapshot()
    assert first is not None
    catalog.load_table("db.t").tags.create("then")
    for text in (
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ADD COLUMN v INT",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "INSERT INTO t VALUES (3, 7)",
    ):
        connection.sql(text)
    expected = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    for state in (
        "VERSION AS OF 1",
        "VERSION AS OF 'then'",
        f"TIMESTAMP AS OF '{datetime.fromtimestamp(first.time_millis / 1000 + 0.001, UTC).isoformat(sep=' ')}'",
        f"WITH (`scan.timestamp-millis` = '{first.time_millis}')",
        "WITH (`scan.snapshot-id` = '1')",
        "WITH (tag = 'then')",
    ):
        assert connection.sql(f"SELECT * FROM t {state} ORDER BY id").to_pylist() == expected, state
        assert connection.sql(f"SELECT v FROM t {state} WHERE v > 'a'").to_pylist() == [{"v": "b"}], state
    both = "SELECT n.w, o.v FROM t n LEFT JOIN t VERSION AS OF 1 o ON n.id = o.id ORDER BY n.id"
    assert connection.sql(both).to_pylist() == [{"w": None, "v": "a"}, {"w": None, "v": "b"}, {"w": 7, "v": None}]
    connection.sql("ALTER TABLE t ADD COLUMN later INT")  # no commit since: the newest state has it
    assert connection.sql("SELECT later FROM t WHERE later IS NULL AND id = 3").to_pylist() == [{"later": None}]
    plan = connection.sql("EXPLAIN SELECT later FROM t WHERE later = 3")
    assert "later = 3" in str(plan.to_pylist())


@pytest.mark.parametrize("word", ["CHECKPOINT", "REINDEX"])
def test_a_word_alone_that_is_no_statement_is_refused(connection: SqlConnection, word: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{word}.*: there is no such statement here"):
        connection.sql(word)
