"""A bucket's part of a batch, before it has sequence numbers: the rows that go to files, and the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import RowKind
from lakelog.filestore.encoding import serialize_row
from lakelog.filestore.metadata.manifests import BucketId
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import check_kinds_taken, check_table_writable, written_kinds
from lakelog.logstore.codec.encoded_records import NO_RECORDS, EncodedRecords
from lakelog.logstore.codec.log_codec import codec_of
from lakelog.logstore.kafka.clients.record_limit import record_limit
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.state.loggable import check_loggable
from lakelog.protocol.state.moved_parts import rows_left
from lakelog.protocol.state.ports import PartBase
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.logged_rows import BucketRows, ResolvedRows, StayingRows, split_rows, staying_rows
from lakelog.protocol.stores.resolving import resolve

# Each bucket of a task has its own thread, to wait for the broker in parallel. Computations take turns: threads that
# compete for the interpreter take a third more time for the same work.
TURN = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """Checked rows of one bucket in arrival order, in the table's columns.

    `kinds` are RowKind values as int8; None means that all are +I.
    """

    rows: pa.Table
    kinds: pa.Array | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedChanges:
    """A bucket's part of a batch before it has sequence numbers: the staying rows, by partition, and its records.

    `changes` has those of the same partitions if they also go to changelog files; else there are none.
    """

    parts: tuple[tuple[BucketId, StayingRows], ...]
    records: EncodedRecords
    changes: tuple[ResolvedRows, ...] = ()


NO_CHANGES = EncodedChanges(parts=(), records=NO_RECORDS)
Encoded = Callable[[PartBase], EncodedChanges]
"""Makes a bucket's part on what the bucket has; asked behind the fence, and again when others have moved it on."""


def encode_part(table: TableStore, target: LogTarget, bucket: int, rows: ChangeRows, base: PartBase) -> EncodedChanges:
    """Make the part from rows that `validate_rows` has checked, without rows that `base` has.

    Raises like `encode_bucket`, and NotFoundError.
    """
    if base.written:
        left = rows_left(table.schema, rows.rows, base.written)
        rows = ChangeRows(rows=rows.rows.filter(left), kinds=None if rows.kinds is None else rows.kinds.filter(left))
        if not rows.rows.num_rows:
            return NO_CHANGES
    if table.schema.looks_up_old_rows:
        return resolve_bucket(table, target, bucket, rows, base)
    return encode_bucket(table, target, bucket, rows)


def resolve_bucket(
    table: TableStore, target: LogTarget, bucket: int, rows: ChangeRows, base: PartBase
) -> EncodedChanges:
    """Look up the rows that the keys have, and encode what changes; for tables that look up rows at each write.

    Raises NotFoundError for files that have expired, and like `encode_bucket`.
    """
    check_table_writable(table)
    check_loggable(table.schema, table_name=table.name)
    with TURN:
        parts = _by_partition(table, bucket, rows.rows, _kinds(table, rows))
        found = [(part.bucket_id, resolve(table, part, base)) for part in parts]
        changes = pa.concat_tables([one.changes for _, one in found])
        kinds = pa.chunked_array([one.kinds for _, one in found], pa.int8())
        return EncodedChanges(
            parts=tuple((bucket_id, one.staying) for bucket_id, one in found),
            records=tracked_records(table, target, changes, kinds),
            changes=tuple(one for _, one in found) if table.schema.has_changelog_at_write else (),
        )


def encode_bucket(table: TableStore, target: LogTarget, bucket: int, rows: ChangeRows) -> EncodedChanges:
    """Encode the records of rows that `validate_rows` has checked. Logs nothing.

    Raises InvalidRequestError for row kinds that are invalid or that the table does not take, UnsupportedError for a
    table that cannot have a log.
    """
    check_table_writable(table)
    check_loggable(table.schema, table_name=table.name)
    with TURN:
        given = _kinds(table, rows)
        parts = tuple(
            (part.bucket_id, staying_rows(table, part.rows, part.kinds))
            for part in _by_partition(table, bucket, rows.rows, given)
        )
        logged, kinds = (rows.rows, given) if target.mode is ChangelogMode.ALL else _last_changes(parts)
        return EncodedChanges(parts=parts, records=tracked_records(table, target, logged, kinds))


def _records_of(
    table: TableStore, target: LogTarget, rows: pa.Table, kinds: pa.Array | pa.ChunkedArray | None
) -> EncodedRecords:
    """The records of changes in the table's columns, in order; `kinds` None means that all are +I."""
    limit = record_limit(target.topic)
    return codec_of(target.topic.format).encode_changes(
        rows,
        kinds,
        table.schema.fields,
        table.schema.primary_keys,
        target.mode,
        update_bytes_max=limit.record_bytes,
    )


def tracked_records(
    table: TableStore, target: LogTarget, rows: pa.Table, kinds: pa.Array | pa.ChunkedArray
) -> EncodedRecords:
    """The records of the tracked changes, after a header record if some changes are not tracked."""
    is_logged = target.tracking.logged(rows, table.schema)
    if is_logged is None:
        return _records_of(table, target, rows, kinds)
    records = _records_of(table, target, rows.filter(is_logged), kinds.filter(is_logged))
    return replace(records, has_header_record=True)


def _kinds(table: TableStore, rows: ChangeRows) -> pa.Array:
    """The kinds of rows (int8), checked for the table."""
    kinds = written_kinds(table.schema, rows.rows, rows.kinds, table_name=table.name)
    check_kinds_taken(table, kinds)
    return kinds


def _by_partition(table: TableStore, bucket: int, rows: pa.Table, kinds: pa.Array) -> Sequence[BucketRows]:
    if not table.schema.partition_keys:
        return [BucketRows(bucket_id=BucketId(serialize_row([], []), bucket), rows=rows, kinds=kinds)]
    parts = split_rows(table, rows, kinds)
    assert all(part.bucket_id.number == bucket for part in parts), "the task was given another bucket's rows"
    return parts


def _last_changes(parts: Sequence[tuple[BucketId, StayingRows]]) -> tuple[pa.Table, pa.ChunkedArray]:
    """The last change of each key. A key whose last change is -U is not in the files, so its record is a delete."""
    kinds = pa.chunked_array([newest.kinds for _, newest in parts], pa.int8())
    is_deleted = pc.equal(kinds, pa.scalar(RowKind.UPDATE_BEFORE.value, pa.int8()))
    deletes = pc.if_else(is_deleted, pa.scalar(RowKind.DELETE.value, pa.int8()), kinds)
    return pa.concat_tables([newest.rows for _, newest in parts]), deletes
