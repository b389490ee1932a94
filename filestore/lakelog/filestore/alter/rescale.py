"""Changes the number of buckets: a schema with the number, then an OVERWRITE snapshot in which every row is rewritten.

After a crash between the two, the table is read as before, and writers are refused because of the number of buckets of
its files, until the rescale is called again. Older snapshots do not change. Source: Paimon spec, "Rescale bucket".

The rows of the new files, read back as users see them, are compared with those of the snapshot before the commit.

The moved rows are not changes. In tables whose compactions write changelogs or look up rows, files that are not in a
changelog yet are compacted first, in a snapshot of their own; then all rows are written to the highest level, whose
rows are never fresh.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from lakelog.common.arrow import pieces_of
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.log_system import has_log
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.commit_tries import CommitTries
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.compact.bucket_work import BucketWork, due_work, pick_unit
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.compact.picking import CompactUnit
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.merge.lookups import needs_lookup
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.options.layout import BUCKET
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    IGNORE_DELETE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    ChangelogProducer,
)
from lakelog.filestore.options.writing import WRITE_BUFFER_SIZE
from lakelog.filestore.read.row_digest import check_same_rows, digest_of
from lakelog.filestore.read.scan import DataSplit, plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_rules import check_bucket, check_writable
from lakelog.filestore.write.write import add_entry, check_table_writable, starting_at, write_rows

# Options of merging, of row kinds and of changelogs: none of them applies to rows that move.
_RULES = frozenset(
    option.key
    for option in (MERGE_ENGINE, SEQUENCE_FIELD, IGNORE_DELETE, ROWKIND_FIELD, CHANGELOG_PRODUCER, DELETION_VECTORS)
)


MovedProperties = Callable[[Snapshot, Mapping[int, int]], Mapping[str, str]]
"""Properties of the snapshot in which rows have moved: by the snapshot before it, and by bucket -> the sequence number
after those of its new files."""


def rescale_schema(table: TableStore, bucket_count: int, *, clock: CommitClock) -> TableSchema:
    """Create the schema with the number of buckets, unless it is the newest one already; returns it.

    Raises as `rescaled_schema`, and ConflictError when another process changed the schema at the same time.
    """
    newest = table.schemas.latest() or table.schema
    changed = rescaled_schema(table, newest, bucket_count, clock=clock)
    if changed is not newest:
        table.schemas.create(changed)
    return changed


def rescaled_schema(
    table: TableStore, newest: TableSchema, bucket_count: int, *, clock: CommitClock | None = None
) -> TableSchema:
    """The schema after `newest`, with another number of buckets; `newest` itself if it has that number.

    Creates nothing.

    Raises InvalidRequestError or UnsupportedError if the rows cannot move, ConflictError if the table has got a log
    since it was opened.
    """
    check_table_writable(table)
    if has_log(newest.options) and not table.has_log:
        raise ConflictError(f"table {table.path} has got a log since it was opened: open the table again")
    if bucket_count < 1:
        raise InvalidRequestError(f"table {table.name} cannot have {bucket_count} buckets; expected 1 or more")
    if newest.bucket_count < 1:
        raise InvalidRequestError(
            f"table {table.name} has bucket={newest.bucket_count}; only a table with a fixed number of buckets is "
            "rescaled: create another table, and copy the rows"
        )
    if newest.bucket_count == bucket_count:
        return newest
    options = {**newest.options, BUCKET.key: str(bucket_count)}
    changed = replace(newest, id=newest.id + 1, options=options, time_millis=(clock or CommitClock()).now_millis())
    check_bucket(changed)
    check_writable(changed)
    return changed


def move_rows(
    table: TableStore,
    *,
    clock: CommitClock | None = None,
    properties: MovedProperties = lambda _before, _sequences: {},
) -> Snapshot | None:
    """Rewrite the rows of files with another number of buckets than the table's; None if there are none.

    The snapshot gets `properties`. Starts over if another commit comes first; raises ConflictError if that happens too
    often.
    """
    clock = clock or CommitClock()
    tries = CommitTries(table.schema.options, clock)
    while True:
        base = latest_of(table)
        live = table.live_files.of(base)
        if base is None or all(entry.total_buckets == table.bucket_count for entry in live.entries()):
            return None
        try:
            if _compact_fresh(table, base, live, clock):
                continue  # check again: other writers may have added files meanwhile
        except ConflictError:
            if tries.has_another():
                continue
            raise
        added = _rewritten(table.stored, base)
        paths = [table.data_path(entry.bucket_id, entry.file) for entry in added]
        _check_rewritten(table, base, added, paths)
        try:
            return TableCommit(table, clock=clock).commit(
                _Move(table, base, added, properties).resolve, discard=partial(discard_files, table, paths)
            )
        except ConflictError:
            if not tries.has_another():
                raise


def _compact_fresh(table: TableStore, base: Snapshot, live: LiveFiles, clock: CommitClock) -> bool:
    """Compact files that are not in a changelog yet, with the old number of buckets. False if there are none.

    Reads of tables with lookups leave out level 0, and moved rows are in no changelog: so the changes of these files
    must be in a changelog first.
    """
    is_followed = CHANGELOG_PRODUCER.of(table.stored.schema.options) is ChangelogProducer.FULL_COMPACTION
    if not is_followed and not needs_lookup(table.stored.schema):
        return False
    for bucket_count in sorted({entry.total_buckets for entry in live.entries()}):
        old = _with_options(table, {**table.schema.options, BUCKET.key: str(bucket_count)})
        buckets = {entry.bucket_id for entry in live.entries() if entry.total_buckets == bucket_count}
        work = due_work(old, base, buckets, partial(_pick_fresh, old, is_full=is_followed))
        results = [result for one in work if (result := compact_bucket(old, one)) is not None]
        if results:
            commit_results(old, results, clock=clock)
            return True
    return False


def _pick_fresh(
    table: TableStore, _: BucketId, files: Sequence[DataFileMeta], __: Collection[str], *, is_full: bool
) -> CompactUnit | None:
    is_due = is_full or any(file.level == 0 for file in files)
    return pick_unit(table, files, is_full=is_full) if is_due else None


class _Move:
    """The commit that replaces all files of a snapshot by new ones."""

    def __init__(
        self, table: TableStore, base: Snapshot, added: Sequence[ManifestEntry], properties: MovedProperties
    ) -> None:
        self._table = table
        self._base = base
        self._added = added
        self._properties = properties
        self._user = str(uuid.uuid4())

    def resolve(self, latest: Snapshot | None) -> CommitRequest:
        """The commit after the snapshot whose rows were moved. Raises ConflictError for another snapshot."""
        if latest != self._base:
            raise ConflictError(f"{self._table.name} changed while its rows were moved to other buckets; rescale again")
        removed = (replace(entry, kind=FileKind.DELETE) for entry in self._table.live_files.of(latest).entries())
        sequences: dict[int, int] = {}
        for entry in self._added:
            sequences[entry.bucket] = max(sequences.get(entry.bucket, 0), entry.file.max_sequence_number + 1)
        return CommitRequest(
            commit_user=self._user,
            kind=CommitKind.OVERWRITE,
            entries=[*removed, *self._added],
            properties=self._properties(self._base, sequences),
            operation="RESCALE",
        )


def _rewritten(table: TableStore, base: Snapshot) -> list[ManifestEntry]:
    """All rows of a snapshot in new files; with a primary key, one run of the highest level per bucket.

    Rows are read and written a write buffer at a time; then the files of each bucket are merged. The rows of a snapshot
    are already merged, so no merge rule applies to them.
    """
    plain = _with_options(table, {key: text for key, text in table.schema.options.items() if key not in _RULES})
    written: dict[BucketId, list[DataFileMeta]] = {}
    row_count = 0
    batches = read_splits(table, plan_splits(table, base).splits)
    for rows in pieces_of(batches, WRITE_BUFFER_SIZE.of(table.schema.options)):
        for entry in write_rows(plain, rows, first_sequence=starting_at(row_count)).entries:
            written.setdefault(entry.bucket_id, []).append(entry.file)
        row_count += rows.num_rows
    return [
        add_entry(table, bucket, file)
        for bucket, files in written.items()
        for file in (_as_one_run(plain, bucket, files) if table.schema.primary_keys else files)
    ]


def _check_rewritten(table: TableStore, base: Snapshot, added: Sequence[ManifestEntry], paths: Sequence[str]) -> None:
    """Raise CorruptDataError if the new files do not hold the rows of a snapshot, as users see them."""
    files: dict[BucketId, list[DataFileMeta]] = {}
    for entry in added:
        files.setdefault(entry.bucket_id, []).append(entry.file)
    has_key = bool(table.stored.schema.primary_keys)
    splits = [
        DataSplit(snapshot_id=base.id, bucket_id=bucket, files=tuple(own), raw_convertible=not has_key)
        for bucket, own in files.items()
    ]
    try:
        expected = digest_of(table, plan_splits(table, base).splits)
        check_same_rows(digest_of(table, splits), expected, what="the rescale", table_name=table.name)
    except Exception:  # any error: no snapshot names the new files
        discard_files(table, paths)
        raise


def _as_one_run(table: TableStore, bucket: BucketId, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
    """New files of level 0 as a run of the highest level, so that no compaction looks up their rows."""
    unit = pick_unit(table, files, is_full=True)
    assert unit is not None, "there are files in level 0"
    result = compact_bucket(table, BucketWork(bucket, unit))
    assert result is not None, "no file of level 0 stays there"
    kept = {file.file_name for file in result.after}
    discard_files(table, (table.data_path(bucket, file) for file in files if file.file_name not in kept))
    return result.after


def _with_options(table: TableStore, options: Mapping[str, str]) -> TableStore:
    return replace(table, schema=replace(table.schema, options=options))
