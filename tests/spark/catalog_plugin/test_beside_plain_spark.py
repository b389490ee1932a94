"""Statements on tables of every kind give what plain Spark gives on the same rows.

The rows of tables that merge in another way than by the last row are those that Python reads.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.spark import attach, detach
from lakelog.spark.catalog_plugin import table_scan
from tests.support.examples import examples, rest_in_full
from tests.support.tables.made_queries import COLUMNS, condition, query

KEYED = {"primary-key": "id", "bucket": "2", "write-only": "true"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "merged": KEYED,
    "compacted": KEYED,
    "vectors": {"primary-key": "id", "bucket": "1", "deletion-vectors.enabled": "true"},
    "dynamic": {"primary-key": "id", "bucket": "-1"},
    "partitioned": {**KEYED, "primary-key": "id,p"},
    "appended": {"bucket": "-1"},
    "appended_parts": {"bucket": "-1"},
    "counted": {"write-mode": "change-log", "bucket": "2"},
    "first_row": {**KEYED, "merge-engine": "first-row"},
    "partial": {**KEYED, "merge-engine": "partial-update"},
    "summed": {**KEYED, "merge-engine": "aggregation", "fields.b.aggregate-function": "sum"},
    "empty": KEYED,
    "emptied": {"bucket": "-1"},
}
PARTITIONED = {"partitioned", "appended_parts"}
ONCE = {"appended", "appended_parts", "counted", "emptied"}  # each row is written once
CHANGED = ("merged", "compacted", "vectors", "dynamic", "partitioned", "appended", "appended_parts", "counted")
KNOWN_QUERIES = (
    "SELECT count(NULL) FROM {t}",
    "SELECT count(*) FROM {t} WHERE EXISTS (SELECT max(a) FROM {u})",
    "SELECT count(*) FROM {t} WHERE NOT EXISTS (SELECT max(a) FROM {u})",
    "SELECT count(*) FROM (SELECT max(a) FROM {t})",
    "SELECT 1 FROM {t} HAVING true",
    "SELECT max(a + 10), min(upper(s)), min(NULL) FROM {t}",
)
KNOWN_CONDITIONS = ("NOT EXISTS (SELECT max(a) FROM {u})", "EXISTS (SELECT count(*) FROM {u})")
SETS = ("b = b + 1", "s = (SELECT max(s) FROM {u})", "b = (SELECT count(NULL) FROM {u}), f = NOT f", "a = NULL")


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables of every kind, with the same rows in views of plain Spark."""

    session: SparkSession
    catalog: Catalog

    def plain(self, text: str, t: str, u: str) -> DataFrame:
        """The rows of a SELECT on the plain rows."""
        return self.session.sql(text.format(t=f"plain_{t}", u=f"plain_{u}"))

    def attached(self, text: str, t: str, u: str) -> DataFrame:
        """The rows of a SELECT on the tables."""
        return self.session.sql(text.format(t=f"lake.db.{t}", u=f"lake.db.{u}"))

    def rows(self, kind: str) -> Counter[str]:
        """The rows of a table now."""
        return shown(self.session.table(f"lake.db.{kind}"))


def shown(rows: DataFrame) -> Counter[str]:
    return Counter(map(repr, rows.collect()))


def made_row(number: int, chance: random.Random) -> dict[str, object]:
    def or_null(value: object) -> object:
        return None if chance.random() < 0.2 else value

    return {
        "id": number,
        "a": or_null(chance.randint(0, 20)),
        "b": or_null(chance.randint(-10, 20)),
        "s": or_null(chance.choice(["a", "b", "bb", "", "Z"])),
        "d": or_null(date(2026, 1, 1) + timedelta(days=chance.randint(0, 20))),
        "m": or_null(Decimal(chance.randint(-500, 500)) / 100),
        "f": or_null(chance.random() < 0.5),
        "p": number % 3,
    }


