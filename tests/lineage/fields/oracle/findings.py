"""What the oracle finds: changes without an edge, and which edges a change has shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakelog.lineage.columns.field_edges import Edges, FieldEdge
from lakelog.lineage.columns.field_operations import FieldLineage
from tests.lineage.fields.oracle.perturbations import Observed
from tests.lineage.fields.oracle.queries import OracleQuery, SourceColumn

DATASET = "*"


class NamedEdge(NamedTuple):
    """An edge of a query as text: `end` is an output column with its place, or `*` for all rows."""

    query: str
    start: str
    end: str
    subtype: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one query."""

    name: str
    observed: Observed
    missing: Sequence[str]
    shown: frozenset[NamedEdge]
    never_shown: frozenset[NamedEdge]


def compare(query: OracleQuery, lineage: FieldLineage, observed: Observed) -> Finding:
    """Put the changes beside the edges."""
    name = f"{query.suite} {query.name}"
    ends = [(f"{one.name} [{at}]", one.edges) for at, one in enumerate(lineage.fields)]
    missing: list[str] = []
    for source, places in observed.changed.items():
        if source in _sources(lineage.dataset):
            continue
        for place in sorted(places):
            end, edges = ends[place]
            if source not in _sources(edges):
                missing.append(f"{name}: {'.'.join(source)} -> {end}")
    shown: set[NamedEdge] = set()
    hidden: set[NamedEdge] = set()
    for at, (end, edges) in enumerate([*ends, (DATASET, lineage.dataset)]):
        for edge in edges:
            places = observed.changed.get(_source(edge), set())
            is_shown = bool(places) if end == DATASET else at in places
            (shown if is_shown else hidden).add(_named(name, edge, end))
    return Finding(name, observed, missing, frozenset(shown), frozenset(hidden))


def _sources(edges: Edges) -> set[SourceColumn]:
    return {_source(edge) for edge in edges}


def _source(edge: FieldEdge) -> SourceColumn:
    return edge.source.dataset.name.rpartition(".")[2], edge.source.column


def _named(query: str, edge: FieldEdge, end: str) -> NamedEdge:
    return NamedEdge(query, ".".join(_source(edge)), end, edge.kind.subtype)


@dataclass(frozen=True, slots=True)
class Report:
    """The counts over many queries."""

    queries: int
    with_rows: int
    perturbations: int
    refused: int
    visible: int
    shown: int
    never_shown: int

    def text(self) -> str:
        """The counts in words."""
        edges = self.shown + self.never_shown
        return (
            f"{self.queries} queries, {self.with_rows} with rows; {self.perturbations} perturbations, "
            f"{self.visible} visible, {self.refused} refused; {edges} edges, {self.shown} seen, "
            f"{self.never_shown} never seen"
        )


def report_of(findings: Iterable[Finding]) -> Report:
    """Add up."""
    found = list(findings)
    return Report(
        queries=len(found),
        with_rows=sum(one.observed.rows > 0 for one in found),
        perturbations=sum(one.observed.perturbations for one in found),
        refused=sum(one.observed.refused for one in found),
        visible=sum(one.observed.visible for one in found),
        shown=sum(len(one.shown) for one in found),
        never_shown=sum(len(one.never_shown) for one in found),
    )


def sample_of(findings: Iterable[Finding], count: int) -> list[NamedEdge]:
    """A random choice of the edges that are never shown, which changes little when other edges are found."""
    edges = [edge for finding in findings for edge in finding.never_shown]
    return sorted(edges, key=lambda edge: hashlib.sha256("|".join(edge).encode()).hexdigest())[:count]
