"""Where streams of several tables go next: to the first agreeing snapshots after those that they have read.

The mirror of `consistent_snapshots`, which finds the newest: a reader that is to see each version of the upstream
tables takes the lowest agreement after the one that it has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from lakelog.filestore.metadata.origins import LineKey, ReadMode, Reason, TableVersion
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.answers.consistent import NotConsistentError, agree
from lakelog.lineage.lines.agreement import Agreement, Domains, Mask
from lakelog.lineage.lines.cached_lines import CachedLines
from lakelog.lineage.lines.line_graph import LineGraph, load_lines
from lakelog.lineage.lines.lines import Line
from lakelog.lineage.tables.found_tables import line_key
from lakelog.warehouse.warehouse import Warehouse

Positions = Mapping[str, TableVersion]
_PASSING = frozenset({Reason.INEXACT, Reason.PART, Reason.WAITING})  # the next batch may resolve it


class ConsistentAdvance:
    """Finds the next positions of the streams of a group, by the identities of their tables."""

    def __init__(self, catalog: Warehouse) -> None:
        """Open nothing yet. The tables upstream of the group's are found in the catalog.

        What was read is kept, so that each decision reads only new snapshots.
        """
        self._found = CachedLines([catalog])

    def __call__(
        self, tables: Mapping[str, TableStore], behind: Positions | None, heads: Mapping[str, int], *, steps: int | None
    ) -> Positions | NotConsistentError | None:
        """The snapshots after those of `behind`, at most `steps` agreements further; `steps` None means the newest.

        If `behind` is None, the result is the newest snapshots that agree, or if there are none yet, because a writer
        lags, the error that says so. No snapshot is newer than `heads`. None while there is nothing further. Raises
        NotConsistentError if a table shows a shared source at no version.
        """
        if not all(heads.values()):
            return None  # a table without a snapshot
        keys = {identity: line_key(table) for identity, table in tables.items()}
        newest = {keys[identity]: head for identity, head in heads.items()}
        graph = load_lines(tables.values(), self._found)
        if behind is None:
            first = first_agreement(graph, newest)
            if first is None:
                check_not_broken(graph, list(newest))
                return why_not(graph, {graph.names[key]: key for key in newest})
            return {identity: first[key] for identity, key in keys.items()}
        found = behind
        for _ in range(steps or 1):
            stop = next_agreement(graph, {keys[one]: at for one, at in found.items()}, newest, is_last=steps is None)
            if stop is None:
                break
            found = {identity: stop[key] for identity, key in keys.items()}
        if found == behind:
            check_not_broken(graph, list(newest))
            return None
        return found


def why_not(graph: LineGraph, asked: Mapping[str, LineKey]) -> NotConsistentError | None:
    """The error that says why lines have no agreement; None if they have one."""
    try:
        agree(graph, asked)
    except NotConsistentError as error:
        return error
    return None  # snapshots that are newer than the heads agree


def first_agreement(graph: LineGraph, heads: Mapping[LineKey, int]) -> dict[LineKey, TableVersion] | None:
    """The newest agreement of lines with no snapshot newer than `heads`; None if there is none. Pure."""
    agreement = _agreement(graph, heads)
    domains = agreement.domains({line: _living(graph.lines[line], head) for line, head in heads.items()})
    chosen = agreement.newest(domains)
    return None if chosen is None else {line: graph.lines[line].steps[chosen[line]].version for line in heads}


def check_not_broken(graph: LineGraph, asked: Sequence[LineKey]) -> None:
    """Raise NotConsistentError if the newest snapshot of a line shows a table that others share at no version.

    The next batch does not resolve that, so a reader would wait for it forever.
    """
    for line in asked:
        shared = set(graph.above([other for other in asked if other != line]))
        for one in graph.above([line]):
            newest = len(graph.lines[one].steps) - 1
            read = graph.streamed(one) if one in asked else graph.shown[one]
            for source, shown in read.sources.items():
                found = shown.at(newest)[1]
                if found is None or found.reason in _PASSING or shared.isdisjoint(graph.above([source])):
                    continue
                message = (
                    f"table {graph.names[one]} shows {graph.names[source]} at no version since its snapshot "
                    f"{found.snapshot_id} ({found.reason}{': ' if found.details else ''}{found.details})"
                )
                raise NotConsistentError(
                    f"the streams of the group cannot continue together: {message}. Write {graph.names[one]} again "
                    "from its sources, or read the tables without a group",
                    hindrances=[message],
                )


def next_agreement(
    graph: LineGraph,
    behind: Mapping[LineKey, TableVersion],
    heads: Mapping[LineKey, int],
    *,
    is_last: bool = False,
) -> dict[LineKey, TableVersion] | None:
    """The first or last agreement of lines after the given snapshots: at least one line has advanced, none is back.

    Of several first agreements, it is the one whose newest snapshot is the oldest. No snapshot is newer than `heads`.
    Pure.
    """
    asked = list(behind)
    agreement = _agreement(graph, asked)
    masks = {line: _stops(graph, line, at, heads[line]) for line, at in behind.items()}
    found = []
    for moving in asked:
        domains = agreement.domains({line: mask for line, (mask, _) in masks.items()})
        mask, stays = masks[moving]
        domains[moving][: len(mask)] = mask & ~stays
        chosen = agreement.newest(domains) if is_last else _lowest(agreement, domains)
        if chosen is not None:
            found.append({line: graph.lines[line].steps[chosen[line]] for line in asked})
    if not found:
        return None
    first = min(found, key=lambda steps: max(step.time_millis for step in steps.values()))
    return {line: step.version for line, step in first.items()}


def _agreement(graph: LineGraph, asked: Iterable[LineKey]) -> Agreement:
    lines = list(asked)
    shapes = {
        line: graph.shape(line, ReadMode.STREAM if line in lines else ReadMode.BATCH) for line in graph.above(lines)
    }
    return Agreement(shapes=shapes, asked=lines)


def _living(line: Line, head: int) -> Mask:
    """The steps that can be read and are whole."""
    found = [step.is_living and step.is_whole and step.version.snapshot_id <= head for step in line.steps]
    return np.array(found, dtype=np.bool_)


def _stops(graph: LineGraph, key: LineKey, at: TableVersion, head: int) -> tuple[Mask, Mask]:
    """The steps at which a batch after `at` may end, including the one at `at`; and only that one."""
    line, versions = graph.lines[key], graph.versions[key].streamed
    stays = np.array([step.version == at for step in line.steps], dtype=np.bool_)
    gives_rows = [True, *(one != other for one, other in pairwise(versions))]  # such as a compaction of a changelog
    ends = [
        step.version.snapshot_id > at.snapshot_id and bool(step.changes_rows or step.batches or is_given)
        for step, is_given in zip(line.steps, gives_rows, strict=False)
    ]
    return (_living(line, head) & np.array(ends, dtype=np.bool_)) | stays, stays


def _lowest(agreement: Agreement, domains: Domains) -> dict[LineKey, int] | None:
    """The oldest agreeing steps of the asked lines."""
    if not agreement.reduced(domains):
        return None
    for line in agreement.asked:
        reduced = next(_each(agreement, domains, line), None)
        if reduced is None:
            return None
        domains = reduced
    return agreement.newest(domains)


def _each(agreement: Agreement, domains: Domains, line: LineKey) -> Iterator[Domains]:
    for value in np.flatnonzero(domains[line]):
        tried = {key: domain.copy() for key, domain in domains.items()}
        tried[line][:] = False
        tried[line][value] = True
        if agreement.reduced(tried, [line]):
            yield tried
