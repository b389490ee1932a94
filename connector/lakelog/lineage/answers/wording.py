"""The words for tables and jobs in a picture of lineage, in a terminal and in an SVG."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.lineage.answers.graph import LineageJob, LineageLink, LineageNode, NodeKind

NO_JOB = "a job without a name"


def reasons_of(links: Iterable[LineageLink]) -> dict[int, str]:
    """Why the sources of links are unknown, by their positions; of several reasons, the last one."""
    found: dict[int, dict[str, None]] = {}
    for link in links:
        if link.why is not None:
            found.setdefault(link.source, {})[link.why] = None
    return {place: list(reasons)[-1] for place, reasons in found.items()}


def node_lines(node: LineageNode, why: str | None) -> list[str]:
    """The name of a node and its relevant snapshots; for an unknown source, `why`."""
    if node.kind is NodeKind.UNKNOWN:
        return ["unknown source", *([] if why is None else [why])]
    return [node.name, *([] if node.last is None else [_snapshots(node.first, node.last)])]


def job_lines(job: LineageJob) -> list[str]:
    """The name of a job, and its batches that have written the table."""
    snapshots = _snapshots(job.first, job.last)
    return [job.job or NO_JOB, f"{job.batch_count} {'batch' if job.batch_count == 1 else 'batches'}, {snapshots}"]


def _snapshots(first: int | None, last: int) -> str:
    if first is None:
        return f"up to snapshot {last}"
    return f"snapshot {last}" if first == last else f"snapshots {first} to {last}"
