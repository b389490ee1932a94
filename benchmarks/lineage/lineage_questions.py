"""What questions of lineage take: up and down ten levels over 100,000 edges that are loaded, and consistent snapshots.

The graph has 20 levels of tables, each made by a job from the two levels above it, one snapshot a batch. `depth10_ms`
is the slower median of the two directions, from snapshots that have ten levels above or below them; `graph_load_ms` the
time in which edges become arrays, once for many questions. `agree_ms` is `consistent_snapshots` over lines that were
read: two tables of the last levels and all above them, with `agree_snapshots` snapshots in all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from lakelog.filestore.metadata.origins.record import LineKey, ReadMode, TableSource, TableVersion
from lakelog.filestore.metadata.origins.row_steps import Change, RowBatch
from lakelog.lineage.answers.consistent import agree
from lakelog.lineage.lines.line_graph import LineGraph, show_lines
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.edge_columns import EDGE_SCHEMA

LEVELS, ABOVE = 20, 2
Columns = dict[str, object]


def run(_: Path, *, is_small: bool) -> dict[str, object]:
    """The figures."""
    snapshots = 25 if is_small else 2_500
    edges = _edges(snapshots)
    started = time.perf_counter()
    arrays = EdgeArrays(edges)
    loaded = (time.perf_counter() - started) * 1_000
    newest, oldest = _version(LEVELS, snapshots - 3), _version(0, 3)
    up = _millis(lambda: list(arrays.up(_line(arrays, LEVELS), newest, 10)))
    down = _millis(lambda: list(arrays.down(_line(arrays, 0), oldest, 10)))
    assert len(list(arrays.up(_line(arrays, LEVELS), newest, 10))) == 10, "the graph is not deep enough"
    graph = _graph(snapshots)
    asked = {f"bench.t{level}": LineKey(f"t{level}") for level in (LEVELS - 1, LEVELS)}
    return {
        "edges": edges.num_rows,
        "graph_load_ms": round(loaded, 1),
        "depth10_up_ms": round(up, 1),
        "depth10_down_ms": round(down, 1),
        "depth10_ms": round(max(up, down), 1),
        "agree_snapshots": sum(len(line.steps) for line in graph.lines.values()),
        "agree_ms": round(_millis(lambda: agree(show_lines(graph), asked), times=3), 1),
    }


def _millis(question: Callable[[], object], *, times: int = 21) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        question()
        found.append((time.perf_counter() - started) * 1_000)
    return median(found)


def _line(arrays: EdgeArrays, level: int) -> int:
    line = arrays.line(LineKey(f"t{level}"))
    assert line is not None
    return line


def _version(level: int, number: int) -> TableVersion:
    return TableVersion(snapshot_id=number, commit=f"{level}-{number}")


def _sources(level: int) -> Iterator[int]:
    yield from range(max(level - ABOVE, 0), level)


def _edges(snapshots: int) -> pa.Table:
    """The edges, level by level."""
    ids = np.arange(1, snapshots + 1)
    pairs = [(level, source) for level in range(1, LEVELS + 1) for source in _sources(level)]
    pairs.append((1, 0))  # a self-join, so that each level has two
    sinks, sources = (np.repeat([pair[end] for pair in pairs], snapshots) for end in (0, 1))
    numbers = np.tile(ids, len(pairs))
    columns: Columns = {
        "job": [f"job{level}" for level in sinks],
        "sink_uuid": [f"t{level}" for level in sinks],
        "sink_table": [f"bench.t{level}" for level in sinks],
        "sink_snapshot": numbers,
        "sink_commit": [f"{level}-{number}" for level, number in zip(sinks, numbers, strict=True)],
        "sink_time": pa.array(numbers * 1_000 + sinks).cast(pa.timestamp("ms", "UTC")),
        "user": ["job"] * len(numbers),
        "identifier": numbers,
        "source_kind": ["table"] * len(numbers),
        "source_uuid": [f"t{level}" for level in sources],
        "source_table": [f"bench.t{level}" for level in sources],
        "mode": ["stream"] * len(numbers),
        "source_from": pa.array(numbers - 1, mask=numbers == 1),
        "source_to": numbers,
        "source_to_commit": [f"{level}-{number}" for level, number in zip(sources, numbers, strict=True)],
        "exact": [True] * len(numbers),
    }
    missing = {field.name: pa.nulls(len(numbers), field.type) for field in EDGE_SCHEMA if field.name not in columns}
    return pa.table({**columns, **missing}).select(EDGE_SCHEMA.names).cast(EDGE_SCHEMA)


def _graph(snapshots: int) -> LineGraph:
    """The lines of the same tables, of which the last is a third slower than the others."""
    graph = LineGraph()
    for level in range(LEVELS + 1):
        key = LineKey(f"t{level}")
        count = snapshots * 2 // 3 if level == LEVELS else snapshots
        steps = [_step(level, number) for number in range(1, count + 1)]
        graph.lines[key] = Line(key=key, name=f"bench.t{level}", steps=steps)
        graph.names[key] = f"bench.t{level}"
    return graph


def _step(level: int, number: int) -> Step:
    sources = [
        TableSource(
            table=f"bench.t{source}",
            uuid=f"t{source}",
            mode=ReadMode.STREAM,
            start=_version(source, number - 1) if number > 1 else None,
            end=_version(source, number),
            is_exact=True,
        )
        for source in _sources(level)
    ]
    batch = RowBatch(user="job", identifier=number - 1, job=f"job{level}", number=number - 1, sources=sources)
    return Step(
        version=_version(level, number),
        time_millis=number * 1_000 + level,
        change=Change.BATCHES,
        batches=[batch] if sources else [],
    )
