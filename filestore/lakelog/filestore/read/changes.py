"""The changes of one snapshot, from files, for readers that do not use a log.

A table with a changelog producer has changelog files, which hold every change with its old values. Without one the
changes are in the level-0 files of an APPEND: the last change of each key, without old values; in a value-count table
all adds and deletes, except rows that one write both adds and deletes. A restore always has changelog files, and so
does a merge of a branch that removes rows from an append-only table. Source: Paimon spec, "Changelog".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.common.types import DataField, RowKind
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.merge.counting import changed_rows
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import highest_level
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import KIND_FIELD, TableStore
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.schema.counted_schema import count_field
from lakelog.filestore.schema.schema import VALUE_KIND

_PIECE_BYTES = 32 << 20


def check_followable(table: TableStore) -> None:
    """Raise UnsupportedError for a table whose changes lakelog cannot read correctly.

    Such a table has options that define other changes, or deltas with parts of rows and no changelog of whole rows.
    """
    options = table.schema.options
    check_foreign_options(options, OptionUse.FOLLOW, table_name=table.name)
    engine = table.schema.merge_engine
    folds = engine.traits.has_parts
    has_parts = folds and not table.schema.is_merged_at_write
    if has_parts and CHANGELOG_PRODUCER.of(options) is ChangelogProducer.NONE:
        raise UnsupportedError(
            f"table {table.name} has merge-engine={engine} and no changelog-producer: its files hold parts of rows, "
            "which cannot be followed as changes; read it in batches"
        )


def files_in_changelogs(table: TableStore, files: Sequence[DataFileMeta]) -> list[DataFileMeta]:
    """The files of a bucket whose rows are in changelogs: a reader that follows the changes starts with them."""
    options = table.stored.schema.options
    match CHANGELOG_PRODUCER.of(options):
        case ChangelogProducer.LOOKUP:
            return [file for file in files if file.level > 0]
        case ChangelogProducer.FULL_COMPACTION:
            highest = highest_level(options, (file.level for file in files))
            return [file for file in files if file.level == highest]
        case _:
            return list(files)


def find_changes(table: TableStore, snapshot_id: int) -> Snapshot | None:
    """A snapshot, living, or expired with its changes kept longer; None if neither exists.

    Its file is moved when it expires, so it is found in one of the two folders at any time.
    """
    return table.snapshots.find(snapshot_id) or ChangelogManager(table.file_io, table.paths).find(snapshot_id)


def snapshot_of_changes(table: TableStore, snapshot_id: int) -> Snapshot:
    """A snapshot, living, or expired with its changes kept longer. Raises NotFoundError if it is neither."""
    found = find_changes(table, snapshot_id)
    if found is not None:
        return found
    if snapshot_id < first_changes(table):
        raise _not_kept(table, snapshot_id)
    return table.snapshots.get(snapshot_id)


def snapshots_of_changes(table: TableStore, *, after: int | None, up_to: int | None) -> list[Snapshot]:
    """The snapshots after `after` up to and including `up_to`, whose changes exist; None means all that exist.

    Raises InvalidRequestError for numbers that do not form a range, and if a snapshot does not continue the one before;
    NotFoundError for snapshots that do not exist yet and for changes that have expired: a range is never returned in
    part.
    """
    for what, number in (("after", after), ("up_to", up_to)):
        if number is not None and (not isinstance(number, int) or number < 0):
            raise InvalidRequestError(f"{what} takes the number of a snapshot, or 0, found {shown(number)}")
    if after is not None and up_to is not None and up_to < after:
        raise InvalidRequestError(
            f"there are no changes after snapshot {after} and up to snapshot {up_to}: up_to is lower"
        )
    newest = table.snapshots.latest_id() or 0
    for what, number in (("after", after), ("up_to", up_to)):
        if number is not None and number > newest:
            there = f"its newest is snapshot {newest}" if newest else "it has no snapshot yet"
            raise NotFoundError(
                f"table {table.name} has no snapshot {number}, which {what} names: {there}; name {newest} at most"
            )
    first = first_changes(table) if after is None else after + 1
    last = newest if up_to is None else up_to
    if after is None and last < first and newest:
        raise _not_kept(table, last)
    found = [snapshot_of_changes(table, number) for number in range(first, last + 1)]
    before = None if after is None or not found else find_changes(table, after)
    for earlier, later in pairwise(found if before is None else [before, *found]):
        broken = not_continued(table, earlier, later)
        if broken is not None:
            raise InvalidRequestError(
                f"{broken} Its changes cannot be followed from there: name a range that ends "
                f"before it, or after={later.id} or a higher one; compare='states' compares the two"
            )
    return found


def continues(table: TableStore, earlier: Snapshot, later: Snapshot) -> bool:
    """Whether the changes of a snapshot lead from the state of the one before; also True if this is no longer known.

    It is unknown if one of the two has expired with its manifest lists.
    """
    try:
        return table.live_files.continues(earlier, later)
    except NotFoundError:
        return True


def not_continued(table: TableStore, earlier: Snapshot, snapshot: Snapshot) -> str | None:
    """A sentence for errors about a snapshot that was not committed on the state of the one before; None if it was."""
    if continues(table, earlier, snapshot):
        return None
    return (
        f"snapshot {snapshot.id} of table {table.name} does not continue snapshot {snapshot.id - 1}: its commit "
        f"{snapshot.uuid or 'without a uuid'} was made on another line, of which a branch has taken the table's place."
    )


def _not_kept(table: TableStore, snapshot_id: int) -> NotFoundError:
    first = first_changes(table)
    return NotFoundError(
        f"the changes of snapshot {snapshot_id} of table {table.name} do not exist; those of snapshots {first} to "
        f"{table.snapshots.latest_id()} do: name after={first - 1} or a higher one, or read the rows of a snapshot"
    )


def first_changes(table: TableStore) -> int:
    """The oldest snapshot whose changes exist, living or expired; 1 for a table without snapshots."""
    changelogs = ChangelogManager(table.file_io, table.paths)
    return changelogs.earliest_id() or table.snapshots.earliest_id() or 1


def change_files(
    table: TableStore, snapshot: Snapshot, source: ChangeSource = ChangeSource.AUTO
) -> list[ManifestEntry]:
    """The files that hold the changes of a snapshot, bucket by bucket in the order of their sequence numbers."""
    if source is ChangeSource.AUTO:
        has_producer = CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.NONE
        is_in_changelog = has_producer or snapshot.has_own_changelog
        source = ChangeSource.CHANGELOG if is_in_changelog else ChangeSource.DELTA
    if source is ChangeSource.DELTA and snapshot.commit_kind is not CommitKind.APPEND:
        return []
    return [entry for entry in changed_entries(table, snapshot, source) if entry.kind is FileKind.ADD]


def changed_entries(table: TableStore, snapshot: Snapshot, source: ChangeSource) -> list[ManifestEntry]:
    """As `change_files`, for a snapshot of any kind: the files that it added, and those that its delta removed."""
    if source is ChangeSource.CHANGELOG:
        name, size_bytes = snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size
    else:
        name, size_bytes = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    manifests = () if name is None else table.manifests.read_list(name, size_bytes=size_bytes)
    entries = table.manifests.read_entries(manifests)
    return sorted(entries, key=lambda entry: (entry.bucket_id, entry.file.min_sequence_number))


def read_change_file(
    table: TableStore, entry: ManifestEntry, fields: Sequence[DataField], *, kind_name: str
) -> Iterator[pa.RecordBatch]:
    """The changes in a file: the columns `fields` and the row kind (int8), in the order of the file.

    Raises NotFoundError when the file has expired.
    """
    names = [*(field.name for field in fields), kind_name]
    bucket = entry.bucket_id
    extra: tuple[DataField, ...] = ()
    if table.schema.is_change_log:
        extra = (count_field(table.schema),)
    elif table.schema.primary_keys:
        extra = (KIND_FIELD,)
    for batch in read_data_file(table.stored, bucket, entry.file, [*fields, *extra], piece_bytes=_PIECE_BYTES):
        for rows, kinds in _with_kinds(table, entry.file, batch):
            columns = [rows.column(name) for name in names[:-1]]
            yield pa.RecordBatch.from_arrays([*columns, kinds], names=names)


def _with_kinds(
    table: TableStore, file: DataFileMeta, batch: pa.RecordBatch
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """Rows of a file as changes, and their kinds (int8)."""
    if table.schema.is_change_log:
        yield from changed_rows(batch, piece_bytes=_PIECE_BYTES)
    elif table.schema.primary_keys:
        yield batch, batch.column(VALUE_KIND)
    else:  # rows of append tables are inserts, except those that a restore has removed
        kind = RowKind.DELETE if file.delete_row_count else RowKind.INSERT
        yield batch, pa.repeat(pa.scalar(int(kind), pa.int8()), batch.num_rows)
