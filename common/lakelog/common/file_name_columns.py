"""Columns of file names, checked in one pass. Separate from `file_names`, which needs no polars."""

from __future__ import annotations

import polars as pl

from lakelog.common.file_names import LENGTH_MAX, SPECIAL, check_file_names, shown_name

_NO_NAME = rf"{SPECIAL}|\A\.{{0,2}}\z"
_FEW = 128  # names that are checked one by one in less time than polars needs to compile the expression


def check_column(names: pl.Series) -> None:
    """Raise ValueError for a column with anything but file names."""
    if names.dtype != pl.String or names.null_count():
        raise ValueError(f"column {names.name} holds {names.dtype} and {names.null_count()} nulls, expected names")
    if len(names) <= _FEW:
        check_file_names(names.to_list())
        return
    bad = names.str.contains(_NO_NAME) | (names.str.len_bytes() > LENGTH_MAX)
    if bad.any():
        raise ValueError(f"{shown_name(names.filter(bad)[0])} is not the name of a file")
