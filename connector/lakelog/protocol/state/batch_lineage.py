"""What a snapshot records about where the rows of its batches come from: the entries in `lakelog.lineage`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def lineage_of(user: str, identifier: int, lineage: Mapping[str, object]) -> Mapping[str, object]:
    """What a snapshot records about the sources of one batch."""
    return {"user": user, "identifier": identifier, **lineage}


def of_parts(
    lineage: Mapping[str, object], parts: Sequence[Mapping[str, object]], *, has_others: bool = False
) -> Mapping[str, object]:
    """What a batch was made from, according to the `parts` that are in the log, else to its `lineage`.

    A batch without parts here, but with parts in earlier snapshots (`has_others`), has all its rows there: of its
    planned reads only the ranges of its streams are certain, as they are the same in each of its plans.

    A batch that was killed between two buckets is planned again for the other buckets: what it reads beside its streams
    may have changed meanwhile. Then the sources of both plans are its sources.
    """
    if has_others and not parts:
        planned = lineage.get("sources")
        if not isinstance(planned, list):
            return lineage
        return {**lineage, "sources": [source for source in planned if not _is_state(source)]}
    if not parts:
        return lineage
    merged = {member: _union(parts, member) for member in ("sources", "fields")}
    return {**lineage, **{member: found for member, found in merged.items() if found != lineage.get(member, [])}}


def _union(parts: Sequence[Mapping[str, object]], member: str) -> list[object]:
    """What the parts have in a list of theirs, each once."""
    found: list[object] = []
    for part in parts:
        listed = part.get(member, ())
        found += [one for one in listed if one not in found] if isinstance(listed, Sequence) else []
    return found


def _is_state(source: object) -> bool:
    """Whether a source is one state of a table, not a range of its stream."""
    return isinstance(source, Mapping) and source.get("kind") == "table" and source.get("mode") == "batch"


def unique_batches(lineage: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """One entry per batch: a batch that was taken in bucket by bucket is named once."""
    seen: dict[tuple[object, object], Mapping[str, object]] = {}
    for entry in lineage:
        seen.setdefault((entry["user"], entry["identifier"]), entry)
    return list(seen.values())
