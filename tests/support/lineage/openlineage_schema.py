"""OpenLineage's own JSON schemas (`tests/conformance/openlineage`), and what they have against an event.

The specification allows any facet. Here each facet is one of those that were copied, under the name that its schema
gives it, and is validated against the schema that it names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any  # Any: JSON
from urllib.parse import urlsplit
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

SPEC = Path(__file__).parents[2] / "conformance" / "openlineage"
RUN_EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"


def _is_uri(text: object) -> bool:
    return not isinstance(text, str) or bool(urlsplit(text).scheme)


def _is_uuid(text: object) -> bool:
    return not isinstance(text, str) or str(UUID(text)) == text


def _is_time(text: object) -> bool:
    return not isinstance(text, str) or ("T" in text and datetime.fromisoformat(text).tzinfo is not None)


_formats = FormatChecker(formats=())
_formats.checks("uri")(_is_uri)
_formats.checks("uuid", raises=ValueError)(_is_uuid)
_formats.checks("date-time", raises=ValueError)(_is_time)


@cache
def _schemas() -> dict[str, Any]:
    """The schemas by their addresses."""
    found = [json.loads(path.read_text("utf-8")) for path in SPEC.rglob("*.json")]
    return {schema["$id"]: schema for schema in found}


@cache
def _validator(address: str) -> Draft202012Validator:
    resources = [(name, Resource.from_contents(schema)) for name, schema in _schemas().items()]
    registry = Registry[Any]().with_resources(resources)
    return Draft202012Validator({"$ref": address}, registry=registry, format_checker=_formats)


def errors_of(event: Mapping[str, Any]) -> list[str]:
    """What the schemas have against a RunEvent and its facets."""
    found = [f"{error.json_path}: {error.message}" for error in _validator(RUN_EVENT).iter_errors(event)]
    if event.get("schemaURL") != RUN_EVENT:
        found.append(f"schemaURL: {event.get('schemaURL')}")
    for name, kind, facet in _facets_of(event):
        address = facet.get("_schemaURL", "")
        properties = _schemas().get(address.partition("#")[0], {}).get("properties", {})
        if f"#{address.partition('#')[2]}" not in _references(properties.get(name, {})) or not address.endswith(kind):
            found.append(f"{name}: {address!r} is no schema of a {kind} that was copied")
            continue
        found += [f"{name}{error.json_path[1:]}: {error.message}" for error in _validator(address).iter_errors(facet)]
    return found


def _references(schema: Mapping[str, Any]) -> list[str]:
    """The definitions that a facet may follow: one, or one of several."""
    return [one.get("$ref", "") for one in (schema, *schema.get("anyOf", ()))]


def _facets_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The facets of the run, the job and the datasets: their names, and how the names of their schemas end."""
    datasets = [*event.get("inputs", []), *event.get("outputs", [])]
    holders = [(event.get("run", {}), "RunFacet"), (event.get("job", {}), "JobFacet")]
    for holder, kind in (*holders, *((one, "DatasetFacet") for one in datasets)):
        kinds = {"facets": kind, "inputFacets": "InputDatasetFacet", "outputFacets": "OutputDatasetFacet"}
        for member, wanted in kinds.items():
            yield from ((name, wanted, facet) for name, facet in holder.get(member, {}).items())
