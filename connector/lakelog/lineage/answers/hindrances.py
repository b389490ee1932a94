"""Messages that say what prevents consistent snapshots: path, table, snapshot and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from lakelog.common.quoting import listed
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.metadata.origins import Break, LineKey, Reason, TableSource
from lakelog.lineage.lines.agreement import Agreement, Domains
from lakelog.lineage.lines.line_graph import LineGraph
from lakelog.lineage.lines.lines import Step

_WORDS: Mapping[str, str] = {
    Reason.GAP: "a gap",
    Reason.UNSEEN: "a stream that has passed an overwrite of its source, which is no change for it",
    Reason.INEXACT: "a batch that ends between snapshots; let its job read with stream.align=snapshot",
    Reason.MIXED: "several versions at once",
    Reason.CHANGED: "a change whose sources are not recorded",
    Reason.FOREIGN_WRITER: "a write by another engine",
    Reason.UNKNOWN: "a batch that does not record what it read",
    Reason.MERGED: "the merge of a branch",
    Reason.RESTORED: "a restore of a state of which nothing is known",
    Reason.PART: "a batch in part",
    Reason.WAITING: "rows that wait for a compaction",
    Reason.NOT_KNOWN: "a snapshot that has expired or was rolled back, and what it was made from with it",
}


def hindrances(graph: LineGraph, agreement: Agreement, domains: Domains) -> list[str]:
    """Why the asked lines have no agreement among the remaining values. At least one reason."""
    alone = {line: _reduced(graph, agreement, domains, line) for line in agreement.asked}
    found: list[str] = [
        text for line, left in alone.items() if left is None for text in _of_one(graph, agreement, domains, line)
    ]
    if found:
        return found
    for first, second in combinations(agreement.asked, 2):
        for source in _shared(graph, first, second):
            left = [alone[line] for line in (first, second)]
            versions = [set() if one is None else set(agreement.versions(source, one)) for one in left]
            if not versions[0] & versions[1]:
                texts = [_text(graph, agreement, domains, line, source) for line in (first, second)]
                found.append("; ".join(dict.fromkeys(texts)))
    if found:
        return list(dict.fromkeys(found))
    names = [graph.names[line] for line in agreement.asked]
    shared = [graph.names[line] for line in agreement.shapes if line not in agreement.asked]
    return [f"no living snapshots of {listed(names)} agree on all of {listed(shared)} at the same time"]


def lagging(
    graph: LineGraph, agreement: Agreement, domains: Domains, chosen: Mapping[LineKey, int], line: LineKey
) -> str | None:
    """Why a line is not at the newest of its remaining versions; None if it is."""
    newest = int(np.flatnonzero(domains[line])[-1])
    steps = graph.lines[line].steps
    if agreement.version(line, newest) == agreement.version(line, chosen[line]):
        return None
    begin = f"{graph.names[line]} is at snapshot {steps[chosen[line]].version.snapshot_id}, not {_id(steps[newest])}"
    alone = _at(agreement, domains, line, newest)
    if alone is None:
        return f"{begin}: {'; '.join(_of_one(graph, agreement, domains, line))}"
    for source, key in _shown(agreement, alone, line).items():
        wanted = agreement.version(source, chosen[source])
        if wanted is None or wanted == key:
            continue
        holders = [other for other in agreement.asked if other != line and graph.path(other, source)]
        for other in sorted(holders, key=lambda one: not _is_newest(agreement, domains, chosen, one)):
            at = graph.versions[source].first(key).snapshot_id
            return (
                f"{begin}, which shows {graph.names[source]} at snapshot {at}: "
                f"{_text(graph, agreement, domains, other, source)}"
            )
    broken = _first_break(graph, line, newest)
    return f"{begin}{'' if broken is None else f': {broken}'}"


def _reduced(graph: LineGraph, agreement: Agreement, domains: Domains, line: LineKey) -> Domains | None:
    """The values of the lines that agree with some value of one asked line alone; None when there are none.

    Other asked lines, and lines that it is not made from, may have any value: versions that were asked for these lines
    do not affect it.
    """
    above = {one for one in graph.above([line]) if one not in agreement.asked}
    free = agreement.domains({})
    left = {one: (domains[one] if one == line or one in above else free[one]).copy() for one in domains}
    return left if agreement.reduced(left) else None


def _at(agreement: Agreement, domains: Domains, line: LineKey, value: int) -> dict[LineKey, int] | None:
    """Values at which one line alone is at a given step."""
    free = agreement.domains({})
    free[line] = np.zeros_like(domains[line])
    free[line][value] = True
    return agreement.newest_of(free, [line])


def _shown(agreement: Agreement, chosen: Mapping[LineKey, int], line: LineKey) -> dict[LineKey, int]:
    """The versions of all lines upstream of a line, nearest first."""
    found: dict[LineKey, int] = {}
    waiting = [line]
    for one in waiting:
        for source, key in agreement.needed(one, chosen[one]).items():
            if source not in found:
                found[source] = key
                waiting.append(source)
    return found


def _is_newest(agreement: Agreement, domains: Domains, chosen: Mapping[LineKey, int], line: LineKey) -> bool:
    newest = int(np.flatnonzero(domains[line])[-1])
    return agreement.version(line, newest) == agreement.version(line, chosen[line])


def _shared(graph: LineGraph, one: LineKey, other: LineKey) -> list[LineKey]:
    above = set(graph.above([other]))
    return [line for line in graph.above([one]) if line in above]


def _text(graph: LineGraph, agreement: Agreement, domains: Domains, line: LineKey, source: LineKey) -> str:
    """A message: what the living snapshots of a line show of a source."""
    if line == source:
        oldest = int(np.flatnonzero(domains[line])[0])
        return f"{graph.names[line]} itself lives from snapshot {_id(graph.lines[line].steps[oldest])} on"
    way = graph.path(line, source)
    name = " from ".join(graph.names[one] for one in way[:-1])
    seen = _seen(graph, agreement, domains, line, source)
    why = _first_break(graph, line, int(np.flatnonzero(domains[line])[-1]), towards=source)
    if not seen:
        return f"{name} shows {graph.names[source]} at no version{'' if why is None else f': {why}'}"
    versions = graph.versions[source]
    ids = [versions.first(key).snapshot_id for key in seen]
    span = f"at snapshot {ids[0]}" if len(ids) == 1 else f"at snapshots {min(ids)} to {max(ids)}"
    steps = graph.lines[line].steps
    living = np.flatnonzero(domains[line])
    is_cut = living[0] != 0 or _id(steps[0]) != 1
    expired = f" (its oldest living snapshot is {_id(steps[living[0]])})" if is_cut else ""
    begin = f"{name} shows {graph.names[source]} {span}{expired}"
    return f"{begin}{_last_read(graph, way[-2], source)}" if why is None else f"{begin}, and since then: {why}"


def _seen(graph: LineGraph, agreement: Agreement, domains: Domains, line: LineKey, source: LineKey) -> list[int]:
    """The versions of a source that some step of a line shows, in ascending order."""
    left = _reduced(graph, agreement, domains, line)
    return [] if left is None else agreement.read_versions(source, left)


def _last_read(graph: LineGraph, line: LineKey, source: LineKey) -> str:
    """Which writer last read a source into a line, and when."""
    for step in reversed(graph.lines[line].steps):
        for batch in step.batches:
            if any(isinstance(one, TableSource) and one.line == source for one in batch.sources):
                writer = f"job {batch.job}" if batch.job is not None else f"writer {batch.user}"
                return f"; {writer} wrote it last in snapshot {_id(step)}, at {shown_millis(step.time_millis)}"
    return ""


def _of_one(graph: LineGraph, agreement: Agreement, domains: Domains, line: LineKey) -> Iterator[str]:
    """Why no snapshot of one line is consistent in itself, or with the versions that were asked for."""
    name = graph.names[line]
    left = np.flatnonzero(domains[line])
    if not left.size:
        yield f"{name} has no living snapshot with whole batches of the version that was asked for"
        return
    free = agreement.domains({line: domains[line]})
    held = [one for one in graph.above([line]) if one != line and domains[one].sum() < free[one].sum()]
    if held and agreement.reduced({one: domain.copy() for one, domain in free.items()}):
        yield from (_text(graph, agreement, free, line, source) for source in held)
        return
    why = _first_break(graph, line, int(left[-1]))
    if why is not None:
        yield f"{name}: {why}"
        return
    above = graph.above([line])
    twice = [graph.names[one] for one in above if len(set(agreement.readers(one)) & set(above)) > 1]
    paths = f"is made from {listed(twice)} over several paths, which never show the same version"
    yield f"{name} {paths if twice else 'shows the versions that were asked for at none of its snapshots'}"


def _first_break(graph: LineGraph, line: LineKey, position: int, towards: LineKey | None = None) -> str | None:
    """The nearest source upstream of a step that is shown at no version; with `towards`, on the path to that source."""
    waiting = [(line, position)]
    seen = {line}
    for one, at in waiting:
        for source, shown in graph.shown[one].sources.items():
            if towards is not None and source != towards and not graph.path(source, towards):
                continue
            key, found = shown.at(at)
            if not graph.lines[one].steps[at].is_whole:
                found = Break(_id(graph.lines[one].steps[at]), Reason.PART)
            if found is not None:
                words = _WORDS.get(found.reason, found.reason)
                details = f" ({found.details})" if found.details else ""
                return (
                    f"{graph.names[one]} shows {graph.names[source]} at no version, by {words}{details} "
                    f"in its snapshot {found.snapshot_id}"
                )
            if key < 0 or source in seen:
                continue
            seen.add(source)
            step = graph.versions[source].step_of(key)
            if step is None:
                if graph.shown[source].sources:
                    first = graph.versions[source].first(key).snapshot_id
                    return f"{graph.names[source]} is shown at {_WORDS[Reason.NOT_KNOWN]}: snapshot {first}"
                continue
            waiting.append((source, step))
    return None


def _id(step: Step) -> int:
    return step.version.snapshot_id
