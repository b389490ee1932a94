"""The merge engines: how the rows of one key become one row. Pure. Source: Paimon spec, "Merge engines".

A key with one row keeps it unchanged, including its kind: engines merge two rows and more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_names
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, RowKind
from lakelog.filestore.merge.aggregates import aggregate_of, has_aggregate, last_value
from lakelog.filestore.merge.counting import without_uncounted
from lakelog.filestore.merge.deduplicate import Slice, are_adds, merge_ordered, without_deletes
from lakelog.filestore.merge.grouped import Flags, GroupedRows, Indices, grouped
from lakelog.filestore.merge.lookups import needs_lookup
from lakelog.filestore.merge.order import key_frame, to_series
from lakelog.filestore.merge.removals import late_rows, removing
from lakelog.filestore.options.field_options import SEQUENCE_GROUP, field_options
from lakelog.filestore.options.merging import (
    AGGREGATION_REMOVE_ON_DELETE,
    IGNORE_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    MergeEngine,
    SortOrder,
)
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

Columns = dict[str, pa.Array | pa.ChunkedArray]
Kinds = Indices  # of row kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns that are overwritten together, by the row with the largest values of `by`."""

    by: tuple[DataField, ...]
    members: tuple[DataField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMerge:
    """Merges rows by a table's engine, unless it is the plain `deduplicate`."""

    schema: TableSchema
    engine: MergeEngine
    sequence_fields: tuple[DataField, ...]
    is_descending: bool = False  # the row with the smallest sequence fields is the last, not the one with the largest
    groups: tuple[SequenceGroup, ...]
    removal_groups: tuple[SequenceGroup, ...] = ()  # those of `groups` whose newer deletes remove the whole row
    has_whole_rows: bool = False  # above level 0, see `needs_lookup`

    def needed(self, fields: Sequence[DataField]) -> list[DataField]:
        """The columns that must be read to merge the columns `fields`."""
        by = [field for group in self.groups for field in group.by]
        wanted = dict.fromkeys([*fields, *self.schema.key_fields, *self.sequence_fields, *by])
        return list(wanted)

    @property
    def aggregated(self) -> list[DataField]:
        """The columns that have an aggregate function."""
        options = self.schema.options
        if self.engine.traits.folds_all:
            others = {*self.schema.primary_keys, *(field.name for field in self.sequence_fields)}
            return [field for field in self.schema.fields if field.name not in others]
        members = (field for group in self.groups for field in group.members)
        return [field for field in members if has_aggregate(field, options)]

    def merge(self, slices: Sequence[Slice], *, keeps_deletes: bool) -> pa.Table:
        """The rows that stay, in key order, with all columns of the slices. `slices` goes from youngest to oldest."""
        if self.has_whole_rows:
            slices = self._with_one_whole(slices)
        given = grouped(slices, self.sequence_fields, is_descending=self.is_descending)
        if IGNORE_DELETE.of(self.schema.options):
            given = given.kept(given.adds)
        if not given.rows.num_rows:
            return given.rows
        merged = self._merged(given)
        if self.schema.is_counted:  # a count of 0 adds nothing to those of older rows
            merged = without_uncounted(merged)
        return merged if keeps_deletes else without_deletes(merged)

    def check_kinds(self, kinds: pa.Array | pa.ChunkedArray) -> None:
        """Raise InvalidRequestError for retractions among row kinds that the merge cannot apply to any row."""
        options = self.schema.options
        retractions = to_series(kinds).filter(~are_adds(to_series(kinds)))
        if retractions.is_empty() or IGNORE_DELETE.of(options):
            return
        if self.engine is MergeEngine.PARTIAL_UPDATE and not self.groups and not self._may_remove:
            raise _no_deletes()
        removes = AGGREGATION_REMOVE_ON_DELETE.of(options) and (retractions == int(RowKind.DELETE)).all()
        for field in () if removes else self.aggregated:
            aggregate_of(field, options).check_takes_back()

    def _with_one_whole(self, slices: Sequence[Slice]) -> list[Slice]:
        """The slices, with the youngest row of each key in place of all those above level 0."""
        young = [part for part in slices if part.level == 0]
        whole = [part for part in slices if part.level > 0]
        if len(whole) < 2:
            return list(slices)
        rows = merge_ordered(whole, is_ranked=True, keeps_deletes=True)
        return [*young, Slice(keys=key_frame(rows, self.schema.key_fields), rows=rows, level=whole[0].level)]

    def _merged(self, given: GroupedRows) -> pa.Table:
        is_alone = given.starts == given.ends
        if self.engine.traits.keeps_first:
            return given.rows.take(pa.array(given.starts))
        if self.engine.traits.keeps_last or is_alone.all():
            return given.rows.take(pa.array(given.ends))
        several = given.kept(~is_alone[given.groups])
        columns, kinds = self._aggregated(several) if self.engine.traits.folds_all else self._updated(several)
        columns[SEQUENCE_NUMBER] = several.gather(SEQUENCE_NUMBER, several.ends)
        columns[VALUE_KIND] = several.gather(VALUE_KIND, several.ends)
        schema = given.rows.schema
        folded = pa.table([columns[name] for name in schema.names], schema=schema)
        alone = given.rows.take(pa.array(given.ends[is_alone]))
        rows = pa.concat_tables([alone, _with_kinds(folded, kinds)])
        order = np.argsort(np.append(np.flatnonzero(is_alone), np.flatnonzero(~is_alone)), kind="stable")
        return rows.take(pa.array(order))

    def _aggregated(self, given: GroupedRows) -> tuple[Columns, Kinds]:
        options = self.schema.options
        is_there = np.ones(len(given.starts), np.bool_)
        used = given
        if AGGREGATION_REMOVE_ON_DELETE.of(options):
            is_there = ~given.deletes[given.ends]
            # Rows after a -D add to the values of the -D, as in Paimon.
            last = given.last(given.deletes)
            used = _with_adds(given, np.isin(np.arange(given.rows.num_rows), last)).kept(given.since(last))
        columns: Columns = {}
        for field in self._columns(given):
            if field.name in self.schema.primary_keys:
                columns[field.name] = given.gather(field.name, given.ends)
            elif field in self.sequence_fields:
                columns[field.name] = last_value(field).of(used)
            else:
                columns[field.name] = aggregate_of(field, options).of(used)
        return columns, np.where(is_there, int(RowKind.INSERT), int(RowKind.DELETE))

    def _updated(self, given: GroupedRows) -> tuple[Columns, Kinds]:
        options = self.schema.options
        removes = self._removing(given)
        last = given.last(removes)
        since = given.since(last)
        # Rows after a removal start from the values of the delete, as in Paimon; also from those of groups without a
        # sequence number in the delete, which a later merge of the result skips.
        bases = np.isin(np.arange(given.rows.num_rows), last)
        # A removal holds until an add, even one that is late for every group. Without a removal, a key that was only
        # retracted is not stored as -D: merged again, it would remove the row. Paimon does neither between merges.
        is_there = given.last(given.adds & since) >= 0
        removed = np.where((last >= 0) | (not self._may_remove), int(RowKind.DELETE), int(RowKind.UPDATE_BEFORE))
        kinds = np.where(is_there, int(RowKind.INSERT), removed)
        used = _with_adds(given, bases).kept(since)
        bases = bases[since]
        columns: Columns = {}
        members = {field.name for group in self.groups for field in (*group.by, *group.members)}
        for field in self._columns(given):
            if field.name in self.schema.primary_keys:
                columns[field.name] = given.gather(field.name, given.ends)
            elif field.name not in members:
                columns[field.name] = used.gather(field.name, used.last(used.valid(field.name) & used.adds))
        for group in self.groups:
            columns |= self._group(used, group, options, bases)
        return columns, kinds

    @property
    def _may_remove(self) -> bool:
        return bool(self.removal_groups) or PARTIAL_UPDATE_REMOVE_ON_DELETE.of(self.schema.options)

    def _removing(self, given: GroupedRows) -> Flags:
        """The deletes that remove the row of their key."""
        if self.removal_groups:
            return removing(given, [group.by for group in self.removal_groups])
        if not self.groups and PARTIAL_UPDATE_REMOVE_ON_DELETE.of(self.schema.options):
            return given.deletes
        if not self.groups and not given.adds.all():
            raise _no_deletes()
        return np.zeros(given.rows.num_rows, np.bool_)

    def _group(self, given: GroupedRows, group: SequenceGroup, options: Mapping[str, str], bases: Flags) -> Columns:
        in_order, counts = given.by_columns(group.by, also=bases)
        newest = in_order.last(counts)
        columns: Columns = {field.name: in_order.gather(field.name, newest) for field in group.by}
        plain: Indices = np.where((newest >= 0) & in_order.adds[newest], newest, -1)
        # A key that has only been retracted stays a delete, which is subtracted from older rows: its values add up.
        is_deleted = in_order.last(in_order.adds) < 0
        folded = _with_adds(given, is_deleted[given.groups])
        does_count = np.logical_or.reduce([given.valid(field.name) for field in group.by]) | bases
        late = does_count & late_rows(given, group.by)
        present = set(given.rows.column_names)
        for field in group.members:
            if field.name not in present:
                continue
            if has_aggregate(field, options):
                columns[field.name] = aggregate_of(field, options).of(folded, counts=does_count, late=late)
            else:
                columns[field.name] = in_order.gather(field.name, plain)
        return columns

    def _columns(self, given: GroupedRows) -> list[DataField]:
        present = set(given.rows.column_names)
        return [field for field in self.schema.fields if field.name in present]


def _no_deletes() -> InvalidRequestError:
    return InvalidRequestError(
        "merge-engine=partial-update takes no -U and -D unless ignore-delete, "
        f"{PARTIAL_UPDATE_REMOVE_ON_DELETE.key} or sequence groups define their effect"
    )


def _with_adds(given: GroupedRows, which: Flags) -> GroupedRows:
    """The rows, some of them as adds."""
    if not which.any():
        return given
    kinds = np.where(which, int(RowKind.INSERT), to_series(given.rows.column(VALUE_KIND)).to_numpy())
    at = given.rows.column_names.index(VALUE_KIND)
    rows = given.rows.set_column(at, given.rows.schema.field(at), pa.array(kinds.astype(np.int8)))
    return GroupedRows(rows=rows, starts=given.starts)


def _with_kinds(rows: pa.Table, kinds: Kinds) -> pa.Table:
    at = rows.column_names.index(VALUE_KIND)
    return rows.set_column(at, rows.schema.field(at), pa.array(kinds, pa.int8()))


def row_merge(schema: TableSchema) -> RowMerge | None:
    """How rows of a table are merged; None for the plain `deduplicate`, and for tables without primary key.

    Raises InvalidRequestError for options that do not fit the columns, UnsupportedError for what lakelog lacks.
    """
    if not schema.primary_keys:
        return None
    options, engine = schema.options, schema.merge_engine
    sequence = schema.select(SEQUENCE_FIELD.of(options))
    is_plain = engine.traits.keeps_last and not sequence and not IGNORE_DELETE.of(options)
    if is_plain:
        return None
    if sequence and engine.traits.keeps_first:
        raise InvalidRequestError(
            f"{MERGE_ENGINE.key}=first-row takes no {SEQUENCE_FIELD.key}: it keeps the row that was written first"
        )
    groups = _sequence_groups(schema, options)
    merge = RowMerge(
        schema=schema,
        engine=engine,
        sequence_fields=sequence,
        is_descending=SEQUENCE_FIELD_SORT_ORDER.of(options) is SortOrder.DESCENDING,
        groups=groups,
        removal_groups=_removal_groups(options, groups) if engine is MergeEngine.PARTIAL_UPDATE else (),
        has_whole_rows=needs_lookup(schema),
    )
    for field in merge.aggregated:
        aggregate_of(field, options)
    return merge


def _removal_groups(options: Mapping[str, str], groups: Sequence[SequenceGroup]) -> tuple[SequenceGroup, ...]:
    """The groups whose deletes remove rows. Raises InvalidRequestError for contradicting options of deletes."""
    on_delete = PARTIAL_UPDATE_REMOVE_ON_DELETE.of(options)
    names = PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.of(options)
    removals = {PARTIAL_UPDATE_REMOVE_ON_DELETE.key: on_delete, PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key: names}
    for key, is_set in removals.items():
        if is_set and IGNORE_DELETE.of(options):
            raise InvalidRequestError(f"{key} and {IGNORE_DELETE.key} contradict each other; leave out one of them")
    if on_delete and groups:
        raise InvalidRequestError(
            f"{PARTIAL_UPDATE_REMOVE_ON_DELETE.key} and sequence groups contradict each other: name the groups whose "
            f"deletes remove the row in {PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key} instead"
        )
    known = [field.name for group in groups for field in group.by]
    for name in names:
        if name not in known:
            raise InvalidRequestError(
                f"{PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key} names {name!r}, which orders no sequence group; found "
                f"{listed(known) or 'no sequence groups'}"
            )
    return tuple(group for group in groups if any(field.name in names for field in group.by))


def _sequence_groups(schema: TableSchema, options: Mapping[str, str]) -> tuple[SequenceGroup, ...]:
    groups = []
    for _, option in field_options(options):
        if option.suffix == SEQUENCE_GROUP:
            members = schema.select(parse_names(option.value))
            groups.append(SequenceGroup(by=schema.select(option.names), members=members))
    return tuple(groups)
