"""Random SELECTs over two tables, and conditions with sub-queries, for a comparison of engines.

A text names its tables as `{t}` and `{u}`. Both have the columns of COLUMNS. Results do not depend on an order of rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable

COLUMNS = "id BIGINT NOT NULL, a INT, b BIGINT, s STRING, d DATE, m DECIMAL(10, 2), f BOOLEAN, p INT NOT NULL"
# What optimizers leave of an aggregate that nobody reads, and what metadata could answer.
_AGGREGATES = (
    "count(*)",
    "count(1)",
    "count(NULL)",
    "count(a)",
    "count(a, b)",
    "count(DISTINCT p)",
    "count(*) + 1",
    "min(a)",
    "max(b)",
    "min(id)",
    "max(p)",
    "min(d)",
    "max(m)",
    "max(s)",
    "min(f)",
    "max(a + 10)",
    "min(upper(s))",
    "max(CAST(a AS STRING))",
    "max(abs(m))",
    "max(1)",
    "min(NULL)",
    "max('x')",
    "sum(b)",
    "any_value(1)",
    "max(a) FILTER (WHERE b > 5)",
    "count(*) FILTER (WHERE f)",
)
_HAVING = ("true", "false", "count(*) > 0", "count(*) = 0", "max(a) IS NULL", "count(NULL) = 0", "min(a + 1) > 2")
_CONDITIONS = (
    "a > 10",
    "a IS NULL",
    "f",
    "NOT f",
    "s LIKE 'b%'",
    "p = 1",
    "b + 1 > 10",
    "id % 3 = 0",
    "m < 0",
    "d >= DATE'2026-01-10'",
    "true",
    "false",
    "CAST(NULL AS BOOLEAN)",
    "a <=> NULL",
)


def query(chance: random.Random) -> str:
    """A SELECT."""
    return chance.choice(_FORMS)(chance)


def condition(chance: random.Random) -> str:
    """A condition on `{t} AS t`, with sub-queries on `{u}`."""
    column = chance.choice(["a", "b", "p", "id"])
    one = chance.choice(
        [
            f"EXISTS ({_inner(chance)})",
            f"NOT EXISTS ({_inner(chance)})",
            f"t.{column} IN ({_values(chance, column)})",
            f"t.{column} NOT IN ({_values(chance, column)})",
            f"t.{column} {chance.choice(['<', '>=', '<>'])} ({_scalar(chance, column)})",
            f"({_scalar(chance, column)}) IS NULL",
            f"t.{_plain(chance)}",
        ]
    )
    if chance.random() < 0.3:
        return chance.choice(["{0} AND {1}", "{0} OR {1}", "NOT ({0}) OR {1}"]).format(
            one, f"t.id % {chance.randint(2, 5)} = 0"
        )
    return one


def _plain(chance: random.Random) -> str:
    """A condition that begins with a column."""
    return chance.choice(
        [one for one in _CONDITIONS if one[0].islower() and " " in one and one not in ("true", "false")]
    )


def _aggregates(chance: random.Random) -> str:
    chosen = chance.sample(_AGGREGATES, chance.choice([1, 1, 2, 3]))
    return ", ".join(f"{one} AS c{at}" for at, one in enumerate(chosen))


def _where(chance: random.Random) -> str:
    return f" WHERE {chance.choice(_CONDITIONS)}" if chance.random() < 0.35 else ""


def _having(chance: random.Random) -> str:
    return f" HAVING {chance.choice(_HAVING)}" if chance.random() < 0.4 else ""


def _inner(chance: random.Random) -> str:
    """A sub-query whose columns nobody reads."""
    return chance.choice(
        [
            f"SELECT {_aggregates(chance)} FROM {{u}}{_where(chance)}{_having(chance)}",
            f"SELECT {_aggregates(chance)} FROM {{u}}",
            f"SELECT 1 FROM {{u}}{_where(chance)}",
            f"SELECT 1 FROM {{u}} HAVING {chance.choice(_HAVING)}",
            f"SELECT NULL FROM {{u}} LIMIT {chance.randint(0, 2)}",
            "SELECT 1 FROM {u} AS u WHERE u.a = t.a",
            "SELECT 1 FROM {u} AS u WHERE u.p = t.p AND u.id < t.id",
            f"SELECT {_aggregates(chance)} FROM {{u}} GROUP BY p",
        ]
    )


def _values(chance: random.Random, column: str) -> str:
    return chance.choice(
        [
            f"SELECT {column} FROM {{u}}{_where(chance)}",
            f"SELECT max({column}) FROM {{u}}{_where(chance)}",
            f"SELECT min({column} + 1) FROM {{u}}",
            f"SELECT {column} FROM {{u}} WHERE EXISTS ({_inner_alone(chance)})",
            "SELECT count(NULL) FROM {u}",
            f"SELECT u.{column} FROM {{u}} AS u WHERE u.p = t.p",
        ]
    )


def _inner_alone(chance: random.Random) -> str:
    return f"SELECT {_aggregates(chance)} FROM {{u}}{_having(chance)}"


def _scalar(chance: random.Random, column: str) -> str:
    return chance.choice(
        [
            f"SELECT min({column}) FROM {{u}}{_where(chance)}",
            f"SELECT max({column} + 1) FROM {{u}}",
            f"SELECT count(NULL) FROM {{u}}{_where(chance)}",
            f"SELECT count(*) FROM (SELECT {_aggregates(chance)} FROM {{u}})",
            f"SELECT max(u.{column}) FROM {{u}} AS u WHERE u.p = t.p",
            f"SELECT 1 FROM {{u}} HAVING {chance.choice(_HAVING)}",
        ]
    )


def _aggregated(chance: random.Random) -> str:
    return f"SELECT {_aggregates(chance)} FROM {{t}}{_where(chance)}{_having(chance)}"


def _constant(chance: random.Random) -> str:
    return f"SELECT {chance.choice(['1', 'NULL', 'DISTINCT 1', 'count(*) OVER ()'])} FROM {{t}}{_where(chance)}"


def _without_aggregates(chance: random.Random) -> str:
    return f"SELECT {chance.choice(['1', 'true', 'NULL'])} FROM {{t}}{_where(chance)} HAVING {chance.choice(_HAVING)}"


def _pruned(chance: random.Random) -> str:
    chosen = chance.choice(["count(*)", "1", "count(NULL)", "max(2)", "count(c0)"])
    return f"SELECT {chosen} FROM (SELECT {_aggregates(chance)} FROM {{t}}{_where(chance)}{_having(chance)})"


def _filtered(chance: random.Random) -> str:
    chosen = chance.choice(["count(*)", "t.id", "1", _aggregates(chance)])
    return f"SELECT {chosen} FROM {{t}} AS t WHERE {condition(chance)}"


def _beside(chance: random.Random) -> str:
    return f"SELECT t.id, ({_scalar(chance, 'b')}) AS x, EXISTS ({_inner(chance)}) AS y FROM {{t}} AS t{_where(chance)}"


def _joined(chance: random.Random) -> str:
    kind = chance.choice(["CROSS JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    on = "" if kind == "CROSS JOIN" else f" ON {chance.choice(['true', 'u.c0 IS NULL', 'u.c0 IS NOT NULL'])}"
    chosen = chance.choice(["count(*)", "t.id", "1"])
    return f"SELECT {chosen} FROM {{t}} AS t {kind} (SELECT {_aggregates(chance)} FROM {{u}}{_having(chance)}) AS u{on}"


def _combined(chance: random.Random) -> str:
    word = chance.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
    parts = [
        chance.choice(["SELECT 1 FROM {}", "SELECT count(*) FROM {}", "SELECT p FROM {}"]).format(name)
        for name in ("{t}", "{u}")
    ]
    return f" {word} ".join(parts)


def _limited(chance: random.Random) -> str:
    most, first = chance.choice([0, 1, 5, 1_000]), chance.choice(["", " OFFSET 2"])
    return chance.choice(
        [
            f"SELECT count(*) FROM (SELECT 1 FROM {{t}} LIMIT {most}{first})",
            f"SELECT id FROM {{t}}{_where(chance)} ORDER BY id, a LIMIT {most}{first}",
            f"SELECT count(*) FROM (SELECT * FROM {{t}}{_where(chance)} LIMIT {most})",
            f"SELECT count(*) FROM {{t}} LIMIT {most}",
        ]
    )


def _grouped(chance: random.Random) -> str:
    groups = chance.choice(["p", "p, f", "ROLLUP (p)", "GROUPING SETS ((), (p))", "GROUPING SETS (())"])
    chosen = chance.choice(["count(*)", "1", _aggregates(chance), "count(*)" if "(())" in groups else "p, count(*)"])
    return f"SELECT {chosen} FROM {{t}}{_where(chance)} GROUP BY {groups}{_having(chance)}"


_FORMS: tuple[Callable[[random.Random], str], ...] = (
    _aggregated,
    _constant,
    _without_aggregates,
    _pruned,
    _filtered,
    _filtered,
    _filtered,
    _beside,
    _joined,
    _combined,
    _limited,
    _grouped,
)
