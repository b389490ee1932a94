"""What a branch brings into its table: the reads of its batches, joined by reader, for the commit of the merge.

With that, the branch may be deleted and its snapshots may expire. What does not fit, and what is not known, becomes an
unknown source of the merge: then the table shows its sources at no version. Pure but for `lineage_of_branch`, which
reads the living snapshots of the branch. Source: docs/rfcs/0039-snapshot-lineage.md, "What a branch brings".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from lakelog.common.quoting import cause, cut
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.origins import (
    ORIGIN_MARK,
    BatchLineage,
    Change,
    CommittedBatch,
    ForeignSource,
    LineKey,
    ReadMode,
    RowBatch,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
)
from lakelog.filestore.metadata.snapshots import MERGED_PREFIX
from lakelog.filestore.schema import line_name
from lakelog.lineage.answers.brought_fields import with_fields_of_branch
from lakelog.lineage.lines.expired import ExpiredSteps, with_expired_steps
from lakelog.lineage.lines.line_graph import read_line
from lakelog.lineage.lines.lines import Step
from lakelog.lineage.lines.versions import LineVersions
from lakelog.lineage.records.best_effort import known_or
from lakelog.lineage.records.sources import source_of_table, version_of
from lakelog.lineage.tables.found_tables import line_key
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables import TakenBranch

SOURCES_MAX = 200  # that a merge records, in the header of each of its transactions
_WHY_MAX = 500


class ReadKey(NamedTuple):
    """One read of a user's batches: line and mode, or format and name; and a number that distinguishes equal reads."""

    source: LineKey | tuple[str, str | None]
    mode: ReadMode | None
    number: int


@dataclass(slots=True)
class Reads:
    """What a user's batches have read. Consecutive reads are joined into one."""

    job: str | None = None
    number: int | None = None
    found: dict[ReadKey, list[Source]] = field(default_factory=dict)


