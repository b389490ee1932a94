"""The files that hold the changes of a bucket between two positions of its log.

They have what the log had: the last change of each key in a transaction (`upsert`), with old rows (`all`, in changelog
files), or without a key every row. It is an error if they do not, because rows are only in the files, were taken out of
files, or were lost with records. Source: docs/rfcs/0031-healing.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.json_fields import items, member, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.manifests import DataFileMeta, FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.read import ChangeSource, changed_entries, check_followable, snapshot_of_changes
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.options import ChangelogMode, OnUntracked, changelog_mode
from lakelog.protocol.reading.healing import BucketPlace
from lakelog.protocol.reading.operation_stops import OperationStops
from lakelog.protocol.state.change_tracking import UntrackedChangesError
from lakelog.protocol.state.header import LogMark
from lakelog.protocol.upkeep.log_check import REPAIR_USER


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile:
    """A file with changes of a snapshot: a changelog file, with the old rows, or one of its delta."""

    entry: ManifestEntry
    is_changelog: bool
    snapshot_id: int
    watermark_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """What a snapshot changed: files by bucket, buckets from which it took files out, and marks by bucket."""

    snapshot: Snapshot
    added: Mapping[int, Sequence[ManifestEntry]]
    shrunk: frozenset[int]
    marks: Mapping[int, Counter[str]]


@dataclass(slots=True, kw_only=True)
class HealedFiles:
    """Finds the files of ranges of one log; reads the changes of each snapshot once."""

    table: TableStore
    schema: TableSchema
    on_untracked: OnUntracked
    stops: OperationStops
    accepts_loss: bool = False
    _known: dict[int, _Changes] = field(default_factory=dict)

    @property
    def is_upsert(self) -> bool:
        """Whether the log has no old values: its changes are upserts and deletes."""
        has_key = bool(self.schema.primary_keys)
        return has_key and changelog_mode(self.schema.options, has_primary_key=True) is ChangelogMode.UPSERT

    def check(self) -> None:
        """Raise UnsupportedError if the files of the table do not have the changes that its log has."""
        check_followable(self.table)
        if self.schema.primary_keys and not self.is_upsert and not self.schema.has_changelog_at_write:
            raise UnsupportedError(
                f"the log of table {self.table.name} does not hold what the query has to read. It held the old values "
                "of updates, and the files, without changelog-producer=lookup, do not: start the query with a new "
                "checkpoint location, which reads the newest snapshot first"
            )

    def between(self, bucket: int, places: Sequence[BucketPlace]) -> Iterator[ChangeFile]:
        """The files of a bucket from the first of `places` to the last, in the order of the log.

        Raises NotFoundError for changes that have expired, UntrackedChangesError, LogTruncatedError for records that a
        repair has skipped, UnsupportedError for rows that were taken out of files, and like `stops`.
        """
        ends = [one for at, one in enumerate(places) if not one.is_inside or at in (0, len(places) - 1)]
        for was, now in pairwise(ends):
            if was.place == now.place or (was.offset, was.records) == (now.offset, now.records):
                continue  # its rows, if any, belong to another bucket or another engine
            changes = self._changes(now.snapshot_id)
            records = None if was.records is None or now.records is None else now.records - was.records
            if self._has_logged_rows(bucket, changes, records):
                yield from (
                    ChangeFile(
                        entry=one,
                        is_changelog=self.schema.has_changelog_at_write,
                        snapshot_id=now.snapshot_id,
                        watermark_millis=changes.snapshot.watermark,
                    )
                    for one in changes.added.get(bucket, ())
                    if _is_between(one.file, was, now)
                )

    def _has_logged_rows(self, bucket: int, changes: _Changes, records: int | None) -> bool:
        """Whether the files of a bucket have the `records` of a snapshot; False if those are header records.

        `records` is None for a part of the snapshot's transactions.
        """
        snapshot, name = changes.snapshot, self.table.name
        if snapshot.commit_user.startswith(REPAIR_USER) and not self.accepts_loss:
            raise LogTruncatedError(
                f"snapshot {snapshot.id} of table {name} passes over records of bucket {bucket} that were lost with "
                "the log (`lakelog log repair`), so its files do not have them. Start the query with a new checkpoint "
                "location, or read on without them: option failOnDataLoss=false"
            )
        if bucket in changes.shrunk:
            raise UnsupportedError(
                f"snapshot {snapshot.id} of table {name} has taken rows out of the files of bucket {bucket}: only "
                "the log recorded which rows, and Kafka no longer has that part of it. Start the query with a new "
                "checkpoint location, which reads the newest snapshot first"
            )
        marks = changes.marks.get(bucket, Counter())
        if not marks:
            return True
        what = f"snapshot {snapshot.id} of table {name} has changes of bucket {bucket} that its log lacked"
        if self.on_untracked is OnUntracked.FAIL:
            raise UntrackedChangesError(
                f"{what}. Start the query with a new checkpoint location, which reads the newest snapshot first, with "
                "these changes; or read on without them: option log.on-untracked=skip"
            )
        if marks[LogMark.UNTRACKED] and marks.total() != records:
            raise UntrackedChangesError(
                f"{what}, and others in the same files, which cannot be told apart without the log. Start the query "
                "with a new checkpoint location, which reads the newest snapshot first"
            )
        return not marks[LogMark.UNTRACKED]

    def _changes(self, snapshot_id: int) -> _Changes:
        if snapshot_id not in self._known:
            snapshot = snapshot_of_changes(self.table, snapshot_id)
            self.stops.check_snapshot(snapshot)
            source = ChangeSource.CHANGELOG if self.schema.has_changelog_at_write else ChangeSource.DELTA
            added: dict[int, list[ManifestEntry]] = {}
            shrunk = set()
            for entry in changed_entries(self.table, snapshot, source):
                if entry.kind is FileKind.ADD:
                    added.setdefault(entry.bucket_id.number, []).append(entry)
                else:
                    shrunk.add(entry.bucket_id.number)
            self._known[snapshot_id] = _Changes(
                snapshot=snapshot, added=added, shrunk=frozenset(shrunk), marks=_marks_of(snapshot)
            )
        return self._known[snapshot_id]


def _is_between(file: DataFileMeta, was: BucketPlace, now: BucketPlace) -> bool:
    """Whether a file of a snapshot is of the transactions between two places, of which one may be inside it. Pure."""
    is_behind = not was.is_inside or file.min_sequence_number >= was.sequence
    return is_behind and (not now.is_inside or file.max_sequence_number < now.sequence)


def _marks_of(snapshot: Snapshot) -> dict[int, Counter[str]]:
    """Bucket -> how many of its records say that the log lacks changes. Raises CorruptDataError."""
    found: dict[int, Counter[str]] = {}
    try:
        listed = parse_object(f'{{"marks":{snapshot.properties.get(PropertyKey.UNTRACKED, "[]")}}}')
        for given in items(listed, "marks"):
            one = member({"mark": given}, "mark")
            found.setdefault(whole(one, "bucket"), Counter())[string(one, "mark")] += 1
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"property {PropertyKey.UNTRACKED} of snapshot {snapshot.id} is not readable: {cause(error)}"
        ) from error
    return found
