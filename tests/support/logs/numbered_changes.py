"""The changes of the jobs of `tests.support.jobs.cluster_job`, as a model: what a table holds in the end."""

from __future__ import annotations

DELETES = 9  # each number that it divides deletes its key
Rows = dict[int, tuple[str, int]]


def key_of(number: int, keys: int) -> int:
    """The key that a number changes."""
    return number * 7919 % keys


def rows_after(total: int, keys: int) -> Rows:
    """The rows after the numbers from 0 to `total`: {id: (name, amount)}."""
    rows: Rows = {}
    for number in range(total):
        if number % DELETES == 0:
            rows.pop(key_of(number, keys), None)
        else:
            rows[key_of(number, keys)] = (f"number {number}", number)
    return rows


def merged_rows(rows: Rows, count: int) -> Rows:
    """The rows after the merge of the job `merge` with so many rows."""
    merged = dict(rows)
    for key in range(count):
        if key in merged and key % 3 == 0:
            del merged[key]
        else:
            merged[key] = (f"merged {key}", -key)
    return merged
