"""What a table with a log and its branches must hold: multisets of rows, a line each, and the batches in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Row = tuple[int, int]  # id, batch
Rows = Counter[Row]
Part = tuple[str, int, int]  # user, identifier and bucket of a part of a batch


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: its key, its options, and whether rows can be deleted in it."""

    keys: Sequence[str]
    options: Mapping[str, str]
    deletes_without_log: bool = True

    def put(self, rows: Rows, given: Sequence[Row], removed: Sequence[Row] = ()) -> None:
        """Write rows, and take others out."""
        for row in removed:
            rows[row] -= 1
        for row in given:
            if self.keys:
                for old in [old for old in rows if old[0] == row[0]]:
                    del rows[old]
                rows[row] = 1
            else:
                rows[row] += 1

    def merged(self, base: Rows, main: Rows, branch: Rows) -> Rows:
        """The three-way merge in which the branch wins a conflict."""
        if self.keys:
            held, sides = dict(main), [{row[0]: row for row in +side} for side in (base, branch)]
            result = {row[0]: row for row in +Rows(held)}
            for key in sides[0].keys() | sides[1].keys():
                if sides[0].get(key) != sides[1].get(key):
                    result.pop(key, None)
                    if key in sides[1]:
                        result[key] = sides[1][key]
            return Rows(result.values())
        found = Rows(main)
        for row in {*base, *branch}:
            ours, theirs = branch[row] - base[row], main[row] - base[row]
            found[row] += ours - theirs if ours < 0 and theirs < 0 else ours
        return +found


KINDS = {
    "upsert": Kind(["id"], {}),
    "all changes": Kind(["id"], {"log.changelog-mode": "all"}),
    "value count": Kind([], {"write-mode": "change-log", "bucket-key": "id"}),
    "append only": Kind([], {"bucket-key": "id"}, deletes_without_log=False),
}


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tag: its snapshot, the rows, and whether it holds a batch in part."""

    snapshot_id: int
    rows: Rows
    is_partial: bool = False


@dataclass(slots=True)
class Line:
    """What one of the table and its branches holds.

    `fork` is what a branch had in common with the table last, `merged_id` its snapshot then, where it was merged; that
    one is lost to a rollback behind it.
    """

    number: int
    rows: Rows = field(default_factory=Rows)
    tags: dict[str, Tagged] = field(default_factory=dict)
    fork: Rows | None = None
    merged_id: int = 0
    has_lost_base: bool = False
    is_logged: bool = False
    was_logged: bool = False


@dataclass(slots=True)
class Batches:
    """The batches of streams: `pending` ones died, `tail` are their parts in the log and in no snapshot, in order."""

    next: Counter[str] = field(default_factory=Counter)
    rows: dict[tuple[str, int], tuple[list[Row], list[Row]]] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    tail: list[Part] = field(default_factory=list)
    taken: set[Part] = field(default_factory=set)

    @property
    def are_partial(self) -> bool:
        """Whether the newest snapshot holds a batch in part."""
        return any((user, identifier) in self.pending.items() for user, identifier, _ in self.taken)


@dataclass(slots=True)
class Model:
    """All lines by name, and the batches of the table."""

    lines: dict[str, Line]
    batches: Batches = field(default_factory=Batches)

    def shown(self) -> dict[str, tuple[Rows, dict[str, Rows]]]:
        """What reads must give."""
        return {
            name: (+line.rows, {tag: +held.rows for tag, held in line.tags.items()})
            for name, line in self.lines.items()
        }
