"""Field ids of array elements, map keys and map values in data files. Source: Paimon, `SpecialFields`."""

from __future__ import annotations

_ELEMENT_ID_START = 536_870_911
_DEPTHS_PER_FIELD = 1_024


def element_id(column_id: int, depth: int) -> int:
    """The id of an array's elements or a map's values, `depth` types below the column or ROW member (from 0)."""
    return _ELEMENT_ID_START + column_id * _DEPTHS_PER_FIELD + depth + 1


def key_id(column_id: int, depth: int) -> int:
    """The id of a map's keys."""
    return _ELEMENT_ID_START - column_id * _DEPTHS_PER_FIELD - depth - 1
