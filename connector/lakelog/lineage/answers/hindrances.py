"""Messages that say what prevents consistent snapshots: path, table, snapshot and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a search has not found what was asked for: what each asked line alone has left, and where that differs.

    `domains` has the values with which the search began.
    """

    graph: LineGraph
    agreement: Agreement
    domains: Domains
    _alone: dict[LineKey, Domains | None] = field(default_factory=dict)

    def hindrances(self) -> list[str]:
        """Why the asked lines have no agreement. At least one reason."""
        asked, names = self.agreement.asked, self.graph.names
        found = [text for line in asked if self._left(line) is None for text in self._of_one(line)]
        for first, second in combinations(asked, 2) if not found else ():
            both = set(self.graph.above([second]))
            for source in (one for one in self.graph.above([first]) if one in both):
                if not self._versions(first, source) & self._versions(second, source):
                    texts = (self._text(line, source) for line in (first, second))
                    found.append("; ".join(dict.fromkeys(texts)))
        shared = [names[line] for line in self.agreement.shapes if line not in asked]
        every = f"no living snapshots of {listed(names[line] for line in asked)} agree on all of {listed(shared)}"
        forgotten = [names[line] for line, shape in self.agreement.shapes.items() if not shape.knows_past]
        unknown = f"; what expired snapshots of {listed(forgotten)} were made from is not known" if forgotten else ""
        return list(dict.fromkeys(found)) or [f"{every} at the same time{unknown}"]

    def lagging(self, chosen: Mapping[LineKey, int], line: LineKey) -> str | None:
        """Why a line is not at the newest of its versions; None if it is. `chosen` is what the search has found."""
        if self._is_newest(chosen, line):
            return None
        names, steps, newest = self.graph.names, self.graph.lines[line].steps, self._newest(line)
        begin = f"{names[line]} is at snapshot {_id(steps[chosen[line]])}, not {_id(steps[newest])}"
        free = self.agreement.domains({})
        free[line] = np.zeros_like(free[line])
        free[line][newest] = True
        alone = self.agreement.newest_of(free, [line])
        if alone is None:
            return f"{begin}: {'; '.join(self._of_one(line))}"
        for source, key in self.agreement.above([line], alone).items():
            holders = [one for one in self.agreement.asked if one != line and self.graph.path(one, source)]
            if holders and self.agreement.version(source, chosen[source]) not in {None, key}:
                holder = min(holders, key=lambda one: not self._is_newest(chosen, one))
                at = self.graph.versions[source].first(key).snapshot_id
                return f"{begin}, which shows {names[source]} at snapshot {at}: {self._text(holder, source)}"
        broken = self._first_break(line, newest)
        return f"{begin}{'' if broken is None else f': {broken}'}"

    def _left(self, line: LineKey) -> Domains | None:
        """The values of the lines that agree with some value of one asked line alone; None when there are none.

        Other asked lines, and lines that it is not made from, may have any value: versions that were asked for these
        lines do not affect it.
        """
        if line not in self._alone:
            held = {one for one in self.graph.above([line]) if one not in self.agreement.asked} | {line}
            free = self.agreement.domains({})
            left = {one: (domain if one in held else free[one]).copy() for one, domain in self.domains.items()}
            self._alone[line] = left if self.agreement.reduced(left) else None
        return self._alone[line]

    def _versions(self, line: LineKey, source: LineKey) -> set[int]:
        left = self._left(line)
        return set() if left is None else set(self.agreement.versions(source, left))

    def _newest(self, line: LineKey) -> int:
        return int(np.flatnonzero(self.domains[line])[-1])

    def _is_newest(self, chosen: Mapping[LineKey, int], line: LineKey) -> bool:
        return self.agreement.version(line, self._newest(line)) == self.agreement.version(line, chosen[line])

    def _text(self, line: LineKey, source: LineKey) -> str:
        """A message: what the living snapshots of a line show of a source."""
        names, steps = self.graph.names, self.graph.lines[line].steps
        oldest = int(np.flatnonzero(self.domains[line])[0])
        if line == source:
            return f"{names[line]} itself lives from snapshot {_id(steps[oldest])} on"
        way = self.graph.path(line, source)
        begin = f"{' from '.join(names[one] for one in way[:-1])} shows {names[source]}"
        left = self._left(line)
        seen = [] if left is None else self.agreement.read_versions(source, left)
        why = self._first_break(line, self._newest(line), towards=source)
        if not seen:
            return f"{begin} at no version{'' if why is None else f': {why}'}"
        ids = [self.graph.versions[source].first(key).snapshot_id for key in seen]
        span = f"at snapshot {ids[0]}" if len(ids) == 1 else f"at snapshots {min(ids)} to {max(ids)}"
        is_cut = oldest != 0 or _id(steps[0]) != 1
        expired = f" (its oldest living snapshot is {_id(steps[oldest])})" if is_cut else ""
        begin = f"{begin} {span}{expired}"
        return f"{begin}{self._last_read(way[-2], source)}" if why is None else f"{begin}, and since then: {why}"

    def _last_read(self, line: LineKey, source: LineKey) -> str:
        """Which writer last read a source into a line, and when."""
        for step in reversed(self.graph.lines[line].steps):
            for batch in step.batches:
                if any(isinstance(one, TableSource) and one.line == source for one in batch.sources):
                    at = shown_millis(step.time_millis)
                    return f"; {batch.writer} wrote it last in snapshot {_id(step)}, at {at}"
        return ""

    def _of_one(self, line: LineKey) -> Iterator[str]:
        """Why no snapshot of one line is consistent in itself, or with the versions that were asked for."""
        name, above = self.graph.names[line], self.graph.above([line])
        if not self.domains[line].any():
            yield f"{name} has no living snapshot with whole batches of the version that was asked for"
            return
        free = self.agreement.domains({line: self.domains[line]})
        held = [one for one in above if one != line and self.domains[one].sum() < free[one].sum()]
        if held:
            others = Explanation(self.graph, self.agreement, free)
            if self.agreement.reduced({one: domain.copy() for one, domain in free.items()}):
                yield from (others._text(line, source) for source in held)
                return
        why = self._first_break(line, self._newest(line))
        if why is not None:
            yield f"{name}: {why}"
            return
        twice = [self.graph.names[one] for one in above if len(set(self.agreement.readers(one)) & set(above)) > 1]
        paths = f"is made from {listed(twice)} over several paths, which never show the same version"
        yield f"{name} {paths if twice else 'shows the versions that were asked for at none of its snapshots'}"

    def _first_break(self, line: LineKey, position: int, towards: LineKey | None = None) -> str | None:
        """The nearest source upstream of a step shown at no version; with `towards`, on the path to that source."""
        graph = self.graph
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
