"""CHAR columns in queries of DuckDB, which has only strings: Spark pads them when they are read and compared.

A column that is compared with a constant, or with another CHAR, is compared in the length of the longer one, but not in
BETWEEN. CHAR columns are known by their names, also those that a query gives them.

Source: Spark, `ApplyCharTypePadding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lakelog.common.quoting import quoted
from lakelog.common.types import DataField

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def padded(text: str, length: int) -> str:
    """A string of DuckDB's SQL, padded; a longer one is not cut, as by `rpad`."""
    return f"CASE WHEN length({text}) < {length} THEN rpad({text}, {length}, ' ') ELSE {text} END"


def padded_columns(fields: Sequence[DataField], lengths: Mapping[str, int]) -> list[str]:
    """The columns of a table for a SELECT of DuckDB, of which those in `lengths` are padded."""
    return [
        padded(quoted(one.name), lengths[one.name]) + f" AS {quoted(one.name)}"
        if one.name in lengths
        else quoted(one.name)
        for one in fields
    ]


def pad_comparisons(query: exp.Expr, lengths: Mapping[str, set[int | None]]) -> None:
    """Change a query in place; `lengths` has those of CHAR columns by names in lower case, None for other columns."""
    known = {name: length for name, found in lengths.items() if len(found) == 1 and (length := next(iter(found)))}
    if not known:
        return
    for alias in query.find_all(exp.Alias):
        length = _length(alias.this, known)
        if length is not None and alias.alias.lower() not in lengths:
            known[alias.alias.lower()] = length
    for compared in list(query.find_all(*_COMPARED)):
        _pad([compared.this, compared.expression], known)
    for among in list(query.find_all(exp.In)):
        _pad([among.this, *among.expressions], known)
    for case in list(query.find_all(exp.Case)):
        if case.this is not None:
            _pad([case.this, *(one.this for one in case.args["ifs"])], known)


def _pad(sides: list[exp.Expr], known: Mapping[str, int]) -> None:
    """Pad the sides of a comparison, if one is a CHAR column and the others are too, or constants."""
    of = [_length(one, known) for one in sides]
    is_constant = [one.find(exp.Column, exp.Query) is None for one in sides]
    if not any(of) or not all(length or constant for length, constant in zip(of, is_constant, strict=True)):
        return
    literals = [len(one.name) for one in sides if isinstance(one, exp.Literal) and one.is_string]
    longest = max([*(length for length in of if length), *literals])
    for one, length in zip(sides, of, strict=True):
        if isinstance(one, exp.Literal):
            one.replace(exp.Literal.string(one.name.ljust(longest)))
        elif length != longest:
            text = one.sql(dialect="duckdb")
            one.replace(exp.maybe_parse(padded(text, longest), dialect="duckdb"))


def _length(given: exp.Expr, known: Mapping[str, int]) -> int | None:
    return known.get(given.name.lower()) if isinstance(given, exp.Column) else None
