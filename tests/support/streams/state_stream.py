"""A stream that starts from a named state, started again before each batch, and what it is to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: keywords of reads

import pytest

from lakelog.catalog import Table
from lakelog.common.errors import NotFoundError
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import Offset
from tests.support.streams.planned_reader import Change, Reader
from tests.support.tables.named_states import Filled, Row, Rows

Changes = Counter[tuple[str, Row]]
WAYS_OF_BRANCH = ("branch", "branch.tag", "tag of a branch")


class StateStream(Reader):
    """A query on a table of `named_states`."""

    def __init__(self, table: Table, which: dict[str, Any], **options: str) -> None:
        self.found: Changes = Counter()
        named = {key: str(value) for key, value in which.items()}
        super().__init__(table, columns="day,id,v", **named, **options)

    def read_batch(self, end: Offset | None) -> Change:
        """Read one batch up to `end`."""
        assert self.offset is not None
        assert end is not None
        for row in self.rows_of(self._planner.parts(self.offset, end)):
            self.found[row["_row_kind"], (row["day"], row["id"], row["v"])] += 1
        self._planner.let_go(end)
        self.offset = end
        self.ends.append(end)
        return self.rows

    def read_on(self) -> Changes:
        """Read to the end of the table, a row a batch as far as batches can end there, each by a new process."""
        while True:
            before = self.offset
            self.start()
            self.read(Limits(rows=1), batches=1)
            if self.offset == before:
                return self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a stream from a named state is to read of what is written so far; `options` are those that it needs for it.

    `numbers` are those of the line that it reads, also later ones.
    """

    filled: Filled
    begins: Changes
    behind: Changes
    options: Mapping[str, str]
    numbers: Sequence[int]

    @classmethod
    def of(cls, filled: Filled, way: str, *, is_expired: bool, has_log: bool = False) -> Expected:
        """Of this way; with `is_expired` each line has its newest snapshot of the first five numbers and later ones."""
        is_branch = way in WAYS_OF_BRANCH
        states, numbers = (filled.side_states, filled.side_numbers) if is_branch else (filled.states, filled.numbers)
        begin = len(numbers) if way == "branch" else 0 if is_branch else 3
        oldest = (1 if is_branch else 5) if is_expired else 0
        is_kept = (has_log and not is_branch) or (begin + 1 == oldest and not filled.kind.is_compacted)
        if begin >= oldest or is_kept:
            behind, options = written(filled, numbers[begin:]), {}
        else:
            behind = difference(filled, states[begin], states[oldest]) + written(filled, numbers[oldest:])
            options = {"failOnDataLoss": "false"}
        return cls(filled=filled, begins=inserts(states[begin]), behind=behind, options=options, numbers=numbers)

    def write_on(self) -> Changes:
        """Write to both lines; the changes of the one that the stream reads."""
        number = self.filled.numbers[-1] + 1
        self.filled.write(number)
        self.filled.write_side(100 + number)
        return written(self.filled, self.numbers[-1:])


def check_reads_once(filled: Filled, table: Table, way: str, *, is_expired: bool, has_log: bool = False) -> None:
    """Check a stream from a named state: its rows, the changes behind it, and those written then, each once."""
    expected = Expected.of(filled, way, is_expired=is_expired, has_log=has_log)
    if expected.options:
        with pytest.raises(NotFoundError, match=r"keeps snapshot \d+, .*failOnDataLoss=false"):
            StateStream(table, filled.named(way)).read_on()
    stream = StateStream(table, filled.named(way), **expected.options)
    found = expected.begins + expected.behind
    assert stream.read_on() == found
    found += expected.write_on()
    assert stream.read_on() == found


def check_is_refused(filled: Filled, table: Table) -> None:
    """Check that a stream from a snapshot that has expired says so."""
    with pytest.raises(NotFoundError, match=f"snapshot {filled.ids[3]}"):
        StateStream(table, filled.named("snapshot")).read_on()


def inserts(rows: Rows) -> Changes:
    """The rows of a state as a stream begins with them."""
    return Counter({("+I", row): count for row, count in rows.items()})


def written(filled: Filled, numbers: Iterable[int]) -> Changes:
    """The changes of numbers in logs and files without old values."""
    return Counter(("+I", row) for number in numbers for row in filled.written_as(number))


def difference(filled: Filled, before: Rows, after: Rows) -> Changes:
    """The net changes between two states."""
    if not filled.kind.keys:
        return inserts(after - before)
    old, new = ({row[:2]: row for row in state} for state in (before, after))
    found: Changes = Counter()
    for key in old.keys() | new.keys():
        if key not in old:
            found["+I", new[key]] += 1
        elif key not in new:
            found["-D", old[key]] += 1
        elif old[key] != new[key]:
            found["-U", old[key]] += 1
            found["+U", new[key]] += 1
    return found
