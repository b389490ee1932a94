"""The three-way merge of dicts, by the words of the documentation: what tests of merges of branches expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Row = tuple[object, ...]
Rows = Mapping[object, Row]


def merged_rows(base: Rows, main: Rows, branch: Rows, *, policy: str) -> tuple[dict[object, Row], set[object]]:
    """The rows of main after the merge by key, and the keys in conflict; `policy` is branch, main or fail."""
    result, conflicts = dict(main), set()
    for key in {*base, *main, *branch}:
        was, ours, theirs = base.get(key), main.get(key), branch.get(key)
        if theirs in (was, ours):
            continue
        if ours != was:
            conflicts.add(key)
            if policy != "branch":
                continue
        if theirs is None:
            result.pop(key, None)
        else:
            result[key] = theirs
    return result, conflicts


def merged_counts(
    base: Counter[Row], main: Counter[Row], branch: Counter[Row], *, policy: str
) -> tuple[Counter[Row], set[Row]]:
    """The rows of main after the merge by how often each is there, and the rows in conflict."""
    result, conflicts = Counter(main), set()
    for row in {*base, *main, *branch}:
        ours, theirs = main[row] - base[row], branch[row] - base[row]
        if theirs >= 0 or ours >= 0:
            result[row] += theirs
        elif ours != theirs:
            conflicts.add(row)
            if policy == "branch":
                result[row] = branch[row]
    return +result, conflicts
