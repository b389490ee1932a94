"""Steps of expired snapshots that took rows out as a whole: later commits have carried them on."""

from __future__ import annotations

from dataclasses import replace

from lakelog.filestore.metadata.origins import Cleared, Clearing, parse_cleared
from lakelog.lineage.lines.lines import Change, Line, Step
from lakelog.lineage.records.record import TableVersion


def with_cleared_steps(line: Line) -> list[Step]:
    """The steps of a line, including expired ones that took rows out as a whole, which are in no edge."""
    living = [step for step in line.steps if step.is_living]
    events = {one.snapshot_id: one for step in living[:1] + living[-1:] for one in parse_cleared(step.cleared)}
    first_own = 0 if line.began is None else line.began.snapshot_id
    first_living = living[0].version.snapshot_id if living else 0
    missing = {number: one for number, one in events.items() if first_own < number < first_living}
    steps = {step.version.snapshot_id: step for step in line.steps}
    for number, event in missing.items():
        known = steps.get(number)
        if known is None or known.version.commit not in {None, event.commit}:
            steps[number] = _step_of(event)
        elif event.how is Clearing.ALL and event.base is None:
            steps[number] = replace(known, replaces_all=True)
        elif event.how is Clearing.RESTORE:  # through a log, it is an edge without a source
            steps[number] = replace(known, change=Change.RESTORE, restored=_restored(event))
    return [steps[number] for number in sorted(steps)]


def _restored(event: Cleared) -> TableVersion | None:
    return None if event.restored is None else TableVersion(snapshot_id=event.restored[0], commit=event.restored[1])


def _step_of(event: Cleared) -> Step:
    restored = _restored(event)
    return Step(
        version=TableVersion(snapshot_id=event.snapshot_id, commit=event.commit),
        time_millis=event.time_millis,
        change=Change.BY_HAND if restored is None else Change.RESTORE,
        replaces_all=event.how is Clearing.ALL and event.base is None,
        restored=restored,
        is_living=False,
    )
