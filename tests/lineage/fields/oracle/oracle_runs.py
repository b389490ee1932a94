"""The suites of queries, each observed in DuckDB and derived by Spark once in a run of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from tests.lineage.fields.oracle.findings import Finding, compare
from tests.lineage.fields.oracle.generated import FORMS, SUITE, generated_queries, written_queries
from tests.lineage.fields.oracle.perturbations import Observed, observe
from tests.lineage.fields.oracle.queries import OracleQuery, suite_of_files
from tests.lineage.fields.oracle.spark_edges import SuiteSession

SUITES = ("tpch", "tpcds", FORMS, SUITE)
GENERATED = 200
TRIES = 3


@cache
def queries_of(suite: str) -> Sequence[OracleQuery]:
    """All queries of a suite."""
    match suite:
        case "generated":
            return generated_queries(GENERATED)
        case "forms":
            return written_queries()
    return suite_of_files(suite)


@dataclass(slots=True)
class OracleRuns:
    """Compares queries; what was observed is kept."""

    spark: SparkSession
    folder: Path
    _sessions: dict[str, SuiteSession] = field(default_factory=dict)
    _observed: dict[tuple[str, str, int], Observed] = field(default_factory=dict)
    _findings: dict[tuple[str, str, int], Finding] = field(default_factory=dict)

    def findings(self, suite: str, every: int = 1) -> list[Finding]:
        """The findings of every so many queries of a suite, each made once; all queries have more sets of tables."""
        tries = TRIES if every == 1 else 1
        return [self._kept(query, tries) for query in queries_of(suite)[::every]]

    def _kept(self, query: OracleQuery, tries: int) -> Finding:
        key = query.suite, query.name, tries
        if key not in self._findings:
            self._findings[key] = self.finding(query, tries)
        return self._findings[key]

    def finding(self, query: OracleQuery, tries: int = 1) -> Finding:
        """The finding of one query, with a lineage that is derived anew."""
        key = query.suite, query.name, tries
        if key not in self._observed:
            self._observed[key] = observe(query, tries)
        if query.suite not in self._sessions:
            self._sessions[query.suite] = SuiteSession(self.spark, query.suite, query.schema, self.folder)
        return compare(query, self._sessions[query.suite].lineage(query), self._observed[key])

    def close(self) -> None:
        """Drop the tables."""
        for session in self._sessions.values():
            session.close()
