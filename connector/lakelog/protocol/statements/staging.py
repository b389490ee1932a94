"""The staged files of a statement: its changes in level-0 files, written before the prepared commit lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from lakelog.common.types import RowKind
from lakelog.filestore.data import read_data_file
from lakelog.filestore.merge import changed_rows, key_frame
from lakelog.filestore.metadata.manifests import BucketId
from lakelog.filestore.metadata.origins import Clears, clears_properties
from lakelog.filestore.metadata.snapshots import PropertyKey
from lakelog.filestore.metadata.tables import KIND_FIELD, SEQUENCE_FIELD, TableStore, discard_files
from lakelog.filestore.schema import SEQUENCE_NUMBER, VALUE_KIND, FileNames
from lakelog.filestore.write import StatementChanges
from lakelog.protocol.state.change_tracking import ChangeTracking
from lakelog.protocol.state.header import BucketFile, StagedPart
from lakelog.protocol.state.state import TableState
from lakelog.protocol.stores.logged_rows import BucketRows, StayingRows, split_rows, staying_rows, write_level0

_PIECE_BYTES = 32 << 20


def stage_statement(
    table: TableStore,
    rows: StatementChanges,
    state: TableState,
    *,
    skipped: int = 0,
    change_tracking: bool | None = None,
) -> dict[int, StagedPart]:
    """Write the level-0 files of a statement that was planned on a snapshot. The table does not change.

    Rows are numbered after those of the snapshot, with `skipped` numbers in between. `change_tracking` says whether the
    log gets its changes; by default the table's option decides. When it fails, the files written so far are deleted.
    """
    is_tracked = ChangeTracking.of(table.schema.options, given=change_tracking).is_on
    names = FileNames()
    done: list[tuple[BucketId, BucketFile]] = []
    files: dict[int, list[BucketFile]] = {}
    removed: dict[int, list[BucketFile]] = {}
    try:
        for part in split_rows(table, rows.rows, rows.kinds):
            first = max(
                [state.logged.position(part.bucket_id.number).sequence + skipped]
                + [one.meta.max_sequence_number + 1 for one in files.get(part.bucket_id.number, ())]
            )
            staying = every_row(table, part) if table.schema.is_merged_at_write else staying_rows(
                table, part.rows, part.kinds
            )  # fmt: skip
            write_staged(table, part.bucket_id, staying, first, names, files, done)
        inserts = pa.nulls(rows.removed.num_rows, pa.int8()).fill_null(int(RowKind.INSERT))
        for part in split_rows(table, rows.removed, inserts):
            write_staged(table, part.bucket_id, every_row(table, part), 0, names, removed, done)
    except BaseException:
        discard_files(table, [table.data_path(bucket_id, file.meta) for bucket_id, file in done])
        raise
    return {
        bucket: StagedPart(
            offset=state.logged.position(bucket).offset,
            files=tuple(files.get(bucket, ())),
            removed=tuple(removed.get(bucket, ())),
            is_tracked=is_tracked,
        )
        for bucket in sorted({*files, *removed})
    }


def with_base(
    table: TableStore, state: TableState, clears: Clears | None, properties: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a statement's snapshot, with the base if it takes rows out as a whole or restores."""
    if clears is None and PropertyKey.RESTORES not in properties:
        return dict(properties)
    base = table.snapshots.find(state.snapshot_id) if state.snapshot_id else None
    return {**properties, **clears_properties(clears, base)}


def write_staged(  # noqa: PLR0917  # where a part is written
    table: TableStore,
    bucket_id: BucketId,
    staying: StayingRows,
    first_sequence: int,
    names: FileNames,
    files: dict[int, list[BucketFile]],
    done: list[tuple[BucketId, BucketFile]],
) -> None:
    for meta in write_level0(table, bucket_id, staying, first_sequence=first_sequence, names=names):
        file = BucketFile(partition=bucket_id.partition, meta=meta)
        files.setdefault(bucket_id.number, []).append(file)
        done.append((bucket_id, file))


def every_row(table: TableStore, part: BucketRows) -> StayingRows:
    """All rows of a part, each with its position in arrival order; in key order if there is a key."""
    order = np.arange(part.rows.num_rows, dtype=np.uint32)
    if table.schema.primary_keys:
        keys = key_frame(part.rows, table.schema.key_fields)
        order = keys.with_row_index("row").sort(keys.columns, maintain_order=True)["row"].to_numpy()
    return StayingRows(
        rows=part.rows.take(pa.array(order)),
        kinds=part.kinds.take(pa.array(order)),
        positions=order,
        given_count=part.rows.num_rows,
    )


def staged_rows(table: TableStore, bucket: int, files: Iterable[BucketFile]) -> tuple[pa.Table, pa.Array]:
    """The changes in staged files of a bucket, in arrival order, and their kinds (int8).

    Raises NotFoundError, CorruptDataError.
    """
    given = [_rows_of(table, file.bucket_id(bucket), file) for file in files]
    schema = table.schema.arrow_schema
    if not given:
        return schema.empty_table(), pa.array([], pa.int8())
    rows = pa.concat_tables([one for one, _, _ in given])
    kinds = pa.chunked_array([kind for _, _, kind in given], pa.int8()).combine_chunks()
    order = np.argsort(np.concatenate([sequences for _, sequences, _ in given]), kind="stable")
    return rows.take(pa.array(order)), kinds.take(pa.array(order))


def _rows_of(table: TableStore, bucket_id: BucketId, file: BucketFile) -> tuple[pa.Table, np.ndarray, pa.Array]:
    """The changes in one staged file, their sequence numbers (0 if it has none), and their kinds."""
    schema = table.schema
    extra = (SEQUENCE_FIELD, KIND_FIELD) if schema.primary_keys else ()
    fields = [*table.stored.schema.fields, *extra]  # with the count of a value-count table
    batches = list(read_data_file(table.stored, bucket_id, file.meta, fields, piece_bytes=_PIECE_BYTES))
    names = schema.field_names
    if schema.is_change_log:
        parts = [part for batch in batches for part in changed_rows(batch, piece_bytes=_PIECE_BYTES)]
        rows = pa.Table.from_batches([rows.select(names) for rows, _ in parts], schema.arrow_schema)
        kinds = pa.chunked_array([kinds for _, kinds in parts], pa.int8())
        return rows, np.zeros(rows.num_rows, np.int64), kinds.combine_chunks()
    found = pa.Table.from_batches(batches)
    if schema.primary_keys:
        sequences = found.column(SEQUENCE_NUMBER).to_numpy()
        kinds = found.column(VALUE_KIND).combine_chunks()
    else:
        sequences = np.full(found.num_rows, file.meta.min_sequence_number, np.int64)
        kinds = pa.nulls(found.num_rows, pa.int8()).fill_null(int(RowKind.INSERT))
    return found.select(names).cast(schema.arrow_schema), sequences, kinds