@dataclass(slots=True)
class Brought:
    """What steps after a base have brought, by user.

    `is_anew` says that what was there before was overwritten. `unknown` says what is not known.

    `left` has the users whose rows were removed by an overwrite or a restore. `is_alone` adds all unknown users: the
    rows of the table that the branch began with were overwritten. `read_to` is how far reads were at the base.
    """

    reads: dict[str, Reads] = field(default_factory=dict)
    read_to: dict[str, dict[ReadKey, TableVersion | None]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    is_alone: bool = False
    is_anew: bool = False
    unknown: str | None = None

    @property
    def users(self) -> set[str]:
        """The users with rows."""
        return {*self.reads, *self.read_to}

    def at_base(self) -> Brought:
        """The state of a base, after which nothing is brought yet."""
        read_to = {user: dict(ends) for user, ends in self.read_to.items()}
        for user, reads in self.reads.items():
            ends = read_to.setdefault(user, {})
            for key, parts in reads.found.items():
                last = parts[-1]
                ends[key] = last.end if isinstance(last, TableSource) else None
        return Brought(read_to=read_to, left=set(self.left), is_alone=self.is_alone)

    def missed(self, why: str) -> None:
        """Note that the origin of rows is not known."""
        self.unknown = self.unknown or cut(why, _WHY_MAX)


def lineage_of_branch(taken: TakenBranch) -> Mapping[str, object]:
    """What the commit of a merge records. Unreadable lineage of a branch does not fail the merge: it is unknown."""
    name = taken.branch.name

    def unknown(error: Exception) -> BatchLineage:
        return BatchLineage(sources=(UnknownSource(why=f"{name}: {cause(error)}"),))

    return known_or(f"what {name} was made from is", lambda: _lineage_of(taken), unknown).to_json()


def _lineage_of(taken: TakenBranch) -> BatchLineage:
    branch, main = taken.branch, taken.main
    database = SystemDatabase.beside(main, warehouse_of(main.path))
    steps = with_expired_steps(read_line(line_key(branch), branch, ExpiredSteps([database]), name=branch.name)).steps
    missed = []
    if taken.is_whole and not taken.is_begin_known:
        missed.append("another engine made the branch, and did not record where it began")
    if taken.combines_rows:
        missed.append("rows that both have changed were merged column by column")
    found = merge_lineage(
        replace(source_of_table(branch, mode=ReadMode.BATCH), end=version_of(taken.snapshot), is_exact=True),
        steps,
        None if taken.base_id is None else TableVersion(snapshot_id=taken.base_id, commit=taken.base_commit),
        origin=None if taken.is_whole else taken.record.removeprefix(MERGED_PREFIX),
        missed=missed,
    )
    return with_fields_of_branch(found, taken)


def merge_lineage(
    branch: TableSource,
    steps: Sequence[Step],
    base: TableVersion | None,
    *,
    origin: str | None = None,
    missed: Sequence[str] = (),
) -> BatchLineage:
    """What a merge records about a branch with these steps, taken up to its `end`.

    `base` is the state since which changes are taken. Without an `origin`, which marks the users of the branch, the
    whole branch is taken, and `base` is the state at which it began. `missed` is what else is not known.
    """
    found = brought_by(steps_up_to(steps, branch.end), base, own=branch.line)
    if origin is not None and found.is_anew:
        found.missed("the branch was overwritten")
    batches = batches_of_reads(found, "" if origin is None else f"{ORIGIN_MARK}{origin}")
    if sum(len(batch.lineage.sources) for batch in batches) > SOURCES_MAX:
        found.missed(f"its batches have read more than {SOURCES_MAX} ranges and states of sources")
        batches = []
    for why in missed:
        found.missed(why)
    own = replace(branch, start=None if origin is None and found.is_anew else base)
    name = line_name(branch.table, branch.branch)
    unknown = [] if found.unknown is None else [UnknownSource(why=f"{name}: {found.unknown}")]
    return BatchLineage(sources=(own, *unknown), brought=batches)


def steps_up_to(steps: Sequence[Step], end: TableVersion | None) -> Sequence[Step]:
    """The steps of a branch up to the snapshot that is taken."""
    last = None if end is None else LineVersions(steps).position(end)
    return steps if last is None else steps[: last + 1]


def brought_by(steps: Sequence[Step], base: TableVersion | None, *, own: LineKey) -> Brought:
    """What the steps of a branch after a base have brought. A read of the branch itself is not a source.

    Steps before the base say whose rows the branch has at the base.
    """
    first = 0 if base is None else base.snapshot_id
    later = [step for step in steps if step.version.snapshot_id > first]
    earlier = steps[: len(steps) - len(later)]
    before = _run(Brought(), earlier, {step.version: Brought() for step in earlier[:1]}, own)
    found = before.at_base()
    living = next((step.version.snapshot_id for step in later if step.is_living), None)
    if living is not None and living == later[0].version.snapshot_id and living > first + 1:
        found.missed(f"its snapshots {first + 1} to {living - 1} have expired, and were not fed")
    return _run(found, later, {} if base is None else {base: copy.deepcopy(found)}, own)


def _run(found: Brought, steps: Sequence[Step], kept: dict[TableVersion, Brought], own: LineKey) -> Brought:
    restored = {step.restored for step in steps if step.restored is not None}
    for step in steps:
        found = _taken(found, step, kept, own)
        if step.version in restored:
            kept[step.version] = copy.deepcopy(found)
    return found


def _taken(before: Brought, step: Step, kept: Mapping[TableVersion, Brought], own: LineKey) -> Brought:
    """What is brought after a step."""
    found, number = before, step.version.snapshot_id
    match step.change:
        case Change.NOTHING:
            return found
        case Change.BY_HAND | Change.FOREIGN | Change.TAKEN:
            found.missed(f"{step.operation} in its snapshot {number}, whose sources are not recorded")
        case Change.RESTORE:
            target = None if step.restored is None else kept.get(step.restored)
            if target is None:
                found.missed(f"its snapshot {number} restores a state of which nothing is known")
                found.left |= found.users
                found.is_alone = True
            else:
                found = copy.deepcopy(target)
                found.left = (found.left | before.left | before.users) - found.users
        case Change.OVERWRITE if not any(_keeps_rows(one, own) for batch in step.batches for one in batch.sources):
            found = Brought(left=before.left | before.users, is_alone=True, is_anew=True)
    for batch in step.batches:
        if not batch.sources and step.changes_rows:
            found.missed(f"{step.operation} in its snapshot {number}, whose sources are not recorded")
        _take_batch(found, batch, own)
    return found


def _keeps_rows(source: Source, own: LineKey) -> bool:
    """Whether an overwrite that reads this source may keep earlier rows."""
    return isinstance(source, UnknownSource) or (isinstance(source, TableSource) and source.line == own)


def _take_batch(found: Brought, batch: RowBatch, own: LineKey) -> None:
    has_left = batch.user in found.left or (found.is_alone and batch.user not in found.users)
    found.left.discard(batch.user)
    reads = found.reads.setdefault(batch.user, Reads())
    reads.job, reads.number = batch.job, batch.number
    counts: dict[tuple[object, ReadMode | None], int] = {}
    for source in batch.sources:
        if isinstance(source, UnknownSource):
            found.missed(source.why)
            continue
        named: LineKey | tuple[str, str | None]
        if isinstance(source, TableSource):
            named, mode = source.line, source.mode
        else:
            named, mode = (source.format, source.name), None
        if named == own:
            continue
        nth = counts[named, mode] = counts.get((named, mode), -1) + 1
        key = ReadKey(named, mode, nth)
        if isinstance(source, TableSource) and mode is ReadMode.STREAM:
            read_to = found.read_to.get(batch.user, {}).get(key, source.start)
            is_behind = key not in reads.found and read_to != source.start
            if is_behind or (has_left and source.start is not None):
                found.missed(f"writer {batch.user} read on behind rows that were overwritten, restored or never read")
        _add(reads.found.setdefault(key, []), source)


def _add(known: list[Source], source: Source) -> None:
    """Append a read to those of its reader, or join it with the last one if it begins where that one ends.

    The first read of a stream is not joined: it has read a state, and a joined read would not say after which version
    overwrites were passed.
    """
    last = known[-1] if known else None
    if isinstance(source, ForeignSource) and isinstance(last, ForeignSource):
        known[-1] = replace(last, end=source.end)
    elif isinstance(source, TableSource) and isinstance(last, TableSource):
        if source.mode is ReadMode.STREAM and source.start == last.end and last.start is not None:
            known[-1] = replace(source, start=last.start, log=None)
        elif source.mode is ReadMode.STREAM or source.end != last.end or source.start != last.start:
            known.append(replace(source, log=None))
    else:
        known.append(replace(source, log=None) if isinstance(source, TableSource) else source)


def batches_of_reads(found: Brought, suffix: str) -> list[CommittedBatch]:
    """The reads as batches: for each user as many as its longest read has parts. Users get the suffix."""
    batches: list[CommittedBatch] = []
    for user, reads in found.reads.items():
        rounds = max(map(len, reads.found.values()), default=0)
        lengths: dict[tuple[object, ReadMode | None], set[int]] = {}
        for key, parts in reads.found.items():
            lengths.setdefault((key.source, key.mode), set()).add(len(parts))
        if any(len(found_lengths) > 1 for found_lengths in lengths.values()):  # then the parts cannot be matched
            found.missed(f"writer {user} has read one source twice, and not the same ranges")
        for nth in range(rounds):
            sources = [parts[nth] for parts in reads.found.values() if len(parts) > nth]
            number = None if reads.number is None else max(reads.number - rounds + 1 + nth, 0)
            lineage = BatchLineage(job=reads.job, batch_id=number, sources=sources)
            batches.append(CommittedBatch(user=f"{user}{suffix}", identifier=nth, lineage=lineage))
    return batches
