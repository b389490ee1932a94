"""The files in which two states of a table differ, bucket by bucket: only these files hold what changed in between.

Nothing else of the states is read, so that the cost of a comparison depends on the changes. A compaction replaces files
without changing rows: then the files of both sides are read, and rows that are equal in both cancel out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakelog.common.types import DataType
from lakelog.filestore.encoding.key_order import key_order
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.refs.states.table_state import StateFile, TableState

_Files = dict[tuple[str, DeletionFile | None], StateFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDifference:
    """The files of a bucket that one of two states has; `companions` decide which row of a key counts."""

    bucket: BucketId
    only_old: Sequence[StateFile]
    only_new: Sequence[StateFile]
    companions: Sequence[StateFile]

    @property
    def row_count(self) -> int:
        """How many rows must be read."""
        both = 2 * sum(file.row_count for file, _ in self.companions)
        return both + sum(file.row_count for file, _ in (*self.only_old, *self.only_new))


def differences(old: TableState, new: TableState) -> Iterator[BucketDifference]:
    """The buckets in whose files the two states differ."""
    before, after = old.buckets(), new.buckets()
    merges = is_merged_on_read(new.table.stored.schema) and not new.table.schema.is_change_log
    for bucket in sorted({*before, *after}):
        had, has = _by_name(before.get(bucket, ())), _by_name(after.get(bucket, ()))
        only_old = [file for name, file in had.items() if name not in has]
        only_new = [file for name, file in has.items() if name not in had]
        if not (only_old or only_new):
            continue
        shared = [file for name, file in had.items() if name in has]
        yield BucketDifference(
            bucket=bucket,
            only_old=only_old,
            only_new=only_new,
            companions=_companions([*only_old, *only_new], shared, new.table.key_types) if merges else (),
        )


def _by_name(files: Sequence[StateFile]) -> _Files:
    """A file with another deletion vector is another file; a file on another level is the same file."""
    return {(file.file_name, vector): (file, vector) for file, vector in files}


def _companions(
    changed: Sequence[StateFile], shared: Sequence[StateFile], key_types: Sequence[DataType]
) -> list[StateFile]:
    """The shared files that may hold a younger row of a key in a changed file. Pure."""
    oldest = min(file.min_sequence_number for file, _ in changed)
    candidates = [one for one in shared if one[0].max_sequence_number >= oldest]
    if not candidates:
        return []
    order = key_order(key_types)
    ranges = [(file.min_sequence_number, order(file.min_key), order(file.max_key)) for file, _ in changed]

    def is_needed(file: DataFileMeta) -> bool:
        low, high, youngest = order(file.min_key), order(file.max_key), file.max_sequence_number
        return any(first <= youngest and low <= end and start <= high for first, start, end in ranges)

    return [one for one in candidates if is_needed(one[0])]
