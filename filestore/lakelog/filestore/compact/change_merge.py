"""Merging with the old rows of keys: for the changelog of a compaction, and for deletion vectors of overwritten rows.

The *fresh* rows of a compaction are those that no changelog has yet: rows of level 0 if old rows are looked up, rows of
every level below the highest if full compactions write the changes. The old rows of their keys are in the other runs of
the compaction or, if rows are looked up, in the runs that it leaves out. Source: Paimon,
`LookupChangelogMergeFunctionWrapper` and `FullChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField, RowKind
from lakelog.filestore.compact.lookup import BucketLookup
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.merge.deduplicate import Slice, are_absent, merge_ordered, without_deletes
from lakelog.filestore.merge.order import is_last_of_key, key_frame, to_series
from lakelog.filestore.merge.runs import are_ranked
from lakelog.filestore.metadata.manifests.levels import Section
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORED,
    ChangelogProducer,
)
from lakelog.filestore.read.bucket_reader import BucketReader
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, TableSchema

_ROW, _IS_AFTER = "row", "is_after"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRange:
    """One key range of a compaction: the rows to store, and the changes to write, None for a table without them."""

    stored: pa.Table
    changes: StoredRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMerge:
    """Merges sections of a bucket. `lookup` finds rows in the runs that are left out; None if there are no such runs.

    Rows of levels below `fresh_below` are fresh. `only_marks` means that the old rows of keys matter only for the
    deletion vectors of the runs that are left out: every fresh row replaces them, and there is no changelog.
    """

    schema: TableSchema
    reader: BucketReader
    lookup: BucketLookup | None
    fresh_below: int
    only_marks: bool = False

    def rows(self, section: Section, *, keeps_deletes: bool) -> Iterator[MergedRange]:
        """The rows of a section in key order, key range by key range."""
        is_ranked = are_ranked(section.runs)
        for slices in self.reader.slices(section):
            fresh = [part for part in slices if part.level < self.fresh_below]
            if self.only_marks and self.lookup is not None and fresh:
                rows = self.reader.merged(slices, is_ranked=is_ranked, keeps_deletes=True)
                self.lookup.meet(self._keys(rows))
                yield MergedRange(stored=rows if keeps_deletes else without_deletes(rows), changes=None)
            elif self.only_marks or not fresh:
                rows = self.reader.merged(slices, is_ranked=is_ranked, keeps_deletes=keeps_deletes)
                yield MergedRange(stored=rows, changes=None)
            elif self.schema.merge_engine.traits.keeps_first:
                yield self._first_rows(fresh, slices[len(fresh) :])
            else:
                yield self._merged(fresh, slices[len(fresh) :], keeps_deletes=keeps_deletes)

    def _merged(self, fresh: Sequence[Slice], old: Sequence[Slice], *, keeps_deletes: bool) -> MergedRange:
        keys = _all_keys(fresh)
        before, untouched = self._before(keys, old, fresh[0].rows.schema)
        parts = [*fresh, self._slice(before)] if before.num_rows else fresh
        after = self.reader.merged(parts, is_ranked=False, keeps_deletes=True)
        stored = merge_ordered(
            [self._slice(after), self._slice(untouched)], is_ranked=True, keeps_deletes=keeps_deletes
        )
        return MergedRange(stored=stored, changes=self._changes(without_deletes(before), without_deletes(after)))

    def _first_rows(self, fresh: Sequence[Slice], old: Sequence[Slice]) -> MergedRange:
        """The merge engine first-row: only rows of new keys count."""
        keys = _all_keys(fresh)
        before, untouched = self._before(keys, old, fresh[0].rows.schema, only_inside=True)
        new = keys.filter(are_absent(keys, self._keys(before)))
        found = self.lookup.find(new) if self.lookup is not None else None
        if found is not None:
            new = new.filter(are_absent(new, self._keys(found)))
        parts = [_filtered(part, ~are_absent(part.keys, new)) for part in fresh]
        after = self.reader.merged(parts, is_ranked=False, keeps_deletes=False)
        kept = [self._slice(part) for part in (after, before, untouched)]
        stored = merge_ordered(kept, is_ranked=True, keeps_deletes=False)
        return MergedRange(stored=stored, changes=self._changes(after.slice(0, 0), after))

    def _before(
        self, keys: pl.DataFrame, old: Sequence[Slice], schema: pa.Schema, *, only_inside: bool = False
    ) -> tuple[pa.Table, pa.Table]:
        """The old rows of the keys, with deletes, in key order; and the old rows of other keys."""
        nothing = schema.empty_table()
        rows = self.reader.merged(old, is_ranked=False, keeps_deletes=True) if old else nothing
        is_touched = ~are_absent(self._keys(rows), keys)
        inside, untouched = rows.filter(is_touched.to_arrow()), rows.filter((~is_touched).to_arrow())
        if self.lookup is None or only_inside:
            return inside, untouched
        found = self.lookup.find(keys.filter(are_absent(keys, self._keys(inside))))
        if found is None:
            return inside, untouched
        both = pa.concat_tables([inside, found.select(schema.names)])
        order = self._keys(both).with_row_index(_ROW).sort(keys.columns)[_ROW]
        return both.take(order.to_arrow()), untouched

    def _changes(self, before: pa.Table, after: pa.Table) -> StoredRows | None:
        options = self.schema.options
        producer = CHANGELOG_PRODUCER.of(options)
        if producer not in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
            return None
        compared = None
        if CHANGELOG_ROW_DEDUPLICATE.of(options):
            ignored = {*self.schema.primary_keys, *CHANGELOG_ROW_DEDUPLICATE_IGNORED.of(options)}
            compared = [field.name for field in self.schema.fields if field.name not in ignored]
        return changes_between(before, after, self.schema.key_fields, compared=compared)

    def _keys(self, rows: pa.Table) -> pl.DataFrame:
        return key_frame(rows, self.schema.key_fields)

    def _slice(self, rows: pa.Table) -> Slice:
        return Slice(keys=self._keys(rows), rows=rows, level=self.fresh_below)


def changes_between(
    before: pa.Table, after: pa.Table, key_fields: Sequence[DataField], *, compared: Sequence[str] | None
) -> StoredRows:
    """The changes of keys, from their rows before and after, each key once: in key order, -U before its +U.

    With `compared` an update that does not change these columns is not a change. Pure.
    """
    rows = pa.concat_tables([before, after])
    frame = key_frame(rows, key_fields)
    names = frame.columns
    is_after = np.arange(rows.num_rows) >= before.num_rows
    ordered = frame.with_columns(pl.Series(_IS_AFTER, is_after)).with_row_index(_ROW).sort(*names, _IS_AFTER)
    ends_key = is_last_of_key(ordered, names).to_numpy()
    leads_pair = ~ends_key
    ends_pair = np.append(False, leads_pair[:-1]) if len(leads_pair) else leads_pair
    kinds = np.where(
        ordered[_IS_AFTER].to_numpy(),
        np.where(ends_pair, int(RowKind.UPDATE_AFTER), int(RowKind.INSERT)),
        np.where(leads_pair, int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)),
    ).astype(np.int8)
    rows = rows.take(ordered[_ROW].to_arrow())
    if compared is not None:
        stays = _differs(rows, np.flatnonzero(leads_pair), compared)
        rows, kinds = rows.filter(pa.array(stays)), kinds[stays]
    return StoredRows(rows=rows, sequences=rows.column(SEQUENCE_NUMBER), kinds=pa.array(kinds))


def _differs(rows: pa.Table, firsts: np.ndarray, compared: Sequence[str]) -> np.ndarray:
    """For each row, False if it is one of a pair (at `firsts` and the place after) whose columns are equal."""
    stays = np.ones(rows.num_rows, np.bool_)
    equal = np.ones(len(firsts), np.bool_)
    for name in compared:
        values = to_series(rows.column(name))
        equal &= values.gather(firsts).eq_missing(values.gather(firsts + 1)).to_numpy()
    stays[firsts[equal]] = False
    stays[firsts[equal] + 1] = False
    return stays


def _all_keys(slices: Sequence[Slice]) -> pl.DataFrame:
    """The keys of slices, each once, in key order."""
    keys = pl.concat([part.keys for part in slices])
    return keys.unique().sort(keys.columns) if len(slices) > 1 else keys


def _filtered(part: Slice, mask: pl.Series) -> Slice:
    return Slice(keys=part.keys.filter(mask), rows=part.rows.filter(mask.to_arrow()), level=part.level)
