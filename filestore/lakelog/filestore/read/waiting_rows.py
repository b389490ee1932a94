"""Which rows reads of the snapshots of a table show: rows in files that wait for a compaction are shown later.

A batch read of a table with deletion vectors, or `first-row`, leaves out level 0. A stream of a table with
`changelog-producer` lookup has the rows above level 0, with full-compaction those of the highest level; compactions
give it the others. So a compaction of some buckets shows, or gives, only the rows of these buckets, and a compaction
that began before a write does not show those of the write. Reads the manifests of such tables, and nothing of other
tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import NamedTuple

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.metadata.manifests.levels import highest_level
from lakelog.filestore.metadata.manifests.manifest import FileIdentifier, FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import KEEPS_ROWS, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, DELETION_VECTORS, ChangelogProducer
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.changes import changed_entries, continues
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.read.scan import POSTPONE_BUCKET
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.stored_schema import stored_schema

_UNKNOWN = 0  # stands for the snapshot that wrote rows, if they are older than the first snapshot that was taken


class Waits(Enum):
    """Which files a kind of read leaves out."""

    NONE = "none"
    LEVEL_0 = "level 0"
    LOWER_LEVELS = "all levels but the highest one"
    POSTPONED = "the bucket of rows that have no bucket yet"
    NOT_KNOWN = "not known"


class Visible(NamedTuple):
    """What a read of a snapshot shows: all rows up to the snapshot `up_to`, and no others.

    Without `is_whole` it also shows some later rows: reads have shown the same rows since the snapshot `up_to`.
    """

    up_to: int
    waits: Waits = Waits.NONE
    is_whole: bool = True


def with_waiting_rows(table: TableStore) -> TableStore:
    """The table with reads that show all rows: with deletion vectors also those that wait for a compaction.

    Code that changes rows, or brings them from one state to another, needs all written rows: waiting rows are shown
    later.
    """
    options = table.schema.options
    if not table.schema.primary_keys or not DELETION_VECTORS.of(options):
        return table
    kept = {key: value for key, value in options.items() if key != DELETION_VECTORS.key}
    return replace(table, schema=replace(table.schema, options=kept))


def batch_waits(schema: TableSchema) -> Waits:
    """What batch reads of a table with this schema leave out."""
    if schema.primary_keys and not is_merged_on_read(schema):
        return Waits.LEVEL_0
    return Waits.POSTPONED if schema.bucket_count == POSTPONE_BUCKET else Waits.NONE


def stream_waits(schema: TableSchema) -> Waits:
    """What streams of a table with this schema do not have yet, but get later."""
    if not schema.primary_keys:
        return Waits.NONE
    match CHANGELOG_PRODUCER.of(schema.options):
        case ChangelogProducer.LOOKUP:
            return Waits.LEVEL_0
        case ChangelogProducer.FULL_COMPACTION:
            return Waits.LOWER_LEVELS
    return Waits.NOT_KNOWN if schema.bucket_count == POSTPONE_BUCKET else Waits.NONE


def waiting_buckets(table: TableStore) -> set[BucketId]:
    """The buckets with rows that batch reads leave out, or streams are not given, before a compaction that is due.

    Whoever writes rows compacts them next, unless its process ends between the two.
    """
    if Waits.LEVEL_0 not in (batch_waits(table.schema), stream_waits(table.schema)):
        return set()
    live = table.live_files.of(table.snapshots.latest())
    return {bucket for bucket in live.buckets if any(meta.level == 0 for meta in live.files(bucket))}


@dataclass(slots=True)
class Waiting:
    """The files of a table that one kind of read leaves out, from snapshot to snapshot.

    `top` is the highest level. `files` has for each file the snapshots that wrote its rows. `shown` is the newest
    snapshot of which rows are shown, while others wait; None if there is none.
    """

    waits: Waits
    top: int
    files: dict[FileIdentifier, frozenset[int]] = field(default_factory=dict)
    shown: int | None = None
    since: int = _UNKNOWN  # the last snapshot that changed what is shown

    def begin(self, live: Iterable[ManifestEntry]) -> None:
        """Take the state before the first snapshot: which snapshots wrote its rows is unknown."""
        self.files = {one.identifier: frozenset({_UNKNOWN}) for one in live if self.leaves_out(one)}
        self.shown = _UNKNOWN if self.files else None

    def leaves_out(self, entry: ManifestEntry) -> bool:
        """Whether the rows of a file are left out."""
        if entry.bucket == POSTPONE_BUCKET:
            return True
        if self.waits is Waits.LOWER_LEVELS:
            return entry.file.level < self.top
        return self.waits is Waits.LEVEL_0 and entry.file.level == 0

    def fits(self, delta: Iterable[ManifestEntry]) -> bool:
        """Whether a delta continues from the state that was taken."""
        return all(
            (one.identifier in self.files or not self.leaves_out(one))
            if one.kind is FileKind.DELETE
            else one.file.level <= self.top
            for one in delta
        )

    def write(self, number: int, delta: Sequence[ManifestEntry]) -> None:
        """Take the delta of a snapshot that changes rows."""
        is_shown = not delta  # rows were deleted by position
        for entry in delta:
            if entry.kind is FileKind.DELETE:
                self.files.pop(entry.identifier, None)
                is_shown = True
            elif self.leaves_out(entry):
                self.files[entry.identifier] = frozenset({number})
            else:
                is_shown = True
        if is_shown:
            self._show(number, {number})

    def rewrite(self, number: int, delta: Sequence[ManifestEntry]) -> None:
        """Take the entries of a snapshot that changes no rows, for files that are rewritten together."""
        dropped = [one for one in delta if one.kind is FileKind.DELETE]
        added = [one for one in delta if one.kind is FileKind.ADD]
        left = [one for one in added if self.leaves_out(one)]
        waited: set[int] = set()
        for one in dropped:
            waited |= self.files.pop(one.identifier, frozenset())
        if left and (not waited or not all(map(self.leaves_out, dropped))):  # rows that were shown now wait
            waited.add(_UNKNOWN)
            self._show(number, {_UNKNOWN})
        self.files |= {one.identifier: frozenset(waited) for one in left}
        if waited and (len(left) < len(added) or not added):
            self._show(number, waited)

    def _show(self, number: int, writers: Iterable[int]) -> None:
        self.since = number
        self.shown = max(writers if self.shown is None else (self.shown, *writers))

    def visible(self, number: int) -> Visible:
        """What a read shows of the snapshot that was taken last."""
        if not self.files:
            self.shown = None
            return Visible(number, self.waits)
        oldest = min(min(writers) for writers in self.files.values())
        if self.shown is None or self.shown < oldest:
            return Visible(oldest - 1, self.waits)
        return Visible(self.since, self.waits, is_whole=False)


class WaitingRows:
    """What batch reads and streams show of consecutive snapshots, which are taken oldest first."""

    def __init__(self, table: TableStore) -> None:
        """Start without reading anything."""
        self._table = table
        self._schema = cache(self._read_schema)
        self._before: Snapshot | None = None
        self._kinds: tuple[Waiting, ...] = ()

    def take(self, snapshot: Snapshot, *, log: str) -> tuple[Visible, Visible]:
        """What a batch read of the next snapshot shows, and what a stream has that has read up to it.

        `log` is the state of its log, if any: with one both show all rows.
        """
        before, self._before = self._before, snapshot
        schema = self._schema(snapshot.schema_id)
        waits = (Waits.NONE, Waits.NONE) if log else (batch_waits(schema), stream_waits(schema))
        shown = {Waits.NONE: Visible(snapshot.id)}
        wanted = [one for one in dict.fromkeys(waits) if one not in {Waits.NONE, Waits.NOT_KNOWN}]
        try:
            self._take(snapshot, before, schema, wanted)
            shown |= {one.waits: one.visible(snapshot.id) for one in self._kinds}
        except (CorruptDataError, NotFoundError):  # the snapshot has expired meanwhile, or cannot be read
            self._before, self._kinds = None, ()
        batch, stream = (shown.get(one, Visible(snapshot.id, one, is_whole=False)) for one in waits)
        return batch, stream

    def _read_schema(self, schema_id: int) -> TableSchema:
        """The schema of the files of a snapshot; the newest schema if that one cannot be read."""
        table = self._table
        try:
            schema = table.schema if schema_id == table.schema.id else table.schemas.get(schema_id)
        except (CorruptDataError, NotFoundError):
            schema = table.schema
        return stored_schema(schema)

    def _take(self, snapshot: Snapshot, before: Snapshot | None, schema: TableSchema, wanted: Sequence[Waits]) -> None:
        if not wanted:
            self._kinds = ()
            return
        delta = changed_entries(self._table, snapshot, ChangeSource.DELTA)
        is_next = before is not None and before.id + 1 == snapshot.id and continues(self._table, before, snapshot)
        is_same = [kind.waits for kind in self._kinds] == wanted and all(kind.fits(delta) for kind in self._kinds)
        if not is_next or not is_same:
            self._kinds = self._begin(snapshot, delta, schema, wanted)
        is_changed = snapshot.changes_rows(before if is_next else None)
        for kind in self._kinds:
            if is_changed:
                kind.write(snapshot.id, delta)
                continue
            for entries in _together(snapshot, delta):
                kind.rewrite(snapshot.id, entries)

    def _begin(
        self, snapshot: Snapshot, delta: Sequence[ManifestEntry], schema: TableSchema, wanted: Sequence[Waits]
    ) -> tuple[Waiting, ...]:
        """What waits in the state before a snapshot."""
        live = list(self._table.live_files.of(snapshot).entries())
        added = {one.identifier for one in delta if one.kind is FileKind.ADD}
        dropped = [one for one in delta if one.kind is FileKind.DELETE and one.identifier not in added]
        top = highest_level(schema.options, (one.file.level for one in (*live, *delta)))
        kinds = tuple(Waiting(one, top) for one in wanted)
        for kind in kinds:
            kind.begin([*(one for one in live if one.identifier not in added), *dropped])
        return kinds


def _together(snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> Iterable[Sequence[ManifestEntry]]:
    """The files that a snapshot rewrites into each other, by bucket, or together if buckets change."""
    if snapshot.operation_name in KEEPS_ROWS:
        return [delta]
    buckets: defaultdict[BucketId, list[ManifestEntry]] = defaultdict(list)
    for one in delta:
        buckets[one.bucket_id].append(one)
    return buckets.values()
