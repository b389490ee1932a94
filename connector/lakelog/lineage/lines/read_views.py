"""What reads of the snapshots of a line show of its sources: less than is written if rows wait for a compaction.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.lineage.lines.line_state import BROKEN, Break, Reason
from lakelog.lineage.lines.lines import Step
from lakelog.lineage.lines.shown import ShownLine, ShownSource
from lakelog.lineage.lines.versions import LineVersions, seen_by
from lakelog.lineage.records.record import ReadMode


def as_read(written: ShownLine, steps: Sequence[Step], versions: LineVersions, mode: ReadMode) -> ShownLine:
    """What reads show of what is written up to each step. `versions` are those of the line."""
    if not versions.hides_rows(mode):
        return written
    ends = [versions.shown_step(position, step, mode) for position, step in enumerate(steps)]
    breaks = [_hidden(step, mode) if end is None else None for end, step in zip(ends, steps, strict=True)]
    sources = {}
    for key, source in written.sources.items():
        sources[key] = ShownSource()
        for position, (end, found) in enumerate(zip(ends, breaks, strict=True)):
            sources[key].put(position, *((BROKEN, found) if end is None else source.at(end)))
    return replace(written, sources=sources)


def _hidden(step: Step, mode: ReadMode) -> Break:
    """Why what reads of a step show is not known, or is not a version."""
    found, number = seen_by(step, mode), step.version.snapshot_id
    if found is None or found.is_whole:
        return Break(
            Reason.NOT_KNOWN, number, "which of its rows waited for a compaction, and since when, is not known"
        )
    return Break(Reason.WAITING, found.up_to, "some of the rows behind the last whole version are in, others wait")
