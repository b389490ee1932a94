"""Conflicts of a change with the newest snapshot. Pure, except `is_overtaken`.

Source: Paimon spec, "Snapshot" (conflicts); Paimon, `ConflictDetection`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError
from lakelog.common.types import DataType
from lakelog.filestore.index.hash_index import HashIndexChange, is_changed
from lakelog.filestore.index.index_manifest import hash_index
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore


def check_conflicts(
    live: LiveBuckets, entries: Sequence[ManifestEntry], *, kind: CommitKind, key_types: Sequence[DataType]
) -> LiveBuckets:
    """The live files after the change. Raises ConflictError if the change conflicts with another writer's commit.

    These are checked: a DELETE must be of a live file, an ADD of a new one; the number of buckets does not change,
    unless the commit overwrites; in each changed bucket the files of one level above 0 must not overlap in key range.
    """
    live.read({entry.partition for entry in entries})
    if kind is not CommitKind.OVERWRITE:
        check_total_buckets(live, entries)
    _check_identities(live, entries)
    after = live.apply(entries)
    for bucket in {entry.bucket_id for entry in entries if entry.file.level > 0}:
        try:
            runs_of(after.files(bucket), key_types)
        except CorruptDataError as error:
            raise ConflictError(
                f"bucket {bucket.number} was compacted by another writer: {error}; compact again from the newest "
                "snapshot"
            ) from error
    return after


class OvertakenError(ConflictError):
    """Another writer's commit came first, and the rows must be written again on top of it."""


def is_overtaken(
    table: TableStore, latest: Snapshot | None, entries: Collection[ManifestEntry], hashes: HashIndexChange | None
) -> bool:
    """Whether new files, written on an older snapshot, must be written again after `latest`.

    This is so if `latest` has rows of the same bucket with sequence numbers as high as theirs, or if their dynamic
    buckets, in `hashes`, were chosen by an index that is no longer the newest.
    """
    if hashes is not None and is_changed(hash_index(table, latest), hashes):
        return True
    if table.schema.is_change_log:  # counts add up in any order
        return False
    live = table.live_files.near(latest)
    live.read({one.partition for one in entries})
    return any(one.file.min_sequence_number < live.next_sequence(one.bucket_id) for one in entries)


def check_indexed(entries: Sequence[ManifestEntry], hashes: HashIndexChange | None, *, table_name: str) -> None:
    """Raise InvalidRequestError for rows in dynamic buckets that were assigned without the HASH index."""
    known = set() if hashes is None else hashes.partitions
    if any(entry.kind is FileKind.ADD and entry.partition not in known for entry in entries):
        raise InvalidRequestError(
            f"table {table_name} has dynamic buckets: rows are committed with the HASH index that their buckets were "
            "chosen by, and this commit has none; use FileStoreTable.write"
        )


def _check_identities(live: LiveBuckets, entries: Sequence[ManifestEntry]) -> None:
    changed: dict[object, FileKind] = {}
    for entry in entries:
        before = changed.get(entry.identifier)
        is_live = live.find(entry) is not None if before is None else before is FileKind.ADD
        changed[entry.identifier] = entry.kind
        name = entry.file.file_name
        if entry.kind is FileKind.DELETE and not is_live:
            raise ConflictError(
                f"file {name} of bucket {entry.bucket} is no longer live: another writer compacted or overwrote it; "
                "start again from the newest snapshot"
            )
        if entry.kind is FileKind.ADD and is_live:
            raise ConflictError(f"file {name} is in bucket {entry.bucket} already: it was committed before")


def check_total_buckets(live: LiveBuckets, entries: Sequence[ManifestEntry]) -> None:
    """Raise ConflictError for files that were written for another number of buckets than the live ones."""
    totals = live.total_buckets({entry.partition for entry in entries})
    for entry in entries:
        found = totals.get(entry.partition, entry.total_buckets)
        if found != entry.total_buckets:
            raise ConflictError(
                f"the files of bucket {entry.bucket} were written for {entry.total_buckets} buckets, the table has "
                f"{found}: open the table again; if that fails too, a rescale was cut off, or was done by another "
                "engine: rescale the table to the wanted number of buckets"
            )
