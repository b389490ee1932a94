"""Statements that are read by patterns, since sqlglot leaves them as text or reads them as something else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from lakelog.common.errors import UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.names import SqlNames

if TYPE_CHECKING:
    import pyarrow as pa

_PART = r"""(?:[\w$-]|`[^`]+`|"[^"]+")+"""
# What a pattern has in braces; a blank in it stands for any.
_WORDS = {
    "{name}": rf"(?P<name>{_PART}(?:\.{_PART})*)",
    "{column}": rf"(?P<column>{_PART})",
    "{partition}": r"(?P<partition>PARTITION\s*\(.*\))",
    "{like}": r"(?:\s+(?:LIKE\s+)?'(?P<like>[^']*)')?",
    " ": r"\s+",
}
Run: TypeAlias = Callable[[SqlNames, "re.Match[str]"], "pa.Table | None"]
Patterns: TypeAlias = Sequence[tuple["re.Pattern[str]", Run]]


def patterns(given: Mapping[str, Run]) -> Patterns:
    """Functions by the patterns of their statements, of which the first that matches is taken."""
    return [(re.compile(_text_of(text), re.IGNORECASE | re.DOTALL), run) for text, run in given.items()]


def run_by(known: Patterns, names: SqlNames, text: str) -> pa.Table | None:
    """What the statement gives. Raises UnsupportedError for a text that no pattern takes."""
    text = text.strip().rstrip(";").strip()
    for pattern, run in known:
        found = pattern.fullmatch(text)
        if found is not None:
            return run(names, found)
    raise UnsupportedError(f"{shown(text)}: there is no such statement here")


def unquoted(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1] if name[0] in "`\"'" else name


def _text_of(pattern: str) -> str:
    for word, text in _WORDS.items():
        pattern = pattern.replace(word, text)
    return pattern
