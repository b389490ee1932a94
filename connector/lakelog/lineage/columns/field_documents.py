"""The document of a lineage of fields: what a table keeps of it, under its checksum.

    {"version": 1,
     "inputs": [[namespace, dataset, field], ...],
     "sets": [[[input, kind] or [input, kind, "masked"], ...], ...],
     "fields": [{"field", "id", "from": set, "sql", "opaque": true}, ...],
     "dataset": set,
     "reads": [[namespace, dataset], ...],
     "sources": [{"namespace", "dataset", "uuid", "columns": [{"name", "id", "type"}, ...]}, ...],
     "operations": [{"kind", "name", "description", "dataset", "inputs": [[origin, field], ...], "outputs"}, ...],
     "approximate": true}

`input` and `set` are places in their lists: fields that are made from the same inputs share a set. Members that are
empty, false or unknown are left out. "reads" are datasets that are read, and of which no field is an input. `id` is the
number of a column in the schema of its table, which a rename keeps. The target is not in the document: it is the table
whose commit names the checksum, whatever name it has later.
"operations" are there where a program has declared them; else they follow from the fields. "approximate" says that
something is not known of a query that was not seen whole: edges may be missing, or too many.

Two documents have the same checksum if they say the same: neither the order of the fields nor a run matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, items, objects, optional, parse_object, string, strings, whole
from lakelog.common.quoting import cause
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import (
    FieldLineage,
    FieldOperation,
    OperationInput,
    OperationKind,
    OutputField,
    operations_of,
)

VERSION = 1
BYTES_MAX = 64 << 20
VALUES_MAX = 8_000_000
_MASKED = "masked"
_KINDS = {kind.subtype: kind for kind in EdgeKind}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a source table as it was read: its number in the schema, and the text of its type."""

    name: str
    id: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table of lakelog or Paimon that is read: what identifies it and its columns after they are renamed."""

    dataset: Dataset
    uuid: str
    columns: tuple[TableColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDocument:
    """The lineage of a write as it is kept. `ids` has the numbers of columns of the target, by name.

    `reads` are datasets of which no field is an input: their rows are counted, or their number is that of the rows.
    `declared` are the operations that a program has declared; None where they follow from the lineage.
    """

    lineage: FieldLineage
    ids: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[SourceTable, ...] = ()
    reads: tuple[Dataset, ...] = ()
    declared: tuple[FieldOperation, ...] | None = None
    is_approximate: bool = False

    @property
    def checksum(self) -> str:
        """Identifies the document."""
        content = self._content()
        for member in ("fields", "operations"):
            content[member] = sorted(content.get(member, ()), key=_text)
        return hashlib.sha256(_text(content).encode()).hexdigest()

    @property
    def operations(self) -> Sequence[FieldOperation]:
        """The operations in topological order."""
        return operations_of(self.lineage, self.reads) if self.declared is None else self.declared

    def to_json(self) -> str:
        """The text of the document."""
        return _text(self._content())

    @classmethod
    def from_json(cls, text: bytes | str, *, path: str) -> FieldDocument:
        """Parse it; `path` is where it comes from. Raises CorruptDataError."""
        try:
            return _parsed(text)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise CorruptDataError(
                f"{path} is no lineage of fields: {cause(error)}. The lineage that it holds alone is lost: delete "
                "it, and the next run of the job writes it again"
            ) from error

    def _content(self) -> dict[str, Any]:
        lineage = self.lineage
        distinct = {lineage.dataset, *(one.edges for one in lineage.fields)}
        inputs = sorted({edge.source for edges in distinct for edge in edges})
        places = {source: at for at, source in enumerate(inputs)}
        listed = {edges: _edges_to_json(edges, places) for edges in distinct}
        ordered = sorted(distinct, key=listed.__getitem__)
        numbers = {edges: at for at, edges in enumerate(ordered)}
        known: dict[str, Any] = {
            "inputs": [[*source.dataset, *source.path] for source in inputs],
            "sets": [listed[edges] for edges in ordered],
            "fields": [self._field_to_json(one, numbers[one.edges]) for one in lineage.fields],
            "dataset": numbers[lineage.dataset],
        }
        if self.reads:
            known["reads"] = [list(one) for one in sorted(self.reads)]
        if self.sources:
            known["sources"] = [_source_to_json(source) for source in sorted(self.sources, key=lambda one: one.dataset)]
        if self.declared is not None:
            known["operations"] = [_operation_to_json(one) for one in self.declared]
        return {"version": VERSION, **known} | ({"approximate": True} if self.is_approximate else {})

    def _field_to_json(self, one: OutputField, number: int) -> dict[str, object]:
        known: dict[str, object] = {"field": one.name, "from": number}
        if one.name in self.ids:
            known["id"] = self.ids[one.name]
        if one.description:
            known["sql"] = one.description
        return known | ({"opaque": True} if one.is_opaque else {})


def _text(content: Mapping[str, object]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _edges_to_json(edges: Edges, places: Mapping[SourceField, int]) -> list[list[Any]]:
    return sorted([places[edge.source], edge.kind.subtype, *([_MASKED] if edge.is_masked else [])] for edge in edges)


def _source_to_json(source: SourceTable) -> dict[str, object]:
    namespace, name = source.dataset
    columns = [
        {"name": column.name, "id": column.id, "type": column.type}
        for column in sorted(source.columns, key=lambda one: one.id)
    ]
    return {"namespace": namespace, "dataset": name, "uuid": source.uuid, "columns": columns}


def _operation_to_json(one: FieldOperation) -> dict[str, object]:
    known: dict[str, object] = {"kind": one.kind.value, "name": one.name}
    if one.description:
        known["description"] = one.description
    if one.dataset is not None:
        known["dataset"] = list(one.dataset)
    return known | {
        "inputs": [[given.origin, given.field] for given in one.inputs],
        "outputs": list(one.outputs),
    }


def _parsed(text: bytes | str) -> FieldDocument:
    """Raises KeyError, ValueError, IndexError or TypeError."""
    if len(text) > BYTES_MAX:
        raise ValueError(f"it has {len(text)} bytes, expected {BYTES_MAX} at most")
    content = parse_object(text, values_max=VALUES_MAX)
    version = whole(content, "version", COUNT)
    if version != VERSION:
        raise ValueError(f"version {version}, this version of lakelog reads {VERSION}: use a newer lakelog")
    inputs = [_input_of(one) for one in items(content, "inputs")]
    sets = [frozenset(_edge_of(one, inputs) for one in found) for found in items(content, "sets")]
    fields = objects(content, "fields")
    return FieldDocument(
        lineage=FieldLineage(
            fields=tuple(_field_of(one, sets) for one in fields), dataset=sets[whole(content, "dataset", COUNT)]
        ),
        ids={string(one, "field"): whole(one, "id", COUNT) for one in fields if "id" in one},
        sources=tuple(_source_of(one) for one in objects(content, "sources")) if "sources" in content else (),
        reads=tuple(Dataset(*_texts(one, count=2)) for one in items(content, "reads")) if "reads" in content else (),
        declared=tuple(map(_operation_of, objects(content, "operations"))) if "operations" in content else None,
        is_approximate=content.get("approximate") is True,
    )


def _input_of(found: Any) -> SourceField:
    namespace, name, *path = _texts(found)
    if not path:
        raise ValueError(f"an input names no field: {found!r}")
    return SourceField(Dataset(namespace, name), tuple(path))


def _edge_of(found: Any, inputs: Sequence[SourceField]) -> FieldEdge:
    at, kind, *rest = found
    if not isinstance(at, int) or isinstance(at, bool) or at < 0 or rest not in ([], [_MASKED]):
        raise ValueError(f"an edge is {found!r}, expected the place of an input and a kind")
    return FieldEdge(inputs[at], _KINDS[kind], bool(rest))


def _field_of(found: Mapping[str, Any], sets: Sequence[Edges]) -> OutputField:
    return OutputField(
        name=string(found, "field"),
        edges=sets[whole(found, "from", COUNT)],
        description=optional(string, found, "sql") or "",
        is_opaque=found.get("opaque") is True,
    )


def _source_of(found: Mapping[str, Any]) -> SourceTable:
    return SourceTable(
        dataset=Dataset(string(found, "namespace"), string(found, "dataset")),
        uuid=string(found, "uuid"),
        columns=tuple(
            TableColumn(string(one, "name"), whole(one, "id", COUNT), string(one, "type"))
            for one in objects(found, "columns")
        ),
    )


def _operation_of(found: Mapping[str, Any]) -> FieldOperation:
    return FieldOperation(
        kind=OperationKind(string(found, "kind")),
        name=string(found, "name"),
        description=optional(string, found, "description") or "",
        dataset=Dataset(*_texts(found["dataset"], count=2)) if "dataset" in found else None,
        inputs=tuple(
            OperationInput(origin=origin, field=name)
            for origin, name in (_texts(one, count=2) for one in items(found, "inputs"))
        ),
        outputs=strings(found, "outputs"),
    )


def _texts(found: Any, *, count: int | None = None) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{found!r} is no list of texts")
    if count is not None and len(found) != count:
        raise ValueError(f"{found!r} has {len(found)} texts, expected {count}")
    return found
