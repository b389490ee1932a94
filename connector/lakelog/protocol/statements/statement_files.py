"""The files of a batch statement: staged before it is prepared, read and maybe rewritten when it is logged.

Staged files are level-0 files of the table. If nothing was logged in a bucket since, and its records need no old rows,
they get into the table unchanged. Otherwise the part is made again from them, on what the bucket has by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.clock import Stopwatch
from lakelog.common.types import RowKind
from lakelog.filestore.merge import are_absent, key_frame, row_merge
from lakelog.filestore.metadata.manifests import BucketId
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import ROWKIND_FIELD
from lakelog.filestore.schema import FileNames
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.state.change_tracking import ChangeTracking
from lakelog.protocol.state.header import BucketFile, LogMark, StagedPart
from lakelog.protocol.state.ports import PartBase, PreparedBucket
from lakelog.protocol.statements.staging import every_row, staged_rows, write_staged
from lakelog.protocol.stores.encoded_parts import ChangeRows, EncodedChanges, encode_bucket, tracked_records
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.logged_rows import BucketRows, ResolvedRows, StayingRows, split_rows, staying_rows
from lakelog.protocol.stores.old_values import changed_rows
from lakelog.protocol.stores.removing import still_there
from lakelog.protocol.stores.resolving import old_rows, resolve, resolved
from lakelog.protocol.stores.task_stores import TaskFiles


@dataclass(frozen=True, slots=True)
class StatementTaskFiles(TaskFiles):
    """The file store for a task of batch statements."""

    def prepare_staged(
        self, bucket: int, part: StagedPart, base: PartBase, *, has_moved: bool
    ) -> PreparedBucket[EncodedRecords]:
        """The records of a staged part on what the bucket has, and its files, which are new ones if they must be."""
        age = Stopwatch()
        # The statement decides, not the writer that finishes it.
        tracking = ChangeTracking.of(self.table.schema.options, given=part.is_tracked)
        made = _made(self.table, replace(self.target, tracking=tracking), bucket, part, base, has_moved=has_moved)
        removed = part.removed if made.removed is None else made.removed
        if made.is_new:
            prepared = self.prepare(bucket, lambda _base: made.encoded, base)
            if self.table.schema.is_merged_at_write:  # the rows that are taken out are among the changes
                return prepared
            return replace(prepared, removed=removed, age_seconds=age.seconds)
        records = made.encoded.records
        return PreparedBucket(
            files=part.files,
            changelog=(),
            record_count=records.sent_count if len(records) or part.files or removed else 0,
            size_bytes=records.size_bytes,
            payload=records,
            # Staged files are listed by the prepared commit: they do not become orphans.
            age_seconds=lambda: 0.0 if made.removed is None else age.seconds(),
            removed=removed,
            mark=LogMark.UNTRACKED if records.has_header_record else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A part for the log. `is_new` says that its rows differ from the staged files' rows; `removed` are other files."""

    encoded: EncodedChanges
    is_new: bool
    removed: tuple[BucketFile, ...] | None = None


def _made(
    table: TableStore, target: LogTarget, bucket: int, part: StagedPart, base: PartBase, *, has_moved: bool
) -> _Made:
    if table.schema.is_merged_at_write:
        return _Made(encoded=_resolved(table, target, bucket, part, base), is_new=True)
    rows, kinds = staged_rows(table, bucket, part.files)
    of_column = ROWKIND_FIELD.of(table.schema.options) is not None
    changes = ChangeRows(rows=rows, kinds=None if of_column else kinds)
    if not table.schema.primary_keys:
        added = encode_bucket(table, target, bucket, changes)
        if not part.removed:
            return _Made(encoded=added, is_new=has_moved)
        deletes, removed = _removals(table, bucket, part, base, has_moved=has_moved)
        all_kinds = pa.chunked_array([_kinds(deletes, RowKind.DELETE), kinds], pa.int8())
        records = tracked_records(table, target, pa.concat_tables([deletes, rows]), all_kinds)
        return _Made(encoded=replace(added, records=records), is_new=has_moved and rows.num_rows > 0, removed=removed)
    if not (has_moved or table.schema.looks_up_old_rows):
        return _Made(encoded=encode_bucket(table, target, bucket, changes), is_new=False)
    parts = [(one.bucket_id, resolve(table, one, base)) for one in split_rows(table, rows, kinds)]
    return _Made(encoded=_encoded(table, target, parts), is_new=True)


def _resolved(table: TableStore, target: LogTarget, bucket: int, part: StagedPart, base: PartBase) -> EncodedChanges:
    """The part for a table that merges when it is written: rows are removed, then the changes are folded."""
    rows, kinds = staged_rows(table, bucket, part.files)
    removed, _ = staged_rows(table, bucket, part.removed)
    deletes = _kinds(removed, RowKind.DELETE)
    by_id: dict[BucketId, BucketRows] = {one.bucket_id: one for one in split_rows(table, rows, kinds)}
    gone = {one.bucket_id: one for one in split_rows(table, removed, deletes)}
    parts = [(one, _fold(table, one, by_id.get(one), gone.get(one), base)) for one in sorted({*by_id, *gone})]
    return _encoded(table, target, parts)


