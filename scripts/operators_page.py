"""Prints the page `docs/field-lineage-operators.md` from the rules of the derivation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any  # Any: rules of several forms

from lakelog.lineage.columns.field_edges import EdgeKind
from lakelog.lineage.columns.field_store import TAKES_SECRETS
from lakelog.lineage.columns.plans.derived import MASKING
from lakelog.lineage.columns.plans.expressions import NAMING_RULES
from lakelog.lineage.columns.plans.operators import OPERATORS
from lakelog.lineage.columns.plans.plan_walk import SPECIAL
from lakelog.lineage.columns.plans.value_rules import RULES, UNCHANGED
from lakelog.lineage.columns.plans.writes import WRITES

_HEAD = """\
# What the lineage of fields sees

Printed from the code by `scripts/operators`; the kinds of edges and the reasons are in
[Lineage of columns](guide/field-lineage.md). Names are those of Spark's classes.

**Every other operator** is opaque: each of its columns comes from each column of its inputs, the columns behind it are
marked, and columns beside it stay exact. `lakelog.spark.declare_inputs` says more about such a column. **Every other
expression** is a TRANSFORMATION of all its arguments, with those of functions of users.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join(
        [
            _HEAD,
            "## Operators of a query",
            *_table("operators", {**OPERATORS, **SPECIAL}),
            "## Commands that write",
            *_table("commands", WRITES),
            "## Expressions with a rule of their own",
            *_table("expressions", {**RULES, **NAMING_RULES}),
            f"**Unchanged**: {_listed(UNCHANGED)}.",
            "",
            f"**Masking**: {_listed(MASKING)}; with them an edge is masked, and stays so.",
            "",
            "## Kinds",
            "| type | subtypes |",
            "|---|---|",
            *(f"| {type_} | {_listed(kind.subtype for kind in kinds)} |" for type_, kinds in _kinds()),
            "",
            "## Constants",
            "A description has no string constants where a function may take keys or passwords, by its name: "
            f"`{TAKES_SECRETS.pattern}`. Of programs that differ in constants alone, the second and later ones have "
            "`?` in their places.",
            "",
        ]
    )


def _table(what: str, rules: Mapping[str, Callable[..., Any]]) -> list[str]:
    """A row for each rule: its first sentence, and the classes that have it."""
    by_rule: dict[str, list[str]] = {}
    for name, rule in rules.items():
        by_rule.setdefault(_sentence(rule), []).append(name)
    rows = [
        f"| {_listed(names)} | {sentence} |"
        for sentence, names in sorted(by_rule.items(), key=lambda one: sorted(one[1]))
    ]
    return [f"| {what} | rule |", "|---|---|", *rows, ""]


def _sentence(rule: Callable[..., Any]) -> str:
    text = (rule.__doc__ or "").strip().splitlines()
    return text[0] if text else rule.__name__.strip("_").replace("_", " ")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _kinds() -> Iterable[tuple[str, list[EdgeKind]]]:
    return ((type_, list(kinds)) for type_, kinds in groupby(EdgeKind, key=lambda kind: kind.value[0]))


if __name__ == "__main__":
    print(page(), end="")
