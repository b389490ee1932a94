"""Frames of Python that a query names: variables of the caller, as in DuckDB's own API."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any  # Any: frames are of optional extras

import pyarrow as pa
from pyarrow import RecordBatchReader

_PANDAS, _POLARS = "pandas", "polars"


def frames_of_caller(depth: int) -> MutableMapping[str, Any]:
    """The variables of the function `depth` calls above this one, then those of its module."""
    frame = sys._getframe(depth)
    return ChainMap({}, frame.f_locals, frame.f_globals)


def frame_named(frames: MutableMapping[str, Any], name: str) -> Any:
    """What DuckDB can register of a variable; None for one that is no frame. A reader is read into memory once."""
    value: Any = frames.get(name)
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, RecordBatchReader):
        frames[name] = value = value.read_all()
    if isinstance(value, pa.Table | pa.RecordBatch) or (library == _PANDAS and hasattr(value, "columns")):
        return value
    if library == _POLARS and hasattr(value, "collect"):
        frames[name] = value = value.collect()
    is_polars = library == _POLARS and hasattr(value, "columns")
    return value.to_arrow() if is_polars else None
