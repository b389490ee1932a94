"""A query over its tables, and over tables of which one column is changed: which columns of the result change then.

Sound is: if the values of an output column differ when nothing but one source column differs, the output depends on it.
Results are compared as multisets, column by column, so the order of rows does not count; where the number of rows
changes, every column has changed. Floats are compared by nine digits: the sum of quotients depends on the order.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import duckdb
import pyarrow as pa

from tests.lineage.fields.oracle.constants import Value, constants_of
from tests.lineage.fields.oracle.generated import FORMS, SUITE
from tests.lineage.fields.oracle.queries import OracleQuery, SourceColumn
from tests.lineage.fields.oracle.random_rows import Shape, random_tables, typed

_SHAPES = (
    *(Shape(8, 120), Shape(4, 120), Shape(12, 300), Shape(3, 150), Shape(24, 100), Shape(2, 60), Shape(40, 60)),
    *(Shape(2, 250), Shape(60, 600)),
)  # which of them gives rows depends on how many tables are joined and which counts are asked for
_SHAPES_OF = dict.fromkeys((SUITE, FORMS), (Shape(30, 0), Shape(8, 0), Shape(100, 0), Shape(4, 0)))
_ROWS_WANTED = 2
_SEEDS = 3

Column = Counter[object]  # the values of an output column


def permuted(values: Sequence[Value], chance: random.Random) -> list[Value]:
    """The same values in other rows."""
    return chance.sample(values, len(values))


def nulled(values: Sequence[Value], _: random.Random) -> list[Value]:
    """No values."""
    return [None] * len(values)


def shifted(values: Sequence[Value], _: random.Random) -> list[Value]:
    """Each value replaced by the next one of its type."""
    return [_next(value) for value in values]


def _next(value: Value) -> Value:
    match value:
        case datetime.date():
            return value + datetime.timedelta(days=1)
        case str():
            return f"{value}'"
        case None:
            return None
    return value + 1


Perturbation = Callable[[Sequence[Value], random.Random], list[Value]]
PERTURBATIONS: tuple[Perturbation, ...] = (permuted, nulled, shifted)


@dataclass(slots=True)
class Observed:
    """What was seen of one query: for each source column, the places of the output columns that changed with it."""

    rows: int = 0
    perturbations: int = 0
    refused: int = 0  # changed data for which the query fails, as with two rows of a scalar sub-query
    visible: int = 0
    changed: dict[SourceColumn, set[int]] = field(default_factory=dict)


def observe(query: OracleQuery, tries: int = 1) -> Observed:
    """Run a query with each perturbation of each column that it names.

    `tries` is the number of sets of tables: columns that have not changed each output are tried over the next ones too.
    """
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        found = Observed()
        for tables in islice(_fitting_tables(connection, query), tries):
            _perturb(connection, query, tables, found)
        return found


def _perturb(
    connection: duckdb.DuckDBPyConnection, query: OracleQuery, tables: dict[str, pa.Table], found: Observed
) -> None:
    """Perturb the columns that have not changed each output so far."""
    _register(connection, tables)
    rows = _run(connection, query) or []
    before = _columns(rows, len(connection.description))
    found.rows = max(found.rows, len(rows))
    for table, column in query.columns:
        if len(found.changed.get((table, column), ())) == len(before):
            continue
        chance = random.Random(f"{query.name} {table} {column}")
        for perturb in PERTURBATIONS:
            values = perturb(tables[table][column].to_pylist(), chance)
            after = _run_with(connection, query, tables[table], (table, column), values)
            found.perturbations += 1
            if after is None:
                found.refused += 1
                continue
            places = {at for at, one in enumerate(after) if one != before[at]}
            found.visible += bool(places)
            found.changed.setdefault((table, column), set()).update(places)


def _fitting_tables(connection: duckdb.DuckDBPyConnection, query: OracleQuery) -> Iterator[dict[str, pa.Table]]:
    """Tables for which the query has rows with values; the last ones are the best of the others."""
    constants = constants_of(query.tree)
    most, best = -1, None
    for seed in range(_SEEDS):
        for shape in _SHAPES_OF.get(query.suite, _SHAPES):
            tables = random_tables(query, constants, shape, seed)
            _register(connection, tables)
            rows = _run(connection, query)
            if rows is None:
                continue
            useful = sum(any(value is not None and value != 0 for value in row) for row in rows)
            if useful >= _ROWS_WANTED:
                yield tables
            elif useful > most:
                most, best = useful, tables
    if best is not None:
        yield best


def _run_with(
    connection: duckdb.DuckDBPyConnection,
    query: OracleQuery,
    table: pa.Table,
    place: SourceColumn,
    values: Sequence[Value],
) -> list[Column] | None:
    """The columns of the result with other values in one column; None if the query fails."""
    name, column = place
    changed = table.set_column(table.column_names.index(column), column, typed(values, query.schema[name][column]))
    connection.register(name, changed)
    rows = _run(connection, query)
    connection.register(name, table)
    return None if rows is None else _columns(rows, len(connection.description))


def _register(connection: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> None:
    for name, table in tables.items():
        connection.register(name, table)


def _run(connection: duckdb.DuckDBPyConnection, query: OracleQuery) -> list[tuple[object, ...]] | None:
    """The rows; None if these data are refused, as two rows of a scalar sub-query or a string that is no number."""
    try:
        return connection.execute(query.duckdb_text).fetchall()
    except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException):
        return None


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[Column]:
    if not rows:
        return [Counter() for _ in range(width)]
    return [Counter(map(_comparable, values)) for values in zip(*rows, strict=True)]


def _comparable(value: object) -> object:
    return f"{value:.9g}" if isinstance(value, float) else value
