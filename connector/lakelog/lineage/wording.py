"""What a picture of lineage says of tables and jobs, in a terminal and in an SVG."""

from __future__ import annotations

from lakelog.lineage.edge_columns import NodeKind
from lakelog.lineage.graph import LineageGraph, LineageJob, LineageNode

NO_JOB = "a job without a name"


def node_lines(graph: LineageGraph, place: int) -> list[str]:
    """The name of a node, and which of its snapshots count."""
    node = graph.nodes[place]
    if node.kind is NodeKind.UNKNOWN:
        reasons = dict.fromkeys(link.why for link in graph.links if link.source == place and link.why is not None)
        return ["unknown source", *list(reasons)[-1:]]
    read = [link.source_to for link in graph.links if link.source == place and link.source_to is not None]
    span = _span(node, max(read, default=None), is_asked=place == 0)
    return [node.name, *([] if span is None else [span])]


def job_lines(job: LineageJob) -> list[str]:
    """The name of a job, and the batches by which it has written its table."""
    snapshots = f"snapshot {job.last}" if job.first == job.last else f"snapshots {job.first} to {job.last}"
    return [job.job or NO_JOB, f"{job.batch_count} {'batch' if job.batch_count == 1 else 'batches'}, {snapshots}"]


def _span(node: LineageNode, read: int | None, *, is_asked: bool) -> str | None:
    if is_asked and node.last is not None:
        return f"snapshot {node.last}"
    if node.depth < 0 and node.last is not None:
        return f"up to snapshot {node.last}"
    if node.depth > 0 and node.first is not None:
        return f"from snapshot {node.first} on"
    return None if read is None else f"read up to snapshot {read}"
