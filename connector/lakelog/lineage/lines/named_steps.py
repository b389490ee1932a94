"""The snapshots of a line that edges name: those that edges were written to, and those that edges have read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any  # Any: values of edges

import numpy as np

from lakelog.filestore.metadata.origins import LineKey
from lakelog.lineage.lines.expired import steps_by_commit
from lakelog.lineage.lines.lines import Change, Step
from lakelog.lineage.records.record import TableVersion
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.forking import FORK_OPERATION
from lakelog.warehouse.system_database import plain_times

Row = dict[str, Any]


def rows_of(edges: EdgeArrays, key: LineKey, side: str) -> list[Row]:
    """The edges that were written to a line (side `sink`) or that read it (side `source`)."""
    number = edges.line(key)
    if number is None:
        return []
    lines = edges.sink_line if side == "sink" else edges.source_line
    rows: list[Row] = plain_times(edges.edges.take(np.flatnonzero(lines == number))).to_pylist()
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
