"""The oracle by perturbation: whatever changes with a source column has an edge from it.

The gate runs a sample of the queries, `--full` all. `oracle/` has the parts, `oracle/README.md` how it works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField, all_of
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.plans import operators, value_rules
from lakelog.lineage.columns.plans.derived import Rows, changed
from tests.lineage.fields.oracle.findings import Finding, compare, report_of, sample_of
from tests.lineage.fields.oracle.oracle_runs import SUITES, OracleRuns, queries_of
from tests.lineage.fields.oracle.perturbations import Observed
from tests.lineage.fields.oracle.queries import OracleQuery
from tests.lineage.fields.oracle.row_statements import STATEMENTS, case_of, changes_by, unexplained
from tests.support.lineage.field_cases import CaseSession

EVERY = 11  # so many queries one is in the gate; the forms of the generated ones repeat after 20
SAMPLE = 50
JUDGED = Path(__file__).parent / "oracle" / "judged.json"
# At least so many percent of the queries have rows, of the perturbations are visible, of the edges are seen.
FLOORS = {"tpch": (95, 80, 98), "tpcds": (91, 80, 95), "forms": (98, 65, 95), "generated": (88, 55, 75)}


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleRuns]:
    """The suites, with tables that are made when they are first asked for."""
    made = OracleRuns(spark, tmp_path_factory.mktemp("oracle"))
    yield made
    made.close()


def missing(findings: list[Finding]) -> list[str]:
    return [one for finding in findings for one in finding.missing]


@pytest.mark.parametrize("suite", SUITES)
def test_what_changes_with_a_column_has_an_edge_from_it(suite: str, runs: OracleRuns) -> None:
    found = runs.findings(suite, EVERY)
    print(suite, report_of(found).text())
    assert missing(found) == []


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", SUITES)
def test_what_changes_in_any_query_has_an_edge(suite: str, runs: OracleRuns) -> None:
    assert missing(runs.findings(suite)) == []


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_the_data_show_most_of_the_edges(suite: str, every: int, runs: OracleRuns) -> None:
    report = report_of(runs.findings(suite, every))
    print(suite, report.text())
    shares = (
        100 * report.with_rows / report.queries,
        100 * report.visible / report.perturbations,
        100 * report.shown / (report.shown + report.never_shown),
    )
    assert all(share >= floor for share, floor in zip(shares, FLOORS[suite], strict=True)), report.text()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_sample_of_the_edges_that_nothing_shows_is_judged(runs: OracleRuns) -> None:
    findings = [finding for suite in SUITES for finding in runs.findings(suite)]
    judged = json.loads(JUDGED.read_text("utf-8"))
    verdicts = {tuple(one["edge"]): one for one in judged}
    assert [edge for edge in sample_of(findings, SAMPLE) if tuple(edge) not in verdicts] == []
    assert [one for one in judged if one["verdict"] != "right" or not one["reason"]] == []


def is_caught(runs: OracleRuns, word: str) -> bool:
    """Whether a generated query that has this word has an edge too few."""
    return any(runs.finding(query).missing for query in queries_of("generated") if word in query.text)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(one, marks=[] if at % EVERY == 0 else [pytest.mark.full], id=f"{at} {one.split()[0]}")
        for at, one in enumerate(STATEMENTS)
    ],
)
def test_what_a_row_statement_changes_has_an_edge(statement: str, case_session: CaseSession) -> None:
    changes = {change for seed in range(2) for change in changes_by(statement, seed)}
    assert changes
    assert unexplained(changes, case_session.found(case_of(statement))) == []


def test_a_change_by_a_row_statement_without_an_edge_is_reported() -> None:
    changes = changes_by("UPDATE t SET a = b WHERE c = 'ONE'", 0)
    assert unexplained(changes, {("t.b", "t.a", "IDENTITY", False)}) == [("t.c", "a")]
    assert unexplained(changes, {("t.b", "t.a", "IDENTITY", False), ("t.c", "*", "FILTER", False)}) == []


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *(("Aggregate", "GROUP BY"), ("Distinct", " UNION SELECT"), ("Except", "EXCEPT"), ("Filter", "WHERE")),
        *(("Intersect", "INTERSECT"), ("Join", "JOIN"), ("Sort", "LIMIT")),
    ],
)
def test_an_operator_without_its_edges_is_caught(
    name: str, word: str, runs: OracleRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator gives its columns, and the edges of its children alone."""
    operator = operators.OPERATORS[name]

    def without_edges(step: operators.PlanStep) -> Rows:
        rows = operator(step)
        return Rows(rows.output, rows.columns, all_of(one.dataset for one in step.inputs))

    monkeypatch.setitem(operators.OPERATORS, name, without_edges)
    assert is_caught(runs, word)


@pytest.mark.parametrize(
    ("name", "word"), [("CaseWhen", "CASE WHEN"), ("Coalesce", "coalesce"), ("If", "if("), ("WindowExpression", "OVER")]
)
def test_an_expression_without_one_of_its_children_is_caught(
    name: str, word: str, runs: OracleRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = slice(1, None) if name != "WindowExpression" else slice(0, 1)
    monkeypatch.setitem(value_rules.RULES, name, lambda members, children: changed(name, members, children[kept]))
    assert is_caught(runs, word)


def made_finding(sources: set[str], dataset: set[str]) -> Finding:
    """The finding for `t.a` changing the second of two output columns."""
    table = Dataset("spark_catalog", "db.t")
    edges = [
        frozenset(FieldEdge(SourceField(table, (name,)), kind) for name in names)
        for kind, names in ((EdgeKind.IDENTITY, sources), (EdgeKind.FILTER, dataset))
    ]
    fields = (OutputField(name="x"), OutputField(name="y", edges=edges[0]))
    observed = Observed(rows=1, changed={("t", "a"): {1}})
    query = OracleQuery("made", "q", "SELECT b AS x, a AS y FROM t", {"t": {"a": "INT", "b": "INT"}})
    return compare(query, FieldLineage(fields=fields, dataset=edges[1]), observed)


@pytest.mark.parametrize(("sources", "dataset"), [({"a"}, set()), (set(), {"a"}), ({"a"}, {"b"})])
def test_an_edge_of_the_field_or_of_all_rows_explains_a_change(sources: set[str], dataset: set[str]) -> None:
    assert made_finding(sources, dataset).missing == []


@pytest.mark.parametrize(("sources", "dataset"), [(set(), set()), ({"b"}, set()), (set(), {"b"})])
def test_a_change_without_an_edge_is_reported(sources: set[str], dataset: set[str]) -> None:
    assert made_finding(sources, dataset).missing == ["made q: t.a -> y [1]"]


def test_an_edge_that_nothing_shows_is_counted() -> None:
    finding = made_finding({"a", "b"}, {"b"})
    assert {edge[1:] for edge in finding.shown} == {("t.a", "y [1]", "IDENTITY")}
    assert {edge[1:] for edge in finding.never_shown} == {("t.b", "y [1]", "IDENTITY"), ("t.b", "*", "FILTER")}
