"""The columns of joins in a query without Spark, and the edges that a join has by names alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lakelog.lineage.columns.field_edges import NO_EDGES, Dataset, Edges
from lakelog.lineage.columns.plans.derived import Derived, chosen


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The columns of a query in order, the edges of all rows, and for a table of unknown columns its dataset."""

    columns: Sequence[tuple[str, Derived]]
    dataset: Edges = NO_EDGES
    open_dataset: Dataset | None = None

    def named(self, names: Sequence[str]) -> QueryColumns:
        """The columns under other names."""
        if not names or len(names) != len(self.columns):
            return self
        return replace(self, columns=[(name, value) for name, (_, value) in zip(names, self.columns, strict=True)])


def lowered(columns: Iterable[tuple[str, Derived]]) -> Iterable[tuple[str, Derived]]:
    """The columns with names in lower case."""
    return ((name.lower(), value) for name, value in columns)


def joins_of(query: exp.Select) -> Iterator[exp.Expr]:
    """What a query reads: the first source, then the joins, with those in parentheses."""
    begun = query.args.get("from_")
    if begun is not None:
        yield from _flat(begun.this)
    for join in query.args.get("joins") or ():
        first, *others = _flat(join.this)
        if first is join.this:
            yield join
        else:
            yield exp.Join(**{**join.args, "this": first})
        yield from others


def common_columns(join: exp.Join, sources: Sequence[tuple[str, QueryColumns]]) -> list[str]:
    """The columns of USING, or of both sides of a NATURAL join."""
    if join.args.get("using"):
        return [one.name.lower() for one in join.args["using"]]
    if str(join.args.get("method") or "").upper() != "NATURAL":
        return []
    before = {name for _, found in sources[:-1] for name, _ in lowered(found.columns)}
    return [name for name, _ in lowered(sources[-1][1].columns) if name in before]


def unite_columns(join: exp.Join, sources: list[tuple[str, QueryColumns]], name: str) -> None:
    """One column in place of two: that of the left side, of the right one, or, of a full join, the first not null."""
    alias, right = sources[-1]
    value = dict(lowered(right.columns))[name]
    side = str(join.args.get("side") or "").upper()
    sources[-1] = (alias, replace(right, columns=[one for one in right.columns if one[0].lower() != name]))
    for at, (other, found) in enumerate(sources[:-1]):
        kept = dict(lowered(found.columns)).get(name)
        if kept is not None and side in {"RIGHT", "FULL"}:
            united = value if side == "RIGHT" else chosen([kept, value], [kept, value], name)
            columns = [(one, united if one.lower() == name else there) for one, there in found.columns]
            sources[at] = (other, replace(found, columns=columns))


def _flat(source: exp.Expr) -> Iterator[exp.Expr]:
    """A source, and the joins that are written behind it or in its parentheses."""
    inner = source
    while (
        isinstance(inner, exp.Paren | exp.Subquery)
        and not inner.alias
        and isinstance(inner.this, exp.Paren | exp.Subquery | exp.Table)
    ):
        inner = inner.this
    yield inner
    yield from inner.args.get("joins") or ()
    if inner is not source:
        yield from source.args.get("joins") or ()
