"""Random conditions of DuckDB's SQL over the rows of `typed_rows`."""

from __future__ import annotations

import random
from collections.abc import Collection

from tests.support.tables.typed_rows import COLUMNS, SQL_TYPES


class Conditions:
    """Random conditions over the key and the columns `names`; a literal is a value of some row, cast to their type."""

    def __init__(self, seed: int, row_count: int, names: Collection[str] = tuple(COLUMNS)) -> None:
        self._random = random.Random(seed)
        self._row_count = row_count
        self._rows = {name: [COLUMNS[name][1](at) for at in range(0, row_count, 7)] for name in names}

    def any(self, depth: int = 2) -> str:
        """A condition."""
        choice = self._random.random()
        if depth and choice < 0.6:
            operator = self._random.choice([" AND ", " OR "])
            return "(" + operator.join(self.any(depth - 1) for _ in range(self._random.randint(2, 3))) + ")"
        return f"NOT ({self._leaf()})" if choice > 0.9 else self._leaf()

    def _leaf(self) -> str:
        if self._random.random() < 0.2:
            return f"id {self._operator()} {self._random.randrange(-5, self._row_count + 5)}"
        name = self._random.choice(list(self._rows))
        column = f'"{name}"'
        form = self._random.randrange(8)
        if form == 0:
            return f"{column} IS {self._random.choice(['', 'NOT '])}NULL"
        if form == 1:
            return f"{column} IN ({', '.join(self._literal(name) for _ in range(self._random.randint(1, 4)))})"
        if form == 2:
            return f"{column} BETWEEN {self._literal(name)} AND {self._literal(name)}"
        if form == 3:
            return f"{self._literal(name)} {self._operator()} {column}"
        return f"{column} {self._operator()} {self._literal(name)}"

    def _operator(self) -> str:
        return self._random.choice(["=", "<>", "<", "<=", ">", ">="])

    def _literal(self, name: str) -> str:
        value = self._random.choice(self._rows[name])
        if isinstance(value, bytes):
            return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
        text = str(value).replace("'", "''")
        return f"CAST('{text}' AS {SQL_TYPES.get(name, name)})"
