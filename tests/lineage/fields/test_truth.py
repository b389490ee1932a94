"""Every case of `truth/` in a session of Spark: the edges that are found are those that were written down before.

What differs is in `truth/differences.json`, each with the reason; a case that no longer differs leaves the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.lineage.field_cases import TRUTH, CaseSession, FieldCase, FoundEdge, cases_of

FILES = ("byhand", "openlineage", "sqllineage")
CASES = [case for file in FILES for case in cases_of(file)]
DIFFERENCES: dict[str, dict[str, str]] = json.loads((TRUTH / "differences.json").read_text("utf-8"))


def differences(found: set[FoundEdge], expected: set[FoundEdge]) -> list[str]:
    """The edges that only one side has."""
    missing = [f"missing: {edge}" for edge in sorted(expected - found)]
    return missing + [f"not expected: {edge}" for edge in sorted(found - expected)]


def in_gate() -> Iterator[object]:
    """The gate has all cases by hand, which hold each clause, and a fourth of those of other projects."""
    for at, case in enumerate(CASES):
        marks = [] if case.file == "byhand" or at % 4 == 0 else [pytest.mark.full]
        yield pytest.param(case, id=f"{case.file}: {case.name}", marks=marks)


@pytest.mark.parametrize("case", [*in_gate()])
def test_the_edges_of_a_statement_are_those_expected(case: FieldCase, case_session: CaseSession) -> None:
    wrong = differences(case_session.found(case), case.expected())
    assert (wrong != []) == (case.name in DIFFERENCES[case.file]), "\n".join(wrong)


@pytest.mark.parametrize("case", [case for case in CASES if "paths" in case.content], ids=lambda case: case.name)
def test_a_field_of_a_struct_comes_from_the_field_that_is_named(case: FieldCase, case_session: CaseSession) -> None:
    assert case_session.paths(case) == case.content["paths"]


def test_each_difference_is_of_a_case_and_has_a_verdict() -> None:
    names = {file: {case.name for case in CASES if case.file == file} for file in FILES}
    assert DIFFERENCES.keys() == names.keys()
    assert [name for file in FILES for name in DIFFERENCES[file] if name not in names[file]] == []
    assert all(verdict for file in FILES for verdict in DIFFERENCES[file].values())


@pytest.mark.parametrize("at", range(6))
def test_one_wrong_expected_edge_is_found(at: int, case_session: CaseSession) -> None:
    """Another column, target, kind or masking, an edge more and an edge less."""
    case = next(case for case in CASES if case.name == "all clauses")
    expected = case.expected()
    start, end, subtype, is_masked = edge = max(expected)
    wrong = [
        expected - {edge},
        expected | {("t.a", "out.k", subtype, False)},
        expected - {edge} | {("t.other", end, subtype, is_masked)},
        expected - {edge} | {(start, "out.other", subtype, is_masked)},
        expected - {edge} | {(start, end, "WINDOW", is_masked)},
        expected - {edge} | {(start, end, subtype, not is_masked)},
    ]
    found = case_session.found(case)
    assert differences(found, expected) == []
    assert differences(found, wrong[at]) != []
