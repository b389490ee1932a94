"""What a picture of lineage says of tables and jobs, in a terminal and in an SVG."""

from __future__ import annotations

from lakelog.lineage.graph import LineageGraph, LineageJob, NodeKind

NO_JOB = "a job without a name"


def node_lines(graph: LineageGraph, place: int) -> list[str]:
    """The name of a node, and its snapshots that count."""
    node = graph.nodes[place]
    if node.kind is NodeKind.UNKNOWN:
        reasons = dict.fromkeys(link.why for link in graph.links if link.source == place and link.why is not None)
        return ["unknown source", *list(reasons)[-1:]]
    return [node.name, *([] if node.last is None else [_snapshots(node.first, node.last)])]


def job_lines(job: LineageJob) -> list[str]:
    """The name of a job, and the batches by which it has written its table."""
    snapshots = _snapshots(job.first, job.last)
    return [job.job or NO_JOB, f"{job.batch_count} {'batch' if job.batch_count == 1 else 'batches'}, {snapshots}"]


def _snapshots(first: int | None, last: int) -> str:
    if first is None:
        return f"up to snapshot {last}"
    return f"snapshot {last}" if first == last else f"snapshots {first} to {last}"
