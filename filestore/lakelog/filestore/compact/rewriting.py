"""Compaction of one bucket: merge what a unit names, and tell which files replace which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import pieces_of
from lakelog.filestore.compact.picking import (
    CompactUnit,
    max_level,
    pick_for_space_amp,
    pick_full,
    pick_small_files,
    pick_universal,
)
from lakelog.filestore.data_file import DataFileMeta, FileSource
from lakelog.filestore.data_reader import read_data_file
from lakelog.filestore.data_writer import StoredRows, target_file_bytes, write_data_files
from lakelog.filestore.levels import Section, SortedRun, may_hold_deletes, runs_of, sections_of
from lakelog.filestore.manifest import FileKind, ManifestEntry
from lakelog.filestore.merge.deduplicate import are_adds, merged_kinds
from lakelog.filestore.merge.order import to_series
from lakelog.filestore.merge.reading import COPIES, BucketReader
from lakelog.filestore.options import (
    COMPACTION_MIN_FILE_NUM,
    NUM_LEVELS,
    NUM_SORTED_RUNS_SETTLING_TRIGGER,
    NUM_SORTED_RUNS_STOP,
    NUM_SORTED_RUNS_TRIGGER,
    READ_MEMORY_BUDGET,
    SETTLING_AMPLIFICATION_PERCENT,
    SIZE_AMPLIFICATION_PERCENT,
    SIZE_RATIO_PERCENT,
)
from lakelog.filestore.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.store import TableStore
from lakelog.filestore.write import check_table_writable, checked_kinds

_RUNS_BEFORE_STOP = 3  # beyond the compaction trigger
_SETTLING_TRIGGER_FACTOR = 6
_SMALL_FILE_PERCENT = 70  # of the target size: smaller files are rewritten with their neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """Files of one bucket that others with the same rows replace."""

    partition: bytes
    bucket: int
    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]

    def entries(self, total_buckets: int) -> list[ManifestEntry]:
        """What a COMPACT commit changes."""
        changes = [
            *((FileKind.DELETE, file) for file in self.before),
            *((FileKind.ADD, file) for file in self.after),
        ]
        return [
            ManifestEntry(
                kind=kind, partition=self.partition, bucket=self.bucket, total_buckets=total_buckets, file=file
            )
            for kind, file in changes
        ]


def pick_unit(
    table: TableStore,
    files: Sequence[DataFileMeta],
    *,
    is_full: bool = False,
    files_per_batch: int = 1,
    is_settled_later: bool = False,
) -> CompactUnit | None:
    """What to compact in a bucket of these files, by the table's options; None when nothing is due.

    `files_per_batch` is how many level-0 files one batch adds to the bucket: they count as one run of the trigger.
    `is_settled_later` says that all runs are merged soon, so that more of them may pile up until then.
    """
    options = table.schema.options
    if not table.schema.primary_keys:
        count_min = 2 if is_full else COMPACTION_MIN_FILE_NUM.of(options)
        return pick_small_files(files, small_bytes=_small_bytes(table), count_min=count_min)
    runs = runs_of(files, table.key_types)
    if is_full:
        return pick_full(runs, level_max=_level_max(table, runs))
    return pick_universal(
        runs,
        trigger=_trigger(options, is_settled_later=is_settled_later) * files_per_batch,
        amplification_percent_max=SIZE_AMPLIFICATION_PERCENT.of(options),
        ratio_percent=SIZE_RATIO_PERCENT.of(options),
        level_max=_level_max(table, runs),
    )


def pick_settling_unit(table: TableStore, files: Sequence[DataFileMeta]) -> CompactUnit | None:
    """What to merge in a bucket that is not written for a while, so that reads need not merge; None when little is."""
    if not table.schema.primary_keys:
        return pick_unit(table, files)
    runs = runs_of(files, table.key_types)
    percent = SETTLING_AMPLIFICATION_PERCENT.of(table.schema.options)
    return pick_for_space_amp(runs, trigger=2, percent_max=percent, level_max=_level_max(table, runs))


def must_writers_wait(
    table: TableStore, files: Sequence[DataFileMeta], *, files_per_batch: int = 1, is_settled_later: bool = False
) -> bool:
    """Whether a bucket has so many runs that it must be compacted before more are written. See `pick_unit`."""
    if not table.schema.primary_keys:
        return False
    options = table.schema.options
    stop = None if is_settled_later else NUM_SORTED_RUNS_STOP.of(options)
    if stop is None:
        stop = _trigger(options, is_settled_later=is_settled_later) + _RUNS_BEFORE_STOP
    return len(runs_of(files, table.key_types)) >= stop * files_per_batch


def _trigger(options: Mapping[str, str], *, is_settled_later: bool) -> int:
    trigger = NUM_SORTED_RUNS_TRIGGER.of(options)
    if not is_settled_later:
        return trigger
    return NUM_SORTED_RUNS_SETTLING_TRIGGER.of(options) or trigger * _SETTLING_TRIGGER_FACTOR


def _level_max(table: TableStore, runs: Sequence[SortedRun]) -> int:
    options = table.schema.options
    return max_level(runs, level_count=NUM_LEVELS.of(options) or NUM_SORTED_RUNS_TRIGGER.of(options) + 1)


def compact_bucket(
    table: TableStore,
    partition: bytes,
    bucket: int,
    unit: CompactUnit,
    *,
    memory_budget_bytes: int | None = None,
) -> CompactResult | None:
    """Merge the runs of a unit into files of its output level; None when every file is where it should be.

    A large file that overlaps no other, and for sure holds no deletes, only changes its level. The table changes by the
    commit of the result's entries.
    """
    check_table_writable(table)
    budget = memory_budget_bytes or READ_MEMORY_BUDGET.of(table.schema.options)
    if not table.schema.primary_keys:
        return _joined_files(table, partition, bucket, unit, budget)
    reader = BucketReader(table, partition, bucket, memory_budget_bytes=budget)
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    for group in rewrite_groups(sections_of(unit.inputs, table.key_types), small_bytes=_small_bytes(table)):
        files = [file for section in group for file in section.files]
        if len(files) == 1 and not _must_rewrite(files[0]):
            if files[0].level != unit.output_level:
                before.append(files[0])
                after.append(replace(files[0], level=unit.output_level))
            continue
        pieces = _merged_pieces(reader, group, keeps_deletes=not unit.drops_deletes)
        after += write_data_files(table, partition, bucket, pieces, level=unit.output_level, source=FileSource.COMPACT)
        before += files
    if not before:
        return None
    return CompactResult(partition=partition, bucket=bucket, before=tuple(before), after=tuple(after))


def discard_result(table: TableStore, result: CompactResult) -> None:
    """Delete the files that a compaction made and no snapshot names; one that only changed its level stays."""
    old = {file.file_name for file in result.before}
    for file in result.after:
        if file.file_name not in old:
            table.file_io.delete(table.data_path(result.partition, result.bucket, file))


def _small_bytes(table: TableStore) -> int:
    return target_file_bytes(table.schema) * _SMALL_FILE_PERCENT // 100


def _joined_files(
    table: TableStore, partition: bytes, bucket: int, unit: CompactUnit, budget_bytes: int
) -> CompactResult:
    """Small files of a table without primary key as few large ones, their rows in the order of the files."""
    files = [file for run in unit.inputs for file in run.files]
    piece_bytes = budget_bytes // COPIES

    def pieces() -> Iterator[StoredRows]:
        for file in files:
            batches = read_data_file(table, (partition, bucket), file, table.schema.fields, piece_bytes=piece_bytes)
            first = file.min_sequence_number
            for rows in pieces_of(batches, piece_bytes):
                sequences = pa.array(np.arange(first, first + rows.num_rows))
                yield StoredRows(rows=rows, sequences=sequences, kinds=checked_kinds(None, rows.num_rows))
                first += rows.num_rows

    after = write_data_files(table, partition, bucket, pieces(), level=0, source=FileSource.COMPACT)
    return CompactResult(partition=partition, bucket=bucket, before=tuple(files), after=tuple(after))


def rewrite_groups(sections: Sequence[Section], *, small_bytes: int) -> Iterator[tuple[Section, ...]]:
    """Neighbouring sections that are written together; a large file that needs no rewrite is alone. Pure."""
    held: list[Section] = []
    for section in sections:
        is_alone = len(section.files) == 1 and not _must_rewrite(section.files[0])
        if not is_alone or section.size_bytes < small_bytes:
            held.append(section)
            continue
        if held:
            yield tuple(held)
            held = []
        yield (section,)
    if held:
        yield tuple(held)


def _must_rewrite(file: DataFileMeta) -> bool:
    """Whether the file cannot just change its level: deletes are dropped, or become known, only by a rewrite."""
    return may_hold_deletes(file)


def _merged_pieces(reader: BucketReader, group: Sequence[Section], *, keeps_deletes: bool) -> Iterator[StoredRows]:
    for section in group:
        for rows in reader.stored_rows(section, keeps_deletes=keeps_deletes):
            kinds = merged_kinds(are_adds(to_series(rows.column(VALUE_KIND))).to_arrow())
            yield StoredRows(rows=rows, sequences=rows.column(SEQUENCE_NUMBER), kinds=kinds)
