"""What one commit does to the sources of the rows of its table, see `metadata.origins.row_sources`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: parsed JSON

from lakelog.common.json_fields import COUNT, objects, optional, parse_object, string, whole
from lakelog.common.quoting import cause, cut
from lakelog.filestore.metadata.origins.row_changes import REPLACES_ROWS, changes_rows
from lakelog.filestore.metadata.origins.row_sources import (
    STATEMENTS,
    STREAM,
    LineKey,
    ReaderState,
    ReadVersion,
    RowSource,
    RowSources,
    SourceBreak,
    WriterName,
    carried_sources,
    in_table,
    read_version,
    source_key_of,
)
from lakelog.filestore.metadata.snapshots.snapshot import MERGE_OPERATION, RESTORE_OPERATION, BranchVerb, Snapshot
from lakelog.filestore.metadata.snapshots.users import LINEAGE_KEY, SOURCES_KEY, CarriedProperties, deleted_origins

DETAILS_MAX = 300  # characters
READERS_MAX = 64  # of one source: each commit copies them
_BRINGS_STATE = frozenset({RESTORE_OPERATION, *(verb.value for verb in BranchVerb)})


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
    batches = _batches_of(snapshot, is_restore=is_restore)
    if found is None:
        reads = [read for batch in batches for read in batch.reads if read.key != own]
        if not reads:
            return {}
        found = RowSources(is_complete=all(read.start is None for read in reads))
    _Change(found, snapshot.id, snapshot.operation_name or snapshot.commit_kind.value, own).take(
        batches,
        is_changed=not is_restore and changes_rows(snapshot, before),
        is_recorded=LINEAGE_KEY in snapshot.properties,
        replaces_all=replaces_all and snapshot.operation_name in REPLACES_ROWS,
    )
    deleted = deleted_origins(snapshot.properties)
    for source in found.sources.values() if deleted else ():
        _settle(source, deleted)
    return {SOURCES_KEY: found.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What a batch reads of a table."""

    key: LineKey
    table: str
    is_stream: bool
    start: ReadVersion | None
    end: ReadVersion | None
    is_exact: bool
    why: str

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> _Read:
        """Parse it. Raises ValueError or KeyError."""
        return cls(
            key=source_key_of(fields),
            table=string(fields, "table"),
            is_stream=string(fields, "mode") == "stream",
            start=read_version(fields, "from"),
            end=read_version(fields, "to"),
            is_exact=fields.get("exact") is True,
            why=optional(string, fields, "why") or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch, or a part of it, as the snapshot records it. `number` None means a statement.

    `others` is the number of sources that are not tables, `unknown` the reason why one is unknown. `is_merge` says that
    the batch merges a branch, `is_brought` that it was a batch of the branch.
    """

    user: str
    identifier: int
    job: str | None = None
    number: int | None = None
    reads: Sequence[_Read] = ()
    others: int = 0
    unknown: str | None = None
    is_merge: bool = False
    is_brought: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any], *, is_merge: bool = False, is_brought: bool = False) -> _Batch:
        """Parse it. Raises ValueError or KeyError."""
        sources = objects(fields, "sources") if "sources" in fields else []
        reads = [_Read.of(one) for one in sources if one.get("kind") == "table"]
        states = [one for one in reads if not one.is_stream and one.key.branch is not None] if is_merge else []
        unknown = [optional(string, one, "why") or "" for one in sources if one.get("kind") == "unknown"]
        return cls(
            user=string(fields, "user"),
            identifier=whole(fields, "identifier"),
            job=optional(string, fields, "job"),
            number=whole(fields, "batch", COUNT) if "batch" in fields else None,
            reads=[one for one in reads if not states or one is not states[-1]],
            others=len(sources) - len(reads) - len(unknown),
            unknown=unknown[0] if unknown else None,
            is_merge=bool(states),
            is_brought=is_brought,
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """What one snapshot does to the sources of the rows."""

    found: RowSources
    snapshot_id: int
    operation: str
    own: LineKey

    def take(self, batches: Sequence[_Batch], *, is_changed: bool, is_recorded: bool, replaces_all: bool) -> None:
        if is_changed and not is_recorded:
            self.found.break_all(self._break("changed", self.operation))
        reads = [read for batch in batches for read in batch.reads]
        is_told = bool(reads) or any(batch.others for batch in batches)
        is_known = all(batch.unknown is None for batch in batches) and all(read.key != self.own for read in reads)
        if replaces_all and is_told and is_known:
            self.found.left = self.found.leave()
            self.found.sources.clear()
            self.found.unknown = None
        for batch in batches:  # a merge comes after what it brings: what the merge does not know breaks that too
            self._take_batch(batch, is_changed=is_changed)

    def _take_batch(self, batch: _Batch, *, is_changed: bool) -> None:
        numbers: Counter[tuple[LineKey, bool]] = Counter()
        for read in batch.reads:
            if read.key != self.own:
                self._read(batch, read, numbers[read.key, read.is_stream])
                numbers[read.key, read.is_stream] += 1
        if batch.unknown is not None:
            self.found.break_all(self._break("merged" if batch.is_merge else "unknown", batch.unknown))
        elif is_changed and not (batch.reads or batch.others or batch.is_merge):
            self.found.break_all(self._break("changed", self.operation))

    def _read(self, batch: _Batch, read: _Read, number: int) -> None:
        source = self.found.sources.setdefault(read.key, RowSource(read.table, broken=self.found.unknown))
        if not read.is_stream and (read.end is None or read.start is not None):  # with a start these are changes
            source.broken = source.broken or self._break("unknown", read.why)
            return
        is_statement = not read.is_stream and batch.number is None
        name = STATEMENTS if is_statement else f"{'stream' if read.is_stream else 'batch'} {number} {batch.user}"
        before = source.readers.get(name)
        state = ReaderState(snapshot_id=self.snapshot_id, last=read.end, batch=batch.identifier, job=batch.job)
        if before is not None:
            state.broken = before.broken
        if read.is_stream:
            self._follow(batch, read, name, state)
        elif before is not None and not _is_same_version(before.last, read.end):
            state.broken = before.broken or self._break("mixed", f"{_named(before.last)}, then {_named(read.end)}")
        source.readers[name] = state
        state.is_late = batch.is_brought and _is_late(name, source.readers)
        if len(source.readers) > READERS_MAX:  # of many jobs that ran once: they soon show different versions
            oldest = min(source.readers, key=lambda one: source.readers[one].snapshot_id)
            del source.readers[oldest]
            source.broken = source.broken or self._break("mixed", f"more than {READERS_MAX} jobs have read it")

    def _follow(self, batch: _Batch, read: _Read, name: str, state: ReaderState) -> None:
        """Break what a stream shows if it does not continue from what it has read."""
        before = self.found.sources[read.key].readers.get(name)
        if before is None:
            state.since = read.start or read.end
            is_gap = read.start is not None and self._has_missed(batch, read, name)
            self.found.left.discard((read.key, name))
        else:
            state.since = before.since
            is_part = before.batch == batch.identifier  # another part of one batch
            is_gap = not is_part and not _is_same_version(before.last, read.start)
        if is_gap:
            was = "nothing" if before is None else _named(before.last)
            state.broken = state.broken or self._break("gap", f"read on from {_named(read.start)}, not from {was}")
        if not read.is_exact or read.end is None:
            state.passing = self._break("inexact", read.why)

    def _has_missed(self, batch: _Batch, read: _Read, name: str) -> bool:
        """Whether a stream that is new here continues after rows that were removed, or that never arrived."""
        has_left = self.found.has_left(read.key, name)
        if not batch.is_brought:
            return has_left or (bool(batch.number) and self.found.is_complete)
        readers = self.found.sources[read.key].readers
        same = (one for other, one in readers.items() if other.startswith(STREAM) and in_table(other) == in_table(name))
        return has_left and not any(_is_same_version(one.last, read.start) for one in same)

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
    """The batches that a snapshot records, without a restore's; an unreadable record has an unknown source."""
    text = snapshot.properties.get(LINEAGE_KEY)
    if text is None:
        return []
    found: list[_Batch] = []
    try:
        for fields in objects(parse_object(text), "batches"):
            operation = optional(string, fields, "operation")
            if is_restore and operation in _BRINGS_STATE:
                continue
            brought = objects(fields, "brought") if "brought" in fields else []
            found += [_Batch.of(one, is_brought=True) for one in brought]
            found.append(_Batch.of(fields, is_merge=operation == MERGE_OPERATION or operation in _BRINGS_STATE))
    except (KeyError, ValueError) as error:
        why = f"its record is not readable: {cause(error)}"
        return [_Batch(user=snapshot.commit_user, identifier=snapshot.commit_identifier, unknown=why)]
    return found


def _settle(source: RowSource, deleted: Collection[str]) -> None:
    """Drop the readers of deleted branches, by their origins, if another reader of the job replaces them.

    It does where it continues from them or passes them.

    Otherwise a table whose branches are created, merged and deleted each night would get one more reader each night,
    and show their source at several versions forever. A reader that continues counts as begun where the first of them
    began. Source: docs/rfcs/0039-snapshot-lineage.md, "Changed rows".
    """
    for name in sorted(source.readers, key=lambda one: source.readers[one].snapshot_id):
        older = source.readers[name]
        if _writer(name, older).origin not in deleted:
            continue
        for other, newer in source.readers.items():
            if other == name or not _is_same(name, older, other, newer):
                continue
            if _writer(other, newer).origin is not None and newer.since == older.last:
                newer.since = older.since
            elif older.is_late or not _is_before(older, newer):
                continue
            del source.readers[name]
            break


def _is_late(name: str, readers: Mapping[str, ReaderState]) -> bool:
    """Whether the state of a reader that a merge brings is older than what the same job has read in the table."""
    brought = readers[name]
    writer = _writer(name, brought)
    return writer.origin is not None and any(
        other != name and writer.is_same_job(_writer(other, one)) and _is_before(brought, one)
        for other, one in readers.items()
    )


def _is_same(name: str, older: ReaderState, other: str, newer: ReaderState) -> bool:
    """Whether two readers are streams of one job, and neither is broken."""
    kinds = [one.split(" ", 2)[:2] for one in (name, other)]
    is_broken = any(one.broken or one.passing or one.last is None for one in (older, newer))
    is_stream = kinds[0] == kinds[1] and kinds[0][0] == "stream"
    return is_stream and not is_broken and _writer(name, older).is_same_job(_writer(other, newer))


def _is_before(one: ReaderState, other: ReaderState) -> bool:
    return one.last is not None and other.last is not None and one.last.snapshot_id < other.last.snapshot_id


def _writer(name: str, reader: ReaderState) -> WriterName:
    return WriterName(name.split(" ", 2)[-1], reader.job)
