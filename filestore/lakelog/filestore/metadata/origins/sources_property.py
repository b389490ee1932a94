"""The property `lakelog.sources` of a new snapshot: what its rows come from, see `origins.row_sources`. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lakelog.filestore.metadata.origins.record import (
    CommittedBatch,
    LineKey,
    ReadMode,
    TableSource,
    TableVersion,
    readable_batches,
)
from lakelog.filestore.metadata.origins.restored import carried_sources
from lakelog.filestore.metadata.origins.row_history import RowHistory, Versions
from lakelog.filestore.metadata.origins.row_sources import STATEMENTS, Break, Reason, RowSource, RowSources, WriterName
from lakelog.filestore.metadata.origins.row_steps import TAKES_BRANCH, Change, RowBatch, RowStep, row_step
from lakelog.filestore.metadata.snapshots.snapshot import RESTORE_OPERATION, Snapshot
from lakelog.filestore.metadata.snapshots.users import CarriedProperties, PropertyKey, deleted_origins

READERS_MAX = 64  # of one source: each commit copies them
_BRINGS_STATE = TAKES_BRANCH | {RESTORE_OPERATION}


def sources_property(
    snapshot: Snapshot,
    before: Snapshot | None,
    carried: CarriedProperties,
    *,
    own: LineKey,
    is_restore: bool,
    replaces_all: bool,
) -> dict[str, str]:
    """The property of a new snapshot after `before`, which carries on `carried`.

    The snapshot of a restore has the property of the older snapshot whose rows it brings back, or of a branch that it
    takes over as a whole. `own` is its line, `replaces_all` says that it has no earlier row. Raises CorruptDataError.
    """
    found = RowSources.of(snapshot.properties) if is_restore else carried_sources(carried)
    committed = [one for one in readable_batches(snapshot) if not is_restore or not _brings_state(one)]
    all_batches = [*committed, *(brought for one in committed for brought in one.lineage.brought)]
    batches = [RowBatch.of(one, one.lineage.sources) for one in all_batches]
    if found is None:
        tables = [one for batch in batches for one in batch.sources if isinstance(one, TableSource) and one.line != own]
        if not tables:
            return {}
        found = RowSources(is_complete=all(one.start is None for one in tables))
    step = row_step(RowStep, snapshot, before, batches, replaces_all=lambda _: replaces_all)
    if is_restore:
        step = replace(step, change=Change.BATCHES, changes_rows=False)
    history = RowHistory(own, found, _NamedVersions())
    history.take(step)
    deleted = deleted_origins(snapshot.properties)
    for key, source in history.state.sources.items():
        if deleted:
            _drop_settled(history, key, deleted)
        _limit(source)
    return {PropertyKey.SOURCES: history.state.to_json()}


def _brings_state(batch: CommittedBatch) -> bool:
    return batch.lineage.operation in _BRINGS_STATE


def _limit(source: RowSource) -> None:
    """Drop the readers that have not read for the longest time, of many jobs that ran once."""
    while len(source.readers) > READERS_MAX:
        oldest = min(source.readers, key=lambda one: source.readers[one].snapshot_id)
        del source.readers[oldest]
        newest = max(one.snapshot_id for one in source.readers.values())
        source.broken = source.broken or Break(newest, Reason.MIXED, f"more than {READERS_MAX} jobs have read it")


def _drop_settled(history: RowHistory, key: LineKey, deleted: Collection[str]) -> None:
    """Drop the readers of deleted branches that are settled: they do not read on, so others replace them.

    A reader that continues counts as begun where the first of them began.
    """
    source = history.state.sources[key]
    for name in sorted(source.readers, key=lambda one: source.readers[one].snapshot_id):
        older = source.readers[name]
        others = (one for one in source.readers if history.is_settled(key, source, name, one, deleted))
        other = next(others, None) if name != STATEMENTS and source.writer(name).origin in deleted else None
        if other is not None:
            newer = source.readers[other]
            if history.is_continued(key, source, name, other):
                source.readers[other] = replace(newer, since=older.since)
            del source.readers[name]


class _NamedVersions(Versions):
    """Snapshots as the record of a commit names them: it reads nothing else of the sources."""

    def is_same(self, source: LineKey, mode: ReadMode, one: TableVersion | None, other: TableVersion | None) -> bool:  # noqa: ARG002
        """Whether the two are one commit, as far as that is recorded."""
        if one is None or other is None:
            return one is other
        is_known = one.commit is not None and other.commit is not None
        return one.snapshot_id == other.snapshot_id and (not is_known or one.commit == other.commit)

    def number(self, source: LineKey, mode: ReadMode, version: TableVersion) -> int:  # noqa: ARG002
        """Its own number."""
        return version.snapshot_id

    def unseen(self, source: LineKey, writer: WriterName, start: TableVersion, end: TableVersion) -> str | None:
        """Not known."""
