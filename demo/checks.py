"""Found against expected, each with a line that says what was compared and how it came out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from demo.flights import KEY, TABLE_SCHEMA
from demo.log_fold import COUNT_COLUMN, FoldedLog
from demo.truth import checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison. `detail` is one line: the figures when it passed, the difference when it did not."""

    name: str
    has_passed: bool
    detail: str


def check_rows(name: str, found: pl.DataFrame, expected: pl.DataFrame) -> Check:
    """Rows of `flights` against the truth: number, checksum, and the differences by key."""
    found_sum, expected_sum = checksum(found), checksum(expected)
    if found_sum == expected_sum:
        return Check(name=name, has_passed=True, detail=f"{found.height:,} rows, sha256 {found_sum[:16]}")
    return Check(name=name, has_passed=False, detail=_difference(found, expected, list(KEY)))


def check_log(name: str, log: FoldedLog, expected: pl.DataFrame) -> Check:
    """Promise 2: the changes of a table's log, folded, are the rows of its snapshot.

    Folded in two ways: the last change of each key, and the sum of additions and retractions of each whole row.
    """
    wrong = log.sums.filter(pl.col(COUNT_COLUMN) != 1)
    if not _is_same(log.rows, expected):
        detail = f"last change per key: {_difference(log.rows, expected, list(KEY))}"
    elif wrong.height:
        detail = f"signed sum: {wrong.height:,} rows are not there once, as {wrong.row(0, named=True)}"
    elif not _is_same(log.sums, expected):
        detail = f"signed sum: {_difference(log.sums, expected, list(KEY))}"
    else:
        return Check(
            name=name, has_passed=True, detail=f"{log.change_count:,} rows of changes fold to {expected.height:,}"
        )
    return Check(name=name, has_passed=False, detail=detail)


def _is_same(found: pl.DataFrame, expected: pl.DataFrame) -> bool:
    names = TABLE_SCHEMA.names
    return found.select(names).sort(KEY).equals(expected.select(names).sort(KEY))


def check_counts(name: str, found: pl.DataFrame, expected: pl.DataFrame) -> Check:
    """Rows of `flights_by_status` against the truth."""
    names = ["carrier", "status", "count"]
    same = found.select(names).sort(names).equals(expected.select(names).sort(names))
    detail = f"{found.height} rows, {found['count'].sum():,} flights"
    return Check(name=name, has_passed=same, detail=detail if same else _difference(found, expected, names[:2]))


def _difference(found: pl.DataFrame, expected: pl.DataFrame, key: list[str]) -> str:
    names = TABLE_SCHEMA.names if key == list(KEY) else [*key, "count"]
    missing = expected.join(found, on=names, how="anti", nulls_equal=True).select(names)
    extra = found.join(expected, on=names, how="anti", nulls_equal=True).select(names)
    doubled = found.height - found.unique(key).height
    parts = [
        f"{found.height:,} rows, expected {expected.height:,}",
        f"{missing.height:,} missing or different",
        f"{extra.height:,} not expected",
        f"{doubled:,} keys more than once",
    ]
    for label, rows in (("missing", missing), ("found", extra)):
        if rows.height:
            first = rows.sort(key).row(0, named=True)
            parts.append(f"first {label}: " + ", ".join(f"{column}={value}" for column, value in first.items()))
    return "; ".join(parts)
