"""What one commit does to the sources of the rows of its table, see `metadata.row_sources`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: parsed JSON

from lakelog.common.json_fields import COUNT, optional, parse_object, string, whole
from lakelog.common.quoting import cause, cut
from lakelog.filestore.metadata.row_changes import REPLACES_ROWS, changes_rows
from lakelog.filestore.metadata.row_sources import (
    STATEMENTS,
    ReaderState,
    ReadVersion,
    RowSource,
    RowSources,
    SourceBreak,
    SourceKey,
    carried_sources,
    objects_of,
    read_version,
    source_key_of,
)
from lakelog.filestore.metadata.snapshot import MERGE_OPERATION, RESTORE_OPERATION, BranchVerb, Snapshot
from lakelog.filestore.metadata.users import LINEAGE_KEY, SOURCES_KEY, CarriedProperties

DETAILS_MAX = 300  # characters
READERS_MAX = 64  # of one source: each commit copies them
_BRINGS_STATE = frozenset({RESTORE_OPERATION, *(verb.value for verb in BranchVerb)})


def sources_property(
    snapshot: Snapshot,
    before: Snapshot | None,
    carried: CarriedProperties,
    *,
    own: SourceKey,
    is_restore: bool,
    replaces_all: bool,
) -> dict[str, str]:
    """The property of a new snapshot behind `before`, which carries on what `carried` says.

    The snapshot of a restore has the property of the older one whose rows it brings back, or of a branch that it takes
    as a whole. `own` is its line, `replaces_all` says that no row from before is in it. Raises CorruptDataError.
    """
    found = RowSources.of(snapshot.properties) if is_restore else carried_sources(carried)
    batches = _batches_of(snapshot, is_restore=is_restore)
    if found is None:
        reads = [source for batch in batches for source in batch.sources if batch.reads_table(source, own)]
        if not reads:
            return {}
        found = RowSources(is_complete=not any("from" in source for source in reads))
    _Change(found, snapshot.id, snapshot.operation_name or snapshot.commit_kind.value, own).take(
        batches,
        is_changed=not is_restore and changes_rows(snapshot, before),
        is_recorded=LINEAGE_KEY in snapshot.properties,
        replaces_all=replaces_all and snapshot.operation_name in REPLACES_ROWS,
    )
    return {SOURCES_KEY: found.to_json()}


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch, whole or a part of it, as the snapshot records it. `number` None is a statement.

    `merge` says that it merges a branch, `is_brought` that it was one of the branch's.
    """

    user: str
    identifier: int
    job: str | None
    number: int | None
    sources: Sequence[Mapping[str, Any]]
    is_merge: bool = False
    is_brought: bool = False

    def reads_table(self, source: Mapping[str, Any], own: SourceKey) -> bool:
        """Whether a source is another table."""
        return source.get("kind") == "table" and source_key_of(source) != own


