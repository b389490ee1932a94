"""All known snapshots that lines have ever had: a graph in which each snapshot refers to those that it came after.

A line is a chain of the snapshots that it has, oldest first. Beside the chain are the snapshots that it had, which only
edges name: they were rolled back or replaced by a branch. A branch comes after the snapshot of its table at which it
began, and a snapshot that a branch and its table both have is one node: a node is a commit, not a number.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from lakelog.filestore.metadata.origins import Cleared, LineKey, TableVersion
from lakelog.lineage.lines.expired import read_steps, rows_of, with_recorded_steps, written_steps
from lakelog.lineage.lines.line_nodes import OWN, Arrival, Arrivals, LineNodes, Node
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.edge_columns import FORK_OPERATION


class LineHistories:
    """The histories of lines, with the snapshots that edges name. Main lines must come before their branches."""

    def __init__(self, lines: Sequence[Line], edges: EdgeArrays) -> None:
        self.nodes: list[Node] = []
        self.lines: dict[LineKey, LineNodes] = {}
        self._by_commit: dict[tuple[str, int, str], int] = {}
        self._edges = edges
        for line in sorted(lines, key=lambda one: one.key.branch is not None):
            found = self.lines[line.key] = self._chain(line)
            if line.key.branch is None:
                chain = {version.snapshot_id: version.commit for version in map(self._version, found.chain)}
                found.arrivals = Arrivals.of(line.key, edges.edges, lines, chain)
            self._beside(found)
        for found in self.lines.values():
            self._widen(found)
            self._join(found)

    def order(self) -> list[int]:
        """All nodes, each after those that it came after."""
        found: dict[int, None] = {}
        for first in range(len(self.nodes)):
            waiting = [first]
            while waiting:
                before = [one for one in self.nodes[waiting[-1]].before if one not in found and one not in waiting]
                if before:
                    waiting.append(before[0])
                else:
                    found.setdefault(waiting.pop())
        return list(found)

    def find(self, key: LineKey, version: TableVersion) -> int | None:
        """The node of a snapshot of a line. A branch also has the snapshots of its table that it began with."""
        line = self.lines[key]
        found = line.find(version)
        if found is None and version.commit is not None:
            found = self._by_commit.get((key.uuid, version.snapshot_id, version.commit))
        main = self.lines.get(LineKey(key.uuid))
        if found is None and main is not None and line.began is not None:
            is_before = version.snapshot_id <= self._version(line.began).snapshot_id
            found = main.find(version) if is_before else None
        return found

    def read_up_to(self, key: LineKey, version: TableVersion | None, time_millis: int) -> list[int]:
        """The node of a version; if that is not known, the last nodes that were there before it, at a time."""
        line = self.lines[key]
        found = None if version is None else self.find(key, version)
        if found is not None:
            return [found]
        below = None if version is None else version.snapshot_id
        return self._newest(line, below, time_millis)

    def between(self, ends: Sequence[int], start: TableVersion | None) -> set[int]:
        """The nodes from `ends` back to a snapshot, exclusive; all nodes if `start` is None.

        All nodes, too, if the line has another commit under the snapshot's number: it was rolled back below it.
        """
        first = 0 if start is None else start.snapshot_id
        found: set[int] = set()
        last: set[str | None] = set()
        waiting = list(ends)
        while waiting:
            node = waiting.pop()
            version = self._version(node)
            if version.snapshot_id == first:
                last.add(version.commit)
            if node not in found and version.snapshot_id > first:
                found.add(node)
                waiting += self.nodes[node].before
        if start is not None and start.commit is not None and last and last.isdisjoint({None, start.commit}):
            return self.between(ends, None)
        return found

    def later(self, key: LineKey, nodes: Sequence[int], time_millis: int) -> list[int]:
        """The newest nodes of a line at a time that came after one of these."""
        newest = self._newest(self.lines[key], None, time_millis)
        return [one for one in newest if not self.between([one], None).isdisjoint(nodes)]

    def _chain(self, line: Line) -> LineNodes:
        found = LineNodes(line)
        if line.began is None:
            self._begin(found)
        newest: Step | None = None
        earlier = {step.version.snapshot_id: step for step in line.earlier}
        own = [step for step in with_recorded_steps(line) if step.version.snapshot_id not in earlier]
        for step in sorted((*earlier.values(), *own), key=lambda one: one.version.snapshot_id):
            node = self._node(line.key, step)
            last = found.chain[-1] if found.chain else found.began
            self._follow(node, last, is_sure=newest is not None and _is_next_living(newest, step))
            found.chain.append(node)
            found.put(step.version, node)
            newest = step
        if line.began is not None:
            found.began = found.find(line.began)
        for event in self._events(found.chain):
            at = found.find(TableVersion(snapshot_id=event.snapshot_id, commit=event.commit))
            if at is not None and event not in self.nodes[at].cleared:
                self.nodes[at].cleared.append(event)
        return found

    def _follow(self, at: int, before: int | None, *, is_sure: bool) -> None:
        """Let a node follow another one. What only edges know of a line may come from a replaced snapshot."""
        node = self.nodes[at]
        if before is not None and before != at and (not node.before or (is_sure and not node.follows_living)):
            node.before, node.follows_living = (before,), is_sure

    def _begin(self, line: LineNodes) -> None:
        """Begin a branch of another engine, or a deleted branch, where an edge says that it began."""
        main = self.lines.get(LineKey(line.line.key.uuid))
        for row in rows_of(self._edges, line.line.key, "sink") if main is not None else ():
            if row["operation"] == FORK_OPERATION:
                version = TableVersion(snapshot_id=row["source_to"], commit=row["source_to_commit"])
                found = None if main is None else main.find(version)
                if found is not None:
                    line.began = found
                    line.put(version, found)

    def _events(self, chain: Sequence[int]) -> list[Cleared]:
        """What the snapshots of a chain have taken out, each once: snapshots that take nothing out repeat it."""
        texts = dict.fromkeys(self.nodes[node].step.cleared for node in chain)
        events = [event for text in texts for event in Cleared.parsed(text)]
        return list({(one.snapshot_id, one.commit, one.how): one for one in events}.values())

    def _node(self, key: LineKey, step: Step) -> int:
        """The node of a step: the node of its commit, if another line of the table already has it."""
        version = step.version
        name = None if version.commit is None else (key.uuid, version.snapshot_id, version.commit)
        found = None if name is None else self._by_commit.get(name)
        if found is not None:
            if not self.nodes[found].is_known or (step.is_living and not self.nodes[found].step.is_living):
                self.nodes[found].step, self.nodes[found].is_known = step, True
            return found
        self.nodes.append(Node(step))
        if name is not None:
            self._by_commit[name] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def _beside(self, line: LineNodes) -> None:
        """Add the nodes of a line that only edges name."""
        steps = [step for step in written_steps(self._edges, line.line.key) if line.find(step.version) is None]
        written = {(step.version.snapshot_id, step.version.commit) for step in steps}
        committed = {} if line.arrivals is None else line.arrivals.committed
        named = [
            step
            for step in read_steps(self._edges, line.line.key, committed)
            if line.find(step.version) is None and (step.version.snapshot_id, step.version.commit) not in written
        ]
        is_written = [*(True for _ in steps), *(False for _ in named)]
        both = sorted(zip([*steps, *named], is_written, strict=True), key=lambda one: _age(one[0]))
        for step, is_known in both:
            below = self._before(line, step, is_known=is_known)
            count_before = len(self.nodes)
            node = self._node(line.line.key, step)
            if node == count_before:
                self.nodes[node].is_known = is_known
                self.nodes[node].before = tuple(below)
            line.gone.append(node)
            line.put(step.version, node)
        self._fill_gaps(line)

    def _widen(self, line: LineNodes) -> None:
        """Let the nodes that the line had also follow all nodes that may have been between them and their predecessors.

        For nodes that edges name only as a source, the first reads are the only times: the nodes may be older. If
        numbers are still missing, snapshots were replaced that no edge names.
        """
        ids = Counter(self._version(at).snapshot_id for at in {*line.chain, *line.gone})
        newest = self._version(line.chain[-1]).snapshot_id if line.chain else math.inf
        for at in line.gone:
            node, number = self.nodes[at], self._version(at).snapshot_id
            last = max((self._version(one).snapshot_id for one in node.before), default=0)
            between = [one for one in line.gone if last < self._version(one).snapshot_id < number]
            was_there = [
                one
                for one in between
                if not self.nodes[one].is_known or self.nodes[one].step.time_millis <= node.step.time_millis
            ]
            node.before = tuple(dict.fromkeys((*node.before, *was_there)))
            last = max((self._version(one).snapshot_id for one in node.before), default=0)
            gave_way = number > newest or ids[number] > 1
            node.may_restore = gave_way and (not node.is_known or last < number - 1)

    def _join(self, line: LineNodes) -> None:
        """Join a branch and its table, if either has lost snapshots that came before those of the other."""
        main = self.lines.get(LineKey(line.line.key.uuid))
        if line is main or main is None:
            return
        if line.line.began is not None and line.chain and line.chain[0] not in main.chain:
            first = self.nodes[line.chain[0]]
            below = [node for one in (line, main) for node in self._before(one, first.step, is_known=True)]
            first.before = first.before if first.follows_living else tuple(dict.fromkeys((*first.before, *below)))
        last = 0
        for at in main.chain:  # what the branch has brought, and the expired part of it
            number, node = self._version(at).snapshot_id, self.nodes[at]
            if last < number - 1 and self._arrival(main, at, is_in_chain=True) != OWN:
                back = (next(self._back(one, number, node.step.time_millis), at) for one in (line.chain, line.gone))
                own = [one for one in back if last < self._version(one).snapshot_id < number]
                node.before = tuple(dict.fromkeys((*node.before, *own)))
            last = number

    def _fill_gaps(self, line: LineNodes) -> None:
        """Put snapshots with only a known number before those of the chain that follow a gap of numbers."""
        unknown = [node for node in line.gone if not self.nodes[node].is_known and node not in line.chain]
        ids = [self._version(node).snapshot_id for node in line.chain]
        for node in unknown:
            number = self._version(node).snapshot_id
            at = bisect.bisect_right(ids, number)
            if at < len(ids) and not (at and ids[at - 1] == number):
                after = self.nodes[line.chain[at]]
                after.before = (*after.before, node)

    def _before(self, line: LineNodes, step: Step, *, is_known: bool) -> list[int]:
        """The predecessors of a snapshot that the line had: more than one node if it is not known which."""
        number = step.version.snapshot_id
        found, is_sure = self._last(line, number, step.time_millis, are_known=not is_known)
        if found:
            return found[:1] if is_sure and is_known else found
        return [] if line.began is None or self._version(line.began).snapshot_id >= number else [line.began]

    def _newest(self, line: LineNodes, below: int | None, time_millis: int) -> list[int]:
        """The last nodes below a number that a line had at a time."""
        found, is_sure = self._last(line, below, time_millis, are_known=True)
        return found[:1] if is_sure else found

    def _last(self, line: LineNodes, below: int | None, time_millis: int, *, are_known: bool) -> tuple[list[int], bool]:
        """The last nodes below a number that a line had at a time, among those that it has and those that it had.

        The most likely comes first. It may be neither if a branch may have brought the node later: then earlier nodes
        may have been the last ones, too. The same holds for a node that edges name only as a source, whose time is that
        of the first read: others may have followed it.
        """
        found: list[int] = []
        is_sure = True
        for nodes in (line.chain, line.gone):
            lowest = max((self._version(one).snapshot_id for one in found), default=0)
            for node in self._back(nodes, below, time_millis):
                if not self.nodes[node].is_known and (are_known or self._version(node).snapshot_id <= lowest):
                    continue
                arrival = self._arrival(line, node, is_in_chain=nodes is line.chain)
                if time_millis < arrival.not_before:
                    continue
                found.append(node)
                if self.nodes[node].is_known and arrival.since is not None and arrival.since <= time_millis:
                    break
                is_sure = False
        return sorted(found, key=self._age, reverse=True), is_sure

    def _arrival(self, line: LineNodes, node: int, *, is_in_chain: bool) -> Arrival:
        """When a line got a node."""
        return OWN if line.arrivals is None else line.arrivals.find(self._version(node), is_in_chain=is_in_chain)

    def _back(self, nodes: Sequence[int], below: int | None, time_millis: int) -> Iterator[int]:
        """The nodes of a line below a number that were there at a time, from the last one back."""
        for node in reversed(nodes):
            step = self.nodes[node].step
            if step.time_millis <= time_millis and (below is None or step.version.snapshot_id < below):
                yield node

    def _version(self, node: int) -> TableVersion:
        return self.nodes[node].step.version

    def _age(self, node: int) -> tuple[int, int]:
        return _age(self.nodes[node].step)


def _is_next_living(before: Step, step: Step) -> bool:
    """Whether two steps of a line live and no other step can be between them."""
    return before.is_living and step.is_living and before.version.snapshot_id == step.version.snapshot_id - 1


def _age(step: Step) -> tuple[int, int]:
    return step.time_millis, step.version.snapshot_id
