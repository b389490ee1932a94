"""How taint spreads over the histories of lines: which snapshots were made from wrong rows, and which hold such rows.

A batch is tainted that read a range of snapshots with a tainted one in it, or a state that holds tainted rows. So is an
update or a merge of a table that holds some: its rows are made from them. A snapshot holds what those before it held,
but for what it takes out as a whole: all rows, or those of partitions. Rows that are deleted, updated or written over
one by one are not known, so they clear nothing, unless a person has said that the table is mended.

The merge of a branch takes the rows that the branch has, and did not have at the base: what the branch itself has taken
out as a whole does not come into the table.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakelog.filestore.metadata.cleared_rows import How, WrongSnapshot
from lakelog.filestore.metadata.row_sources import ORIGIN_MARK, LineKey
from lakelog.lineage.line_history import LineHistories, LineNodes, Node
from lakelog.lineage.lines import Change, LineBatch, Step, source_key
from lakelog.lineage.record import ReadMode, TableSource

Held = frozenset[bytes | None]
"""The partitions with tainted rows, serialized; None stands for rows of which no partition is known."""

PartitionsOf = Callable[[LineKey, Step], Held]
CLEAN: Held = frozenset()
ANYWHERE: Held = frozenset({None})
BEFORE_ALL = -1  # in the place of a node: a snapshot before all that are known
_REWRITES = frozenset({"MERGE", "UPDATE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What a batch has read: the rows that snapshots wrote, and with `of_states` those that they hold.

    With `ends` it is the difference of two states: what the snapshots wrote, as far as these hold it. `base` is the
    number of the older state.
    """

    nodes: frozenset[int]
    of_changes: bool = False
    of_states: bool = False
    ends: Sequence[int] = ()
    base: int = 0


