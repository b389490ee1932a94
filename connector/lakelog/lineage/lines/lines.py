"""The line of a table as its versions need it: for each snapshot, what it does to the rows, and its batches.

Expired snapshots are in the line as far as edges name them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakelog.filestore.metadata.origins import ORIGIN_MARK, LineKey, RowSources
from lakelog.filestore.metadata.snapshots import MERGE_OPERATION, SOURCES_KEY, BranchVerb
from lakelog.filestore.metadata.tables import PROTECTING_PREFIX, TableStore
from lakelog.filestore.read import Visible
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.records.record import ReadMode, Source, TableSource, TableVersion
from lakelog.lineage.records.sources import uuid_of

_TAKES_BRANCH = frozenset(verb.value for verb in BranchVerb)


class Change(StrEnum):
    """What a snapshot does to what its table shows of its sources."""

    NOTHING = "nothing"
    BATCHES = "batches"  # it takes in batches, beside what was there
    OVERWRITE = "overwrite"  # its batches replace all rows
    BY_HAND = "by hand"  # rows change, but the sources are not known
    FOREIGN = "foreign"  # the same, by another engine
    RESTORE = "restore"
    TAKEN = "taken"  # the rows become those of a branch


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBatch:
    """A whole batch. `number` is that of a micro-batch in its query; None for a statement, the only batch of its user.

    `merged` is the branch that it merges: what the branch has read is in other batches of the step.
    """

    user: str
    job: str | None
    number: int | None
    sources: Sequence[Source]
    merged: TableSource | None = None

    @property
    def writer(self) -> str:
        """The writer in words."""
        return named_writer(self.job, self.user)

    @property
    def read(self) -> Sequence[Source]:
        """The sources, including a merged branch."""
        return self.sources if self.merged is None else (*self.sources, self.merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One snapshot of a line.

    `restored` is the state that a restore brings back, None if it is not known; for a branch that is taken as a whole,
    the state at which it began, None if nothing of that is left.

    Without `changes_rows` it is the same version as the previous one. `is_whole` is False while it holds a partial
    batch. `is_unseen` says that streams of the table do not get its changes. Three members are what the snapshot itself
    records: `row_sources` is what its rows come from, `unseen` names the snapshots up to it whose changes streams do
    not get (both None if it does not record them), and `cleared` names the snapshots up to it that took rows out as a
    whole. `in_batch` is what a batch read of it shows, `in_stream` what streams up to it have; None means unknown.
    `replaces_all` says that it has no earlier row, whatever its batches read.
    """

    version: TableVersion
    time_millis: int
    change: Change
    changes_rows: bool = True
    operation: str = ""
    batches: Sequence[LineBatch] = ()
    is_whole: bool = True
    is_living: bool = True
    is_unseen: bool = False
    in_batch: Visible | None = None
    in_stream: Visible | None = None
    restored: TableVersion | None = None
    row_sources: str | None = None
    unseen: str | None = None
    replaces_all: bool = False
    cleared: str | None = None

    def recorded_sources(self) -> RowSources | None:
        """What the snapshot's rows come from, as the snapshot itself records. Raises CorruptDataError."""
        return None if self.row_sources is None else RowSources.of({SOURCES_KEY: self.row_sources})

    def records_gap(self, source: LineKey, reader: str) -> bool:
        """Whether the snapshot itself records a gap of a stream: the commits before it may have been rolled back."""
        recorded = self.recorded_sources()
        found = None if recorded is None else recorded.sources.get(source)
        state = None if found is None else found.readers.get(reader)
        return state is not None and state.broken is not None and state.broken.why == "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The known snapshots of a line, oldest first. `name` is the table's, `db.t` or `db.t$branch_b`.

    The first step of a branch is the snapshot of its table that it `began` at. `origins` has those of the branches that
    the table has: readers of other branches, which were merged, do not read on. `earlier` has the snapshots up to the
    beginning that the branch has but its table no longer has, if they were asked for.
    """

    key: LineKey
    name: str
    steps: Sequence[Step]
    began: TableVersion | None = None
    origins: frozenset[str] = frozenset()
    earlier: Sequence[Step] = ()

    def has_brought(self) -> bool:
        """Whether merged branches have brought readers."""
        mark = f"{ORIGIN_MARK}{PROTECTING_PREFIX}"
        return any(
            mark in (step.row_sources or "") or any(mark in batch.user for batch in step.batches) for step in self.steps
        )


def named_writer(job: str | None, user: str) -> str:
    """The writer of a batch in words."""
    return f"job {job}" if job is not None else f"writer {user}"


def line_key(table: TableStore) -> LineKey:
    """The key of an opened table or branch."""
    return LineKey(uuid_of(table), None if table.branch == MAIN_BRANCH else table.branch)


def source_key(source: TableSource) -> LineKey:
    """The key of a source."""
    return LineKey(source.uuid, None if source.branch == MAIN_BRANCH else source.branch)


def line_batch(
    user: str, job: str | None, number: int | None, sources: Sequence[Source], operation: str | None
) -> LineBatch:
    """A batch of a line; its operation says whether it merges a branch."""
    merged = None
    if operation == MERGE_OPERATION or operation in _TAKES_BRANCH:
        states = [one for one in sources if isinstance(one, TableSource) and one.mode is ReadMode.BATCH and one.branch]
        merged = states[-1] if states else None
    others = sources if merged is None else [one for one in sources if one is not merged]
    return LineBatch(user=user, job=job, number=number, sources=others, merged=merged)


def taken_branch(batches: Sequence[LineBatch], operations: Sequence[str | None]) -> TableSource | None:
    """The branch that one of the batches takes as a whole, according to their operations."""
    named = zip(batches, operations, strict=True)
    return next((one.merged for one, operation in named if operation in _TAKES_BRANCH and one.merged), None)
