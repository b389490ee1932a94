"""How many examples a property is tried with: as many as it names with `--full`, and in the gate a part of them.

The examples of the gate are the same each time, `--full` looks for new ones.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

LONG_CASES_MAX = 2
FULL_PART = 10  # of what `--nightly` repeats, `--full` has one in so many
NIGHT_VARIABLE = "LAKELOG_TEST_NIGHTLY"
EXAMPLES_VARIABLE = "LAKELOG_TEST_EXAMPLES"  # the factor, which the choice of the tests decides


def examples(count: int) -> int:
    """So many, or the gate's part of them."""
    return max(1, round(count * float(os.environ.get(EXAMPLES_VARIABLE, "1"))))


def in_full(count: int) -> int:
    """How often a long test repeats something, such as a kill: so often with `--nightly`, less with `--full`."""
    return count if os.environ.get(NIGHT_VARIABLE) else max(1, count // FULL_PART)


def rest_in_full(values: Iterable[object], count: int) -> list[object]:
    """The cases of a parameter: the gate has the first ones, so many, and `--full` all of them."""
    return [value if at < count else pytest.param(value, marks=pytest.mark.full) for at, value in enumerate(values)]


def leave_to_the_night(items: Sequence[pytest.Item]) -> None:
    """Mark as `nightly` the long cases of each test beyond LONG_CASES_MAX; those that stay are spread over all.

    A matrix of 135 kills and a hundred seeds of a history took `--full` five hours.
    """
    long: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") and not item.get_closest_marker("nightly"):
            long[item.nodeid.partition("[")[0]].append(item)
    for cases in long.values():
        stays = set(spread(len(cases), LONG_CASES_MAX))
        for place, item in enumerate(cases):
            if place not in stays:
                item.add_marker(pytest.mark.nightly)


def spread(count: int, most: int) -> Sequence[int]:
    """At most so many places of `count`, the first and the last among them, at like distances."""
    return range(count) if count <= most else [place * (count - 1) // max(1, most - 1) for place in range(most)]


def pairs_in_full(first: Iterable[object], second: Iterable[object]) -> list[object]:
    """The cases of two parameters: the gate has each value of both in one case at least, and `--full` all pairs."""
    values, others = list(first), list(second)
    gate = {(at % len(values), at % len(others)) for at in range(max(len(values), len(others)))}
    return [
        pytest.param(value, other, marks=[] if (row, column) in gate else [pytest.mark.full])
        for row, value in enumerate(values)
        for column, other in enumerate(others)
    ]
