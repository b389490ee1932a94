"""Random queries over three tables, the same for the same number: every form that Spark and DuckDB both have."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lineage.fields.oracle.generated_values import NUMBER, STRING, TABLES, Named, Values, kind_of
from tests.lineage.fields.oracle.queries import OracleQuery

SUITE, FORMS = "generated", "forms"
_WRITTEN = Path(__file__).parent / "forms.sql"


def generated_queries(count: int) -> list[OracleQuery]:
    """The queries with the numbers below `count`; all forms are equally frequent."""
    return [OracleQuery(SUITE, f"g{number:03}", _text(number), TABLES) for number in range(count)]


def written_queries() -> list[OracleQuery]:
    """Queries over the same tables that are written by hand: forms that are too rare to generate, one per line."""
    lines = _WRITTEN.read_text("utf-8").splitlines()
    return [OracleQuery(FORMS, f"f{at:02}", line.removesuffix(";"), TABLES) for at, line in enumerate(lines, start=1)]


def _text(number: int) -> str:
    writer = _Writer(Values(random.Random(number)))
    return writer.query(_FORMS[number % len(_FORMS)], 2).text


@dataclass(frozen=True, slots=True)
class _Query:
    """A query, and its columns without a qualifier."""

    text: str
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """An entry of FROM, and its columns."""

    text: str
    columns: tuple[Named, ...]


@dataclass(slots=True)
class _Writer:
    """Writes the forms. `depth` says how many sub-queries may be within each other."""

    values: Values

    @property
    def chance(self) -> random.Random:
        return self.values.chance

    def query(self, form: _Form, depth: int) -> _Query:
        return form(self, depth)

    def any_query(self, depth: int) -> _Query:
        return self.query(self.chance.choice(_FORMS), depth)

    def table(self, name: str | None = None) -> _Source:
        """A table with an alias."""
        name = name or self.chance.choice(list(TABLES))
        alias = self.values.alias("t")
        columns = tuple(Named(f"{alias}.{column}", kind_of(kind)) for column, kind in TABLES[name].items())
        return _Source(f"{name} AS {alias}", columns)

    def source(self, depth: int) -> _Source:
        """A table or a sub-query."""
        if depth <= 0 or self.chance.random() < 0.45:
            return self.table()
        return self.within(self.any_query(depth - 1))

    def within(self, query: _Query) -> _Source:
        """A query as a sub-query in FROM."""
        alias = self.values.alias("q")
        return _Source(
            f"({query.text}) AS {alias}", tuple(Named(f"{alias}.{one.name}", one.kind) for one in query.columns)
        )

    def kinds(self) -> list[str]:
        return [self.chance.choice((NUMBER, STRING)) for _ in range(self.chance.randint(2, 4))]

    def select(
        self, columns: Sequence[Named], kinds: Sequence[str], rest: str, *more: tuple[str, str], word: str = "SELECT"
    ) -> _Query:
        """A query of expressions over columns, and more pairs of text and kind."""
        pairs = [(self.values.value(columns, kind), kind) for kind in kinds] + list(more)
        named = [(text, Named(self.values.alias("c"), kind)) for text, kind in pairs]
        listed = ", ".join(f"{text} AS {column.name}" for text, column in named)
        return _Query(f"{word} {listed} FROM {rest}", tuple(column for _, column in named))

    def where(self, columns: Sequence[Named], share: float = 0.5) -> str:
        return f" WHERE {self.values.condition(columns)}" if self.chance.random() < share else ""


_Form = Callable[[_Writer, int], _Query]


def _projection(to: _Writer, depth: int) -> _Query:
    source = to.source(depth)
    word = to.chance.choice(("SELECT", "SELECT", "SELECT DISTINCT"))
    return to.select(source.columns, to.kinds(), source.text + to.where(source.columns), word=word)


def _join(to: _Writer, depth: int) -> _Query:
    left, right = to.source(depth), to.source(depth - 1)
    kind = to.chance.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    both = (*left.columns, *right.columns)
    pair = f"{to.values.column(left.columns, NUMBER)} = {to.values.column(right.columns, NUMBER)}"
    more = f" AND {to.values.condition(both)}" if to.chance.random() < 0.3 and kind != "FULL JOIN" else ""
    return to.select(both, to.kinds(), f"{left.text} {kind} {right.text} ON {pair}{more}{to.where(both, 0.3)}")


def _comma_join(to: _Writer, depth: int) -> _Query:
    left, right = to.table("people"), to.table("sales")
    both = (*left.columns, *right.columns)
    condition = f"{left.columns[0].name} = {right.columns[1].name} AND {to.values.condition(both)}"
    return to.select(both, to.kinds(), f"{left.text}, {right.text} WHERE {condition}")


def _using(to: _Writer, depth: int) -> _Query:
    left, right = to.table("teams"), to.table("sales")
    both = (*left.columns, *right.columns)
    rest = f"{left.text} {to.chance.choice(('JOIN', 'LEFT JOIN'))} {right.text} USING (people_key)"
    return to.select(both, to.kinds(), rest, ("people_key", NUMBER))


def _semi_join(to: _Writer, depth: int) -> _Query:
    left, right = to.source(depth), to.source(depth - 1)
    kind = to.chance.choice(("LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    pair = f"{to.values.column(left.columns, NUMBER)} = {to.values.column(right.columns, NUMBER)}"
    return to.select(left.columns, to.kinds(), f"{left.text} {kind} {right.text} ON {pair}")


def _aggregates(to: _Writer, columns: Sequence[Named]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for _ in range(to.chance.randint(1, 3)):
        argument = to.values.value(columns, NUMBER)
        text = to.chance.choice(("sum({0})", "min({0})", "max({0})", "count({0})", "count(DISTINCT {0})", "avg({0})"))
        if to.chance.random() < 0.2:
            text += f" FILTER (WHERE {to.values.condition(columns)})"
        found.append((text.format(argument), NUMBER))
    return found


def _aggregate(to: _Writer, depth: int) -> _Query:
    source = to.source(depth)
    keys = [to.values.column(source.columns, kind) for kind in to.kinds()[:2]]
    kinds = {one.name: one.kind for one in source.columns}
    pairs = [(key, kinds[key]) for key in dict.fromkeys(keys) if key in kinds]
    having = f" HAVING count(*) > 1 OR max({to.values.column(source.columns, NUMBER)}) > 3"
    rest = source.text + to.where(source.columns)
    if pairs:
        form = to.chance.choice(("{}", "{}", "ROLLUP ({})", "CUBE ({})"))
        rest += f" GROUP BY {form.format(', '.join(key for key, _ in pairs))}"
        rest += having if to.chance.random() < 0.4 else ""
    return to.select([], [], rest, *pairs, *_aggregates(to, source.columns))


def _window(to: _Writer, depth: int) -> _Query:
    source = to.source(depth)
    part, order = to.values.column(source.columns, STRING), to.values.value(source.columns, NUMBER)
    argument = to.values.value(source.columns, NUMBER, 1)
    texts = [f"rank() OVER (PARTITION BY {part} ORDER BY {order})", f"sum({argument}) OVER (PARTITION BY {part})"]
    texts += [f"max({argument}) OVER (PARTITION BY {part} ORDER BY {order})", f"count(*) OVER (PARTITION BY {part})"]
    chosen = to.chance.sample(texts, 2)
    kinds = to.kinds()[:2]
    return to.select(source.columns, kinds, source.text + to.where(source.columns), *((one, NUMBER) for one in chosen))


def _ordered(to: _Writer, columns: Sequence[Named]) -> str:
    """An order without equal rows, of a table: its `id` is last."""
    return f"{to.values.value(columns, to.chance.choice((NUMBER, STRING)), 1)}, {columns[0].name}"


def _neighbour(to: _Writer, depth: int) -> _Query:
    table = to.table()
    function = to.chance.choice(("lag", "lead", "first_value"))
    part = to.values.column(table.columns, STRING)
    value = to.values.value(table.columns, NUMBER, 1)
    text = f"{function}({value}) OVER (PARTITION BY {part} ORDER BY {_ordered(to, table.columns)})"
    return to.select(table.columns, to.kinds()[:2], table.text + to.where(table.columns), (text, NUMBER))


def _best_of_each(to: _Writer, depth: int) -> _Query:
    table = to.table()
    part = to.values.column(table.columns, STRING)
    number = f"row_number() OVER (PARTITION BY {part} ORDER BY {_ordered(to, table.columns)})"
    inner = to.within(to.select(table.columns, to.kinds(), table.text, (number, NUMBER)))
    *kept, rank = inner.columns
    return to.select(kept, to.kinds(), f"{inner.text} WHERE {rank.name} <= {to.chance.randint(1, 2)}")


def _top(to: _Writer, depth: int) -> _Query:
    table = to.table()
    text = (
        f"{table.text}{to.where(table.columns)} ORDER BY {_ordered(to, table.columns)} LIMIT {to.chance.randint(2, 5)}"
    )
    inner = to.within(to.select(table.columns, to.kinds(), text))
    return to.select(inner.columns, to.kinds(), inner.text)


def _set_operation(to: _Writer, depth: int) -> _Query:
    kinds = to.kinds()
    word = to.chance.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "UNION ALL"))
    sides: list[_Query] = []
    for _ in range(2):
        source = to.source(depth - 1)
        if word in {"INTERSECT", "EXCEPT"}:  # of rows that are often equal
            source = to.table("people")
            pairs = [(to.values.column(source.columns, kind), kind) for kind in kinds]
            sides.append(to.select([], [], source.text + to.where(source.columns, 0.8), *pairs))
        else:
            sides.append(to.select(source.columns, kinds, source.text + to.where(source.columns)))
    return _Query(f"{sides[0].text} {word} {sides[1].text}", sides[0].columns)


def _definition(to: _Writer, depth: int) -> _Query:
    """A CTE that is joined with itself, or used once beside one that is not used."""
    name, inner = to.values.alias("w"), to.any_query(depth - 1)
    first, second = to.values.alias("x"), to.values.alias("y")
    left = [Named(f"{first}.{one.name}", one.kind) for one in inner.columns]
    right = [Named(f"{second}.{one.name}", one.kind) for one in inner.columns]
    begin = f"WITH {name} AS ({inner.text})"
    if to.chance.random() < 0.3:
        unused = to.table()
        begin += f", {to.values.alias('w')} AS (SELECT {unused.columns[1].name} AS unused FROM {unused.text})"
        found = to.select(left, to.kinds(), f"{name} AS {first}{to.where(left)}")
    else:
        pair = f"{left[0].name} = {right[0].name}"
        found = to.select([*left, *right], to.kinds(), f"{name} AS {first} JOIN {name} AS {second} ON {pair}")
    return _Query(f"{begin} {found.text}", found.columns)


def _scalar(to: _Writer, depth: int) -> _Query:
    """A sub-query in the list, with and without a name of the query around it."""
    source, inner = to.table(), to.table("sales")
    aggregate = to.chance.choice(("sum", "max", "count"))
    value = to.values.value(inner.columns, NUMBER, 1)
    correlated = f" WHERE {inner.columns[1].name} = {source.columns[0].name}"
    where = to.chance.choice((correlated, correlated, to.where(inner.columns, 1)))
    text = f"(SELECT {aggregate}({value}) FROM {inner.text}{where})"
    if to.chance.random() < 0.3:
        text = f"CASE WHEN {text} > 3 THEN {to.values.column(source.columns, NUMBER)} ELSE 0 END"
    return to.select(source.columns, to.kinds()[:2], source.text + to.where(source.columns, 0.3), (text, NUMBER))


def _compared_with_scalar(to: _Writer, depth: int) -> _Query:
    source, inner = to.source(depth), to.table()
    value = to.values.value(inner.columns, NUMBER, 1)
    text = f"(SELECT avg({value}) FROM {inner.text}{to.where(inner.columns)})"
    condition = f"{to.values.column(source.columns, NUMBER)} {to.chance.choice('<>')} {text}"
    return to.select(source.columns, to.kinds(), f"{source.text} WHERE {condition}")


def _exists(to: _Writer, depth: int) -> _Query:
    source, inner = to.source(depth), to.table()
    outer = to.values.column(source.columns, NUMBER)
    more = f" AND {to.values.condition(inner.columns)}" if to.chance.random() < 0.6 else ""
    pair = f"{inner.columns[1].name} = {outer}"
    text = f"{to.chance.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {inner.text} WHERE {pair}{more})"
    also = f" OR {to.values.condition(source.columns)}" if to.chance.random() < 0.3 else ""
    return to.select(source.columns, to.kinds(), f"{source.text} WHERE {text}{also}")


def _in_query(to: _Writer, depth: int) -> _Query:
    source, inner = to.source(depth), to.source(depth - 1)
    kind = to.chance.choice((NUMBER, NUMBER, STRING))
    text = f"(SELECT {to.values.column(inner.columns, kind)} FROM {inner.text}{to.where(inner.columns)})"
    word = to.chance.choice(("IN", "IN", "NOT IN"))
    return to.select(
        source.columns, to.kinds(), f"{source.text} WHERE {to.values.column(source.columns, kind)} {word} {text}"
    )


def _lateral(to: _Writer, depth: int) -> _Query:
    source, inner = to.table(), to.table("sales")
    pair = f"{inner.columns[1].name} = {source.columns[0].name}"
    found = to.select([], [], f"{inner.text} WHERE {pair}", *_aggregates(to, inner.columns))
    lateral = to.within(found)
    both = (*source.columns, *lateral.columns)
    return to.select(both, to.kinds(), f"{source.text}, LATERAL {lateral.text}{to.where(both, 0.3)}")


_FORMS: tuple[_Form, ...] = (
    *(_projection, _join, _comma_join, _using, _semi_join, _aggregate, _window, _neighbour, _best_of_each, _top),
    *(_set_operation, _definition, _scalar, _compared_with_scalar, _exists, _in_query, _lateral, _aggregate, _join),
    _set_operation,
)
