"""What is known of a value in a plan and of the rows of an operator, and values that are made from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: parsed JSON

from lakelog.common.quoting import cut
from lakelog.lineage.columns.field_edges import NO_EDGES, EdgeKind, Edges, FieldEdge, SourceField, all_of, along
from lakelog.lineage.columns.plans.expression_text import text_of


@dataclass(frozen=True, slots=True)
class Derived:
    """What a value is made from, and the SQL of its expression.

    `is_opaque`: an operator on the way hides what it does, so the edges are all that are possible. `members`: the
    values of the fields of a struct that the query builds. `place`: the value is this field of a source, unchanged.
    `choices`: what an opaque value may be made from, by the names of columns in lower case: a declaration chooses.
    """

    edges: Edges = NO_EDGES
    text: str = ""
    is_opaque: bool = False
    members: Mapping[str, Derived] | None = None
    place: SourceField | None = None
    choices: Mapping[str, Derived] | None = None

    def chosen(self, names: Sequence[str]) -> Derived:
        """The value where it is made from these columns alone; unchanged for a name that is none of the choices."""
        choices = self.choices or {}
        found = [choices[name.lower()] for name in names if name.lower() in choices]
        if len(found) < len(names):
            return self
        edges = along(all_of(one.edges for one in found), EdgeKind.TRANSFORMATION)
        return Derived(edges, self.text, any(one.is_opaque for one in found))

    def member(self, name: str) -> Derived:
        """The value of a field of this struct."""
        text = f"{self.text}.{name}"
        if self.members is not None and name in self.members:
            found = self.members[name]
            return Derived(
                along(found.edges, EdgeKind.TRANSFORMATION), text, found.is_opaque, found.members, found.place
            )
        if self.place is None:
            return Derived(along(self.edges, EdgeKind.TRANSFORMATION), text, self.is_opaque)
        place = SourceField(self.place.dataset, (*self.place.path, name))
        edges = frozenset(
            FieldEdge(place, edge.kind, edge.is_masked) for edge in along(self.edges, EdgeKind.TRANSFORMATION)
        )
        return Derived(edges, text, self.is_opaque, place=place)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an operator's output: expressions name it by `id`."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an operator: its output in order, what each column is made from, and the edges of all rows."""

    output: Sequence[Column]
    columns: Mapping[int, Derived]
    dataset: Edges = NO_EDGES

    def values(self) -> list[Derived]:
        """What the columns are made from, in the order of the output."""
        return [self.columns[column.id] for column in self.output]


@dataclass(slots=True)
class RowsUnderWay:
    """Collects the columns of an operator."""

    output: list[Column] = field(default_factory=list)
    columns: dict[int, Derived] = field(default_factory=dict)

    def add(self, column: Column, value: Derived) -> None:
        """One more column."""
        self.output.append(column)
        self.columns[column.id] = value

    def rows(self, dataset: Edges) -> Rows:
        """The rows."""
        return Rows(self.output, self.columns, dataset)


def merged(values: Sequence[Derived]) -> Derived:
    """A value that is one of these, as in a union."""
    first = values[0]
    if all(value is first for value in values[1:]):
        return first
    places = {value.place for value in values}
    return Derived(
        all_of(value.edges for value in values),
        " | ".join(dict.fromkeys(value.text for value in values)),
        any(value.is_opaque for value in values),
        place=first.place if len(places) == 1 else None,
    )


def opaque(values: Iterable[Derived], text: str) -> Derived:
    """A value that may be made from all of these, in a way that is not known."""
    edges = all_of(value.edges for value in values)
    return Derived(along(edges, EdgeKind.TRANSFORMATION), text, is_opaque=True)


TEXT_MAX = 2_000  # of an expression
MASKING = frozenset({"Count", "Crc32", "Mask", "Md5", "Murmur3Hash", "Sha1", "Sha2", "XxHash64"})


def unchanged(children: Sequence[Derived]) -> Derived:
    """The children as they are."""
    if len(children) == 1:
        return children[0]
    return joined(children, EdgeKind.IDENTITY, ", ".join(filter(None, (child.text for child in children))))


def changed(name: str, members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A function of its children, which is not known further."""
    text = text_of(name, members, [child.text for child in children])
    return joined(children, EdgeKind.TRANSFORMATION, cut(text, TEXT_MAX), is_masking=name in MASKING)


def chosen(values: Sequence[Derived], conditions: Sequence[Derived], text: str) -> Derived:
    """One of the values, according to the conditions."""
    direct = along(all_of([value.edges for value in values]), EdgeKind.TRANSFORMATION)
    indirect = along(all_of([condition.edges for condition in conditions]), EdgeKind.CONDITIONAL)
    return Derived(all_of((direct, indirect)), text, any(one.is_opaque for one in (*values, *conditions)))


def joined(children: Sequence[Derived], kind: EdgeKind, text: str, *, is_masking: bool = False) -> Derived:
    """A value that is made from all of these."""
    edges = along(all_of([child.edges for child in children]), kind, is_masking=is_masking)
    return Derived(edges, text, any(child.is_opaque for child in children))
