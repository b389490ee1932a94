"""Rows as frames of libraries that are optional."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def pandas_frame(rows: pa.Table) -> pd.DataFrame:
    """The rows as a pandas frame. Raises InvalidRequestError without pandas."""
    if find_spec("pandas") is None:
        raise InvalidRequestError("to_pandas needs pandas: pip install pandas")
    frame: pd.DataFrame = rows.to_pandas()
    return frame
