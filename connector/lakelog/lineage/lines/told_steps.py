"""The expired steps of a line, from edges and from what its oldest living snapshot records.

An edge does not say whether its statement took all rows out, and changes of rows without a record have no edge. So of
the steps before the last one that took rows out as a whole or brought a state back, only those count that follow each
other without a gap from the first snapshot on: nothing that lives records what happened between the others. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.lineage.lines.cleared_steps import with_cleared_steps
from lakelog.lineage.lines.line_state import SourceState, in_table
from lakelog.lineage.lines.lines import Change, Line, Step


def with_told_steps(line: Line) -> Line:
    """A line as its versions need it: with the expired steps about which enough is known, and with what they did."""
    told = _first_told(line.steps)
    if told in {0, len(line.steps)}:
        return line
    steps = [_as_told(step) for step in with_cleared_steps(line)]
    line = replace(line, steps=steps)
    known = gapless(line)
    cleared = max((at for at, step in enumerate(steps[: _first_told(steps) + 1]) if takes_out(step)), default=0)
    is_kept = (at < known or at >= cleared or step.is_living for at, step in enumerate(steps))
    return replace(line, steps=[step for step, is_known in zip(steps, is_kept, strict=True) if is_known])


def gapless(line: Line) -> int:
    """How many steps follow each other from the first snapshot of a line on, according to edges or snapshots.

    The sources of a statement that took rows out and was not fed are not known.
    """
    first = 1 if line.began is None else line.began.snapshot_id
    gaps = (at for at, step in enumerate(line.steps) if step.version.snapshot_id != first + at or _is_bare(step))
    return next(gaps, len(line.steps))


def unknown_since(told: SourceState | None, found: SourceState | None) -> int | None:
    """The snapshot since which edges do not fully explain a source's state, as the living snapshot records it: 0 if
    they never do, None if they give the same state.
    """
    if told is None and found is None:
        return None
    if told is None or found is None or not told.once.keys() <= found.once.keys():
        return 0
    for reader in told.readings.keys() | found.readings.keys():
        one, other = told.readings.get(reader), found.readings.get(reader)
        is_settled = one is None and in_table(reader) != reader
        if not is_settled and (one is None or other is None or one.last != other.last):
            return 0
    breaks = [told.broken, *(one.broken for one in told.readings.values())]
    return min((one.snapshot_id for one in breaks if one is not None), default=None)


def _first_told(steps: Sequence[Step]) -> int:
    """The first step that records what its rows come from."""
    return next((at for at, step in enumerate(steps) if step.row_sources is not None), len(steps))


def _is_bare(step: Step) -> bool:
    """Whether only later commits record a step."""
    return step.change is Change.BY_HAND and not step.is_living and not step.operation and step.row_sources is None


def takes_out(step: Step) -> bool:
    """Whether a step takes all rows out or brings another state: what it records is not what was there before."""
    return step.replaces_all or step.change in {Change.RESTORE, Change.TAKEN}


def _as_told(step: Step) -> Step:
    """A step that edges name, in the form of the statement that it was."""
    is_overwrite = not step.is_living and step.replaces_all and step.change is Change.BATCHES
    return replace(step, change=Change.OVERWRITE) if is_overwrite else step
