"""The conflicts of a merge as an Arrow table and as a string. Pure.

The columns of the key come first, or for tables without primary key those of the row; then `base`, `main` and `branch`,
each the whole row (null if missing), or how many more or fewer times than in the base the row occurs; then `decision`:
`branch`, `main` or `columns` by the rule, `fail` if it is open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakelog.common.quoting import shown

CONFLICT_COLUMNS = ("base", "main", "branch", "decision")
CONFLICTS_LISTED_MAX = 100_000  # all are counted
_SHOWN_MAX = 3


class ConflictList:
    """The conflicts that a merge finds: the first `CONFLICTS_LISTED_MAX`, and their total number."""

    def __init__(self) -> None:
        self.count = 0
        self._listed: list[pa.Table] = []

    def add(self, conflicts: pa.Table) -> None:
        """Add conflicts, all with the same columns."""
        left = CONFLICTS_LISTED_MAX - self.count
        if left > 0 and (conflicts.num_rows or not self._listed):
            self._listed.append(conflicts.slice(0, left))
        self.count += conflicts.num_rows

    def table(self) -> pa.Table:
        """The listed conflicts."""
        return pa.concat_tables(self._listed) if self._listed else pa.table({"decision": pa.array([], pa.string())})


def conflict_rows(keys: pa.Table, sides: Sequence[tuple[pa.Table, np.ndarray]], decisions: np.ndarray) -> pa.Table:
    """The conflicts of rows with a key; each side says whether its row exists."""
    columns: list[pa.Array] = [column.combine_chunks() for column in keys.columns]
    for rows, is_there in sides:
        nullable = [pa.field(field.name, field.type) for field in rows.schema]
        values = [column.combine_chunks() for column in rows.columns]
        columns.append(pa.StructArray.from_arrays(values, fields=nullable, mask=pa.array(~is_there)))
    columns.append(pa.array(decisions.tolist(), pa.string()))
    return pa.table(columns, names=_names(keys.column_names))


def _names(keys: Sequence[str]) -> list[str]:
    """The names of the columns; a key column whose name is one of ours gets the prefix `key_`."""
    return [*(f"key_{name}" if name in CONFLICT_COLUMNS else name for name in keys), *CONFLICT_COLUMNS]


def shown_conflicts(conflicts: pa.Table) -> str:
    """The first few open conflicts as a string."""
    is_open = pa.array([decision == "fail" for decision in conflicts.column("decision").to_pylist()], pa.bool_())
    first = conflicts.filter(is_open).slice(0, _SHOWN_MAX)
    keys = first.column_names[: -len(CONFLICT_COLUMNS)]
    texts = []
    for row in first.to_pylist(maps_as_pydicts=None):
        key = ", ".join(f"{name}={shown(row[name])}" for name in keys)
        states = ", ".join(f"{side} {_shown_side(row[side])}" for side in CONFLICT_COLUMNS[:-1])
        texts.append(f"{key}: {states}")
    return "; ".join(texts)


def _shown_side(row: object) -> str:
    if row is None:
        return "no row"
    if isinstance(row, dict):
        return "(" + ", ".join(f"{name}={shown(value)}" for name, value in row.items()) + ")"
    return f"{row:+d} times" if isinstance(row, int) else shown(row)
