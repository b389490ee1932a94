"""Measuring on a machine that is not quiet: contenders take turns, and the medians of the repeats count."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

Result = TypeVar("Result")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One run of a contender: the time that passed, and the processor time of this process and all below it."""

    wall_s: float
    cpu_s: float


def measured(run: Callable[[], object]) -> Measure:
    """Run it, and tell what it took."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    run()
    return Measure(wall_s=time.perf_counter() - wall, cpu_s=cpu_seconds() - cpu)


def in_turns(contenders: Mapping[str, Callable[[], Result]], *, repeats: int) -> dict[str, list[Result]]:
    """Each contender once, then each again: `repeats` rounds, each starting with another one."""
    names = list(contenders)
    results: dict[str, list[Result]] = {name: [] for name in names}
    for repeat in range(repeats):
        start = repeat % len(names)
        for name in names[start:] + names[:start]:
            results[name].append(contenders[name]())
    return results


def median_wall_s(measures: list[Measure]) -> float:
    """The median of the times that passed."""
    return median(one.wall_s for one in measures)


def median_cpu_s(measures: list[Measure]) -> float:
    """The median of the processor times."""
    return median(one.cpu_s for one in measures)


def cpu_seconds() -> float:
    """Processor time so far of this process and of all that it has started, Spark's JVM and Python workers too."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text()
        except OSError:  # ended meanwhile
            continue
        # After the name in brackets: state, parent, ...; times are fields 14 to 17 of the line.
        fields = text.rpartition(")")[2].split()
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    return sum(ticks[pid] for pid in ticks if _is_below(pid, os.getpid(), parents)) / _TICKS_PER_SECOND


def _is_below(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    while pid and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor
