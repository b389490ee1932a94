"""JSON Schemas of OpenLineage's RunEvent and of the facets that lakelog sends, after the specification 2-0-2.

Only what the specification asks of them: members, types, formats, and the address that each facet names as its schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any  # Any: JSON
from urllib.parse import urlsplit
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker

BASE = "https://openlineage.io/spec"
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
URI = {"type": "string", "format": "uri"}


def _object(required: tuple[str, ...] = (), **properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _facet(address: str, required: tuple[str, ...] = (), **properties: object) -> dict[str, Any]:
    name = address.rpartition("/")[2]
    known = {"_producer": URI, "_schemaURL": {"const": f"{BASE}/facets/{address}.json#/$defs/{name}"}}
    return _object(("_producer", "_schemaURL", *required), **known, **properties)


def _facets(**known: object) -> dict[str, Any]:
    """Facets by their names; one that is not known is refused, though the specification allows it."""
    return {**_object((), **known), "additionalProperties": False}


FIELD = _object(("name",), name=STRING, type=STRING, description=STRING, ordinal_position=INTEGER)
IDENTIFIER = _object(("namespace", "name", "type"), namespace=STRING, name=STRING, type=STRING)
TAG = _object(("key", "value"), key=STRING, value=STRING, source=STRING)
DATASET_FACETS = _facets(
    version=_facet("1-0-1/DatasetVersionDatasetFacet", ("datasetVersion",), datasetVersion=STRING),
    schema=_facet("1-2-0/SchemaDatasetFacet", fields={"type": "array", "items": FIELD}),
    symlinks=_facet("1-0-1/SymlinksDatasetFacet", identifiers={"type": "array", "items": IDENTIFIER}),
)
JOB_FACETS = _facets(
    jobType=_facet(
        "2-0-4/JobTypeJobFacet",
        ("processingType", "integration"),
        processingType={"enum": ["BATCH", "STREAMING", "SERVICE"]},
        integration=STRING,
        jobType=STRING,
    )
)
RUN_FACETS = _facets(
    processing_engine=_facet(
        "1-1-1/ProcessingEngineRunFacet", ("version",), version=STRING, name=STRING, openlineageAdapterVersion=STRING
    ),
    tags=_facet("1-0-0/TagsRunFacet", tags={"type": "array", "items": TAG}),  # the client adds it
    errorMessage=_facet(
        "1-0-1/ErrorMessageRunFacet",
        ("message", "programmingLanguage"),
        message=STRING,
        programmingLanguage=STRING,
        stackTrace=STRING,
    ),
)
COUNTS = _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rowCount=INTEGER, size=INTEGER, fileCount=INTEGER)
DATASET = {"namespace": STRING, "name": STRING, "facets": DATASET_FACETS}
INPUT = _object(("namespace", "name"), **DATASET, inputFacets=_facets())
OUTPUT = _object(("namespace", "name"), **DATASET, outputFacets=_facets(outputStatistics=COUNTS))
RUN_EVENT = _object(
    ("run", "job", "eventTime", "producer", "schemaURL"),
    eventType={"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
    eventTime={"type": "string", "format": "date-time"},
    run=_object(("runId",), runId={"type": "string", "format": "uuid"}, facets=RUN_FACETS),
    job=_object(("namespace", "name"), namespace=STRING, name=STRING, facets=JOB_FACETS),
    inputs={"type": "array", "items": INPUT},
    outputs={"type": "array", "items": OUTPUT},
    producer=URI,
    schemaURL={"const": f"{BASE}/2-0-2/OpenLineage.json#/$defs/RunEvent"},
)


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


def errors_of(event: object) -> list[str]:
    """What the schemas have against an event."""
    found: Iterator[Any] = Draft202012Validator(RUN_EVENT, format_checker=_formats).iter_errors(event)
    return [f"{error.json_path}: {error.message}" for error in found]
