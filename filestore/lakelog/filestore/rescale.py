"""Another number of buckets: a schema that says so, then every row written anew in one OVERWRITE snapshot.

Cut off between the two, the table is read as before, and writers are refused by the number of buckets of its files,
until the rescale is asked for again. Snapshots of before stay as they are. Source: Paimon spec, "Rescale bucket".
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakelog.common.arrow import pieces_of
from lakelog.common.errors import ConflictError, InvalidRequestError, UnsupportedError
from lakelog.filestore.commit import CommitClock, CommitRequest, TableCommit
from lakelog.filestore.data_writer import discard_files
from lakelog.filestore.manifest import FileKind, ManifestEntry
from lakelog.filestore.merge.lookups import needs_lookup
from lakelog.filestore.options import BUCKET, COMMIT_MAX_RETRIES, ROWKIND_FIELD, WRITE_BUFFER_SIZE
from lakelog.filestore.read import read_split
from lakelog.filestore.scan import plan
from lakelog.filestore.schema import TableSchema
from lakelog.filestore.schema_rules import check_bucket, check_writable
from lakelog.filestore.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.store import TableStore
from lakelog.filestore.write import check_table_writable, write_rows


def rescale_schema(table: TableStore, bucket_count: int, *, clock: CommitClock) -> TableSchema:
    """Make the schema with the number of buckets the newest one, unless it is; gives it.

    Raises InvalidRequestError or UnsupportedError where the rows cannot move, ConflictError when somebody else changed
    the schema at the same time.
    """
    check_table_writable(table)
    newest = table.schemas.latest() or table.schema
    if bucket_count < 1 or newest.bucket_count < 1:
        raise InvalidRequestError(
            f"table {table.name} has bucket={newest.bucket_count}: only a positive number becomes another, found "
            f"{bucket_count}"
        )
    if needs_lookup(newest):
        raise UnsupportedError(
            f"table {table.name} looks up old rows (changelog-producer=lookup, first-row or deletion vectors): rows "
            "that move would be told as new ones; such tables are not rescaled yet"
        )
    if newest.bucket_count == bucket_count:
        return newest
    options = {**newest.options, BUCKET.key: str(bucket_count)}
    changed = replace(newest, id=newest.id + 1, options=options, time_millis=clock.now_millis())
    check_bucket(changed)
    check_writable(changed)
    table.schemas.create(changed)
    return changed


def move_rows(table: TableStore, *, clock: CommitClock) -> Snapshot | None:
    """Write the rows of files with another number of buckets than the table's anew; None when there are none.

    Starts over when another commit comes first; raises ConflictError when that happens too often.
    """
    for attempt in itertools.count():
        base = table.snapshots.latest()
        live = table.live_files.of(base)
        if base is None or all(entry.total_buckets == table.bucket_count for entry in live.entries()):
            return None
        added = _rewritten(table.stored, base)
        commit = TableCommit(table, clock=clock)
        try:
            return commit.commit(_Move(table, base, added).resolve)
        except ConflictError:
            if not commit.has_unknown_outcome:
                paths = (table.data_path(entry.partition, entry.bucket, entry.file) for entry in added)
                discard_files(table, paths)
            if commit.has_unknown_outcome or attempt >= COMMIT_MAX_RETRIES.of(table.schema.options):
                raise
    raise AssertionError("unreachable")


class _Move:
    """The commit that puts new files in the place of all that a snapshot has."""

    def __init__(self, table: TableStore, base: Snapshot, added: Sequence[ManifestEntry]) -> None:
        self._table = table
        self._base = base
        self._added = added
        self._user = str(uuid.uuid4())

    def resolve(self, latest: Snapshot | None) -> CommitRequest:
        """The change, on top of the snapshot whose rows were moved. Raises ConflictError for another one."""
        if latest != self._base:
            raise ConflictError(f"{self._table.name} changed while its rows were moved to other buckets; rescale again")
        gone = (replace(entry, kind=FileKind.DELETE) for entry in self._table.live_files.of(latest).entries())
        return CommitRequest(
            commit_user=self._user,
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.OVERWRITE,
            entries=[*gone, *self._added],
            operation="RESCALE",
        )


def _rewritten(table: TableStore, base: Snapshot) -> list[ManifestEntry]:
    """All rows of a snapshot in new files, a write buffer at a time."""
    entries: list[ManifestEntry] = []
    row_count = 0
    merged = replace(table, schema=replace(table.schema, options=_without_kinds(table.schema.options)))
    batches = (batch for split in plan(table, base).splits for batch in read_split(table, split))
    for rows in pieces_of(batches, WRITE_BUFFER_SIZE.of(table.schema.options)):
        written = write_rows(merged, rows, first_sequence=_always(row_count), is_overwrite=True)
        entries += written.entries
        row_count += rows.num_rows
    return entries


def _without_kinds(options: Mapping[str, str]) -> dict[str, str]:
    """Options under which every row is there: a column of row kinds told what to do with a row, and that is done."""
    return {key: text for key, text in options.items() if key != ROWKIND_FIELD.key}


def _always(sequence: int) -> Callable[[bytes, int], int]:
    return lambda _partition, _bucket: sequence