def _fold(
    table: TableStore, bucket_id: BucketId, part: BucketRows | None, taken: BucketRows | None, base: PartBase
) -> ResolvedRows:
    """The changes of one partition of a bucket: those of the removed keys and of the folded rows."""
    if taken is None:
        assert part is not None, "a partition is there for its rows"
        return resolve(table, part, base)
    if part is None:
        return _replaced(table, taken, base)
    # The rows of removed keys are folded without what the table has; those of other keys are folded onto it.
    merge = row_merge(table.schema)
    assert merge is not None, "a table merged at write has a merge"
    keys = key_frame(taken.rows, table.schema.key_fields)
    is_fresh = ~are_absent(key_frame(part.rows, table.schema.key_fields), keys)
    fresh, other = _filtered(part, is_fresh.to_arrow()), _filtered(part, (~is_fresh).to_arrow())
    made = resolved(table, merge, fresh, None).staying
    rows, kinds = pa.concat_tables([taken.rows, made.rows]), pa.concat_arrays([taken.kinds, made.kinds])
    first = _replaced(table, BucketRows(bucket_id=bucket_id, rows=rows, kinds=kinds), base)
    return joined(table, first, resolve(table, other, base)) if other.rows.num_rows else first


def _replaced(table: TableStore, part: BucketRows, base: PartBase) -> ResolvedRows:
    """The changes of rows that replace what their keys have, whatever the merge engine."""
    newest = staying_rows(table, part.rows, part.kinds)
    old = old_rows(table, part.bucket_id, base, key_frame(newest.rows, table.schema.key_fields))
    return changed_rows(table.schema, newest, old)


def _filtered(part: BucketRows, mask: pa.Array) -> BucketRows:
    return BucketRows(bucket_id=part.bucket_id, rows=part.rows.filter(mask), kinds=part.kinds.filter(mask))


def joined(table: TableStore, one: ResolvedRows, other: ResolvedRows) -> ResolvedRows:
    """The changes of two parts without a common key; the rows of the second follow those of the first."""
    changes = pa.concat_tables([one.changes, other.changes])
    rows = pa.concat_tables([one.staying.rows, other.staying.rows])
    before = one.staying.given_count
    of_changes = np.concatenate([one.positions, other.positions + before]).astype(np.uint32)
    of_rows = np.concatenate([one.staying.positions, other.staying.positions + before]).astype(np.uint32)
    order, row_order = _key_order(table, changes), _key_order(table, rows)
    return ResolvedRows(
        changes=changes.take(pa.array(order)),
        kinds=pa.concat_arrays([one.kinds, other.kinds]).take(pa.array(order)),
        positions=of_changes[order],
        staying=StayingRows(
            rows=rows.take(pa.array(row_order)),
            kinds=pa.concat_arrays([one.staying.kinds, other.staying.kinds]).take(pa.array(row_order)),
            positions=of_rows[row_order],
            given_count=before + other.staying.given_count,
        ),
    )


def _key_order(table: TableStore, rows: pa.Table) -> npt.NDArray[np.uint32]:
    keys = key_frame(rows, table.schema.key_fields)
    return keys.with_row_index("row").sort(keys.columns, maintain_order=True)["row"].to_numpy()


def _encoded(table: TableStore, target: LogTarget, parts: Sequence[tuple[BucketId, ResolvedRows]]) -> EncodedChanges:
    rows = pa.concat_tables([table.schema.arrow_schema.empty_table(), *(one.changes for _, one in parts)])
    kinds = pa.chunked_array([one.kinds for _, one in parts], pa.int8())
    return EncodedChanges(
        parts=tuple((bucket_id, one.staying) for bucket_id, one in parts),
        records=tracked_records(table, target, rows, kinds),
        changes=tuple(one for _, one in parts) if table.schema.has_changelog_at_write else (),
    )


def _removals(
    table: TableStore, bucket: int, part: StagedPart, base: PartBase, *, has_moved: bool
) -> tuple[pa.Table, tuple[BucketFile, ...] | None]:
    """The rows that a statement takes out of an append-only table, one `d` each, if they are still there.

    Also gives new files with these rows; None if all rows are still there.
    """
    rows, _ = staged_rows(table, bucket, part.removed)
    left = still_there(table, bucket, base, rows) if has_moved else rows
    if left.num_rows == rows.num_rows:
        return rows, None
    names, done = FileNames(), dict[int, list[BucketFile]]()
    for one in split_rows(table, left, _kinds(left, RowKind.INSERT)):
        write_staged(table, one.bucket_id, every_row(table, one), 0, names, done, [])
    return left, tuple(done.get(bucket, ()))


def _kinds(rows: pa.Table, kind: RowKind) -> pa.Array:
    return pa.nulls(rows.num_rows, pa.int8()).fill_null(int(kind))
