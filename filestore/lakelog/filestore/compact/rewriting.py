"""Compaction of one bucket: the runs of a unit are merged into new files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import pieces_of
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.compact.bucket_work import BucketWork, small_file_bytes
from lakelog.filestore.compact.change_merge import ChangeMerge
from lakelog.filestore.compact.count_checks import check_row_counts, check_summed_counts
from lakelog.filestore.compact.deletions import bucket_deletions
from lakelog.filestore.compact.lookup import BucketLookup
from lakelog.filestore.compact.picking import CompactUnit
from lakelog.filestore.compact.result import CompactResult, discard_result
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.index.deletion_vectors import DeletionFile, Positions, read_positions
from lakelog.filestore.index.index_manifest import BucketDeletions
from lakelog.filestore.merge.deduplicate import merged_kinds
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.lookups import needs_lookup
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.levels import Section, may_hold_deletes, sections_of
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.options.layout import CHANGELOG_FILE_PREFIX
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, DELETION_VECTORS, ChangelogProducer
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.bucket_reader import COPIES, BucketReader
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.schema.stored_schema import stored_schema
from lakelog.filestore.write.row_kinds import checked_kinds
from lakelog.filestore.write.write import check_table_writable


def compact_bucket(
    table: TableStore, work: BucketWork, *, memory_budget_bytes: int | None = None
) -> CompactResult | None:
    """Merge the runs of a unit into files of its output level; None if no file has to change.

    A large file that overlaps no other and certainly holds no deletes only changes its level. The table does not change
    until the result is committed.
    """
    check_table_writable(table)
    table = _as_new_as(table.stored, work.unit)
    budget = memory_budget_bytes or READ_MEMORY_BUDGET.understood(table.schema.options)
    if not table.schema.primary_keys:
        return _joined_files(table, work, budget)
    return _Rewrite(table=table, bucket=work.bucket, unit=work.unit, deletions=work.deletions, budget=budget).run()


@dataclass(slots=True, kw_only=True)
class _Rewrite:
    """The merge of one unit of a table with primary key."""

    table: TableStore
    bucket: BucketId
    unit: CompactUnit
    deletions: Mapping[str, DeletionFile]
    budget: int
    before: list[DataFileMeta] = field(default_factory=list)
    after: list[DataFileMeta] = field(default_factory=list)
    fresh_below: int = field(init=False)

    def __post_init__(self) -> None:
        self.fresh_below = _fresh_below(self.table, self.unit)

    def run(self) -> CompactResult | None:
        unit, small = self.unit, small_file_bytes(self.table)
        sections = sections_of(unit.inputs, self.table.key_types)
        changelog = ChangelogWriter(self.table, self.bucket, buffer_bytes=self.budget // COPIES)
        merge = self._merge()
        try:
            for group in rewrite_groups(sections, small_bytes=small, must_rewrite=self._must_rewrite):
                files = [file for section in group for file in section.files]
                if len(files) == 1 and not self._must_rewrite(files[0]):
                    self._lift(files[0])
                    continue
                pieces = self._pieces(merge, group, changelog)
                self.after += write_data_files(
                    self.table, self.bucket, pieces, level=unit.output_level, source=FileSource.COMPACT
                )
                self.before += files
            check_row_counts(self.before, self.after, table_name=self.table.name)
            check_summed_counts(self.table, self.bucket, self.before, self.after, piece_bytes=self.budget // COPIES)
            changes = changelog.finish()
            deletions = bucket_deletions(self.table, self.bucket, self.before, self.after, self.deletions, _met(merge))
        except Exception:  # any error: no snapshot names these files
            discard_result(self.table, self._result(changelog.files, None))
            raise
        return self._result(changes, deletions) if self.before else None

    def _result(self, changelog: Sequence[DataFileMeta], deletions: BucketDeletions | None) -> CompactResult:
        return CompactResult(
            bucket_id=self.bucket,
            before=tuple(self.before),
            after=tuple(self.after),
            changelog=tuple(changelog),
            deletions=deletions,
        )

    def _lift(self, file: DataFileMeta) -> None:
        if file.level != self.unit.output_level:
            self.before.append(file)
            self.after.append(replace(file, level=self.unit.output_level))

    def _merge(self) -> ChangeMerge:
        reader = BucketReader(self.table, self.bucket, memory_budget_bytes=self.budget, deletions=self.deletions)
        lookup = None
        only_marks = _only_marks(self.table, self.unit)
        looks_up = DELETION_VECTORS.of(self.table.schema.options) if only_marks else needs_lookup(self.table.schema)
        if looks_up and self.unit.older:
            lookup = BucketLookup(
                table=self.table,
                bucket=self.bucket,
                runs=self.unit.older,
                fields=[*self.table.schema.fields, SEQUENCE_FIELD, KIND_FIELD],
                deletions=self.deletions,
            )
        return ChangeMerge(
            schema=self.table.schema,
            reader=reader,
            lookup=lookup,
            fresh_below=self.fresh_below,
            only_marks=only_marks,
        )

    def _pieces(self, merge: ChangeMerge, group: Sequence[Section], changelog: ChangelogWriter) -> Iterator[StoredRows]:
        # With deletion vectors, the rows that a delete replaces are marked in them: the delete can be dropped.
        is_marked = DELETION_VECTORS.of(self.table.schema.options)
        keeps_deletes = not (self.unit.drops_deletes or is_marked)
        for section in group:
            for part in merge.rows(section, keeps_deletes=keeps_deletes):
                if part.changes is not None:
                    changelog.add(part.changes)
                rows = part.stored
                kinds = merged_kinds(rows.column(VALUE_KIND))
                yield StoredRows(rows=rows, sequences=rows.column(SEQUENCE_NUMBER), kinds=kinds)

    def _must_rewrite(self, file: DataFileMeta) -> bool:
        """Whether the file must be rewritten instead of changing its level.

        Only a rewrite drops deletes and deleted rows, or writes changes.
        """
        is_fresh = file.level < self.fresh_below
        return is_fresh or may_hold_deletes(file) or file.file_name in self.deletions


def _as_new_as(table: TableStore, unit: CompactUnit) -> TableStore:
    """The table with the newest schema of the files: an older one would lose their new columns."""
    files = (file for run in (*unit.inputs, *unit.older) for file in run.files)
    newest = max((file.schema_id for file in files), default=table.schema.id)
    return table if newest <= table.schema.id else replace(table, schema=stored_schema(table.schemas.get(newest)))


def _met(merge: ChangeMerge) -> Mapping[str, Positions]:
    """The positions of rows in other files that the compaction's rows replace."""
    marks = DELETION_VECTORS.of(merge.schema.options) and merge.lookup is not None
    met = merge.lookup.met if marks and merge.lookup is not None else {}
    return {name: np.concatenate(parts).astype(np.uint64) for name, parts in met.items()}


