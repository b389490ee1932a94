"""Steps of snapshots that have expired, from the edges in the system tables.

Changes of rows without a record, by hand or by another engine, are not edges: the oldest living snapshot reports them,
see `lakelog.filestore.metadata.origins.row_sources`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any  # Any: the values of a row

from lakelog.filestore.metadata.origins import LineKey
from lakelog.filestore.predicate import And, Compare, Comparison, Literal, LiteralKind, Predicate
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.lines.lines import Change, Step, line_batch, taken_branch
from lakelog.lineage.records.record import ForeignSource, ReadMode, Source, TableSource, TableVersion, UnknownSource
from lakelog.lineage.tables.forking import FORK_OPERATION
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
    """The steps from the rows of `snapshot_edges` of one line; of two commits under one number the newest counts."""
    newest: dict[int, Step] = {}
    for step in steps_by_commit(rows):
        before = newest.get(step.version.snapshot_id)
        if before is None or before.time_millis <= step.time_millis:
            newest[step.version.snapshot_id] = step
    return [newest[number] for number in sorted(newest)]


def steps_by_commit(rows: Sequence[Row]) -> list[Step]:
    """Like `steps_of_rows`, but with both of two commits under one number."""
    batches = (row for row in rows if row["operation"] != FORK_OPERATION)
    ordered = sorted(batches, key=lambda row: (*(row[name] for name in _BATCH), row["source_number"]))
    return [
        _step(list(found)) for _, found in groupby(ordered, key=lambda row: (row["sink_snapshot"], row["sink_commit"]))
    ]


def _step(rows: Sequence[Row]) -> Step:
    batches = [list(found) for _, found in groupby(rows, key=lambda row: tuple(row[name] for name in _BATCH))]
    first = rows[0]
    operations = [batch[0]["operation"] for batch in batches]
    found = [
        line_batch(
            batch[0]["user"],
            batch[0]["job"],
            batch[0]["barrier_id"],
            [_source(row) for row in batch if row["source_kind"] is not None],
            operation,
        )
        for batch, operation in zip(batches, operations, strict=True)
    ]
    taken = taken_branch(found, operations)
    return Step(
        version=TableVersion(snapshot_id=first["sink_snapshot"], commit=first["sink_commit"] or None),
        time_millis=first["sink_time"],
        change=Change.BATCHES if taken is None else Change.TAKEN,
        operation=next(filter(None, operations), ""),
        batches=found,
        restored=None if taken is None else taken.start,
        is_living=False,
    )


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
