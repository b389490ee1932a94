"""The parts of a lineage graph: nodes, the jobs that write them, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    """What a node is: a table, a source that is not a lakelog table, or an unknown source."""

    TABLE = "table"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What identifies a node, whatever its name is: for a table its uuid; `branch` None is the main line."""

    kind: NodeKind
    identity: str
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A line of a table or another source. `depth` is 0 for the asked node, negative upstream of it.

    `first` and `last` are its snapshots that the links read or wrote; if `first` is None, all snapshots up to `last`;
    if both are None, they are unknown.
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
    """What a job has written to a node: the number of its batches, and the first and last snapshot."""

    job: str | None
    sink: int
    batch_count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageLink:
    """What a job's batches have read from one node and written to another; nodes are named by position.

    `source_from` (exclusive) and `source_to` are the snapshots that were read; None means the beginning, or unknown,
    and then `why` says why. `is_exact` says that no batch has read anything after `source_to`. `is_above` says that the
    asked table was made through the link, `is_below` that the link leads on from it; in a cycle both are true.
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
