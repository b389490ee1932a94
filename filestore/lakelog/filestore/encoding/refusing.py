"""Which value a cast of Arrow refuses: its own errors often do not say. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

Values: TypeAlias = "pa.Array | pa.ChunkedArray"


def refused_value(values: Values, cast: Callable[[Values], object]) -> object:
    """The first of the values that `cast`, which has refused them together, refuses alone."""
    while len(values) > 1:
        half = len(values) // 2
        try:
            cast(values[:half])
            values = values[half:]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values = values[:half]
    return values[0].as_py()
