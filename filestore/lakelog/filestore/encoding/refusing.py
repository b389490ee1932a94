"""Which value a cast of Arrow refuses: its own errors often do not say. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

Values: TypeAlias = "pa.Array | pa.ChunkedArray"


def refused_place(values: Values, cast: Callable[[Values], object]) -> int:
    """The place of the first of the values that `cast`, which has refused them together, refuses alone."""
    place = 0
    while len(values) > 1:
        half = len(values) // 2
        try:
            cast(values[:half])
            values, place = values[half:], place + half
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values = values[:half]
    return place


def refused_value(values: Values, cast: Callable[[Values], object]) -> object:
    """The first of the values that `cast`, which has refused them together, refuses alone."""
    return values[refused_place(values, cast)].as_py()