@dataclass(frozen=True, slots=True)
class _Change:
    """What one snapshot does to the sources of the rows."""

    found: RowSources
    snapshot_id: int
    operation: str
    own: SourceKey

    def take(self, batches: Sequence[_Batch], *, is_changed: bool, is_recorded: bool, replaces_all: bool) -> None:
        if is_changed and not is_recorded:
            self.found.break_all(self._break("changed", self.operation))
        known = [source for batch in batches for source in batch.sources]
        if (
            replaces_all
            and known
            and all(one.get("kind") != "unknown" and source_key_of(one) != self.own for one in known)
        ):
            self.found.sources.clear()
        for batch in batches:  # a merge behind what it brings: what it does not know breaks that too
            self._take_batch(batch, is_changed=is_changed)

    def _take_batch(self, batch: _Batch, *, is_changed: bool) -> None:
        numbers: Counter[tuple[SourceKey, str]] = Counter()
        for source in batch.sources:
            if batch.reads_table(source, self.own):
                read = source_key_of(source), string(source, "mode")
                self._read(batch, source, numbers[read])
                numbers[read] += 1
        why = next((one.get("why", "") for one in batch.sources if one.get("kind") == "unknown"), None)
        if why is not None:
            self.found.break_all(self._break("merged" if batch.is_merge else "unknown", str(why)))
        elif not batch.sources and is_changed and not batch.is_merge:
            self.found.break_all(self._break("changed", self.operation))

    def _read(self, batch: _Batch, read: Mapping[str, Any], number: int) -> None:
        source = self.found.sources.setdefault(source_key_of(read), RowSource(string(read, "table")))
        start, end = read_version(read, "from"), read_version(read, "to")
        mode = string(read, "mode")
        is_statement = mode != "stream" and batch.number is None
        name = STATEMENTS if is_statement else f"{mode} {number} {batch.user}"
        before = source.readers.get(name)
        state = ReaderState(snapshot_id=self.snapshot_id, last=end, batch=batch.identifier, job=batch.job)
        if before is not None:
            state.broken = before.broken
        if mode != "stream" and (end is None or start is not None):  # with a start these are changes, not a state
            source.broken = source.broken or self._break("unknown", str(read.get("why", "")))
            return
        if mode != "stream":
            if before is not None and not _is_same_version(before.last, end):
                state.broken = before.broken or self._break("mixed", f"{_named(before.last)}, then {_named(end)}")
        else:
            is_same = before is not None and before.batch == batch.identifier  # another part of the batch
            is_known = self.found.is_complete and not batch.is_brought  # that has begun in the branch
            has_begun = before is None and start is not None and bool(batch.number) and is_known
            if has_begun or (before is not None and not is_same and not _is_same_version(before.last, start)):
                was = "nothing" if before is None else _named(before.last)
                state.broken = state.broken or self._break("gap", f"read on from {_named(start)}, not from {was}")
            if read.get("exact") is not True or end is None:
                state.passing = self._break("inexact", str(read.get("why", "")))
        source.readers[name] = state
        if len(source.readers) > READERS_MAX:  # of many jobs that came once: what they show is not one version for long
            oldest = min(source.readers, key=lambda one: source.readers[one].snapshot_id)
            del source.readers[oldest]
            source.broken = source.broken or self._break("mixed", f"more than {READERS_MAX} jobs have read it")

    def _break(self, why: str, details: str) -> SourceBreak:
        return SourceBreak(self.snapshot_id, why, cut(details, DETAILS_MAX))


def _is_same_version(one: ReadVersion | None, other: ReadVersion | None) -> bool:
    if one is None or other is None:
        return one is other
    is_known = one.commit is not None and other.commit is not None
    return one.snapshot_id == other.snapshot_id and (not is_known or one.commit == other.commit)


def _named(version: ReadVersion | None) -> str:
    return "the beginning" if version is None else f"snapshot {version.snapshot_id}"


def _batches_of(snapshot: Snapshot, *, is_restore: bool) -> list[_Batch]:
    """The batches that a snapshot records, without the one of a restore; instead of a record that is not readable a
    batch of an unknown source."""
    text = snapshot.properties.get(LINEAGE_KEY)
    if text is None:
        return []
    found: list[_Batch] = []
    try:
        for fields in objects_of(parse_object(text), "batches"):
            operation = optional(string, fields, "operation")
            if is_restore and operation in _BRINGS_STATE:
                continue
            brought = objects_of(fields, "brought") if "brought" in fields else []
            found += [_batch_of(one, is_brought=True) for one in brought]
            found.append(_batch_of(fields, is_merge=operation == MERGE_OPERATION or operation in _BRINGS_STATE))
    except (KeyError, ValueError) as error:
        unknown = {"kind": "unknown", "why": f"its record is not readable: {cause(error)}"}
        return [_Batch(snapshot.commit_user, snapshot.commit_identifier, job=None, number=None, sources=[unknown])]
    return found


def _batch_of(fields: Mapping[str, Any], *, is_merge: bool = False, is_brought: bool = False) -> _Batch:
    sources = objects_of(fields, "sources") if "sources" in fields else []
    states = [one for one in sources if one.get("mode") == "batch" and "branch" in one]
    merged = states[-1] if is_merge and states else None
    return _Batch(
        user=string(fields, "user"),
        identifier=whole(fields, "identifier"),
        job=optional(string, fields, "job"),
        number=whole(fields, "batch", COUNT) if "batch" in fields else None,
        sources=[one for one in sources if one is not merged],
        is_merge=merged is not None,
        is_brought=is_brought,
    )
