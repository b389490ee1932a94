"""A full changelog, followed change by change: each must fit the state that it finds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any  # Any: values of every column type

Change = tuple[str, tuple[Any, ...]]


def follow(
    state: Mapping[Any, tuple[Any, ...]],
    changes: Iterable[Change],
    *,
    key_of: Callable[[tuple[Any, ...]], Hashable] = lambda row: row[0],
) -> dict[Any, tuple[Any, ...]]:
    """The state after changes. Fails at one that does not fit: -U and -D hold the row that is there, +I none is.

    A -U is followed by the +U of its key, whose row is another one.
    """
    rows = dict(state)
    updated: dict[Any, tuple[Any, ...]] = {}  # rows whose -U came, and whose +U must come next
    for kind, row in changes:
        key = key_of(row)
        if kind == "+U":
            assert key in updated, f"+U of {row} without its -U"
            assert updated.pop(key) != row, f"-U and +U of {row}"
            rows[key] = row
            continue
        assert not updated, f"{kind} of {row} between -U and +U of {updated}"
        if kind == "+I":
            assert key not in rows, f"+I of {row}, and there is {rows[key]}"
            rows[key] = row
            continue
        assert rows.get(key) == row, f"{kind} of {row}, and there is {rows.get(key)}"
        del rows[key]
        if kind == "-U":
            updated[key] = row
    assert not updated, f"-U without +U: {updated}"
    return rows
