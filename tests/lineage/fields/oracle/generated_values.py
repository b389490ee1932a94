"""Random expressions over named columns, in the SQL of Spark: numbers, strings and conditions.

Nothing in them depends on the order of rows, fails for some values, or is random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NUMBER, STRING = "number", "string"
TABLES = {
    "people": {
        "id": "BIGINT",
        "team_key": "BIGINT",
        "name": "STRING",
        "town": "STRING",
        "age": "BIGINT",
        "pay": "INT",
    },
    "teams": {"id": "BIGINT", "people_key": "BIGINT", "title": "STRING", "area": "STRING", "budget": "BIGINT"},
    "sales": {"id": "BIGINT", "people_key": "BIGINT", "kind": "STRING", "amount": "BIGINT", "price": "INT"},
}
_WORDS = ("ONE", "TWO", "THREE", "FOUR")


class Named(NamedTuple):
    """A column as an expression names it."""

    name: str
    kind: str


def kind_of(declared: str) -> str:
    """The kind of a column of a table."""
    return STRING if declared == "STRING" else NUMBER


@dataclass(slots=True)
class Values:
    """Writes expressions; `queries` writes sub-queries for them."""

    chance: random.Random
    _aliases: int = field(default=0)

    def alias(self, letter: str) -> str:
        """A name that no other alias has."""
        self._aliases += 1
        return f"{letter}{self._aliases}"

    def column(self, columns: Sequence[Named], kind: str) -> str:
        """A column of a kind; if there is none, one of the other kind is made to it."""
        fitting = [one.name for one in columns if one.kind == kind]
        if fitting:
            return self.chance.choice(fitting)
        other = self.chance.choice(columns).name
        return f"CAST({other} AS STRING)" if kind == STRING else f"length({other})"

    def constant(self, kind: str) -> str:
        """A constant."""
        return f"'{self.chance.choice(_WORDS)}'" if kind == STRING else str(self.chance.randint(1, 8))

    def value(self, columns: Sequence[Named], kind: str, depth: int = 2) -> str:
        """An expression of a kind."""
        if depth == 0 or self.chance.random() < 0.35:
            return self.column(columns, kind)
        return self.number(columns, depth - 1) if kind == NUMBER else self.string(columns, depth - 1)

    def number(self, columns: Sequence[Named], depth: int) -> str:
        """A number made from other values."""
        first, second = self._two(columns, NUMBER, depth)
        match self.chance.randrange(9):
            case 0 | 1:
                return f"({first} {self.chance.choice('+-')} {second})"
            case 2:
                return f"({first} * {self.chance.randint(2, 3)})"
            case 3:
                return f"length({self.value(columns, STRING, depth)})"
            case 4:
                return f"coalesce({first}, {second})"
            case 5:
                return f"nullif({first}, {self.constant(NUMBER)})"
            case 6:
                return f"{self.chance.choice(('greatest', 'least'))}({first}, {second})"
            case 7:
                return (
                    f"CASE {self.column(columns, STRING)} WHEN {self.constant(STRING)} THEN {first} ELSE {second} END"
                )
        return self._case(columns, first, second, depth)

    def string(self, columns: Sequence[Named], depth: int) -> str:
        """A string made from other values."""
        first, second = self._two(columns, STRING, depth)
        match self.chance.randrange(6):
            case 0:
                return f"concat({first}, '-', {second})"
            case 1:
                return f"upper({first})"
            case 2:
                return f"substr({first}, 1, {self.chance.randint(1, 3)})"
            case 3:
                return f"coalesce({first}, {second})"
            case 4:
                return f"CAST({self.value(columns, NUMBER, depth)} AS STRING)"
        return self._case(columns, first, second, depth)

    def _two(self, columns: Sequence[Named], kind: str, depth: int) -> tuple[str, str]:
        """Two values, which are different expressions if that is easy."""
        first = second = self.value(columns, kind, depth)
        for _ in range(4):
            if second == first:
                second = self.value(columns, kind, depth)
        return first, second

    def _case(self, columns: Sequence[Named], first: str, second: str, depth: int) -> str:
        if self.chance.random() < 0.3:
            return f"if({self.condition(columns, depth)}, {first}, {second})"
        rest = f" ELSE {second}" if self.chance.random() < 0.7 else ""
        return f"CASE WHEN {self.condition(columns, depth)} THEN {first}{rest} END"

    def condition(self, columns: Sequence[Named], depth: int = 1) -> str:
        """A condition; it compares with constants mostly, so that many rows have either result."""
        if depth and self.chance.random() < 0.4:
            first, second = (self.condition(columns, depth - 1) for _ in range(2))
            return self.chance.choice((f"({first} OR {second})", f"({first} AND {second})", f"NOT ({first})"))
        kind = self.chance.choice((NUMBER, NUMBER, STRING))
        value = self.value(columns, kind, depth)
        match self.chance.randrange(6):
            case 0:
                return f"({value} % 3) IN (0, 1)" if kind == NUMBER else f"substr({value}, 1, 1) IN ('T', 'F', '1')"
            case 1:
                return f"{value} IS {self.chance.choice(('', 'NOT ', 'NOT ', 'NOT '))}NULL"
            case 2 if kind == NUMBER:
                return f"{value} BETWEEN {self.chance.randint(1, 3)} AND {self.chance.randint(6, 16)}"
            case 2:
                return f"{value} LIKE '%T%'"
            case 3:
                other, sign = self.column(columns, kind), self.chance.choice(("<=", ">=", "<", ">"))
                return f"{value} {sign} {other if other != value else self.constant(kind)}"
        return f"{value} {self.chance.choice(('<=', '>=', '<>', '<>', '='))} {self.constant(kind)}"
