"""RunEvents of other producers, from files of one JSON object per line: the lineage of fields that they tell.

What is read is the facet `columnLineage` of the outputs, in each of its versions. Everything in an event is untrusted:
lines have a limited size, names are strings of a limited length, and an error names the file and the line.

Source: OpenLineage, "Column Level Lineage Dataset Facet" 1-2-0; before 1-1-0 it has no transformations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO  # Any: parsed JSON

from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import JSON_BYTES_MAX, member, objects, optional, parse_object, string
from lakelog.common.quoting import cut, shown
from lakelog.common.timestamps import to_millis
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField

NAME_MAX = 4_000
TEXT_MAX = 2_000
_FACET = "columnLineage"
_KINDS = {kind.value: kind for kind in EdgeKind}
_MASKED, _IDENTITY = "MASKED", "IDENTITY"  # of `transformationType`, which the facet had before transformations

OnUnreadable = Callable[[InvalidRequestError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLineage:
    """What one event tells of one output. `run_id` None: the event is of a job, not of a run of it.

    `event_type` is START, RUNNING, COMPLETE and the like; None for the event of a job.
    """

    job_namespace: str
    job: str
    run_id: str | None
    event_type: str | None
    time_millis: int
    output: Dataset
    lineage: FieldLineage


def read_events(path: Path, on_unreadable: OnUnreadable | None = None) -> Iterator[ForeignLineage]:
    """The lineage of the events in a file, in their order; events without the facet give nothing.

    `on_unreadable` gets the error of a line that is no event, and the next line is read; without it the error is
    raised. Raises InvalidRequestError.
    """
    try:
        with path.open("rb") as file:
            yield from _events_in(file, path, on_unreadable)
    except OSError as error:
        raise InvalidRequestError(
            f"{str(path)!r} cannot be read: {error.strerror}; name a file of OpenLineage events, one per line"
        ) from error


def _events_in(file: BinaryIO, path: Path, on_unreadable: OnUnreadable | None) -> Iterator[ForeignLineage]:
    for number, line in enumerate(_lines(file), start=1):
        try:
            found = lineage_of_event(line) if line.strip() else []
        except ValueError as error:
            unreadable = InvalidRequestError(f"{str(path)!r}, line {number}: {error}")
            unreadable.__cause__ = error
            if on_unreadable is None:
                raise unreadable from error
            on_unreadable(unreadable)
            continue
        yield from found


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines; of one that is too long the beginning, which is too long for JSON too."""
    while line := file.readline(JSON_BYTES_MAX + 1):
        rest = line
        while len(rest) > JSON_BYTES_MAX and not rest.endswith(b"\n"):
            rest = file.readline(JSON_BYTES_MAX + 1)
        yield line


def lineage_of_event(data: bytes | str) -> list[ForeignLineage]:
    """What an event tells of its outputs. Raises ValueError for what is no event or no lineage."""
    event = parse_object(data)
    try:
        time_millis = _millis(_name(event, "eventTime"))
        outputs = [one for one in optional(objects, event, "outputs") or [] if _has_facet(one)]
        if not outputs:
            return []
        job = member(event, "job")
        run = optional(member, event, "run")
        return [
            ForeignLineage(
                job_namespace=_name(job, "namespace"),
                job=_name(job, "name"),
                run_id=None if run is None else _name(run, "runId"),
                event_type=None if run is None else optional(_name, event, "eventType"),
                time_millis=time_millis,
                output=_dataset(one),
                lineage=_lineage(member(member(one, "facets"), _FACET), _dataset(one)),
            )
            for one in outputs
        ]
    except KeyError as error:
        raise ValueError(f"the member {error} is missing, which an event of OpenLineage has") from error


def _has_facet(output: Mapping[str, Any]) -> bool:
    facets = output.get("facets")
    return isinstance(facets, dict) and facets.get(_FACET) is not None


def _lineage(facet: Mapping[str, Any], output: Dataset) -> FieldLineage:
    named = member(facet, "fields")
    fields = tuple(_field(name, member(named, name)) for name in named)
    dataset = [edge for one in optional(objects, facet, "dataset") or [] for edge in _of_dataset(one)]
    return FieldLineage(target=output, fields=fields, dataset=frozenset(dataset))


def _field(name: str, found: Mapping[str, Any]) -> OutputField:
    """A field of the output, and its inputs."""
    kind = optional(string, found, "transformationType")
    edges: set[FieldEdge] = set()
    texts = [optional(string, found, "transformationDescription")]
    for one in objects(found, "inputFields"):
        edges |= _edges(one, kind)
        texts += [optional(string, step, "description") for step in _steps(one) if step.get("type") == "DIRECT"]
    text = " | ".join(dict.fromkeys(filter(None, texts)))
    return OutputField(name=_checked(name, "a field"), edges=frozenset(edges), description=cut(text, TEXT_MAX))


def _edges(found: Mapping[str, Any], old_kind: str | None) -> Edges:
    """The edges from an input; one without transformations has the kind that older versions give to the output."""
    source = _source(found)
    steps = _steps(found)
    if steps:
        return frozenset(FieldEdge(source, _kind(one, EdgeKind.CONDITIONAL), _is_masking(one)) for one in steps)
    kind = EdgeKind.IDENTITY if old_kind == _IDENTITY else EdgeKind.TRANSFORMATION
    return frozenset([FieldEdge(source, kind, old_kind == _MASKED)])


def _of_dataset(found: Mapping[str, Any]) -> Iterator[FieldEdge]:
    """The edges that count for all fields, which are INDIRECT."""
    source = _source(found)
    for one in _steps(found) or [{"type": "INDIRECT"}]:
        kind = _kind(one, EdgeKind.FILTER)
        if kind.is_direct:
            raise ValueError(
                f"dataset has a DIRECT transformation of {shown(source.name)}, expected INDIRECT ones: a value is made "
                "for a field, so it belongs to fields"
            )
        yield FieldEdge(source, kind, _is_masking(one))


def _steps(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return optional(objects, found, "transformations") or []


def _kind(step: Mapping[str, Any], indirect: EdgeKind) -> EdgeKind:
    """The kind of a transformation. A subtype that a producer has added is TRANSFORMATION or `indirect`."""
    kind, subtype = string(step, "type"), optional(string, step, "subtype")
    if kind not in {"DIRECT", "INDIRECT"}:
        raise ValueError(f"the type of a transformation is {shown(kind)}, expected DIRECT or INDIRECT")
    other = EdgeKind.TRANSFORMATION if kind == "DIRECT" else indirect
    return _KINDS.get((kind, subtype or ""), other)


def _is_masking(step: Mapping[str, Any]) -> bool:
    masking = step.get("masking")
    if masking is not None and not isinstance(masking, bool):
        raise ValueError(f"masking must be true or false, found {shown(masking)}")
    return masking is True


def _source(found: Mapping[str, Any]) -> SourceField:
    return SourceField(_dataset(found), (_name(found, "field"),))


def _dataset(found: Mapping[str, Any]) -> Dataset:
    return Dataset(_name(found, "namespace"), _name(found, "name"))


def _name(found: Mapping[str, Any], key: str) -> str:
    return _checked(string(found, key), key)


def _checked(name: str, what: str) -> str:
    if len(name) > NAME_MAX:
        raise ValueError(f"{what} has {len(name)} characters, at most {NAME_MAX} are read: {shown(name)}")
    return name


def _millis(text: str) -> int:
    """The time of an event, which has a zone."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return to_millis(time)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"eventTime is {shown(text)}, expected a time with a zone such as 2026-01-31T12:00:00Z")
