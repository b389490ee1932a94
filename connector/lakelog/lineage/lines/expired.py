"""Steps of snapshots that have expired: from the edges in the system tables, and from what living snapshots record.

Changes of rows without a record, by hand or by another engine, are not edges: the oldest living snapshot reports them,
see `lakelog.filestore.metadata.origins.row_sources`. So are expired steps that took rows out as a whole, which later
commits have carried on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count, groupby
from typing import Any  # Any: the values of a row

import numpy as np

from lakelog.filestore.metadata.origins import (
    BatchLineage,
    Change,
    Cleared,
    Clearing,
    CommittedBatch,
    ForeignSource,
    LineKey,
    ReadMode,
    RowBatch,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
    branch_taken_by,
)
from lakelog.filestore.predicate import And, Compare, Comparison, Literal, LiteralKind, Predicate
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.edge_columns import FORK_OPERATION
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES
from lakelog.warehouse.system_database import SystemDatabase, plain_times

Row = Mapping[str, Any]
_BATCH = ("sink_snapshot", "sink_commit", "user", "identifier")


class ExpiredSteps:
    """The steps of expired snapshots in the system tables of warehouses, read line by line."""

    def __init__(self, databases: Sequence[SystemDatabase]) -> None:
        self._databases = databases

    def are_kept(self) -> bool:
        """Whether any of the system tables exists, so that what expires is fed first."""
        return any(database.find(SNAPSHOT_EDGES) is not None for database in self._databases)

    def of(self, line: LineKey, before: int | None) -> list[Step]:
        """The steps of a line below a snapshot id, None for all of them, oldest first."""
        rows: list[Row] = []
        for database in self._databases:
            table = database.find(SNAPSHOT_EDGES)
            if table is not None:
                found = table.to_arrow(where=_of_line(line, before), columns=list(SNAPSHOT_EDGES.columns))
                rows += plain_times(found).to_pylist()
        return steps_of_rows(rows)


def steps_of_rows(rows: Sequence[Row]) -> list[Step]:
    """The steps from the rows of `snapshot_edges` of one line.

    Of two commits under one number the newest counts. Those that followed the older one were rolled back with it.
    """
    found: list[Step] = []
    for step in sorted(steps_by_commit(rows), key=lambda one: one.time_millis):  # those of one time by their numbers
        while found and found[-1].version.snapshot_id >= step.version.snapshot_id:
            found.pop()
        found.append(step)
    return found


def steps_by_commit(rows: Sequence[Row]) -> list[Step]:
    """Like `steps_of_rows`, but with what was rolled back."""
    batches = (row for row in rows if row["operation"] != FORK_OPERATION)
    ordered = sorted(batches, key=lambda row: (*(row[name] for name in _BATCH), row["source_number"]))
    return [
        _step(list(found)) for _, found in groupby(ordered, key=lambda row: (row["sink_snapshot"], row["sink_commit"]))
    ]


def _step(rows: Sequence[Row]) -> Step:
    found = [_batch(list(batch)) for _, batch in groupby(rows, key=lambda row: tuple(row[name] for name in _BATCH))]
    first, taken = rows[0], branch_taken_by(found)
    return Step(
        version=TableVersion(snapshot_id=first["sink_snapshot"], commit=first["sink_commit"] or None),
        time_millis=first["sink_time"],
        change=Change.BATCHES if taken is None else Change.TAKEN,
        operation=next((one.operation for one in found if one.operation), ""),
        batches=found,
        restored=None if taken is None else taken.start,
        is_living=False,
    )


def _batch(rows: Sequence[Row]) -> RowBatch:
    first, sources = rows[0], [_source(row) for row in rows if row["source_kind"] is not None]
    lineage = BatchLineage(job=first["job"], batch_id=first["barrier_id"], operation=first["operation"])
    return RowBatch.of(CommittedBatch(user=first["user"], identifier=first["identifier"], lineage=lineage), sources)


def _source(row: Row) -> Source:
    match row["source_kind"]:
        case "table":
            return TableSource(
                table=row["source_table"],
                uuid=row["source_uuid"],
                branch=row["source_branch"],
                mode=ReadMode(row["mode"]),
                start=_version(row, "source_from"),
                end=_version(row, "source_to"),
                is_exact=row["exact"] is True,
                why=row["why"],
            )
        case "foreign":
            return ForeignSource(format=row["source_table"])
        case _:
            return UnknownSource(why=row["why"] or "")


def _version(row: Row, name: str) -> TableVersion | None:
    number = row[name]
    return None if number is None else TableVersion(snapshot_id=number, commit=row[f"{name}_commit"])


def _of_line(line: LineKey, before: int | None) -> Predicate:
    is_line = [_equals("sink_uuid", line.uuid), _equals("sink_line", line.branch or MAIN_BRANCH)]
    if before is None:
        return And(parts=tuple(is_line))
    number = Literal(kind=LiteralKind.NUMBER, value=Decimal(before))
    return And(parts=(*is_line, Compare(column="sink_snapshot", operator=Comparison.LT, literal=number)))


def _equals(column: str, text: str) -> Compare:
    literal = Literal(kind=LiteralKind.STRING, value=text)
    return Compare(column=column, operator=Comparison.EQ, literal=literal)


def rows_of(edges: EdgeArrays, key: LineKey, side: str) -> list[dict[str, Any]]:
    """The edges that were written to a line (side `sink`) or that read it (side `source`)."""
    number = edges.line(key)
    if number is None:
        return []
    lines = edges.sink_line if side == "sink" else edges.source_line
    rows: list[dict[str, Any]] = plain_times(edges.edges.take(np.flatnonzero(lines == number))).to_pylist()
    return rows


def written_steps(edges: EdgeArrays, key: LineKey) -> list[Step]:
    """The snapshots of a line that edges were written to, without the beginnings of branches."""
    rows = [row for row in rows_of(edges, key, "sink") if row["operation"] != FORK_OPERATION]
    numbers = count()
    return steps_by_commit(
        [{**row, "sink_commit": row["sink_commit"] or "", "source_number": next(numbers)} for row in rows]
    )


def read_steps(edges: EdgeArrays, key: LineKey, committed: Mapping[TableVersion, int]) -> Iterator[Step]:
    """The snapshots of a line that edges have read, with the time of the first such edge, or of the commit."""
    first: dict[TableVersion, int] = {}
    for row in rows_of(edges, key, "source"):
        for side in ("source_to", "source_from"):
            if row[side] is not None and row[f"{side}_commit"] is not None:
                version = TableVersion(snapshot_id=row[side], commit=row[f"{side}_commit"])
                times = (first.get(version), committed.get(version), row["sink_time"])
                first[version] = min(time for time in times if time is not None)
    for version, time_millis in first.items():
        yield Step(version=version, time_millis=time_millis, change=Change.NOTHING, is_living=False)


def with_recorded_steps(line: Line) -> list[Step]:
    """The steps of a line, including expired ones that took rows out as a whole, which are in no edge."""
    living = [step for step in line.steps if step.is_living]
    events = {one.snapshot_id: one for step in living[:1] + living[-1:] for one in Cleared.parsed(step.cleared)}
    first_own = 0 if line.began is None else line.began.snapshot_id
    first_living = living[0].version.snapshot_id if living else 0
    missing = {number: one for number, one in events.items() if first_own < number < first_living}
    steps = {step.version.snapshot_id: step for step in line.steps}
    for number, event in missing.items():
        step = steps.get(number)
        if step is None or step.version.commit not in {None, event.commit}:
            steps[number] = _step_of_event(event)
        elif event.how is Clearing.ALL and event.base is None:
            steps[number] = replace(step, replaces_all=True)
        elif event.how is Clearing.RESTORE:  # through a log, it is an edge without a source
            steps[number] = replace(step, change=Change.RESTORE, restored=_restored(event))
    return [steps[number] for number in sorted(steps)]


def _restored(event: Cleared) -> TableVersion | None:
    return None if event.restored is None else TableVersion(snapshot_id=event.restored[0], commit=event.restored[1])


def _step_of_event(event: Cleared) -> Step:
    restored = _restored(event)
    return Step(
        version=TableVersion(snapshot_id=event.snapshot_id, commit=event.commit),
        time_millis=event.time_millis,
        change=Change.BY_HAND if restored is None else Change.RESTORE,
        replaces_all=event.how is Clearing.ALL and event.base is None,
        restored=restored,
        is_living=False,
    )


def with_expired_steps(line: Line) -> Line:
    """A line as its versions need it: with the expired steps about which enough is known, and with what they did.

    An edge does not say whether its statement took all rows out, and changes of rows without a record have no edge. So
    of the steps before the last one that took rows out as a whole or brought a state back, only those count that follow
    each other without a gap from the first snapshot on: nothing that lives records what happened between the others.
    """
    if _first_recording(line.steps) in {0, len(line.steps)}:
        return line
    steps = [_as_statement(step) for step in with_recorded_steps(line)]
    line = replace(line, steps=steps)
    gap = gapless(line)
    replaced = max((at for at, step in enumerate(steps[: _first_recording(steps) + 1]) if takes_out(step)), default=0)
    counted = [step for at, step in enumerate(steps) if at < gap or at >= replaced or step.is_living]
    return replace(line, steps=counted)


def gapless(line: Line) -> int:
    """How many steps follow each other from the first snapshot of a line on, according to edges or snapshots.

    The sources of a statement that took rows out and was not fed are not known.
    """
    first = 1 if line.began is None else line.began.snapshot_id
    gaps = (at for at, step in enumerate(line.steps) if step.version.snapshot_id != first + at or _is_bare(step))
    return next(gaps, len(line.steps))


def knows_past(line: Line) -> bool:
    """Whether the steps of a line name all sources that it ever had.

    What a snapshot records has those of the expired ones before it, unless it or one of them took all rows out. A line
    that records nothing has no sources.
    """
    first = _first_recording(line.steps)
    if first == len(line.steps) or gapless(line) > first:
        return True
    return not any(takes_out(step) for step in line.steps[: first + 1])


def _first_recording(steps: Sequence[Step]) -> int:
    """The first step that records what its rows come from."""
    return next((at for at, step in enumerate(steps) if step.row_sources is not None), len(steps))


def _is_bare(step: Step) -> bool:
    """Whether only later commits record a step."""
    return step.change is Change.BY_HAND and not step.is_living and not step.operation and step.row_sources is None


def takes_out(step: Step) -> bool:
    """Whether a step takes all rows out or brings another state: what it records is not what was there before."""
    return step.replaces_all or step.change in {Change.RESTORE, Change.TAKEN}


def _as_statement(step: Step) -> Step:
    """A step that edges name, in the form of the statement that it was."""
    is_overwrite = not step.is_living and step.replaces_all and step.change is Change.BATCHES
    return replace(step, change=Change.OVERWRITE) if is_overwrite else step
