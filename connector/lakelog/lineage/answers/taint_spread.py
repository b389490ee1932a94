"""How taint spreads over the histories of lines: which snapshots were made from wrong rows, and which hold such rows.

A batch is tainted if it read a range of snapshots with a tainted one in it, or a state that holds tainted rows. An
update or a merge of a table that holds tainted rows is tainted too: its rows are made from them. A snapshot holds what
the snapshots before it held, except what it takes out as a whole: all rows, or those of partitions. Which rows are
deleted, updated or overwritten one by one is not known, so that clears nothing, unless a user has declared the table
mended.

A statement through a log takes out what its base held: rows that others have written since are still in the table.

The merge of a branch takes the rows that the branch has and did not have at the base: what the branch itself has taken
out as a whole does not come into the table.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Sequence

from lakelog.filestore.metadata.origins import Change, Cleared, Clearing, LineKey, TableVersion, WrongSnapshot
from lakelog.lineage.answers.taint_reads import TaintRead, begun_reads, reads_of
from lakelog.lineage.lines.line_history import LineHistories
from lakelog.lineage.lines.line_nodes import LineNodes, Node
from lakelog.lineage.lines.lines import Step

Held = frozenset[bytes | None]
"""The partitions with tainted rows, serialized; None stands for rows of which no partition is known."""

PartitionsOf = Callable[[LineKey, Step], Held]
CLEAN: Held = frozenset()
ANYWHERE: Held = frozenset({None})
BEFORE_ALL = -1  # in place of a node: a snapshot before all known ones
_REWRITES = frozenset({"MERGE", "UPDATE"})


class Spread:
    """How the taint of one snapshot spreads. `partitions` gives those that a step writes rows to."""

    def __init__(self, histories: LineHistories, partitions: PartitionsOf) -> None:
        self._histories = histories
        self._partitions = partitions
        self._order = histories.order()
        self._place = {node: place for place, node in enumerate(self._order)}
        self._line_of: dict[int, LineKey] = {}
        self._reads: dict[int, list[TaintRead]] = {}
        self._begun: dict[int, list[TaintRead]] = {}  # what was read before the first known snapshots
        for line in histories.lines.values():
            self._take(line)
        self._has_partitions = any(one.how is Clearing.PARTITIONS for node in histories.nodes for one in node.cleared)
        self._restored = {node: self._target(node) for node in self._order}
        self._stayed: dict[int, Held] = {}  # in this pass, by node: what was written after the base of a statement
        self._all_before: dict[int, set[int]] = {}
        self._wrong: WrongSnapshot | None = None
        self.written: set[int] = set()  # nodes with tainted batches
        self.held: list[Held] = [CLEAN] * len(histories.nodes)

    def spread(self, start: int, wrong: WrongSnapshot) -> None:
        """Taint a node, and everything made from it, until nothing more is tainted. `wrong` is how mends name it."""
        self._wrong = wrong
        self.written.add(start)
        while self._pass():
            pass

    def _pass(self) -> bool:
        """Go over all nodes once; returns whether anything has changed."""
        is_changed = False
        self._stayed.clear()
        for at in self._order:
            node = self._histories.nodes[at]
            before = self._before(at, node)
            kept = self._kept(at, node, before)
            if at not in self.written and self._is_tainted(at, node, before, kept):
                self.written.add(at)
                is_changed = True
            held = kept | self._added(at, node) if at in self.written else kept
            is_changed = is_changed or held != self.held[at]
            self.held[at] = held
        return is_changed

    def _before(self, at: int, node: Node) -> Held:
        """What a node has before it adds rows: from the nodes before it, or from the state that it brings back."""
        if node.step.change is Change.TAKEN and node.step.restored is None:
            return CLEAN
        if self._restored[at] is None:
            return self._followed(at, node)
        return self._brought_back(at) | self._stays_behind(at, node)

    def _stays_behind(self, at: int, node: Node) -> Held:
        """What was written between the base of a restore through a log and the restore."""
        return CLEAN.union(*(self._stays(at, node, event) for event in node.cleared if event.how is Clearing.RESTORE))

    def _followed(self, at: int, node: Node) -> Held:
        """What the nodes before a node held."""
        held = CLEAN.union(*(self.held[one] for one in node.before))
        return held | ANYWHERE if self._are_read(self._begun.get(at, ())) else held

    def _brought_back(self, at: int) -> Held:
        """What the restored state held, or the state at which a branch that is taken as a whole began."""
        target = self._restored[at]
        if target == BEFORE_ALL:
            first = self._histories.lines[self._line_of[at]].chain[0]
            return ANYWHERE if self._are_read(self._begun.get(first, ())) else CLEAN
        return CLEAN if target is None else self.held[target]

    def _kept(self, at: int, node: Node, before: Held) -> Held:
        """The part of `before` that stays."""
        if node.step.replaces_all or not before:
            return CLEAN
        for event in node.cleared:
            if event.how is Clearing.MENDED and any(map(self._is_wrong, event.mended)):
                return CLEAN
            if event.how is Clearing.ALL:
                before = self._stays(at, node, event)
            elif event.how is Clearing.PARTITIONS:
                before = (before - event.partitions) | self._stays(at, node, event)
        return before

    def _stays(self, at: int, node: Node, event: Cleared) -> Held:
        """What a statement does not take out: what was written after its base; everything if that is not known."""
        if event.base is None:
            return CLEAN
        if at not in self._stayed:
            number, commit = event.base
            nodes = self._histories.between(node.before, TableVersion(snapshot_id=number, commit=commit))
            is_known = number > 0 and len({self._id(one) for one in nodes}) == self._id(at) - 1 - number
            reached = {before for one in (*nodes, at) for before in self._histories.nodes[one].before}
            bases = (self._histories.nodes[one].step.version for one in reached if self._id(one) == number)
            is_known = is_known and all(base.commit in {None, commit} for base in bases)
            found = self._written_since(nodes, node.before, number)
            self._stayed[at] = found if is_known else self._followed(at, node)
        return self._stayed[at]

    def _is_wrong(self, named: WrongSnapshot) -> bool:
        """Whether this is the snapshot whose taint spreads."""
        asked = self._wrong
        if asked is None or (named.uuid, named.snapshot_id) != (asked.uuid, asked.snapshot_id):
            return False
        if named.commit is None or asked.commit is None:
            return named.branch == asked.branch
        return named.commit == asked.commit  # a branch and its table may both have the commit

    def _is_tainted(self, at: int, node: Node, before: Held, kept: Held) -> bool:
        step = node.step
        if self._are_read(self._reads.get(at, ())) or (kept and self._are_read(self._begun.get(at, ()))):
            return True
        if step.change in {Change.RESTORE, Change.TAKEN}:  # rows that were taken out may come back
            return self._restored[at] is not None and bool(self._brought_back(at))
        if node.may_restore and any(self.held[one] for one in self._ancestors(at)):
            return True
        is_rewrite = step.operation in _REWRITES or not node.is_known  # edges do not say what the step did
        return bool(before) and step.changes_rows and is_rewrite

    def _ancestors(self, at: int) -> set[int]:
        """All nodes that a node came after, at any distance: a restore may have brought back what one of them held."""
        if at not in self._all_before:
            self._all_before[at] = self._histories.between(self._histories.nodes[at].before, None)
        return self._all_before[at]

    def _added(self, at: int, node: Node) -> Held:
        """Where a tainted node has put its rows."""
        if not self._has_partitions or not node.step.is_living:
            return ANYWHERE
        return self._partitions(self._line_of[at], node.step)

    def _are_read(self, reads: Iterable[TaintRead]) -> bool:
        return any(
            (read.of_changes and not read.nodes.isdisjoint(self.written))
            or (read.of_states and any(self.held[node] for node in read.nodes))
            or (read.ends and self._written_since(read.nodes, read.ends, read.base))
            for read in reads
        )

    def _written_since(self, nodes: Collection[int], ends: Sequence[int], base: int) -> Held:
        """What `nodes` wrote after the state with the number `base`, as far as the `ends` hold it."""
        if self.written.isdisjoint(nodes):
            return CLEAN
        held: dict[int, Held] = {}
        for at in sorted(nodes, key=self._place.__getitem__):
            node, target = self._histories.nodes[at], self._restored[at]
            if target is None:
                before = CLEAN.union(*(held.get(one, CLEAN) for one in node.before))
            elif target in held or (target != BEFORE_ALL and self._id(target) == base):
                before = held.get(target, CLEAN) | self._stays_behind(at, node)
            else:
                before = self._before(at, node)
            held[at] = self._kept(at, node, before)
            if at in self.written and node.step.change is not Change.RESTORE:
                held[at] |= self._added(at, node)
        return CLEAN.union(*(held.get(end, CLEAN) for end in ends))

    def _take(self, line: LineNodes) -> None:
        for at in (*line.chain, *line.gone):
            if at not in self._line_of:
                self._line_of[at] = line.line.key
                step = self._histories.nodes[at].step
                self._reads[at] = list(reads_of(self._histories, at, step))
        if line.chain and line.began is None:
            self._begun[line.chain[0]] = list(begun_reads(self._histories, line))

    def _target(self, at: int) -> int | None:
        """The node whose rows a restore brings back, or at which a branch that is taken as a whole began."""
        step = self._histories.nodes[at].step
        if step.restored is None or step.change not in {Change.RESTORE, Change.TAKEN}:
            return None
        line = self._histories.lines[self._line_of[at]]
        found = self._histories.find(line.line.key, step.restored)
        if found is not None or not line.chain:
            return found
        ids = [self._id(one) for one in line.chain]
        number = step.restored.snapshot_id
        if number in ids and step.change is Change.RESTORE:
            return None  # another commit now has the number
        older = bisect.bisect_right(ids, number) - 1
        return BEFORE_ALL if older < 0 else line.chain[older]

    def _id(self, node: int) -> int:
        return self._histories.nodes[node].step.version.snapshot_id
