"""Written rows moved behind those of another writer, whose commit came first: the files are read, not the source.

A stream may give its rows once, and the level-0 files of a write hold them all. Rows get other sequence numbers, in the
same order, and in dynamic buckets the bucket that the newer index has for their keys. Files without primary key hold no
sequence numbers: there the entries change alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.commit.conflicts import is_overtaken
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.index.hash_index import HashIndexChange
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.options.writing import WRITE_BUFFER_SIZE
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.write.assigning import BucketAssigner, bucket_assigner
from lakelog.filestore.write.places import parts_of, places_of
from lakelog.filestore.write.spilling import BucketPart, Spills
from lakelog.filestore.write.write import WrittenRows, write_changelog_files, write_level0_files
from lakelog.filestore.write.write_buffer import discarding_on_error

_PIECES_PER_BUFFER = 4  # in memory at once: what is read, its parts, and what the writer holds


def moved_rows(
    table: TableStore,
    written: WrittenRows,
    *,
    first_sequence: Callable[[BucketId], int],
    assigner: BucketAssigner | None,
) -> WrittenRows:
    """The rows of level-0 and changelog files that no snapshot names, in files of other sequence numbers.

    Those of each bucket start at `first_sequence`. `assigner` chooses the buckets where they are dynamic.
    The given files stay, and are those of the entries where the table has no primary key. Raises UnavailableError, and
    NotFoundError for a file that was deleted.
    """
    entries = [*written.entries, *written.changelog]
    lowest: dict[BucketId, int] = {}
    for entry in entries:
        number = entry.file.min_sequence_number
        lowest[entry.bucket_id] = min(number, lowest.get(entry.bucket_id, number))
    if not table.schema.primary_keys:
        return WrittenRows(entries=_renumbered(entries, first_sequence, lowest))
    move = _Move(table, first_sequence, lowest, assigner)
    moved = WrittenRows()
    with discarding_on_error(table, moved), Spills(table) as spills:
        for entry in written.changelog:
            moved.changelog.extend(write_changelog_files(table, move.by_bucket(entry)))
        for entry in written.entries:
            if assigner is None:
                moved.entries.extend(write_level0_files(table, move.parts(entry)))
            else:  # rows of one file go to several buckets, and those of a bucket come from several files
                spills.add(move.parts(entry))
        moved.entries.extend(write_level0_files(table, spills.all_merged()))
    return moved


def moved_behind(
    table: TableStore, latest: Snapshot | None, written: WrittenRows, hashes: HashIndexChange | None
) -> tuple[WrittenRows, HashIndexChange | None]:
    """The rows behind those that `latest` has, with the change of the HASH index; as they are, if none came between.

    Raises like `moved_rows`.
    """
    if not is_overtaken(table, latest, written.entries, hashes):
        return written, hashes
    assigner = bucket_assigner(table, latest)
    live = table.live_files.near(latest)
    live.read({entry.partition for entry in written.entries})
    moved = moved_rows(table, written, first_sequence=live.next_sequence, assigner=assigner)
    return moved, None if assigner is None else assigner.write_index()


def _renumbered(
    entries: Sequence[ManifestEntry], first: Callable[[BucketId], int], lowest: Mapping[BucketId, int]
) -> list[ManifestEntry]:
    moved = []
    for entry in entries:
        by = first(entry.bucket_id) - lowest[entry.bucket_id]
        low, high = entry.file.min_sequence_number + by, entry.file.max_sequence_number + by
        moved.append(replace(entry, file=replace(entry.file, min_sequence_number=low, max_sequence_number=high)))
    return moved


@dataclass(frozen=True, slots=True)
class _Move:
    """Where rows go: `lowest` are the sequence numbers from which those of each bucket were counted so far."""

    table: TableStore
    first: Callable[[BucketId], int]
    lowest: Mapping[BucketId, int]
    assigner: BucketAssigner | None

    def parts(self, entry: ManifestEntry) -> Iterator[BucketPart]:
        """The rows of a file in their order, as they are stored from now on."""
        table, held = self.table, entry.bucket_id
        fields = [*table.schema.fields, SEQUENCE_FIELD, KIND_FIELD]
        piece_bytes = WRITE_BUFFER_SIZE.of(table.schema.options) // _PIECES_PER_BUFFER
        for batch in read_data_file(table, held, entry.file, fields, piece_bytes=piece_bytes):
            rows = pa.Table.from_batches([batch])
            placed = [(held, rows)] if self.assigner is None else parts_of(places_of(table, rows, self.assigner), rows)
            for bucket_id, part in placed:
                numbers = pc.add(part.column(SEQUENCE_NUMBER), self.first(bucket_id) - self.lowest[held])
                yield bucket_id, StoredRows(rows=part, sequences=numbers, kinds=part.column(VALUE_KIND))

    def by_bucket(self, entry: ManifestEntry) -> Iterator[BucketPart]:
        """The rows of a file, which are those of one write buffer, bucket by bucket."""
        by_bucket: dict[BucketId, list[StoredRows]] = {}
        for bucket_id, part in self.parts(entry):
            by_bucket.setdefault(bucket_id, []).append(part)
        return ((bucket_id, part) for bucket_id, parts in by_bucket.items() for part in parts)