def fill(table: Table, kind: str, chance: random.Random) -> None:
    schema = pa.schema(table.schema.arrow_schema)
    groups = [range(12), range(12, 24)] if kind in ONCE else [range(16), range(8, 24)]
    for group in groups:
        table.write(pa.Table.from_pylist([made_row(number, chance) for number in group], schema=schema))
    if kind in ("compacted", "vectors"):
        table.compact(full=True)
    if kind in ("merged", "vectors", "dynamic"):
        table.delete("id IN (3, 17)")
    if kind == "emptied":
        table.delete("id >= 0")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    session, catalog = spark.newSession(), Catalog(tmp_path_factory.mktemp("beside"))
    attach(session, "lake", catalog)
    chance = random.Random(46)
    session.sql("CREATE DATABASE lake.db")
    for kind, options in KINDS.items():
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        parts = "PARTITIONED BY (p) " if kind in PARTITIONED else ""
        session.sql(f"CREATE TABLE lake.db.{kind} ({COLUMNS}) {parts}TBLPROPERTIES ({given})")
        table = catalog.load_table(f"db.{kind}")
        if kind != "empty":
            fill(table, kind, chance)
        rows = session.createDataFrame(table.to_arrow().to_pylist(), session.table(f"lake.db.{kind}").schema)
        rows.createOrReplaceTempView(f"plain_{kind}")
    yield Tables(session=session, catalog=catalog)
    detach(session, "lake")


def check_queries(tables: Tables, texts: list[tuple[str, str, str]]) -> None:
    filled = 0
    for text, t, u in texts:
        plain, found = tables.plain(text, t, u), tables.attached(text, t, u)
        assert [field.dataType for field in found.schema] == [field.dataType for field in plain.schema], (text, t, u)
        expected = shown(plain)
        assert shown(found) == expected, (text, t, u)
        filled += bool(expected)
    assert filled > len(texts) // 3  # the queries find rows


def random_queries(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Queries, each with two kinds of tables; every kind comes equally often."""
    chance, kinds = random.Random(seed), list(KINDS)
    return [(query(chance), kinds[number % len(kinds)], chance.choice(kinds)) for number in range(count)]


def check_changes(tables: Tables, seed: int, count: int) -> None:
    """DELETE and UPDATE leave the rows that they should. Each table is brought back behind its statement."""
    chance, kinds = random.Random(seed), list(KINDS)
    for number in range(count):
        kind, other = CHANGED[number % len(CHANGED)], chance.choice(kinds)
        where = KNOWN_CONDITIONS[number] if number < len(KNOWN_CONDITIONS) else condition(chance)
        assigned = chance.choice(SETS) if number % 3 == 2 else None
        check_change(tables, kind, other, where, assigned)


def check_change(tables: Tables, kind: str, other: str, where: str, assigned: str | None) -> None:
    every = shown(tables.plain("SELECT * FROM {t}", kind, other))
    hit = shown(tables.plain(f"SELECT t.* FROM {{t}} AS t WHERE {where}", kind, other))
    table = tables.catalog.load_table(f"db.{kind}")
    before = table.store.snapshot()
    assert before is not None
    if assigned is None:
        text, expected = f"DELETE FROM {{t}} AS t WHERE {where}", every - hit
    else:
        text = f"UPDATE {{t}} AS t SET {assigned} WHERE {where}"
        values = dict(part.split(" = ", 1) for part in assigned.split(", ") if " = " in part)
        columns = ", ".join(values.get(name, f"t.{name}") + f" AS {name}" for name in table.schema.arrow_schema.names)
        changed = tables.plain(f"SELECT {columns} FROM {{t}} AS t WHERE {where}", kind, other)
        expected = every - hit + shown(changed)
    tables.attached(text, kind, other)
    assert tables.rows(kind) == expected, (text, kind, other)
    table.restore(snapshot_id=before.id)


@pytest.mark.parametrize("text", rest_in_full(KNOWN_QUERIES, 2))
def test_an_aggregate_that_is_left_out_still_has_its_row(tables: Tables, text: str) -> None:
    check_queries(tables, [(text, "compacted", "appended"), (text, "empty", "emptied"), (text, "merged", "empty")])


@pytest.mark.full
def test_queries_on_tables_of_every_kind_find_what_plain_spark_finds(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = random_queries(46, examples(88))
    check_queries(tables, texts[::2])
    monkeypatch.setattr(table_scan, "_LOCAL_ROWS", 0)  # these are read by tasks
    check_queries(tables, texts[1::2])


def test_deletes_and_updates_by_conditions_with_sub_queries_leave_what_they_should(tables: Tables) -> None:
    check_changes(tables, 46, examples(18))  # each kind is changed


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(6))
def test_many_queries_and_changes_are_those_of_plain_spark(tables: Tables, seed: int) -> None:
    check_queries(tables, random_queries(seed, 200))
    check_changes(tables, seed, 40)
