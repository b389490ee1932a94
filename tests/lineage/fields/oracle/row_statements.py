"""Statements that change rows, run in DuckDB over small tables: which columns of the target differ afterwards.

A column of the target keeps most of its values, so changes of a column that is perturbed itself are left out: it has no
edge to itself. Every other column of the target must have an edge, or the dataset.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from tests.lineage.fields.oracle.constants import Value
from tests.lineage.fields.oracle.perturbations import PERTURBATIONS
from tests.support.lineage.field_cases import FieldCase, FoundEdge

TARGET = "t"
TABLES = {
    "t": {"id": "BIGINT", "a": "BIGINT", "b": "BIGINT", "c": "STRING"},
    "s": {"id": "BIGINT", "x": "BIGINT", "y": "BIGINT", "z": "STRING"},
    "r": {"k": "BIGINT", "v": "BIGINT"},
}
_MERGE = "MERGE INTO t USING s ON t.id = s.id"
STATEMENTS = (
    "UPDATE t SET a = b",
    "UPDATE t SET a = b + 1, b = a WHERE c = 'ONE'",
    "UPDATE t SET a = (SELECT max(v) FROM r) WHERE b > 3",
    "UPDATE t SET a = CASE WHEN b > 3 THEN a ELSE id END",
    "UPDATE t SET c = 'x' WHERE id IN (SELECT k FROM r WHERE v > 2)",
    "UPDATE t SET b = 1 WHERE EXISTS (SELECT 1 FROM r WHERE r.k = t.a AND r.v > 2)",
    "UPDATE t SET b = (SELECT max(v) FROM r WHERE r.k = t.id)",
    "DELETE FROM t WHERE a > 3 AND c = 'ONE'",
    "DELETE FROM t WHERE id IN (SELECT k FROM r)",
    "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = t.a)",
    f"{_MERGE} WHEN MATCHED THEN UPDATE SET a = s.x",
    f"{_MERGE} WHEN MATCHED AND s.y > 3 THEN UPDATE SET a = s.x, c = s.z"
    " WHEN NOT MATCHED THEN INSERT (id, a, b, c) VALUES (s.id, s.x, s.y, s.z)",
    f"{_MERGE} WHEN MATCHED AND t.b > s.y THEN DELETE WHEN MATCHED THEN UPDATE SET b = t.b + s.y",
    f"{_MERGE} WHEN NOT MATCHED AND s.y > 2 THEN INSERT (id, a) VALUES (s.id, s.x)",
    f"{_MERGE} WHEN NOT MATCHED BY SOURCE AND t.a > 3 THEN UPDATE SET b = 0",
    f"{_MERGE} WHEN NOT MATCHED BY SOURCE THEN DELETE",
    f"{_MERGE} AND t.c = s.z WHEN MATCHED THEN UPDATE SET a = t.b WHEN NOT MATCHED BY SOURCE THEN UPDATE SET c = 'old'",
    "MERGE INTO t USING (SELECT id, sum(x) AS x, max(z) AS z FROM s WHERE y > 1 GROUP BY id) AS q ON t.id = q.id"
    " WHEN MATCHED THEN UPDATE SET a = q.x WHEN NOT MATCHED THEN INSERT (id, c) VALUES (q.id, q.z)",
    "INSERT INTO t (id, c) SELECT k, 'n' FROM r WHERE v > 2",
    "INSERT INTO t SELECT s.id + 100, x, r.v, z FROM s JOIN r ON s.x = r.k",
)
_ROWS = 12
_WORDS = ("ONE", "TWO", "THREE")

Tables = Mapping[str, Mapping[str, Sequence[Value]]]
Change = tuple[str, str]  # a source column with its table, and a column of the target
_DUCKDB_TYPES = {"BIGINT": pa.int64(), "STRING": pa.string()}


def case_of(statement: str) -> FieldCase:
    """The statement as a case, whose edges a session of Spark can find."""
    keys = {TARGET: ["id"]}
    content = {"name": statement, "tables": TABLES, "keys": keys, "statements": [statement], "dataset": []}
    return FieldCase("byhand", content)


def changes_by(statement: str, seed: int) -> set[Change]:
    """The columns of the target that change with each column of each table."""
    chance = random.Random(seed)
    tables = _random_tables(chance)
    with duckdb.connect() as connection:
        before = _after(connection, statement, tables)
        found: set[Change] = set()
        for table, columns in TABLES.items():
            for column in columns:
                for perturb in PERTURBATIONS:
                    values = perturb(tables[table][column], chance)
                    changed = {**tables, table: {**tables[table], column: values}}
                    after = _after(connection, statement, changed)
                    ends = {end for end in TABLES[TARGET] if before and after and after[end] != before[end]}
                    found |= {(f"{table}.{column}", end) for end in ends if (table, column) != (TARGET, end)}
        return found


def unexplained(changes: set[Change], edges: set[FoundEdge]) -> list[Change]:
    """The changes without an edge."""
    known = {(start, end) for start, end, _, _ in edges}
    return sorted((start, end) for start, end in changes if not {(start, f"{TARGET}.{end}"), (start, "*")} & known)


def _random_tables(chance: random.Random) -> Tables:
    """Keys that overlap, and few different values of the other columns."""
    found: dict[str, dict[str, Sequence[Value]]] = {
        table: {column: _values(kind, chance) for column, kind in columns.items()} for table, columns in TABLES.items()
    }
    found["t"]["id"] = range(1, _ROWS + 1)
    found["s"]["id"] = range(5, _ROWS + 5)
    found["r"]["k"] = chance.sample(range(1, 20), _ROWS)
    return found


def _values(kind: str, chance: random.Random) -> list[Value]:
    return [chance.choice(_WORDS) if kind == "STRING" else chance.randint(1, 6) for _ in range(_ROWS)]


def _after(connection: duckdb.DuckDBPyConnection, statement: str, tables: Tables) -> dict[str, Counter[object]] | None:
    """The values of the target after the statement; None if it is refused, as by two rows that match one."""
    for name, columns in tables.items():
        arrays = {column: pa.array(values, _DUCKDB_TYPES[TABLES[name][column]]) for column, values in columns.items()}
        connection.register("given", pa.table(arrays))
        connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
    try:
        connection.execute(statement)
    except (duckdb.InvalidInputException, duckdb.ConstraintException):
        return None
    rows = connection.execute(f"SELECT * FROM {TARGET}").fetchall()
    return {column: Counter(row[at] for row in rows) for at, column in enumerate(TABLES[TARGET])}
