"""Removes the rows that a merge deletes from an append-only table: the files that hold them are replaced by files
without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.data.taken_rows import WantedRows, files_without
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.refs.merges.sides import counted_rows
from lakelog.filestore.refs.states.row_equality import comparable
from lakelog.filestore.refs.states.table_state import StateFile, TableState
from lakelog.filestore.write.places import partitions_of
from lakelog.filestore.write.write import add_entry


def without_rows(main: TableState, base: TableState, branch: TableState, rows: pa.Table) -> list[ManifestEntry]:
    """The entries of a commit that removes rows from the table in the state `main`: files are deleted and added.

    The files that the branch has replaced are searched first, as most of its deletes are there; the search ends with
    the last row. Raises CorruptDataError if a row is not found.
    """
    table, fields = main.table, main.table.schema.fields
    wanted = WantedRows([rows], partial(comparable, fields=fields))
    budget = READ_MEMORY_BUDGET.understood(table.schema.options)
    partitions, _ = partitions_of(table, rows)
    entries: list[ManifestEntry] = []
    for bucket, file in _searched(main, base, branch, set(partitions)):
        if not wanted.count:
            break
        pieces = (rows for rows, _ in counted_rows(main, bucket, [file], fields, budget_bytes=budget))
        left = files_without(table, bucket, file[0], pieces, wanted)
        if left is not None:
            entries.append(replace(add_entry(table, bucket, file[0]), kind=FileKind.DELETE))
            entries += [add_entry(table, bucket, one) for one in left]
    if wanted.count:
        raise CorruptDataError(
            f"table {table.name} lacks {wanted.count} of the rows that its branch {branch.table.branch!r} has deleted, "
            "though both come from a state that has them: name the state with base="
        )
    return entries


def _searched(
    main: TableState, base: TableState, branch: TableState, partitions: set[bytes]
) -> Iterator[tuple[BucketId, StateFile]]:
    """The files of the table in these partitions, first those that the branch has removed."""
    there, had, has = main.buckets(), base.buckets(), branch.buckets()
    later: list[tuple[BucketId, StateFile]] = []
    for bucket, files in sorted(there.items()):
        if bucket.partition not in partitions:
            continue
        lost = {file.file_name for file, _ in had.get(bucket, ())} - {file.file_name for file, _ in has.get(bucket, ())}
        for file in files:
            if file[0].file_name in lost:
                yield bucket, file
            else:
                later.append((bucket, file))
    yield from later
