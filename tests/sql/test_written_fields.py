"""The lineage of fields of statements without Spark, held against the cases that Spark's plans are held against."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp

from lakelog.catalog import Catalog
from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.origins.record import batches_of
from lakelog.lineage.columns.field_edges import FieldEdge
from lakelog.lineage.columns.field_store import find_document
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.sql import connect
from lakelog.sql.language.names import SqlNames
from lakelog.sql.language.parsing import parsed
from lakelog.sql.statements.inserting import insert_statement
from lakelog.sql.statements.written_fields import fields_of_changes, fields_of_query
from tests.support.lineage.field_cases import FieldCase, cases_of

# What the text of a query does not say: types, the fields of structs, what PIVOT makes, and the case of CREATE VIEW
# with names, which door 2 does not have.
DIFFERENCES = {
    "a cast that the write adds": "no types",
    "star of a struct": "no types",
    "field of a struct that the query builds": "the fields of structs are not followed",
    "group by all and by position": "a place in ORDER BY is not followed",
    "aggregates without a key": "collect_list is a function of Spark alone",
    "functions that are conditions": "decode of four values is one of Spark alone, and left unread",
    "functions that mask": "some are of Spark alone",
    "types/simpleQueryWithNvl2Conditional": "nvl2 is a function of Spark alone",
    "pivot": "opaque",
    "unpivot": "opaque",
    "inline": "no types",
    "stack": "each column from all arguments",
    "column_select_expression/test_select_column_using_expression_with_table_qualifier_without_column_alias": "the "
    "table has another column than the query",
}
EXACT_MIN = 270


def found_for(case: FieldCase, folder: Path) -> PlanFields | None:
    """The lineage of the statement of a case; None for one that door 2 does not have."""
    catalog = Catalog(folder / "lake")
    catalog.create_database("default")
    for name, columns in case.content["tables"].items():
        full = name if "." in name else f"default.{name}"
        if not catalog.database_exists(full.partition(".")[0]):
            catalog.create_database(full.partition(".")[0])
        catalog.create_table(full, schema=pa.schema([(column, pa.string()) for column in columns]))
    names = SqlNames(catalogs={"lk": catalog}, catalog="lk", database="default")
    try:
        (statement,) = parsed(case.content["statements"][0])
        match statement:
            case exp.Insert():
                given = insert_statement(names, statement)
                return fields_of_query(names, given.query, columns=given.columns, by_name=given.by_name)
            case exp.Update() | exp.Merge() | exp.Delete():
                return fields_of_changes(names, statement)
            case exp.Create() if statement.expression is not None:
                return fields_of_query(names, statement.expression)
            case exp.Query():
                return fields_of_query(names, statement)
    except LakelogError:
        return None
    return None


def start(edge: FieldEdge) -> str:
    return f"{'.'.join(edge.source.dataset).removeprefix('default.')}.{edge.source.column}".lower()


def is_exact(case: FieldCase, found: PlanFields) -> bool:
    edges = {
        (
            start(edge),
            one.name.lower(),
            edge.kind.subtype if case.has_kinds else "DIRECT",
            edge.is_masked and case.has_kinds,
        )
        for one in found.lineage.fields
        for edge in one.edges
        if case.has_kinds or edge.kind.is_direct
    }
    if case.has_dataset:
        edges |= {(start(edge), "*", edge.kind.subtype, edge.is_masked) for edge in found.lineage.dataset}
    return edges == {
        (begin.lower(), end.rpartition(".")[2].lower(), subtype, masked)
        for begin, end, subtype, masked in case.expected()
    }


@pytest.mark.parametrize("file", ["byhand", "openlineage", "sqllineage"])
def test_statements_have_the_edges_that_are_expected(file: str, tmp_path: Path) -> None:
    differ: list[str] = []
    for number, case in enumerate(one for one in cases_of(file) if len(one.content["statements"]) == 1):
        found = found_for(case, tmp_path / str(number))
        if found is not None and not is_exact(case, found):
            differ.append(case.name)
    assert [name for name in differ if name not in DIFFERENCES] == []


def test_most_of_the_cases_are_compared(tmp_path: Path) -> None:
    cases = [case for file in ("byhand", "openlineage", "sqllineage") for case in cases_of(file)]
    found = {
        case.name: found_for(case, tmp_path / str(number))
        for number, case in enumerate(cases)
        if len(case.content["statements"]) == 1
    }
    exact = [case for case in cases if (one := found.get(case.name)) is not None and is_exact(case, one)]
    assert len(exact) >= EXACT_MIN
    differ = {case.name for case in cases if (one := found.get(case.name)) is not None and not is_exact(case, one)}
    assert differ == DIFFERENCES.keys()


SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])


def recorded(catalog: Catalog) -> set[tuple[str, str, str]]:
    """The edges that the newest snapshot of the table names, and that they are marked."""
    table = catalog.load_table("db.t")
    snapshot = table.store.snapshots.latest()
    assert snapshot is not None
    (checksum,) = (one for batch in batches_of(snapshot) for one in batch.lineage.fields)
    document = find_document(table.store, checksum)
    assert document is not None
    assert document.is_approximate
    found = {(edge.source.name, one.name, edge.kind.subtype) for one in document.lineage.fields for edge in one.edges}
    return found | {(edge.source.name, "*", edge.kind.subtype) for edge in document.lineage.dataset}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "INSERT INTO db.t SELECT id, a + 1 FROM db.s WHERE a > 0",
            {("id", "id", "IDENTITY"), ("a", "a", "TRANSFORMATION"), ("a", "*", "FILTER")},
        ),
        (
            "INSERT INTO db.t SELECT id, a::INT! FROM db.s WHERE (a::INT)! > 3",  # which sqlglot cannot read
            {("id", "id", "IDENTITY"), ("a", "a", "TRANSFORMATION"), ("a", "*", "FILTER")},
        ),
        ("UPDATE db.t SET a = id WHERE a = 1", {("id", "a", "IDENTITY"), ("a", "*", "FILTER")}),
        ("DELETE FROM db.t WHERE a = 1", {("a", "*", "FILTER")}),
        (
            "UPDATE db.t SET a = s.a * 2 FROM db.s AS s WHERE t.id = s.id",
            {("a", "a", "TRANSFORMATION"), ("id", "*", "FILTER")},
        ),
        ("DELETE FROM db.t USING db.s AS s WHERE t.id = s.a", {("id", "*", "FILTER"), ("a", "*", "FILTER")}),
        (
            "INSERT OR REPLACE INTO db.t SELECT id, a + 1 FROM db.s WHERE a > 0",
            {("id", "id", "IDENTITY"), ("a", "a", "TRANSFORMATION"), ("id", "*", "JOIN"), ("a", "*", "FILTER")},
        ),
        (
            "MERGE INTO db.t USING db.s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.a * 2",
            {("a", "a", "TRANSFORMATION"), ("id", "*", "JOIN")},
        ),
        (
            "CREATE OR REPLACE TABLE db.t AS SELECT id, max(a) AS a FROM db.s GROUP BY id",
            {("id", "id", "IDENTITY"), ("a", "a", "AGGREGATION"), ("id", "*", "GROUP_BY")},
        ),
    ],
)
def test_a_statement_records_the_lineage_of_its_fields(
    statement: str, expected: set[tuple[str, str, str]], tmp_path: Path
) -> None:
    catalog = Catalog(tmp_path / "lake")
    for name in ("db.t", "db.s"):
        keys = [] if statement.startswith("CREATE") else ["id"]
        catalog.create_table(name, schema=SCHEMA, primary_keys=keys)
        catalog.load_table(name).write(pa.table({"id": [1, 2], "a": [1, 3]}, schema=SCHEMA))
    connect(catalog).sql(statement)
    assert recorded(catalog) == expected


PIVOT = "PIVOT (sum(a) FOR q IN ('x', 'y'))"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM db.s {PIVOT}",
        f"SELECT * FROM (SELECT * FROM db.s) {PIVOT}",
        f"WITH c AS (SELECT * FROM db.s) SELECT * FROM c {PIVOT}",
        f"SELECT id, x, y FROM db.s {PIVOT}",
        "SELECT id, n AS x, v AS y FROM db.s UNPIVOT (v FOR n IN (a, b))",
    ],
)
def test_a_table_of_pivoted_rows_records_their_sources(query: str, tmp_path: Path) -> None:
    """Which column becomes which is not followed: each may come from all."""
    catalog = Catalog(tmp_path)
    kinds = {"id": pa.int32(), "q": pa.string(), "a": pa.int64(), "b": pa.int64()}
    catalog.create_table("db.s", schema=pa.schema(list(kinds.items())))
    catalog.load_table("db.s").write(
        pa.table({"id": [1], "q": ["x"], "a": [2], "b": [3]}, schema=pa.schema(list(kinds.items())))
    )
    connect(catalog).sql(f"CREATE TABLE db.t AS {query}")
    found = recorded(catalog)
    columns = catalog.load_table("db.t").schema.field_names
    assert {target for _, target, _ in found if target != "*"} == set(columns)
    assert {source for source, target, _ in found if target == columns[-1]} >= {"q", "a"}