class Spread:
    """How the taint of one snapshot spreads. `partitions` are those that a step writes rows to."""

    def __init__(self, histories: LineHistories, partitions: PartitionsOf) -> None:
        self._histories = histories
        self._partitions = partitions
        self._order = histories.order()
        self._place = {node: place for place, node in enumerate(self._order)}
        self._line_of: dict[int, LineKey] = {}
        self._reads: dict[int, list[_Read]] = {}
        self._begun: dict[int, list[_Read]] = {}  # what was read before the first snapshots that are known
        for line in histories.lines.values():
            self._take(line)
        self._has_partitions = any(one.how is How.PARTITIONS for node in histories.nodes for one in node.cleared)
        self._restored = {node: self._target(node) for node in self._order}
        self._wrong: WrongSnapshot | None = None
        self.written: set[int] = set()  # nodes with tainted batches
        self.held: list[Held] = [CLEAN] * len(histories.nodes)

    def spread(self, start: int, wrong: WrongSnapshot) -> None:
        """Taint a node, and all that was made from it, until nothing more is tainted. `wrong` is how mends name it."""
        self._wrong = wrong
        self.written.add(start)
        while self._pass():
            pass

    def _pass(self) -> bool:
        """Go over all nodes once; whether anything has changed."""
        is_changed = False
        for at in self._order:
            node = self._histories.nodes[at]
            before = self._before(at, node)
            kept = self._kept(node, before)
            if at not in self.written and self._is_tainted(at, node, before, kept):
                self.written.add(at)
                is_changed = True
            held = kept | self._added(at, node) if at in self.written else kept
            is_changed = is_changed or held != self.held[at]
            self.held[at] = held
        return is_changed

    def _before(self, at: int, node: Node) -> Held:
        """What a node has before it adds rows: of the ones before it, or of the state that it brings back."""
        target, held = self._restored[at], CLEAN.union(*(self.held[one] for one in node.before))
        if self._are_read(self._begun.get(at, ())):
            held = held | ANYWHERE
        if node.step.change is Change.TAKEN and node.step.restored is None:
            return CLEAN
        if target == BEFORE_ALL:
            first = self._histories.lines[self._line_of[at]].chain[0]
            return ANYWHERE if self._are_read(self._begun.get(first, ())) else CLEAN
        return held if target is None else self.held[target]

    def _kept(self, node: Node, before: Held) -> Held:
        """What of that stays."""
        if node.step.replaces_all:
            return CLEAN
        for event in node.cleared:
            if event.how is How.ALL or (event.how is How.MENDED and any(map(self._is_wrong, event.mended))):
                return CLEAN
            if event.how is How.PARTITIONS:
                before = before - event.partitions
        return before

    def _is_wrong(self, named: WrongSnapshot) -> bool:
        """Whether this is the snapshot whose taint spreads."""
        asked = self._wrong
        if asked is None or (named.uuid, named.snapshot_id) != (asked.uuid, asked.snapshot_id):
            return False
        if named.commit is None or asked.commit is None:
            return named.branch == asked.branch
        return named.commit == asked.commit  # a branch and its table may both have it

    def _is_tainted(self, at: int, node: Node, before: Held, kept: Held) -> bool:
        step = node.step
        if self._are_read(self._reads.get(at, ())) or (kept and self._are_read(self._begun.get(at, ()))):
            return True
        if step.change in {Change.RESTORE, Change.TAKEN}:  # rows that were taken out may come back
            return bool(kept) and self._restored[at] is not None
        return bool(before) and step.changes_rows and step.operation in _REWRITES

    def _added(self, at: int, node: Node) -> Held:
        """Where a tainted node has put its rows."""
        if not self._has_partitions or not node.step.is_living:
            return ANYWHERE
        return self._partitions(self._line_of[at], node.step)

    def _are_read(self, reads: Iterable[_Read]) -> bool:
        return any(
            (read.of_changes and not read.nodes.isdisjoint(self.written))
            or (read.of_states and any(self.held[node] for node in read.nodes))
            or (read.ends and self._has_difference(read))
            for read in reads
        )

    def _has_difference(self, read: _Read) -> bool:
        """Whether the newer of two states holds tainted rows that were written since the older one."""
        if read.nodes.isdisjoint(self.written):
            return False
        held: dict[int, Held] = {}
        for at in sorted(read.nodes, key=self._place.__getitem__):
            node, target = self._histories.nodes[at], self._restored[at]
            if target is None:
                before = CLEAN.union(*(held.get(one, CLEAN) for one in node.before))
            elif target in held:
                before = held[target]
            else:
                is_base = target != BEFORE_ALL and self._id(target) == read.base
                before = CLEAN if is_base else self._before(at, node)
            held[at] = self._kept(node, before)
            if at in self.written and node.step.change is not Change.RESTORE:
                held[at] |= self._added(at, node)
        return any(held.get(end) for end in read.ends)

    def _take(self, line: LineNodes) -> None:
        for at in (*line.chain, *line.gone):
            if at not in self._line_of:
                self._line_of[at] = line.line.key
                step = self._histories.nodes[at].step
                self._reads[at] = list(self._reads_of(at, step))
        if line.chain and line.began is None:
            steps = [self._histories.nodes[at].step for at in line.chain]
            self._begun[line.chain[0]] = [
                read for source, step in _begun_before(steps) if (read := self._earlier(source, step)) is not None
            ]

    def _reads_of(self, at: int, step: Step) -> Iterator[_Read]:
        """What the batches of a step have read, a merged branch first.

        What the merge brings of the branch's own reads counts where the snapshots that have read it are not known.
        """
        seen: set[object] = set()
        for batch in sorted(step.batches, key=lambda one: one.merged is None):
            for source in _tables_of(batch):
                if source is not batch.merged and seen and seen.issuperset(_bounds_of(batch.user, source)):
                    continue
                read = self._read(at, step, source, batch)
                if read is not None:
                    yield read
                if read is not None and source is batch.merged:
                    nodes = read.nodes if read.ends else self._histories.between([*read.nodes], source.start)
                    seen = {bound for node in nodes for bound in self._bounds_read(node)}

    def _bounds_read(self, node: int) -> Iterator[object]:
        for batch in self._histories.nodes[node].step.batches:
            for source in _tables_of(batch):
                yield from _bounds_of(batch.user, source)

    def _read(self, at: int, step: Step, source: TableSource, batch: LineBatch) -> _Read | None:
        """What a batch has read of a source: a range of changes, or a state.

        What it has read up to is not known exactly everywhere: then it is all that was there.
        """
        key, histories = source_key(source), self._histories
        if key not in histories.lines:
            return None
        ends = histories.read_up_to(key, source.end, step.time_millis)
        ends = [end for end in ends if end != at] or list(histories.nodes[at].before if ends else ())
        is_merge = source is batch.merged and step.change is not Change.TAKEN
        if source.start is None or (source.mode is ReadMode.BATCH and not is_merge):
            return _Read(nodes=frozenset(ends), of_states=True)
        if not source.is_exact:
            ends = [*ends, *histories.later(key, ends, step.time_millis)]
        nodes = frozenset(histories.between(ends, source.start))
        if is_merge:
            return _Read(nodes=nodes, ends=ends, base=source.start.snapshot_id)
        return _Read(nodes=nodes - {at}, of_changes=True)

    def _earlier(self, source: TableSource, step: Step) -> _Read | None:
        """What a stream may have read before its first known batch: all that its source had."""
        key, histories = source_key(source), self._histories
        if key not in histories.lines or (source.mode is ReadMode.STREAM and source.start is None):
            return None
        last = source.start if source.mode is ReadMode.STREAM else source.end
        ends = histories.read_up_to(key, last, step.time_millis)
        return _Read(nodes=frozenset(histories.between(ends, None)), of_changes=True, of_states=True)

    def _target(self, at: int) -> int | None:
        """The node whose rows a restore brings back, or at which a branch began that is taken as a whole."""
        step = self._histories.nodes[at].step
        if step.restored is None or step.change not in {Change.RESTORE, Change.TAKEN}:
            return None
        line = self._histories.lines[self._line_of[at]]
        found = line.find(step.restored)
        if found is not None or not line.chain:
            return found
        ids = [self._id(one) for one in line.chain]
        number = step.restored.snapshot_id
        if number in ids and step.change is Change.RESTORE:
            return None  # another commit has the number now
        older = bisect.bisect_right(ids, number) - 1
        return BEFORE_ALL if older < 0 else line.chain[older]

    def _id(self, node: int) -> int:
        return self._histories.nodes[node].step.version.snapshot_id


def _tables_of(batch: LineBatch) -> Iterator[TableSource]:
    """The tables that a batch reads."""
    yield from (source for source in batch.read if isinstance(source, TableSource))


def _bounds_of(user: str, source: TableSource) -> tuple[object, object]:
    """The first and the last version that a user has read, without the branch that has brought the user."""
    named = user.rpartition(ORIGIN_MARK)[0] or user, source_key(source), source.mode
    return (*named, "from", source.start), (*named, "to", source.end)


def _begun_before(steps: Sequence[Step]) -> Iterator[tuple[TableSource, Step]]:
    """What streams read in their first known batch, where their batches before it have expired unknown."""
    if steps[0].version.snapshot_id == 1:
        return
    seen: set[str] = set()
    for step in steps:
        is_brought = any(one.merged for one in step.batches)
        for batch in step.batches:
            if batch.user not in seen and batch.number and not is_brought:
                yield from ((source, step) for source in batch.sources if isinstance(source, TableSource))
            seen.add(batch.user)
