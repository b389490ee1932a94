"""How many examples a property is tried with: as many as it names with `--full`, and in the gate a part of them.

The examples of the gate are the same each time, `--full` looks for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

EXAMPLES_VARIABLE = "LAKELOG_TEST_EXAMPLES"  # the factor, which the choice of the tests decides


def examples(count: int) -> int:
    """So many, or the gate's part of them."""
    return max(1, round(count * float(os.environ.get(EXAMPLES_VARIABLE, "1"))))


def rest_in_full(values: Iterable[object], count: int) -> list[object]:
    """The cases of a parameter: the gate has the first ones, so many, and `--full` all of them."""
    return [value if at < count else pytest.param(value, marks=pytest.mark.full) for at, value in enumerate(values)]


def pairs_in_full(first: Iterable[object], second: Iterable[object]) -> list[object]:
    """The cases of two parameters: the gate has each value of both in one case at least, and `--full` all pairs."""
    values, others = list(first), list(second)
    gate = {(at % len(values), at % len(others)) for at in range(max(len(values), len(others)))}
    return [
        pytest.param(value, other, marks=[] if (row, column) in gate else [pytest.mark.full])
        for row, value in enumerate(values)
        for column, other in enumerate(others)
    ]
