"""The parts of a write: the files of all its buckets, and the headers that name all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import FileNames
from lakelog.filestore.write import StatementChanges
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.state.header import BucketFile, CommitHeader, StagedPart
from lakelog.protocol.state.ports import PartBase, PreparedBucket
from lakelog.protocol.state.writes import digest_of_sources, write_name
from lakelog.protocol.statements.owned_log import OwnedLog, Part
from lakelog.protocol.statements.staging import every_row, write_staged
from lakelog.protocol.stores.encoded_parts import ChangeRows, encode_part
from lakelog.protocol.stores.logged_rows import split_rows
from lakelog.protocol.stores.task_stores import TaskFiles
from lakelog.protocol.writing.tail_checks import next_sequence


def made_parts(
    log: OwnedLog, user: str, number: int, changes: StatementChanges, sources: Mapping[str, int]
) -> dict[int, Part]:
    """Write the files of a write on what the log has; gives the part of each bucket in which it changes something.

    Nothing is logged. `sources` are the last identifiers of all sources of the writer.
    """
    table, target, state = log.table, log.target, log.state
    parts: dict[int, PreparedBucket[EncodedRecords]] = {}
    staged: dict[int, StagedPart] = {}
    for bucket, rows in _by_bucket(table, changes):
        headers = tuple(header for header, _ in log.buckets[bucket].logged)
        first = next_sequence(state, bucket, list(headers))
        base = PartBase(first_sequence=first, snapshot_id=state.snapshot_id, tail=headers)
        part = TaskFiles(table, target).prepare(bucket, partial(encode_part, table, target, bucket, rows), base)
        if part.is_empty:
            continue
        is_merged = table.schema.is_merged_at_write
        files = _given_changes(table, bucket, rows, first) if is_merged else part.files
        parts[bucket] = part
        staged[bucket] = StagedPart(offset=log.buckets[bucket].end, files=files, is_tracked=target.tracking.is_on)
    return {
        bucket: (
            part,
            CommitHeader(
                table_uuid=table.uuid,
                user=user,
                identifier=number,
                source_digest=digest_of_sources(sources),
                schema_id=table.schema.id,
                base_snapshot_id=state.snapshot_id,
                record_count=part.record_count,
                size_bytes=part.size_bytes,
                files=part.files,
                changelog=part.changelog,
                lineage=dict(table.lineage or {}),
                statement=write_name(user, number),
                mark=part.mark,
                parts=staged,
            ),
        )
        for bucket, part in parts.items()
    }


def _by_bucket(table: TableStore, changes: StatementChanges) -> list[tuple[int, ChangeRows]]:
    """The rows of each bucket, in arrival order."""
    schema = table.schema
    if table.bucket_count == 1:
        return [(0, ChangeRows(rows=changes.rows, kinds=changes.kinds))] if changes.rows.num_rows else []
    buckets = bucket_of(changes.rows, schema.bucket_fields, table.bucket_count, schema.bucket_function)
    found = []
    for bucket in np.unique(buckets).tolist():
        places = pa.array(np.flatnonzero(buckets == bucket))
        found.append((bucket, ChangeRows(rows=changes.rows.take(places), kinds=changes.kinds.take(places))))
    return found


def _given_changes(table: TableStore, bucket: int, rows: ChangeRows, first_sequence: int) -> tuple[BucketFile, ...]:
    """Files with the changes as they were given: from merged rows the part could not be made again."""
    files: dict[int, list[BucketFile]] = {}
    names = FileNames()
    for part in split_rows(table, rows.rows, rows.kinds):
        write_staged(table, part.bucket_id, every_row(table, part), first_sequence, names, files, [])
    return tuple(files.get(bucket, ()))
