"""Kinds of simulated tables: what stays of a part of a batch, what is logged of it, and what files and log fold to.

Operations are pairs: (key, value or None for a delete) in tables that keep the last write, (key, number to add) in
tables that are merged when they are written, and (row, how often it is added) in tables without a primary key.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

Key = object
Value = object
Operation = tuple[Key, Value | None]
Row = tuple[Key, int, Value | None]
Old = Callable[[], dict[Key, Value]]
SILENT: Operation = ("silent", None)  # the first of a part whose changes are in its files and in no record


class TableKind(Protocol):
    """What distinguishes one kind from the others."""

    def operations(
        self, keys: Sequence[tuple[Key, bool]], marker: Key, *, plan: int, call: Value, is_silent: bool
    ) -> list[Operation]:
        """The part of a batch that changes or deletes these keys, and marks that it was there.

        `call` is another value each time that the part is made, `is_silent` asks for one that logs or leaves nothing.
        """
        ...

    def prepared(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        """What is written of a part, and what is logged. `old` looks up what the bucket has."""
        ...

    def fold(self, operations: Iterable[Operation]) -> dict[Key, Value]:
        """What the rows of files in the order of their numbers come to, and the changes of a log."""
        ...

    def compacted(self, rows: Sequence[Row], *, keeps_deletes: bool) -> list[Row]:
        """What a compaction makes of rows, in the order of their numbers."""
        ...

    def plans(self, rows: Iterable[Row], marker: Key) -> set[Value | None]:
        """The plans of the batch that left `marker` in these rows; none for a batch that is not there."""
        ...

    def leaves_rows(self, *, is_silent: bool) -> bool:
        """Whether such a part leaves its marker."""
        ...

    @property
    def has_old_values(self) -> bool:
        """Whether a key has one value, which the records of statements name as it was before."""
        ...

    @property
    def is_merged(self) -> bool:
        """Whether the changes of statements are merged behind the fence, on what the bucket has."""
        ...

    @property
    def takes_rows_out(self) -> bool:
        """Whether statements delete rows by a list of them: files have no deletes."""
        ...

    def statement(self, rng: random.Random, user: str, marker: Key) -> list[Operation]:
        """The changes of a statement in one bucket, with its marker; keys that it removes have None and come first."""
        ...

    def staged(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        """What is written and logged of the changes of a statement, on top of what the bucket has."""
        ...


class LastWrite:
    """The last change of each key stays, and each change is logged."""

    has_old_values = True
    is_merged = False
    takes_rows_out = False

    def operations(
        self, keys: Sequence[tuple[Key, bool]], marker: Key, *, plan: int, call: Value, is_silent: bool
    ) -> list[Operation]:
        if is_silent:
            return [SILENT, (marker, plan)]
        changes: list[Operation] = [(key, None if is_deleted else call) for key, is_deleted in keys]
        return [*changes, (marker, plan)]

    def prepared(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        last = {key: (first_sequence + place, value) for place, (key, value) in enumerate(operations)}
        return [(key, sequence, value) for key, (sequence, value) in last.items()], list(operations)

    def fold(self, operations: Iterable[Operation]) -> dict[Key, Value]:
        return {key: value for key, value in dict(operations).items() if value is not None}

    def compacted(self, rows: Sequence[Row], *, keeps_deletes: bool) -> list[Row]:
        last = {key: (sequence, value) for key, sequence, value in rows}
        return [(key, at, value) for key, (at, value) in last.items() if keeps_deletes or value is not None]

    def plans(self, rows: Iterable[Row], marker: Key) -> set[Value | None]:
        return {value for key, _, value in rows if key == marker}

    def leaves_rows(self, *, is_silent: bool) -> bool:
        return True

    def statement(self, rng: random.Random, user: str, marker: Key) -> list[Operation]:
        changes: list[Operation] = [
            (key, None if rng.random() < 0.3 else (user, key)) for key in rng.sample("xyz", rng.randint(1, 2))
        ]
        return [*changes, (marker, user)]

    def staged(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        return [(key, first_sequence + place, value) for place, (key, value) in enumerate(operations)], list(operations)


class Summed(LastWrite):
    """Merged when it is written: a change adds to what is there. What it comes to is written and logged."""

    is_merged = True

    def operations(
        self, keys: Sequence[tuple[Key, bool]], marker: Key, *, plan: int, call: Value, is_silent: bool
    ) -> list[Operation]:
        if is_silent:
            return [SILENT, (marker, plan)]
        changes: list[Operation] = [(key, 0 if is_zero else place + 1) for place, (key, is_zero) in enumerate(keys)]
        return [*changes, (marker, plan)]

    def prepared(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        before = old()
        after = added(before, operations)
        changed = [(key, value) for key, value in after.items() if before.get(key) != value]
        rows = [(key, first_sequence + place, value) for place, (key, value) in enumerate(changed)]
        return rows, list(changed)

    def statement(self, rng: random.Random, user: str, marker: Key) -> list[Operation]:
        keys = rng.sample("xyz", rng.randint(1, 2))
        removed: list[Operation] = [(key, None) for key in keys if rng.random() < 0.4]
        given: list[Operation] = [(key, rng.randint(1, 3)) for key in keys if rng.random() < 0.7]
        return [*removed, *given, (marker, 1)]

    def staged(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        before = old()
        after = after_statement(before, operations)
        changed: list[Operation] = [
            (key, after.get(key))
            for key in dict.fromkeys(key for key, _ in operations)
            if before.get(key) != after.get(key)
        ]
        return [(key, first_sequence + place, value) for place, (key, value) in enumerate(changed)], changed


@dataclass(frozen=True, slots=True)
class Bag:
    """Without a primary key: rows, each as often as it was added. With deletes equal rows are counted."""

    has_deletes: bool
    has_old_values = False
    is_merged = False

    @property
    def takes_rows_out(self) -> bool:
        return not self.has_deletes

    def operations(
        self, keys: Sequence[tuple[Key, bool]], marker: Key, *, plan: int, call: Value, is_silent: bool
    ) -> list[Operation]:
        if not self.has_deletes:
            return [*(((key, call), 1) for key, _ in keys), ((marker, plan), 1)]
        if is_silent:
            return [(("x", "row"), 1), (("x", "row"), -1)]
        return [*(((key, "row"), -1 if is_deleted else 1) for key, is_deleted in keys), ((marker, plan), 1)]

    def prepared(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        rows: list[Row] = [(row, first_sequence + place, count) for place, (row, count) in enumerate(operations)]
        return self.compacted(rows, keeps_deletes=True), list(operations)

    def fold(self, operations: Iterable[Operation]) -> dict[Key, Value]:
        counts: Counter[Key] = Counter()
        for row, count in operations:
            counts[row] += cast("int", count)
        return {row: count for row, count in counts.items() if count}

    def compacted(self, rows: Sequence[Row], *, keeps_deletes: bool) -> list[Row]:
        if not self.has_deletes:
            return list(rows)
        last = {row: sequence for row, sequence, _ in rows}
        counts = self.fold((row, count) for row, _, count in rows)
        return [(row, last[row], count) for row, count in counts.items()]

    def plans(self, rows: Iterable[Row], marker: Key) -> set[Value | None]:
        return {row[1] for row, _, _ in rows if isinstance(row, tuple) and row[0] == marker}

    def leaves_rows(self, *, is_silent: bool) -> bool:
        return not (self.has_deletes and is_silent)

    def statement(self, rng: random.Random, user: str, marker: Key) -> list[Operation]:
        keys = rng.sample("xyz", rng.randint(1, 2))
        if not self.has_deletes:
            return [*(((key, user), 1) for key in keys), ((marker, 1), 1)]
        return [*(((key, "row"), rng.choice((-2, -1, 1, 2))) for key in keys), ((marker, 1), 1)]

    def staged(
        self, operations: Sequence[Operation], first_sequence: int, old: Old
    ) -> tuple[list[Row], list[Operation]]:
        return self.prepared(operations, first_sequence, old)


def added(before: dict[Key, Value], operations: Iterable[Operation]) -> dict[Key, Value]:
    """What changes of a summed table make of what was there; the keys that they name."""
    after: dict[Key, Value] = {}
    for key, number in operations:
        old = after.get(key, before.get(key))
        after[key] = number if old is None else cast("int", old) + cast("int", number)
    return after


def after_statement(before: dict[Key, Value], operations: Iterable[Operation]) -> dict[Key, Value]:
    """What a summed table has after a statement: keys with None are removed first, the others are added to the rest."""
    changes = list(operations)
    removed = {key for key, number in changes if number is None}
    kept = {key: value for key, value in before.items() if key not in removed}
    return kept | added(kept, [change for change in changes if change[1] is not None])


LAST_WRITE: TableKind = LastWrite()
SUMMED: TableKind = Summed()
APPEND_ONLY: TableKind = Bag(has_deletes=False)
VALUE_COUNT: TableKind = Bag(has_deletes=True)
