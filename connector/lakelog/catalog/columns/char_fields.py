"""Columns of type CHAR, which reads of SQL pad. Queries need only these; `text_lengths` is for what is written."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.common.types import DataField, TypeRoot


def char_lengths(fields: Sequence[DataField]) -> dict[str, int]:
    """The lengths of the CHAR columns, by their names."""
    return {one.name: one.type.length or 0 for one in fields if one.type.root is TypeRoot.CHAR}
