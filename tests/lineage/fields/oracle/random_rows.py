"""Small random tables for one query: keys that fit each other, and the values that the query compares columns with."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tests.lineage.fields.oracle.calendar_rows import DATES, calendar_rows
from tests.lineage.fields.oracle.constants import Constants, Value, moved
from tests.lineage.fields.oracle.queries import OracleQuery

FACTS = frozenset(
    {
        *("catalog_returns", "catalog_sales", "inventory", "store_returns", "store_sales", "web_returns", "web_sales"),
        *("lineitem", "partsupp"),
    }
)  # tables with more rows, without a key of one column
_KEYS = ("_sk", "key", "_number")  # how the names of columns end that hold the number of a row elsewhere
_TYPES = {"BIGINT": pa.int64(), "INT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "DATE": pa.date32()}
_WORDS = ("ONE", "TWO", "THREE", "FOUR")
_FIT = 0.8  # of the values of a column with constants are among these
_NULLS = 0.04
_NULLS_ASKED_FOR = 0.3  # where the query has IS NULL

Rows = dict[str, list[Value]]  # the columns of a table


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the tables are."""

    keys: int  # the rows of a dimension
    facts: int

    def rows_of(self, table: str) -> int:
        """The number of rows of a table."""
        return self.facts if table in FACTS else self.keys


def random_tables(query: OracleQuery, constants: Constants, shape: Shape, seed: int) -> dict[str, pa.Table]:
    """The tables of a query, the same for the same seed. Columns that the query does not name are left out."""
    chance = random.Random(f"{query.suite} {query.name} {seed}")
    tables: dict[str, pa.Table] = {}
    for table in query.tables:
        named = [column for name, column in query.columns if name == table]
        columns = named or list(query.schema[table])[:1]
        rows = _Maker(query, constants, shape, chance).rows(table, columns)
        tables[table] = pa.table({name: typed(rows[name], query.schema[table][name]) for name in columns})
    return tables


def typed(values: Sequence[Value], kind: str) -> pa.Array:
    """The values as a column of Arrow."""
    return pa.array(values, _TYPES[kind])


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the rows of tables."""

    query: OracleQuery
    constants: Constants
    shape: Shape
    chance: random.Random

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """The columns of a table."""
        count = self.shape.rows_of(table)
        if table == "date_dim":
            count *= 2
        rows = calendar_rows(self.constants, count, self.chance) if table == "date_dim" else {}
        first = next(iter(self.query.schema[table]))
        for column in columns:
            if column in rows:
                continue
            if column == first and table not in FACTS:
                rows[column] = list(range(1, count + 1))
                continue
            pool = _Pool(column, self.query.schema[table][column], self.constants, self.shape)
            rows[column] = [pool.value(self.chance) for _ in range(count)]
        return rows


@dataclass(frozen=True, slots=True)
class _Pool:
    """The values of one column."""

    column: str
    kind: str
    constants: Constants
    shape: Shape

    @property
    def is_key(self) -> bool:
        """Whether the column has the number of a row of a dimension."""
        return self.column.endswith(_KEYS) and self.kind == "BIGINT"

    def value(self, chance: random.Random) -> Value:
        """A value: one of the constants, another one, or NULL."""
        named = self.constants.of(self.column)
        if chance.random() < (_NULLS_ASKED_FOR if None in named else _NULLS):
            return None
        fitting = [value for value in (fitted(one, self.kind) for one in named) if value is not None]
        if fitting and not self.is_key and chance.random() < _FIT:
            return moved(chance.choice(fitting), chance.choice((0, 0, -20, 20, 40)) if self.kind == "DATE" else 0)
        return self._other(chance)

    def _other(self, chance: random.Random) -> Value:
        if self.is_key:
            many = 2 if self.column.endswith("date_sk") else 1
            return chance.randint(1, self.shape.keys * many)
        if self.kind in {"BIGINT", "INT"}:
            offsets = [0, 0, *self.constants.offsets.get(self.column, ())]
            number: int = chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 8 if offsets[2:] else 500)) + chance.choice(offsets)
            return number
        if self.kind == "DOUBLE":
            return chance.randint(1, 800) / (64 if "r_" in self.column[:3] else 4)  # a return is a part of a sale
        return chance.choice(DATES) if self.kind == "DATE" else chance.choice(_WORDS)


def fitted(value: Value, kind: str) -> Value:
    """A constant in the type of a column; None where it is of another type.

    A DOUBLE has few bits after the point, so sums do not depend on the order of rows.
    """
    try:
        match kind, value:
            case "STRING", str():
                return value
            case "STRING", int() | float() | datetime.date():
                return str(value)
            case "DATE", datetime.date():
                return value
            case "DOUBLE", int() | float() | str():
                return float(round(float(value) * 64)) / 64
            case "BIGINT" | "INT", int() | float() | str():
                return int(float(value))
    except ValueError:
        pass
    return None
