"""Fields of structs: a struct that the query builds keeps the values of its fields, one of a source their paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any  # Any: parsed JSON

from lakelog.lineage.columns.field_edges import EdgeKind
from lakelog.lineage.columns.plans.derived import Derived, changed, joined
from lakelog.lineage.columns.plans.plan_tree import Tree, simple_name

# A struct that `lakelog.spark.declare_inputs` puts around a value: its first field is the value, the names of the
# others are what the value is made from.
DECLARED = "__lakelog_value"
INPUT_PREFIX = "from "


def name_of_field(tree: Tree, at: int) -> str | None:
    """The name of the field that the node `GetStructField` reads: it may have its place alone."""
    name = tree[at].get("name")
    if name is not None:
        return str(name)
    fields = _fields_of(tree, at + 1)
    ordinal = tree[at]["ordinal"]
    return str(fields[ordinal]["name"]) if ordinal < len(fields) else None


def _fields_of(tree: Tree, at: int) -> Sequence[dict[str, Any]]:
    """The fields of the struct that a node gives, where the JSON has its type."""
    kind = tree[at].get("dataType")
    if simple_name(tree[at]["class"]) == "GetStructField":
        outer = _fields_of(tree, at + 1)
        ordinal = tree[at]["ordinal"]
        kind = outer[ordinal]["type"] if ordinal < len(outer) else None
    return kind.get("fields", ()) if isinstance(kind, dict) else ()


def _struct(_members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A struct of names and values in turn."""
    names, values = [child.text.strip("'") for child in children[::2]], children[1::2]
    if names[:1] == [DECLARED]:
        inputs = [name.removeprefix(INPUT_PREFIX) for name in names[1:]]
        return replace(values[0], members={DECLARED: values[0].chosen(inputs)}, place=None)
    text = f"struct({', '.join(f'{value.text} AS {name}' for name, value in zip(names, values, strict=False))})"
    built = joined(values, EdgeKind.TRANSFORMATION, text)
    return Derived(built.edges, text, built.is_opaque, dict(zip(names, values, strict=False)))


def _struct_field(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A field of a struct: its own inputs where the query builds it, its path where a source has it."""
    name = members.get("name")
    if name == DECLARED and children[0].members is not None:
        return children[0].members[DECLARED]
    return children[0].member(str(name)) if name is not None else changed("GetStructField", members, children)


def _array_fields(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A field of each struct in an array."""
    return children[0].member(str(members["field"]["name"]))


def _element(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """An element of an array or a map; by a constant key it has the place of the whole."""
    found = changed(simple_name(members["class"]), members, children)
    whole, *keys = children
    is_fixed = not any(key.edges or key.is_opaque for key in keys)
    return Derived(found.edges, found.text, found.is_opaque, place=whole.place if is_fixed else None)


def _updated(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A struct with fields that are added, replaced or dropped; the others are where they were."""
    whole, *changes = children
    made = changed("UpdateFields", members, children)
    fields = {name: value for change in changes for name, value in (change.members or {}).items()}
    return replace(made, members={**(whole.members or {}), **fields}, place=whole.place)


def _with_field(members: dict[str, Any], children: Sequence[Derived]) -> Derived:
    """A field that is put into a struct."""
    return replace(children[0], members={str(members["name"]): children[0]}, place=None)


STRUCT_RULES: dict[str, Callable[[dict[str, Any], Sequence[Derived]], Derived]] = {
    "CreateNamedStruct": _struct,
    "ElementAt": _element,
    "GetArrayItem": _element,
    "GetArrayStructFields": _array_fields,
    "GetMapValue": _element,
    "GetStructField": _struct_field,
    "UpdateFields": _updated,
    "WithField": _with_field,
}
