"""The tables of verbs in docs/guide/sql.md and docs/guide/command-line.md, made from the declarations.

`python -m scripts.verb_tables` writes them between the marks in the two pages.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lakelog.catalog.procedures.procedure import Procedure
from lakelog.catalog.procedures.procedures import PROCEDURES
from lakelog.catalog.verbs.declared import DeclaredVerb, declared_verbs
from lakelog.warehouse.verb import Loses

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide"
BEGIN, END = "<!-- made by scripts/verb_tables.py -->", "<!-- end of what is made -->"
_WIDTH = 100
# What the groups of a table are called in the pages, in their order; None is the table itself.
_TITLES: Mapping[str | None, str] = {
    None: "the table",
    "tags": "tags",
    "branches": "branches",
    "upkeep": "upkeep",
    "consumers": "consumers",
    "log_store": "the log",
    "system": "the parts of a table",
}
_LINEAGE = "lineage"


def procedures() -> str:
    """The procedures by the groups of their verbs: what they do, then how they are called."""
    by_group: dict[str, list[tuple[Procedure, str, str]]] = {title: [] for title in _TITLES.values()}
    for declared in declared_verbs():
        for call in declared.verb.calls:
            row = (PROCEDURES[call.name], f"`{declared.python}`", _lost(declared))
            by_group[_TITLES[declared.group]].append(row)
    listed = {procedure.name for rows in by_group.values() for procedure, _, _ in rows}
    others = [one for name, one in PROCEDURES.items() if name not in listed]
    by_group[_LINEAGE] = [(one, f"`lakelog.lineage.{one.name.removeprefix('lineage_')}`", "") for one in others]
    return "\n".join(line for title, rows in by_group.items() if rows for line in _of_group(title, rows))


def _of_group(title: str, rows: Iterable[tuple[Procedure, str, str]]) -> Iterator[str]:
    rows = list(rows)
    yield f"| {title} | what it does | in Python |"
    yield "|---|---|---|"
    for procedure, python, lost in rows:
        yield f"| `{procedure.name}` | {procedure.comment.rstrip('.')}{lost} | {python} |"
    yield ""
    yield "```text"
    for procedure, _, _ in rows:
        text = f"{procedure.name}({', '.join(_parameters(procedure))})"
        yield from textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    yield "```"
    yield ""


def _parameters(procedure: Procedure) -> Iterator[str]:
    """The parameters in order, each with its name in Python behind it; in brackets those that may be left out."""
    names: dict[str, list[str]] = {}
    for one in procedure.parameters:
        names.setdefault(one.of, []).append(one.name)
    required = {one.of for one in procedure.parameters if one.is_required}
    for of, given in names.items():
        yield "|".join(given) if of in required else f"[{'|'.join(given)}]"


def commands() -> str:
    """The commands of declared verbs."""
    lines = ["| command | what it does | in Python |", "|---|---|---|"]
    for declared in sorted(declared_verbs(), key=lambda one: [*_TITLES].index(one.group)):
        does = f"{declared.verb.summary.rstrip('.')}{_lost(declared)}"
        lines.append(f"| `lakelog {' '.join(declared.command)}` | {does} | `{declared.python}` |")
    return "\n".join([*lines, ""])


def _lost(declared: DeclaredVerb) -> str:
    """A mark behind what a verb does that can lose something."""
    return "" if declared.verb.loses is Loses.NOTHING else " **!**"


PAGES = {"sql.md": procedures, "command-line.md": commands}


def with_tables(page: str) -> str:
    """The text of a page with its tables as they should be."""
    before, _, rest = (GUIDE / page).read_text("utf-8").partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}\n\n{PAGES[page]()}\n{END}{behind}"


if __name__ == "__main__":
    for name in PAGES:
        (GUIDE / name).write_text(with_tables(name), "utf-8")