def _only_marks(table: TableStore, unit: CompactUnit) -> bool:
    """Whether only positions in the other runs matter, because the unit's level-0 rows replace them."""
    producer = CHANGELOG_PRODUCER.of(table.schema.options)
    writes_changelog = producer in {ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION}
    if row_merge(table.schema) is not None or writes_changelog:
        return False
    fresh = [run.min_sequence_number for run in unit.inputs if run.level == 0]
    return all(run.max_sequence_number < first for run in unit.older for first in fresh)


def _fresh_below(table: TableStore, unit: CompactUnit) -> int:
    """The level below which rows are fresh: not looked up yet, or not in a changelog. 0 if no rows are."""
    if needs_lookup(table.schema):
        return 1
    is_followed = CHANGELOG_PRODUCER.of(table.schema.options) is ChangelogProducer.FULL_COMPACTION
    return unit.output_level if is_followed and not unit.older else 0


def _joined_files(table: TableStore, work: BucketWork, budget_bytes: int) -> CompactResult:
    """Small files of a table without primary key, joined into few large ones in the order of the files."""
    bucket, deletions = work.bucket, work.deletions
    files = [file for run in work.unit.inputs for file in run.files]
    piece_bytes = budget_bytes // COPIES

    def pieces() -> Iterator[StoredRows]:
        for file in files:
            batches = read_data_file(
                table,
                bucket,
                file,
                table.schema.fields,
                piece_bytes=piece_bytes,
                deletions=deletions.get(file.file_name),
            )
            first = file.min_sequence_number
            for rows in pieces_of(batches, piece_bytes):
                sequences = pa.array(np.arange(first, first + rows.num_rows))
                yield StoredRows(rows=rows, sequences=sequences, kinds=checked_kinds(None, rows.num_rows))
                first += rows.num_rows

    after = write_data_files(table, bucket, pieces(), level=0, source=FileSource.COMPACT)
    deleted = sum(
        len(read_positions(table.file_io, deletions[file.file_name])) for file in files if file.file_name in deletions
    )
    try:
        check_row_counts(files, after, table_name=table.name, deleted=deleted)
    except CorruptDataError:
        discard_files(table, (table.data_path(bucket, file) for file in after))
        raise
    return CompactResult(
        bucket_id=bucket,
        before=tuple(files),
        after=tuple(after),
        deletions=bucket_deletions(table, bucket, files, after, deletions, {}),
    )


def rewrite_groups(
    sections: Sequence[Section], *, small_bytes: int, must_rewrite: Callable[[DataFileMeta], bool] = may_hold_deletes
) -> Iterator[tuple[Section, ...]]:
    """Neighbouring sections that are written together; a large file that needs no rewrite is alone. Pure."""
    held: list[Section] = []
    for section in sections:
        is_alone = len(section.files) == 1 and not must_rewrite(section.files[0])
        if not is_alone or section.size_bytes < small_bytes:
            held.append(section)
            continue
        if held:
            yield tuple(held)
            held = []
        yield (section,)
    if held:
        yield tuple(held)


class ChangelogWriter:
    """Buffers changes of one bucket, in key order, and writes a file whenever `buffer_bytes` are reached."""

    def __init__(self, table: TableStore, bucket: BucketId, *, buffer_bytes: int) -> None:
        """Start without changes."""
        self._table = table
        self._bucket = bucket
        self._buffer_bytes = buffer_bytes
        self._names = FileNames()
        self._held: list[StoredRows] = []
        self.files: list[DataFileMeta] = []  # written so far

    def add(self, changes: StoredRows) -> None:
        """Add changes whose keys are not below those added before."""
        if changes.rows.num_rows:
            self._held.append(changes)
            if sum(part.rows.nbytes for part in self._held) >= self._buffer_bytes:
                self._flush()

    def finish(self) -> list[DataFileMeta]:
        """Write the buffered changes and return all files."""
        self._flush()
        return self.files

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            prefix = CHANGELOG_FILE_PREFIX.of(self._table.schema.options)
            self.files += write_data_files(
                self._table, self._bucket, held, level=0, source=FileSource.COMPACT, names=self._names, prefix=prefix
            )
