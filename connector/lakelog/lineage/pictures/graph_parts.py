"""The parts of a lineage graph: nodes, the jobs that write them, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    """What a node is: a table, a source that is no table of lakelog, or a source of which nothing is known."""

    TABLE = "table"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What a node is known by, whatever it is called: a table by its uuid; `branch` None is the main line."""

    kind: NodeKind
    identity: str
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A line of a table or another source. `depth` is 0 for the asked one, negative above it.

    `first` and `last` are its snapshots that the links read or wrote; `first` None is all up to `last`, and both None
    is unknown.
    """

    name: str
    kind: NodeKind
    uuid: str | None
    branch: str | None
    depth: int
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageJob:
    """What a job has written to a node: the number of its batches, the first and the last snapshot."""

    job: str | None
    sink: int
    batch_count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageLink:
    """What a job's batches have read of a node, by its position among the nodes, and have written to another.

    `source_from` and `source_to` are the snapshots that were read, the first exclusive; None is the beginning, or
    unknown, and `why` says why. `is_exact` says that all batches have read nothing behind `source_to`. `is_above` says
    that the asked table was made through the link, `is_below` that the link leads on from it; in a cycle it is both.
    """

    source: int
    sink: int
    job: str | None
    source_from: int | None
    source_to: int | None
    is_exact: bool
    why: str | None
    is_above: bool
    is_below: bool
