"""Files of SQL statements with the rows that they must give, in the style of sqllogictest.

Cases are separated by empty lines. A case is a statement, a line that says what is expected, and expected rows:

    # what the case shows; lines of comments come first
    SELECT id, v FROM t
    ----
    1 | a
    2 | NULL

`----` wants these rows in any order, `---- ordered` in this order, `---- contains` these and perhaps others, `---- ok`
any rows, `---- error TEXT` an error whose message has the text. Columns are separated by ` | ` or a tab. The file's
words `{catalog}`, `{database}` and `{db}`, which is both with a dot, stand for where it runs; that database is the
current one, so that a table's name alone will do.

The files run through both doors of SQL. Without Spark a case may have other expectations, as expressions are DuckDB's
there: those of a second line, `---- in DuckDB`, with the same words behind it. `# Spark only: why` as the last comment
leaves a case out without Spark, `# In DuckDB: STATEMENT` gives it another statement there, and `# Without Spark: TEXT`
says which text an error has there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from itertools import takewhile
from pathlib import Path

ANY_ORDER, ORDERED, CONTAINS, OK, ERROR = "rows", "ordered", "contains", "ok", "error"
_RULE = re.compile(r"----(?: (ordered|contains|ok|error)(?: (.+))?)?")
_OTHER_RULE = re.compile(r"---- in DuckDB\b")
_COLUMNS = re.compile(r" \| |\t")

ShownRow = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A statement, where it is in its file, and what it must give: rows, or the text of an error."""

    line: int
    about: str
    statement: str
    wants: str
    rows: tuple[ShownRow, ...]
    text: str
    in_duckdb: Case | None = None  # with what is expected without Spark

    @property
    def is_of_spark_alone(self) -> bool:
        """Whether a comment says `Spark only: why`."""
        return "Spark only: " in self.about

    @property
    def statement_without_spark(self) -> str:
        """The statement without Spark: that of a comment `In DuckDB: STATEMENT`, or the same."""
        return self.about.rpartition("In DuckDB: ")[2] if "In DuckDB: " in self.about else self.statement

    @property
    def text_without_spark(self) -> str:
        """The text of the error without Spark: that of a comment `Without Spark: text`, or the same."""
        return (
            self.about.rpartition("Without Spark: ")[2].partition(" In DuckDB: ")[0]
            if "Without Spark: " in self.about
            else self.text
        )

    def difference(self, found: Sequence[ShownRow]) -> str | None:
        """What is wrong with the rows that a statement gave; None if nothing is."""
        match self.wants:
            case "ok":
                return None
            case "error":
                return f"expected: error {self.text}\nfound: {_listed(found)}"
            case "ordered":
                is_equal = list(found) == list(self.rows)
            case "contains":
                is_equal = set(self.rows) <= set(found)
            case _:
                is_equal = sorted(found) == sorted(self.rows)
        return None if is_equal else f"expected ({self.wants}): {_listed(self.rows)}\nfound: {_listed(found)}"


def read_cases(path: Path, words: Mapping[str, str]) -> Iterator[Case]:
    """The cases of a file, with its words replaced. Raises ValueError for a case that is not in the form above."""
    at = 1
    for block in re.split(r"\n[ \t]*\n", path.read_text()):
        lines = block.split("\n")
        if any(line.strip() and not line.startswith("#") for line in lines):
            yield _case(path, at, lines, words)
        at += len(lines) + 1


def shown_value(value: object) -> str:
    """A value of a row of Spark as the files write it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:f}"
        case bytes() | bytearray():
            return f"X'{value.hex().upper()}'"
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case tuple():  # a struct
            return "{" + ", ".join(map(shown_value, value)) + "}"
        case list():
            return "[" + ", ".join(map(shown_value, value)) + "]"
        case dict():
            entries = sorted((shown_value(key), shown_value(one)) for key, one in value.items())
            return "{" + ", ".join(f"{key} -> {one}" for key, one in entries) + "}"
    return str(value).replace("\n", "\\n") or "(empty)"


def _case(path: Path, at: int, lines: Sequence[str], words: Mapping[str, str]) -> Case:
    lines = [line for line in lines if line.strip()] or [""]
    comments = [*takewhile(lambda line: line.startswith("#"), lines)]
    rest = lines[len(comments) :]
    second = [number for number, line in enumerate(rest) if _OTHER_RULE.match(line)]
    if len(second) == 1:
        others = ["----" + _OTHER_RULE.sub("", rest[second[0]], count=1), *rest[second[0] + 1 :]]
        ruled = next((number for number, line in enumerate(rest) if _RULE.fullmatch(line)), 0)
        other = _case(path, at, [*comments, *rest[:ruled], *others], words)
        return replace(_case(path, at, [*comments, *rest[: second[0]]], words), in_duckdb=other)
    rules = [number for number, line in enumerate(rest) if _RULE.fullmatch(line)]
    if len(rules) != 1 or not rules[0]:
        raise ValueError(f"{path}:{at}: expected a statement, then one line that begins with ----, not {rest}")
    rule = _RULE.fullmatch(rest[rules[0]])
    assert rule is not None, "it has matched above"
    wants, text = rule[1] or ANY_ORDER, rule[2] or ""
    if bool(text) != (wants == ERROR):
        raise ValueError(f"{path}:{at}: {rest[rules[0]]}: a text belongs to an error, and an error has one")
    expected = [_replaced(line, words) for line in rest[rules[0] + 1 :]]
    return Case(
        line=at + len(comments),
        about=_replaced(" ".join(line.lstrip("# ") for line in comments), words),
        statement=_replaced("\n".join(rest[: rules[0]]), words),
        wants=wants,
        rows=tuple(tuple(part.strip() for part in _COLUMNS.split(line)) for line in expected),
        text=_replaced(text, words),
    )


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text


def _listed(rows: Sequence[ShownRow]) -> str:
    return "".join(f"\n  {' | '.join(row)}" for row in rows) or "no rows"
